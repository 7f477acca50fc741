// Describes the cost of a query: the key ranges that were read, and what would reduce the cost. The advice follows
// docs/patterns.md and docs/spec/04-query.md. This module must not depend on the page: it returns texts in which parts
// of a filter are marked as code.

import { PAGE_ENTITIES_MAX } from "../core/batch.js";
import { countText, listText, numberText, sizeText } from "../core/words.js";
import { ALL, indexCandidates, keyUse, POINT, RANGE } from "./key-use.js";
import { parseFilter } from "./filter-text.js";

/** @import { Bound, Explain, PageReport } from "../core/responses.js" */
/** @import { Query } from "./query.js" */
/** @import { KeyUse } from "./key-use.js" */

/** @typedef {(string | {code: string})[]} Words */
/**
 * `guide` is a heading in docs/patterns.md; `add` is a property that the user can have indexed.
 * @typedef {{id: string, words: Words, guide?: string, add?: string}} Advice
 */
/**
 * @typedef {object} Cost
 * @property {Explain | null} explain  the report about the first page; null if the server sent none
 * @property {string | null} index  the property whose index was read, at least for one page
 * @property {number} examined
 * @property {number} returned
 * @property {number} pages
 * @property {number} microseconds  the time on the server
 * @property {number} milliseconds  the round-trip time
 * @property {number} bytes
 * @property {boolean} complete  whether all pages were read
 */

/** An index is worth its cost if a query examines many more entities than it returns. */
const EXAMINED_WITHOUT_INDEX_MAX = 100;
const EXAMINED_EACH_MAX = 10;

/**
 * Adds up the cost of all pages so far.
 * @param {PageReport[]} reports
 * @param {boolean} complete
 * @returns {Cost}
 */
export function costOf(reports, complete) {
  const sum = (/** @type {(report: PageReport) => number} */ of) => reports.reduce((total, report) => total + of(report), 0);
  return {
    explain: reports[0]?.explain ?? null,
    index: reports.find((report) => report.explain?.index)?.explain?.index ?? null,
    examined: sum((report) => report.explain?.examined ?? 0),
    returned: sum((report) => report.entities),
    pages: reports.length,
    microseconds: sum((report) => report.explain?.microseconds ?? 0),
    milliseconds: sum((report) => report.milliseconds),
    bytes: sum((report) => report.bytes),
    complete,
  };
}

/**
 * `candidates` contains the properties whose index would make the query cost much less, if the user can add an index;
 * `missing` is the same, but empty if one of these indexes exists.
 * @typedef {Cost & {plan: string, rangeCount: number, query: Query, use: KeyUse | null, wasteful: boolean,
 *   candidates: string[], missing: string[]}} Facts
 */
/**
 * Without `withIndex`, a rule holds only for queries that read the entities in the order of their keys.
 * @typedef {{id: string, when: (facts: Facts) => boolean | undefined, words: (facts: Facts) => Words, guide?: string,
 *   add?: (facts: Facts) => string | undefined, withIndex?: true}} Rule
 */

/** @param {string} text */
const code = (text) => ({ code: text });
const PARTITION = code("PartitionKey eq '…'");

