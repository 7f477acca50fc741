// The cost of a query: key use, advice and descriptions of ranges; and the history and links of queries.

import assert from "node:assert/strict";
import { test } from "node:test";
import { advise, costOf, planName, rangeWords } from "../../web/query/advice.js";
import { parseFilter } from "../../web/query/filter-text.js";
import { indexCandidates, keyUse } from "../../web/query/key-use.js";
import { asQuery, History, queryHash } from "../../web/query/query.js";

const plain = (words) => words.map((word) => (typeof word === "string" ? word : word.code)).join("");

function report({ plan, rangeCount = 1, index, examined, returned, bytes = 100 }) {
  const explain = { plan, ranges: [], rangeCount, ...(index ? { index } : {}), examined, returned, microseconds: 1500 };
  return { explain, milliseconds: 2, bytes, entities: returned, requestId: "" };
}

function advice(filter, page, { select = null, top = null, complete = true, indexed = null } = {}) {
  return advise(costOf([report(page)], complete), { filter, select, top }, indexed);
}

test("advice follows from the plan and the filter", () => {
  const cases = [
    ["", { plan: "table scan", examined: 50, returned: 50 }, ["browse"], /PartitionKey eq/],
    ["A eq 1", { plan: "table scan", examined: 5000, returned: 3 }, ["scan", "index"], /5,000 entities examined to return 3.*one partition/],
    ["RowKey eq 'a'", { plan: "table scan", examined: 50, returned: 3 }, ["scan"], /RowKey alone does not narrow/],
    ["PartitionKey eq 'a' or A eq 1", { plan: "table scan", examined: 50, returned: 3 }, ["scan", "index"], /cause is or: A can/],
    ["partitionkey eq 'a'", { plan: "table scan", examined: 50, returned: 0 }, ["scan", "lookalike"], /./],
    ["Timestamp gt datetime'2026-01-01T00:00:00Z'", { plan: "table scan", examined: 50, returned: 1 }, ["scan", "timestamp"], /./],
    ["PartitionKey eq 'a'", { plan: "row range", examined: 50, returned: 50 }, ["fits"], /keys fit/],
    ["PartitionKey eq 'a' and A eq 1", { plan: "row range", examined: 200, returned: 1 }, ["partition-scan"], /RowKey range.*put A into/],
    ["PartitionKey eq 'a' and A eq 1", { plan: "row range", examined: 20, returned: 19 }, [], /^$/],
    ["PartitionKey eq 'a' and RowKey gt 'b' and A eq 1", { plan: "row range", examined: 200, returned: 1 }, ["row-range"], /With A/],
    ["PartitionKey eq 'a' and RowKey eq 'b'", { plan: "point", examined: 1, returned: 1 }, ["point"], /at most one entity/],
    ["PartitionKey eq 'a' and PartitionKey eq 'b'", { plan: "nothing", rangeCount: 0, examined: 0, returned: 0 }, ["nothing"], /mutually exclusive/],
    ["PartitionKey gt 'a' and RowKey eq 'b'", { plan: "partition range", examined: 9, returned: 1 }, ["partitions"], /narrows at most the first/],
    ["PartitionKey ge 'a' and PartitionKey lt 'b'", { plan: "partition range", examined: 9, returned: 9 }, ["partitions", "fits"], /every partition/],
    ["PartitionKey ne 'a'", { plan: "ranges", rangeCount: 2, examined: 9, returned: 9 }, ["negation", "ranges"], /does not narrow/],
    ["not (PartitionKey eq 'a')", { plan: "ranges", rangeCount: 2, examined: 9, returned: 9 }, ["negation", "ranges"], /does not narrow/],
    ["PartitionKey eq 'a' or PartitionKey eq 'c'", { plan: "ranges", rangeCount: 2, examined: 9, returned: 9 }, ["ranges", "fits"], /one after the other/],
  ];
  for (const [filter, page, ids, text] of cases) {
    const found = advice(filter, page);
    assert.deepEqual(found.map(({ id }) => id), ids, filter);
    assert.match(found.map(({ words }) => plain(words)).join(" "), text, filter);
  }
});

