// The key ranges of a query in words.
// This module must not know the page: pieces that are keys are marked as code.

/** @import { Bound, Explain } from "../core/client.js" */
/** @import { Words } from "./advice.js" */

/** @type {Record<string, string>} */
const PLANS = {
  point: "One entity",
  "row range": "A range of one partition",
  "partition range": "A range of partitions",
  ranges: "Several ranges",
  "table scan": "The whole table",
  nothing: "Nothing to read",
};

/** A plan of the server as people call it. @param {string} plan */
export function planName(plan) {
  return PLANS[plan] ?? plan;
}

/**
 * @param {Explain} explain
 * @returns {Words[]}
 */
export function rangeWords({ plan, ranges, rangeCount }) {
  const words = ranges.map((range) => (plan === "point" && range.from ? point(range.from) : rangeOf(range.from, range.to)));
  return rangeCount > ranges.length ? [...words, [`… and ${rangeCount - ranges.length} more`]] : words;
}

/** @param {string} name */
const code = (name) => ({ code: name });

/** @param {string} key */
const quoted = (key) => code(`'${key}'`);

/**
 * A key of a bound. The server marks the place after a key with a control character, which no key has: after all entities of a
 * partition with U+0001, after one row with U+0000. It cuts long keys and ends them with an ellipsis.
 * @param {string} key
 */
function readKey(key) {
  const isAfter = key.endsWith("\u0000") || key.endsWith("\u0001");
  return { text: isAfter ? key.slice(0, -1) : key, isAfter };
}

/** @param {[string] | [string, string]} key @returns {Words} */
function point([partition, row = ""]) {
  return [code("PartitionKey"), " = ", quoted(partition), ", ", code("RowKey"), " = ", quoted(row)];
}

/** @param {Bound} from @param {Bound} to @returns {Words} */
function rangeOf(from, to) {
  if (!from && !to) return ["every key"];
  if (from && to && from[0] === readKey(to[0]).text) return rowsOf(from, to);
  const lower = from ? [...low(from[0]), ...rowOf(from)] : [" from the first"];
  const upper = to ? [...high(to[0]), ...rowOf(to)] : [" to the last"];
  return [code("PartitionKey"), ...lower, ...upper];
}

/**
 * A range inside one partition.
 * @param {[string] | [string, string]} from
 * @param {[string] | [string, string]} to
 * @returns {Words}
 */
function rowsOf(from, to) {
  const [first, last] = [from[1], to[1]];
  if (first !== undefined && last === `${first}\u0000`) return point(/** @type {[string, string]} */ (from));
  const partition = [code("PartitionKey"), " = ", quoted(from[0]), ", "];
  if (first === undefined && last === undefined) return [...partition, "every ", code("RowKey")];
  const bounds = [...(first === undefined ? [] : low(first)), ...(last === undefined ? [] : high(last))];
  return [...partition, code("RowKey"), ...bounds];
}

/** @param {string} key @returns {Words} */
function low(key) {
  const { text, isAfter } = readKey(key);
  return [isAfter ? " after " : " from ", quoted(text)];
}

/** @param {string} key @returns {Words} */
function high(key) {
  const { text, isAfter } = readKey(key);
  return [isAfter ? " up to " : " before ", quoted(text)];
}

/** Where in its first or last partition a range begins or ends. @param {[string] | [string, string]} key @returns {Words} */
function rowOf([, row]) {
  return row === undefined ? [] : [" (", code("RowKey"), " ", quoted(readKey(row).text), ")"];
}