/** @type {Rule[]} */
const RULES = [
  {
    id: "nothing",
    withIndex: true,
    when: ({ plan }) => plan === "nothing",
    words: () => ["No entity can match: the conditions on the keys are mutually exclusive. Nothing was read."],
  },
  {
    id: "from-index",
    withIndex: true,
    when: ({ index, plan }) => index !== null && plan !== "nothing",
    words: ({ index }) => ["The entities were found in the index of ", code(index ?? ""), ", not by reading the key ranges."],
  },
  {
    id: "point",
    when: ({ plan }) => plan === "point",
    words: () => ["The query reads at most one entity, by its keys. No query costs less."],
  },
  {
    id: "browse",
    when: ({ plan, query }) => plan === "table scan" && query.filter.trim() === "",
    words: () => [
      "Without a filter, the table is read from the beginning, page by page. To find specific entities, start with ",
      PARTITION,
      ".",
    ],
  },
  {
    id: "scan",
    when: ({ plan, query }) => plan === "table scan" && query.filter.trim() !== "",
    words: (facts) => [
      `This query reads the whole table: ${countText(facts.examined, "entity", "entities")} examined`,
      `${facts.complete ? "" : " so far"} to return ${numberText(facts.returned)}. `,
      ...scanRemedy(facts),
    ],
  },
  {
    id: "lookalike",
    withIndex: true,
    when: ({ use }) => use !== null && use.lookalikes.length > 0,
    words: ({ use }) => [
      listText(use?.lookalikes ?? []),
      " is an ordinary property. The keys are named ",
      code("PartitionKey"),
      " and ",
      code("RowKey"),
      ".",
    ],
  },
  {
    id: "add-index",
    when: ({ missing }) => missing.length > 0,
    words: ({ missing, examined, returned }) => [
      `${numberText(examined)} entities were examined to return ${numberText(returned)}. With an index of `,
      code(missing[0] ?? ""),
      ", the query would read only the entities with the values that it asks for. Every write takes a little longer.",
    ],
    add: ({ missing }) => missing[0],
  },
  {
    id: "index",
    when: ({ plan, use, wasteful, candidates }) =>
      plan === "table scan" && wasteful && indexable(use).length > 0 && candidates.length === 0,
    words: ({ use }) => [
      `If you often query by ${listText(indexable(use))}, store the entities a second time, with that value in the key.`,
    ],
    guide: "Inter-partition secondary index",
  },
  {
    id: "timestamp",
    when: ({ use, wasteful }) => wasteful && use?.properties.includes("Timestamp"),
    words: () => [
      code("Timestamp"),
      " is not indexed. Put a time that you query by into the RowKey, written from year to second.",
    ],
    guide: "Log tail",
  },
  {
    id: "negation",
    when: ({ plan, use }) => plan !== "point" && use !== null && use.negatedKeys.length > 0,
    words: ({ use }) => [
      code("ne"),
      ` (or a negated `,
      code("eq"),
      `) on ${listText(use?.negatedKeys ?? [])} does not narrow the query: ` + "everything before and after that key is read.",
    ],
  },
  {
    id: "ranges",
    when: ({ plan }) => plan === "ranges",
    words: ({ rangeCount }) => [
      `The ${rangeCount} ranges are read one after the other. To read them in parallel, send one query for each range.`,
    ],
  },
  {
    id: "partitions",
    when: ({ plan, use }) => plan === "partition range" && use !== null,
    words: ({ use }) =>
      use?.row === ALL
        ? ["This query reads every partition in a range of partition keys."]
        : [
            "This query reads every partition in a range of partition keys. The condition on RowKey narrows at most the first ",
            "and the last of them. One query for each partition, with ",
            PARTITION,
            ", would read only that range of row keys.",
          ],
  },
  {
    id: "partition-scan",
    when: ({ plan, use, wasteful }) => plan === "row range" && wasteful && use?.row === ALL,
    words: (facts) => [
      `This query reads the whole partition: ${numberText(facts.examined)} examined to return ${numberText(facts.returned)}. `,
      `A RowKey range would read less: put ${listText(indexable(facts.use)) || "the value that you query by"} into the RowKey, `,
      "or store the entities a second time, under a RowKey that begins with it.",
    ],
    guide: "Intra-partition secondary index",
  },
  {
    id: "row-range",
    when: ({ plan, use, wasteful }) => plan === "row range" && wasteful && use?.row === RANGE,
    words: (facts) => [
      "The RowKey range contains many entities that do not match: ",
      `${numberText(facts.examined)} examined to return ${numberText(facts.returned)}. `,
      `With ${listText(indexable(facts.use)) || "the value that you query by"} as the next part of the RowKey, `,
      "the range could be narrower.",
    ],
    guide: "Compound key",
  },
  {
    id: "fits",
    when: ({ plan, examined, returned, pages, complete, use }) =>
      ["row range", "partition range", "ranges"].includes(plan) &&
      returned > 0 &&
      // For each page, the server examines one more entity, to determine whether more follow.
      examined <= returned + pages - (complete ? 1 : 0) &&
      use?.negatedKeys.length === 0,
    words: () => ["Every examined entity was returned: the keys fit the query."],
  },
  {
    id: "select",
    withIndex: true,
    when: ({ query, bytes, returned }) => query.select === null && bytes >= 256 * 1024 && bytes >= 1024 * returned,
    words: ({ bytes, returned }) => [
      `The average size of an entity is ${sizeText(bytes / Math.max(1, returned))}. Selecting only the properties that you ` +
        "need reduces the bytes sent, but not the number of entities examined.",
    ],
  },
  {
    id: "select-examines",
    withIndex: true,
    when: ({ query, wasteful }) => query.select !== null && wasteful,
    words: () => ["Selecting properties reduces the bytes sent, but not the number of entities examined."],
  },
  {
    id: "short-page",
    withIndex: true,
    when: ({ complete, pages, returned, query }) =>
      !complete && pages > 0 && returned * 2 < pages * Math.min(query.top ?? Infinity, PAGE_ENTITIES_MAX),
    words: ({ pages, returned }) => [
      `${pages === 1 ? "The page" : `The ${numberText(pages)} pages`} ended after ` +
        `${countText(returned)}, before ` +
        "everything was read, because the time and size of a page are limited. Load more to continue.",
    ],
  },
];

