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

/** A key as it is shown; the server marks one that it has cut with an ellipsis. @param {string} [key] */
const quoted = (key = "") => code(`'${key}'`);

/** @param {[string] | [string, string]} key @returns {Words} */
function point([partition, row]) {
  return [code("PartitionKey"), " = ", quoted(partition), ", ", code("RowKey"), " = ", quoted(row)];
}

/** @param {Bound} from @param {Bound} to @returns {Words} */
function rangeOf(from, to) {
  if (!from && !to) return ["every key"];
  if (from && to && from[0] === to[0]) return [code("PartitionKey"), " = ", quoted(from[0]), ...rows(from[1], to[1])];
  return [
    code("PartitionKey"),
    ...(from ? [" from ", ...position(from)] : [" from the first"]),
    ...(to ? [" up to ", ...position(to)] : [" to the last"]),
  ];
}

/** @param {string | undefined} from @param {string | undefined} to @returns {Words} */
function rows(from = "", to) {
  if (from === "" && to === undefined) return [", every ", code("RowKey")];
  return [
    ", ",
    code("RowKey"),
    ...(from === "" ? [] : [" from ", quoted(from)]),
    ...(to === undefined ? [] : [" up to ", quoted(to)]),
  ];
}

/** @param {[string] | [string, string]} key @returns {Words} */
function position([partition, row]) {
  return row ? [quoted(partition), " (", code("RowKey"), " ", quoted(row), ")"] : [quoted(partition)];
}