test("an index is advised if the filter has a value or a range, and many entities are examined for each one", () => {
  const costly = { plan: "table scan", examined: 5000, returned: 3 };
  const partition = { ...costly, plan: "row range" };
  const cases = [
    ["A eq 1", costly, [], "A"],
    ["A gt 1 and B eq 2", costly, [], "B"],
    ["A gt 1 and B eq 2", costly, ["C"], "B"],
    // The index of one of the properties exists, so the server has used it.
    ["A gt 1 and B eq 2", costly, ["A"], undefined],
    ["A eq 1", costly, null, undefined],
    ["A ne 1", costly, [], undefined],
    ["A eq 1 or B eq 2", costly, [], undefined],
    ["PartitionKey eq 'a' and A eq 1", partition, [], "A"],
    ["PartitionKey eq 'a' and A gt 1", partition, [], undefined],
    ["A eq 1", { ...costly, returned: 500 }, [], undefined],
    ["A eq 1", { ...costly, examined: 100, returned: 1 }, [], undefined],
    ["", costly, [], undefined],
  ];
  for (const [filter, page, indexed, add] of cases) {
    const found = advice(filter, page, { indexed });
    assert.deepEqual(found.map((each) => each.add).filter(Boolean), add ? [add] : [], `${filter} ${indexed}`);
    // The other remedy is a second copy of the entities.
    assert.ok(!(add || indexed?.includes("A")) || found.every(({ id }) => id !== "index"), filter);
  }
  assert.match(plain(advice("A eq 1", costly, { indexed: [] })[1].words), /^5,000 entities were examined to return 3\. With an index of A,/);
});

test("a query that was answered from an index needs no other index and no other keys", () => {
  const costly = { index: "A", examined: 5000, returned: 3 };
  const cases = [
    ["A eq 1", { plan: "table scan" }, ["from-index"]],
    ["A eq 1 and B eq 2", { plan: "row range" }, ["from-index"]],
    ["", { plan: "table scan" }, ["from-index"]],
    ["PartitionKey eq 'a' and RowKey eq 'b'", { plan: "point" }, ["from-index"]],
    ["PartitionKey ne 'a'", { plan: "ranges", rangeCount: 2 }, ["from-index"]],
    ["PartitionKey gt 'a' and Timestamp gt datetime'2026-01-01T00:00:00Z'", { plan: "partition range" }, ["from-index"]],
    ["A eq 1 and rowkey eq 'a'", { plan: "table scan" }, ["from-index", "lookalike"]],
    ["PartitionKey eq 'a' and PartitionKey eq 'b'", { plan: "nothing", rangeCount: 0 }, ["nothing"]],
  ];
  for (const [filter, page, ids] of cases) {
    assert.deepEqual(advice(filter, { ...costly, ...page }, { indexed: ["A"] }).map(({ id }) => id), ids, filter);
  }
  const pages = [report({ plan: "table scan", examined: 9, returned: 1 }), report({ plan: "table scan", ...costly })];
  assert.equal(costOf(pages, true).index, "A");
  assert.equal(costOf(pages.slice(0, 1), true).index, null);
  assert.equal(planName("table scan", "A"), "Index of A");
  assert.equal(planName("table scan", null), "Table scan");
  assert.equal(planName("nothing", "A"), "Nothing to read");
});

test("the properties whose index narrows a query", () => {
  const cases = [
    ["A eq 1", ["A"], ["A"]],
    ["A gt 1 and B and startswith(C,'x') and D eq 2", ["B", "D", "A", "C"], ["B", "D"]],
    ["A gt 1 and A lt 2 and A eq 1", ["A"], ["A"]],
    ["PartitionKey eq 'a' and rowkey eq 'b' and Timestamp gt datetime'2026-01-01T00:00:00Z'", [], []],
    ["contains(A,'x') and endswith(B,'x') and not C and D ne 1 and true", [], []],
    ["A eq 1 and (B eq 2 or C eq 3)", ["A"], ["A"]],
  ];
  for (const [filter, all, values] of cases) {
    assert.deepEqual(indexCandidates(parseFilter(filter).filter, false), all, filter);
    assert.deepEqual(indexCandidates(parseFilter(filter).filter, true), values, filter);
  }
});

