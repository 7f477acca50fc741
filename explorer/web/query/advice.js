// What a query cost, in words: the key ranges that were read, and what would cost less. The advice is that of docs/patterns.md
// and docs/spec/04-query.md. This module must not know the page: it makes texts, in which pieces of a filter are marked as code.

import { PAGE_ENTITIES_MAX } from "../core/batch.js";
import { countText, numberText, sizeText } from "../core/words.js";
import { ALL, keyUse, POINT, RANGE } from "./key-use.js";
import { parseFilter } from "./filter-text.js";

/** @import { Bound, Explain, PageReport } from "../core/client.js" */
/** @import { Query } from "./query.js" */
/** @import { KeyUse } from "./key-use.js" */

/** @typedef {(string | {code: string})[]} Words */
/** `guide` is a heading of docs/patterns.md. @typedef {{id: string, words: Words, guide?: string}} Advice */
/**
 * @typedef {object} Cost
 * @property {Explain | null} explain  of the first page; null if the server said nothing
 * @property {number} examined
 * @property {number} returned
 * @property {number} pages
 * @property {number} microseconds  in the server
 * @property {number} milliseconds  as the page saw it
 * @property {number} bytes
 * @property {boolean} complete  whether nothing follows
 */

/** Ranges that the server reads one by one; more become one that covers them all. */
const RANGES_MAX = 16;

/**
 * The cost of all pages so far.
 * @param {PageReport[]} reports
 * @param {boolean} complete
 * @returns {Cost}
 */
export function costOf(reports, complete) {
  const sum = (/** @type {(report: PageReport) => number} */ of) => reports.reduce((total, report) => total + of(report), 0);
  return {
    explain: reports[0]?.explain ?? null,
    examined: sum((report) => report.explain?.examined ?? 0),
    returned: sum((report) => report.entities),
    pages: reports.length,
    microseconds: sum((report) => report.explain?.microseconds ?? 0),
    milliseconds: sum((report) => report.milliseconds),
    bytes: sum((report) => report.bytes),
    complete,
  };
}

/** @typedef {Cost & {plan: string, rangeCount: number, query: Query, use: KeyUse | null, wasteful: boolean}} Facts */
/** @typedef {{id: string, when: (facts: Facts) => boolean | undefined, words: (facts: Facts) => Words, guide?: string}} Rule */

/** @param {string} text */
const code = (text) => ({ code: text });
const PARTITION = code("PartitionKey eq '…'");