/**
 * @param {Cost} cost
 * @param {Query} query
 * @param {string[] | null} [indexed]  the properties that have an index; null if no index can be added
 * @returns {Advice[]}
 */
export function advise(cost, query, indexed = null) {
  if (!cost.explain) return [];
  const { filter } = parseFilter(query.filter);
  const { examined, returned } = cost;
  const { plan } = cost.explain;
  const isCostly = examined > Math.max(EXAMINED_WITHOUT_INDEX_MAX, returned * EXAMINED_EACH_MAX);
  const candidates = filter && indexed && isCostly && !cost.index ? indexCandidates(filter, plan === "row range") : [];
  /** @type {Facts} */
  const facts = {
    ...cost,
    plan,
    candidates,
    // The server would have used an index that exists, unless it is still being built.
    missing: candidates.some((name) => indexed?.includes(name)) ? [] : candidates,
    rangeCount: cost.explain.rangeCount,
    query,
    use: filter && keyUse(filter),
    // More than half of the examined entities were not returned.
    wasteful: examined - returned > Math.max(returned, cost.pages),
  };
  const holds = (/** @type {Rule} */ rule) => (cost.index === null || rule.withIndex) && rule.when(facts);
  return RULES.filter(holds).map(({ id, words, guide, add }) => ({
    id,
    words: words(facts),
    ...(guide ? { guide } : {}),
    ...(add ? { add: add(facts) ?? "" } : {}),
  }));
}

/** Advises how to avoid a table scan. @param {Facts} facts @returns {Words} */
function scanRemedy({ use }) {
  if (use?.scanningOr.length) {
    return [
      "The cause is ",
      code("or"),
      `: ${listText(use.scanningOr)} can match under any key. Send two queries, or write `,
      code("PartitionKey eq '…' and (… or …)"),
      ".",
    ];
  }
  if (use && use.row !== ALL && use.partition === ALL) {
    return ["A RowKey alone does not narrow the query: entities are sorted by PartitionKey first. Add ", PARTITION, "."];
  }
  if (use && use.partition !== ALL && use.partition !== POINT)
    return ["Compare PartitionKey with ", code("eq"), ", or specify both ends of a range."];
  return ["Add ", PARTITION, " to read one partition."];
}

/** Returns the properties that could become part of a key. @param {KeyUse | null} use */
function indexable(use) {
  return (use?.properties ?? []).filter((name) => name !== "Timestamp" && !use?.lookalikes.includes(name));
}

/** @param {number} milliseconds */
export function duration(milliseconds) {
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`;
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

/** @type {Record<string, string>} */
const PLANS = {
  point: "Point query",
  "row range": "Range in one partition",
  "partition range": "Range of partitions",
  ranges: "Several ranges",
  "table scan": "Table scan",
  nothing: "Nothing to read",
};

/** Returns the name of a query plan for users. @param {string} plan @param {string | null} index */
export function planName(plan, index) {
  return index === null || plan === "nothing" ? (PLANS[plan] ?? plan) : `Index of ${index}`;
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
 * Reads a key in a bound. For a position after a key, the server appends a control character, which no key contains:
 * U+0001 after all entities of a partition, U+0000 after a single row key. It truncates long keys and appends an
 * ellipsis.
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
  const lower = from ? [...low(from[0]), ...rowOf(from)] : [];
  const upper = to ? [...high(to[0]), ...rowOf(to)] : [];
  return [code("PartitionKey"), ...lower, ...upper];
}

/**
 * Describes a range inside one partition.
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

/**
 * Describes where a range begins or ends inside its first or last partition.
 * @param {[string] | [string, string]} key
 * @returns {Words}
 */
function rowOf([, row]) {
  return row === undefined ? [] : [" (", code("RowKey"), " ", quoted(readKey(row).text), ")"];
}