test("advice on projections and pages", () => {
  const scan = { plan: "row range", examined: 300, returned: 300, bytes: 1024 * 1024 };
  const ids = (...given) => advice(...given).map(({ id }) => id);
  assert.deepEqual(ids("PartitionKey eq 'a'", scan), ["fits", "select"]);
  assert.match(plain(advice("PartitionKey eq 'a'", scan)[1].words), /3\.4 KiB.*not the number of entities examined/);
  assert.deepEqual(ids("PartitionKey eq 'a'", scan, { select: ["A"] }), ["fits"]);
  const wasteful = { plan: "row range", examined: 300, returned: 3 };
  assert.deepEqual(ids("PartitionKey eq 'a' and A eq 1", wasteful, { select: ["A"] }), ["partition-scan", "select-examines"]);
  assert.deepEqual(ids("PartitionKey eq 'a' and A eq 1", wasteful, { complete: false }), ["partition-scan", "short-page"]);
  assert.deepEqual(ids("PartitionKey eq 'a'", { plan: "row range", examined: 11, returned: 10 }, { top: 10, complete: false }), ["fits"]);
});

test("there is no advice without a report from the server, and a filter with an error is harmless", () => {
  const silent = { explain: null, milliseconds: 2, bytes: 100, entities: 3, requestId: "" };
  assert.deepEqual(advise(costOf([silent], true), { filter: "A eq 1", select: null, top: null }), []);
  assert.deepEqual(advice("A EQ 1", { plan: "table scan", examined: 5, returned: 5 }).map(({ id }) => id), ["scan"]);
});

test("the cost of pages adds up", () => {
  const pages = [report({ plan: "table scan", examined: 10, returned: 4 }), report({ plan: "table scan", examined: 5, returned: 1 })];
  const { examined, returned, microseconds, milliseconds, bytes, complete } = costOf(pages, true);
  assert.deepEqual({ examined, returned, microseconds, milliseconds, bytes, complete },
    { examined: 15, returned: 5, microseconds: 3000, milliseconds: 4, bytes: 200, complete: true });
});

test("how far a filter narrows the keys", () => {
  const cases = [
    ["PartitionKey eq 'a'", [0, 3]],
    ["PartitionKey eq 'a' and (RowKey gt 'b' or RowKey eq 'a')", [0, 1]],
    ["PartitionKey eq 'a' or RowKey eq 'a'", [3, 3]],
    ["not (PartitionKey ne 'a' or A)", [0, 3]],
    ["not (PartitionKey eq 'a' and RowKey eq 'b')", [3, 3]],
    ["PartitionKey ne 'a'", [2, 3]],
    ["A and true", [3, 3]],
    ["startswith(PartitionKey,'a') and startswith(RowKey,'b')", [1, 1]],
    ["not startswith(PartitionKey,'a')", [3, 3]],
    ["contains(PartitionKey,'a') and endswith(RowKey,'b')", [3, 3]],
  ];
  for (const [filter, reach] of cases) {
    const use = keyUse(parseFilter(filter).filter);
    assert.deepEqual([use.partition, use.row], reach, filter);
  }
});