/** @type {Rule[]} */
const RULES = [
  {
    id: "nothing",
    when: ({ plan }) => plan === "nothing",
    words: () => ["No entity can match: the conditions on the keys exclude each other. Nothing was read."],
  },
  {
    id: "point",
    when: ({ plan }) => plan === "point",
    words: () => ["One entity, found by its keys: no query costs less."],
  },
  {
    id: "browse",
    when: ({ plan, query }) => plan === "table scan" && query.filter.trim() === "",
    words: () => [
      "Without a filter the table is read from its beginning, page by page. To find something, begin with ",
      PARTITION,
      ".",
    ],
  },
  {
    id: "scan",
    when: ({ plan, query }) => plan === "table scan" && query.filter.trim() !== "",
    words: (facts) => [
      `This reads the whole table: ${countText(facts.examined, "entity", "entities")} examined`,
      `${facts.complete ? "" : " so far"} for ${numberText(facts.returned)} returned. `,
      ...scanRemedy(facts),
    ],
  },
  {
    id: "lookalike",
    when: ({ use }) => use !== null && use.lookalikes.length > 0,
    words: ({ use }) => [
      list(use?.lookalikes ?? []),
      " is an ordinary property: the names of the keys are ",
      code("PartitionKey"),
      " and ",
      code("RowKey"),
      ".",
    ],
  },
  {
    id: "index",
    when: ({ plan, use, wasteful }) => plan === "table scan" && wasteful && indexable(use).length > 0,
    words: ({ use }) => [
      `If the program often asks for ${list(indexable(use))}, store the entities a second time, with that in the key.`,
    ],
    guide: "Inter-partition secondary index",
  },
  {
    id: "timestamp",
    when: ({ use, wasteful }) => wasteful && use?.properties.includes("Timestamp"),
    words: () => [
      code("Timestamp"),
      " is in no index. A time that is asked for belongs into the RowKey, written from the year to the second.",
    ],
    guide: "Log tail",
  },
  {
    id: "negation",
    when: ({ plan, use }) => plan !== "point" && use !== null && use.negatedKeys.length > 0,
    words: ({ use }) => [
      code("ne"),
      ` (or the opposite of `,
      code("eq"),
      `) on ${list(use?.negatedKeys ?? [])} does not narrow: ` + "everything before and after that key is read.",
    ],
  },
  {
    id: "too-many-keys",
    when: ({ rangeCount, plan, use }) => plan !== "table scan" && rangeCount === 1 && (use?.keys ?? 0) > RANGES_MAX,
    words: () => [
      `More than ${RANGES_MAX} ranges are read as one that covers them all. Ask for at most ${RANGES_MAX} keys at a time.`,
    ],
  },
  {
    id: "ranges",
    when: ({ plan }) => plan === "ranges",
    words: ({ rangeCount }) => [
      `The ${rangeCount} ranges are read one after the other. Several queries, one for each range, can be sent at the same time.`,
    ],
  },
  {
    id: "partitions",
    when: ({ plan, use }) => plan === "partition range" && use !== null && use.keys <= RANGES_MAX,
    words: ({ use }) =>
      use?.row === ALL
        ? ["This reads every partition of a range of partition keys."]
        : [
            "This reads every partition of a range of partition keys. The condition on RowKey narrows the first and the last of ",
            "them at most; one query for each partition, with ",
            PARTITION,
            ", would read that range of row keys alone.",
          ],
  },
  {
    id: "partition-scan",
    when: ({ plan, use, wasteful }) => plan === "row range" && wasteful && use?.row === ALL,
    words: (facts) => [
      `This reads the whole partition: ${numberText(facts.examined)} examined for ${numberText(facts.returned)} returned. `,
      `A RowKey range would read less: put ${list(indexable(facts.use)) || "what is asked for"} into the RowKey, `,
      "or store the entities a second time under a RowKey that begins with it.",
    ],
    guide: "Intra-partition secondary index",
  },
  {
    id: "row-range",
    when: ({ plan, use, wasteful }) => plan === "row range" && wasteful && use?.row === RANGE,
    words: (facts) => [
      "The RowKey range holds many entities that do not match: ",
      `${numberText(facts.examined)} examined for ${numberText(facts.returned)} returned. `,
      `With ${list(indexable(facts.use)) || "what is asked for"} as the next part of the RowKey, the range could be narrower.`,
    ],
    guide: "Compound key",
  },
  {
    id: "fits",
    when: ({ plan, examined, returned, pages, complete, use }) =>
      ["row range", "partition range", "ranges"].includes(plan) &&
      returned > 0 &&
      // A page looks at one entity more, to say whether more follow.
      examined <= returned + pages - (complete ? 1 : 0) &&
      use?.negatedKeys.length === 0,
    words: () => ["Every entity that was examined was returned: the keys fit the question."],
  },
  {
    id: "select",
    when: ({ query, bytes, returned }) => query.select === null && bytes >= 256 * 1024 && bytes >= 1024 * returned,
    words: ({ bytes, returned }) => [
      `An entity takes ${sizeText(bytes / Math.max(1, returned))} on average. Selecting the properties that are needed sends ` +
        "fewer bytes. It does not examine fewer entities.",
    ],
  },
  {
    id: "select-examines",
    when: ({ query, wasteful }) => query.select !== null && wasteful,
    words: () => ["The selection of properties saves bytes, but as many entities are examined."],
  },
  {
    id: "short-page",
    when: ({ complete, pages, returned, query }) =>
      !complete && pages > 0 && returned * 2 < pages * Math.min(query.top ?? Infinity, PAGE_ENTITIES_MAX),
    words: ({ pages, returned }) => [
      `${pages === 1 ? "The page" : `The ${numberText(pages)} pages`} ended with ` +
        `${countText(returned)} before ` +
        "everything was read: a page has limits of time and size. What follows is read when it is asked for.",
    ],
  },
];

/**
 * @param {Cost} cost
 * @param {Query} query
 * @returns {Advice[]}
 */
export function advise(cost, query) {
  if (!cost.explain) return [];
  const { filter } = parseFilter(query.filter);
  const { examined, returned } = cost;
  /** @type {Facts} */
  const facts = {
    ...cost,
    plan: cost.explain.plan,
    rangeCount: cost.explain.rangeCount,
    query,
    use: filter && keyUse(filter),
    // More than half of what was examined was not asked for.
    wasteful: examined - returned > Math.max(returned, cost.pages),
  };
  return RULES.filter((rule) => rule.when(facts)).map(({ id, words, guide }) => ({
    id,
    words: words(facts),
    ...(guide ? { guide } : {}),
  }));
}

/** What would make a scan of the table read less. @param {Facts} facts @returns {Words} */
function scanRemedy({ use }) {
  if (use?.scanningOr.length) {
    return [
      code("or"),
      ` makes it so, since ${list(use.scanningOr)} can match under any key. Send two queries, or write `,
      code("PartitionKey eq '…' and (… or …)"),
      ".",
    ];
  }
  if (use && use.row !== ALL && use.partition === ALL) {
    return ["A RowKey alone narrows nothing, since entities are ordered by PartitionKey first. Add ", PARTITION, "."];
  }
  if (use && use.partition !== ALL && use.partition !== POINT)
    return ["Compare PartitionKey with ", code("eq"), ", or with both ends of a range."];
  return ["Add ", PARTITION, " to read one partition."];
}

/** Properties that could become part of a key. @param {KeyUse | null} use */
function indexable(use) {
  return (use?.properties ?? []).filter((name) => name !== "Timestamp" && !use?.lookalikes.includes(name));
}

/** @param {string[]} names */
function list(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** @param {number} milliseconds */
export function duration(milliseconds) {
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`;
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

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