test("descriptions of key ranges", () => {
  const words = (plan, from, to, rangeCount = 1) => rangeWords({ plan, ranges: [{ from, to }], rangeCount }).map(plain);
  assert.deepEqual(words("table scan", null, null), ["every key"]);
  const rows = (from, to) => words("row range", from, to)[0].replace("PartitionKey = 'a', ", "");
  assert.deepEqual(words("point", ["a", "b"], ["a", "b\0"]), ["PartitionKey = 'a', RowKey = 'b'"]);
  assert.deepEqual(words("ranges", ["a", ""], ["a", "\0"]), ["PartitionKey = 'a', RowKey = ''"]);
  assert.equal(rows(["a"], ["a\u0001"]), "every RowKey");
  assert.equal(rows(["a", "1"], ["a", "2"]), "RowKey from '1' before '2'");
  assert.equal(rows(["a", "1\0"], ["a", "2\0"]), "RowKey after '1' up to '2'");
  assert.equal(rows(["a", "1"], ["a\u0001"]), "RowKey from '1'");
  assert.equal(rows(["a"], ["a", "2"]), "RowKey before '2'");
  assert.deepEqual(words("partition range", ["a"], ["c", "2"]), ["PartitionKey from 'a' before 'c' (RowKey '2')"]);
  assert.deepEqual(words("partition range", ["a\u0001"], ["c\u0001"]), ["PartitionKey after 'a' up to 'c'"]);
  assert.deepEqual(words("partition range", null, ["c"]), ["PartitionKey before 'c'"]);
  assert.deepEqual(words("ranges", ["a"], null, 9), ["PartitionKey from 'a'", "… and 8 more"]);
});

function storage() {
  const values = new Map();
  return { values, getItem: (name) => values.get(name) ?? null, setItem: (name, value) => values.set(name, value), removeItem: (name) => values.delete(name) };
}

test("the history contains the last 50 queries of a table, each once, newest first", () => {
  const store = storage();
  const history = new History(store, "acme", "cars");
  for (let at = 0; at < 60; at++) history.add({ filter: `A eq ${at}`, select: null, top: null });
  history.add({ filter: "A eq 30", select: null, top: null });
  assert.equal(history.queries.length, 50);
  assert.deepEqual(history.queries.slice(0, 2).map(({ filter }) => filter), ["A eq 30", "A eq 59"]);
  assert.deepEqual(new History(store, "acme", "other").queries, []);
  assert.deepEqual(new History(store, "other", "cars").queries, []);
  history.clear();
  assert.equal(store.values.size, 0);
});

test("saved queries have unique names, and stored values that are not queries are ignored", () => {
  const store = storage();
  const history = new History(store, "acme", "cars");
  history.save("b", { filter: "1", select: null, top: 5 });
  history.save("a", { filter: "2", select: ["X"], top: null });
  history.save("b", { filter: "3", select: null, top: null });
  assert.deepEqual(history.saved.map(({ name, query }) => [name, query.filter]), [["a", "2"], ["b", "3"]]);
  history.remove("a");
  assert.deepEqual(history.saved.map(({ name }) => name), ["b"]);
  for (const text of ["{", "5", "[1, null, {}]", '[{"filter": 1}]', '[{"name": "x", "query": {"filter": "", "select": [1], "top": null}}]']) {
    store.setItem("rowhouse-history:acme/cars", text);
    store.setItem("rowhouse-saved:acme/cars", text);
    assert.deepEqual([history.queries, history.saved], [[], []], text);
  }
});

test("a browser without storage has no history and causes no error", () => {
  const refuse = () => {
    throw new Error("SecurityError");
  };
  const history = new History({ getItem: refuse, setItem: refuse, removeItem: refuse }, "a", "b");
  history.add({ filter: "", select: null, top: null });
  assert.deepEqual(history.queries, []);
});

test("the URL of a query contains the whole query", () => {
  const filter = "A eq '#/?&=+% ü😀'";
  const hash = queryHash("cars", { filter, select: ["A", "B"], top: 5 });
  const [path, options] = hash.split("?");
  assert.equal(path, "#/t/cars");
  assert.deepEqual(Object.fromEntries(new URLSearchParams(options)), { filter, select: "A,B", top: "5" });
  assert.equal(queryHash("a/b", { filter: "", select: null, top: null }), "#/t/a%2Fb");
  assert.equal(asQuery({ filter: "", select: null, top: 0 }), null);
});
