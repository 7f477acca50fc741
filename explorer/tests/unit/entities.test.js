// The parts of the entities view that do not depend on the DOM: columns, display, conversion, pages, changes and undo.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readValue } from "../../web/core/edm.js";
import { ServiceError, Unreachable } from "../../web/core/errors.js";
import {
  applyPairs,
  Lost,
  differences,
  groupByPartition,
  refusalReason,
  stepFor,
  undoSteps,
  writeMany,
  writeStep,
} from "../../web/entities/changes.js";
import { Columns, emptyLayout, readLayout } from "../../web/entities/columns.js";
import {
  convert,
  hexPreview,
  localTime,
  restoreLineEndings,
  showValue,
  timestampOfEtag,
  visibleText,
} from "../../web/entities/display.js";
import { EntityLoader } from "../../web/entities/loader.js";
import { Selection } from "../../web/entities/grid-keys.js";

const string = (text) => ({ type: "Edm.String", text });

function entity(partitionKey, rowKey, properties = {}, etag = "e0") {
  return { partitionKey, rowKey, timestamp: "", etag, properties: new Map(Object.entries(properties)) };
}

test("invisible characters, line breaks, and leading and trailing spaces are made visible", () => {
  for (const [text, shown] of [
    ["plain", "plain"],
    ["a\nb\tc", "a\u21b5b\u21e5c"],
    ["\u0000\u202ex", "\u2039U+0000\u203a\u2039U+202E\u203ax"],
    ["  a ", "\u2423\u2423a\u2423"],
    ["   ", "\u2423\u2423\u2423"],
    ["\ud800x", "\u2039U+D800\u203ax"],
    ["\u{1f600}", "\u{1f600}"],
    ["\u{1f468}\u200d\u{1f469}\u200d\u{1f467} \u2764\ufe0f\u200d\u{1f525}", "\u{1f468}\u200d\u{1f469}\u200d\u{1f467} \u2764\ufe0f\u200d\u{1f525}"],
    ["\u{1f44b}\u{1f3fd}\u200d", "\u{1f44b}\u{1f3fd}\u2039U+200D\u203a"],
    ["a\u200db\u200d\u{1f600}", "a\u2039U+200D\u203ab\u2039U+200D\u203a\u{1f600}"],
  ]) {
    assert.equal(visibleText(text), shown);
  }
  assert.equal(visibleText("x".repeat(2000), 10), `${"x".repeat(10)}\u2026`);
  assert.equal(visibleText("\u{1f468}\u200d\u{1f469}", 3), "\u{1f468}\u2026");
});

test("a value is shown according to its type", () => {
  assert.deepEqual(showValue(string(""), false), { text: "", mark: "empty" });
  assert.deepEqual(showValue({ type: "Edm.Binary", text: "3q2+7w==" }, false), { text: "de ad be ef", mark: "4 B" });
  assert.deepEqual(showValue({ type: "Edm.Int64", text: "9223372036854775807" }, true), {
    text: "9223372036854775807",
    mark: "",
  });
  assert.equal(hexPreview(Buffer.alloc(40).toString("base64"), 3), "00 00 00 \u2026");
  assert.match(localTime("2026-01-02T03:04:05.1234567Z"), /^2026-01-0\d \d\d:\d\d:05\.1234567 [+-]\d\d:\d\d$/);
  assert.equal(timestampOfEtag("W/\"datetime'2026-01-02T03%3A04%3A05.1234567Z'\""), "2026-01-02T03:04:05.1234567Z");
  assert.equal(timestampOfEtag('"other"'), "");
});

test("there is a column for every property, in order of appearance, whatever its name", () => {
  const columns = new Columns();
  const odd = entity("a", "1");
  odd.properties = new Map([
    ["__proto__", string("x")],
    ["constructor", string("y")],
  ]);
  assert.equal(columns.add([odd, entity("a", "2", { z: { type: "Edm.Int32", text: "1" } })]), true);
  assert.equal(columns.add([entity("a", "3", { z: { type: "Edm.Int32", text: "2" } })]), false);
  assert.deepEqual(
    columns.all.map(({ name }) => name),
    ["PartitionKey", "RowKey", "Timestamp", "__proto__", "constructor", "z"],
  );
  assert.equal(columns.add([entity("a", "4", { z: string("s") })]), true);
  assert.deepEqual([...columns.get("z").types], ["Edm.Int32", "Edm.String"]);
});

test("a layout is remembered, even for properties that are not loaded, and keys stay first", () => {
  const columns = new Columns();
  columns.add([entity("a", "1", { x: string(""), y: string(""), z: string("") })]);
  assert.equal(columns.moveTo("z", "x"), true);
  assert.equal(columns.moveTo("z", "RowKey"), false);
  assert.equal(columns.moveTo("PartitionKey", "z"), false);
  columns.hide("y", true);
  columns.resize("x", 300);
  const text = JSON.stringify(columns.layout);
  const empty = new Columns(readLayout(text));
  const again = new Columns(readLayout(JSON.stringify(empty.layout)));
  again.add([entity("a", "1", { x: string(""), new: string(""), y: string(""), z: string("") })]);
  assert.deepEqual(
    again.all.map(({ name }) => name),
    ["PartitionKey", "RowKey", "Timestamp", "z", "x", "y", "new"],
  );
  assert.equal(again.get("y").hidden, true);
  assert.equal(again.get("x").width, 300);
  for (const broken of [null, "", "{", "3", '{"order":5,"widths":[[1,2],["a"]]}'])
    assert.deepEqual(readLayout(broken), emptyLayout());
});

test("a value is converted only if its meaning does not change", () => {
  for (const [from, text, to, expected] of [
    ["Edm.String", "12", "Edm.Int32", "12"],
    ["Edm.Double", "1000.0", "Edm.Int64", "1000"],
    ["Edm.String", "h\u00e9", "Edm.Binary", "aMOp"],
    ["Edm.Binary", "aMOp", "Edm.String", "h\u00e9"],
    ["Edm.Int64", "9007199254740992", "Edm.Double", "9007199254740992"],
  ]) {
    assert.deepEqual(convert({ type: from, text }, to), { type: to, text: expected });
  }
  assert.equal(convert(string(""), "Edm.Int32"), null);
  assert.throws(() => convert({ type: "Edm.Int64", text: "9007199254740993" }, "Edm.Double"), /round/);
  for (const text of ["9007199254740993", "0.12345678901234567890"]) {
    assert.throws(() => convert(string(text), "Edm.Double"), /round/);
  }
  assert.equal(convert(string("0.1"), "Edm.Double").text, "0.1");
  assert.throws(() => convert(string("abc"), "Edm.Int32"), /abc.*Int32/);
  assert.throws(() => convert({ type: "Edm.Double", text: "1.5" }, "Edm.Int32"), /Int32/);
  assert.throws(() => convert({ type: "Edm.Binary", text: "/w==" }, "Edm.String"), /UTF-8/);
});

test("a time before the year 0 or after 9999 in UTC is refused", () => {
  for (const text of ["0000-01-01T00:00:00+05:00", "9999-12-31T23:00:00-05:00"]) {
    assert.throws(() => readValue("Edm.DateTime", text), /must look like/);
  }
});

test("line endings are kept if the user does not edit them", () => {
  assert.equal(restoreLineEndings("a\nb\nc", "a\r\nb\rc"), "a\r\nb\rc");
  assert.equal(restoreLineEndings("a\nb\nc", "a\r\nb"), "a\r\nb\r\nc");
  assert.equal(restoreLineEndings("a\nb\nc", "a\nb"), "a\nb\nc");
});

test("a range extends from its anchor", () => {
  const list = ["a", "b", "c", "d"];
  const selection = new Selection();
  selection.anchor = 2;
  selection.range(list, 1);
  assert.deepEqual(selection.of(list), ["b", "c"]);
  selection.range(list, 3);
  assert.deepEqual(selection.of(list), ["c", "d"]);
  selection.follow(
    new Map([
      ["c", "x"],
      ["d", null],
    ]),
  );
  assert.equal(selection.size, 1);
  assert.equal(selection.has("x"), true);
});

// If a page is a function, it is called to produce the response.
function pagesOf(pages) {
  const asked = [];
  return {
    asked,
    async queryEntities(table, options) {
      asked.push(options);
      const page = pages.shift();
      return typeof page === "function" ? page(options) : { ...page, report: {} };
    },
  };
}

test("loading continues after an empty page, with one request at a time", async () => {
  const next = { partitionKey: "p", rowKey: "r" };
  const service = pagesOf([
    { entities: [], next },
    { entities: [entity("a", "1")], next },
    { entities: [entity("a", "2")], next: null },
  ]);
  const loader = new EntityLoader(service, "T", { filter: "f", select: null, top: null }, { page() {}, state() {} });
  const [first, second] = [loader.more(), loader.more()];
  assert.equal(first, second);
  await first;
  assert.equal(service.asked.length, 2);
  assert.equal(loader.state, "idle");
  await loader.more();
  assert.equal(loader.state, "complete");
  await loader.more();
  assert.equal(service.asked.length, 3);
});

test("a failed page is requested again from the same position", async () => {
  const next = { partitionKey: "p", rowKey: "r" };
  const service = pagesOf([
    { entities: [entity("a", "1")], next },
    () => {
      throw new Unreachable();
    },
    { entities: [entity("a", "2")], next: null },
  ]);
  const loader = new EntityLoader(service, "T", { filter: "", select: null, top: null }, { page() {}, state() {} });
  await loader.more();
  await loader.more();
  assert.equal(loader.state, "failed");
  assert.ok(loader.error instanceof Unreachable);
  await loader.more();
  assert.deepEqual(
    service.asked.map((options) => options.next),
    [null, next, next],
  );
  assert.equal(loader.entities.length, 2);
});

test("the limit applies to the whole query, not to a page", async () => {
  const next = { partitionKey: "p", rowKey: "r" };
  const page = (count) => ({ entities: Array.from({ length: count }, (_, i) => entity("a", String(i))), next });
  const service = pagesOf([page(1000), page(200)]);
  const loader = new EntityLoader(service, "T", { filter: "", select: null, top: 1200 }, { page() {}, state() {} });
  await loader.all(new AbortController().signal, () => {});
  assert.deepEqual(
    service.asked.map(({ top }) => top),
    [1000, 200],
  );
  assert.equal(loader.state, "complete");
});

test("nothing is reported after a query was stopped", async () => {
  const states = [];
  const service = pagesOf([
    ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  ]);
  const loader = new EntityLoader(
    service,
    "T",
    { filter: "", select: null, top: null },
    { page: assert.fail, state: () => states.push(loader.state) },
  );
  const more = loader.more();
  loader.stop();
  await more;
  assert.deepEqual(states, ["loading"]);
});

const deletion = (item) => stepFor({ before: item, after: null }, false);
const still = { signal: new AbortController().signal, progress() {} };

test("steps are grouped by partition into transactions of at most 100", () => {
  const steps = Array.from({ length: 250 }, (_, i) => deletion(entity(i % 5 === 0 ? "b" : "a", String(i))));
  assert.deepEqual(
    groupByPartition(steps).map((group) => [group[0].operation.entity.partitionKey, group.length]),
    [
      ["b", 50],
      ["a", 100],
      ["a", 100],
    ],
  );
});

test("one conflict does not stop the rest of its transaction", async () => {
  const refusal = new ServiceError(412, "UpdateConditionNotSatisfied", "changed");
  const service = {
    async transaction(table, operations) {
      if (operations.some(({ entity: { rowKey } }) => rowKey === "3")) throw refusal;
      return operations.map(() => null);
    },
    async change(table, { entity: { rowKey } }) {
      if (rowKey === "3") throw refusal;
      return "";
    },
  };
  const outcome = await writeMany(
    service,
    "T",
    Array.from({ length: 150 }, (_, i) => deletion(entity("a", String(i)))),
    still,
  );
  assert.equal(outcome.pairs.length, 149);
  assert.deepEqual(
    outcome.failed.map(({ step }) => step.operation.entity.rowKey),
    ["3"],
  );
  assert.equal(outcome.left, 0);
});

test("writing stops when the server is unreachable, and the remaining entities are counted", async () => {
  const service = {
    async change() {
      throw new Unreachable();
    },
    async transaction() {
      throw new Unreachable();
    },
  };
  const outcome = await writeMany(
    service,
    "T",
    Array.from({ length: 1000 }, (_, i) => deletion(entity("a", String(i)))),
    still,
  );
  assert.equal(outcome.pairs.length, 0);
  assert.equal(outcome.failed.length + outcome.left, 1000);
  assert.ok(outcome.left >= 600);
});

test("writing stops at an error that every entity would get", async () => {
  for (const refusal of [
    new ServiceError(403, "AuthenticationFailed", "expired"),
    new ServiceError(404, "TableNotFound", "gone"),
    new ServiceError(403, "AuthorizationPermissionMismatch", "no"),
  ]) {
    let requests = 0;
    const refuse = async () => {
      requests += 1;
      throw refusal;
    };
    const service = { transaction: refuse, change: refuse, getEntity: refuse };
    const steps = Array.from({ length: 1000 }, (_, i) => deletion(entity("a", String(i))));
    const outcome = await writeMany(service, "T", steps, still);
    assert.ok(requests <= 4, `${requests} requests`);
    assert.ok(outcome.failed.every(({ error }) => error === refusal));
    assert.equal(outcome.failed.length + outcome.left, 1000);
  }
});

test("an operation whose response was lost counts as done if the entity has the values that were sent", async () => {
  const [old, sent] = [entity("a", "1", { x: string("old") }), entity("a", "1", { x: string("new") })];
  const double = (text) => ({ type: "Edm.Double", text });
  const write = (theirs, step, error = new Unreachable(), began) =>
    writeStep(
      {
        async change() {
          throw error;
        },
        async getEntity() {
          if (theirs === null) throw new ServiceError(404, "ResourceNotFound", "");
          return theirs;
        },
      },
      "T",
      step,
      began,
    );
  const edit = stepFor({ before: old, after: sent }, false);
  assert.equal((await write({ ...sent, etag: "e9" }, edit)).pair.after.etag, "e9");
  assert.equal((await write(null, deletion(old))).pair.after, null);
  const unknown = await write(old, edit);
  assert.ok(unknown.error instanceof Lost);
  assert.match(unknown.error.message, /not known/);
  const changed = new ServiceError(412, "UpdateConditionNotSatisfied", "changed");
  assert.equal((await write({ ...sent, etag: "e9" }, edit, changed)).pair.after.etag, "e9");
  assert.equal((await write(old, edit, changed)).theirs, old);
  const [one, same] = [entity("a", "1", { x: double("1.0") }), entity("a", "1", { x: double("1") })];
  assert.ok("pair" in (await write(same, stepFor({ before: old, after: one }, false), changed)));
  // An equal entity that is older than the first attempt was inserted by someone else.
  const exists = new ServiceError(409, "EntityAlreadyExists", "");
  const insertion = stepFor({ before: null, after: sent }, false);
  const there = { ...sent, etag: "W/\"datetime'2026-01-02T03%3A04%3A05.1234567Z'\"" };
  assert.equal((await write(there, insertion, exists, Date.parse("2026-01-02T03:04:06Z"))).error, exists);
  assert.ok("pair" in (await write(there, insertion, exists, Date.parse("2026-01-02T03:04:05Z"))));
});

test("undo writes the pairs in reverse, with the ETags that the change returned", () => {
  const [before, after] = [entity("a", "1", { x: string("old") }, "e1"), entity("a", "1", { x: string("new") }, "e2")];
  const steps = (pair, projected = false) =>
    undoSteps({ verb: "edit", pairs: [pair], projected })?.map(({ operation }) => operation) ?? null;
  assert.deepEqual(steps({ before: null, after }), [{ kind: "delete", entity: after, etag: "e2" }]);
  assert.deepEqual(steps({ before, after: null }), [{ kind: "insert", entity: before }]);
  assert.deepEqual(steps({ before, after }), [{ kind: "replace", entity: before, etag: "e2" }]);
  assert.deepEqual(steps({ before, after }, true), [{ kind: "merge", entity: before, etag: "e2" }]);
  assert.equal(steps({ before, after: null }, true), null);
  assert.equal(steps({ before, after: entity("a", "1", { x: string(""), added: string("") }) }, true), null);
  assert.match(refusalReason(new ServiceError(412, "", "")), /changed/);
});

test("a new entity is inserted in key order", () => {
  const list = [entity("a", "1"), entity("a", "3"), entity("b", "1")];
  const keys = (result) => result.list.map(({ partitionKey, rowKey }) => partitionKey + rowKey).join();
  const add = (item) => [{ before: null, after: item }];
  assert.equal(keys(applyPairs(list, add(entity("a", "2")), () => true)), "a1,a2,a3,b1");
  assert.equal(keys(applyPairs(list, add(entity("c", "1")), () => true)), "a1,a3,b1,c1");
  const later = applyPairs(list, add(entity("c", "1")), () => false);
  assert.equal(keys(later), "a1,a3,b1");
  assert.equal(later.later, 1);
  const edited = entity("a", "3", { x: string("") });
  const result = applyPairs(
    list,
    [
      { before: list[1], after: edited },
      { before: list[0], after: null },
    ],
    () => true,
  );
  assert.deepEqual(result.list, [edited, list[2]]);
  assert.deepEqual(
    result.replaced,
    new Map([
      [list[0], null],
      [list[1], edited],
    ]),
  );
});

test("a conflict shows the differences since the entity was loaded", () => {
  const [loaded, mine, theirs] = [
    { a: string("1"), b: string("1") },
    { a: string("2"), b: string("1") },
    { a: string("1"), c: string("3") },
  ].map((properties) => entity("a", "1", properties));
  const found = differences(loaded, mine, theirs, false).map(({ name, mineChanged, theirsChanged }) => [
    name,
    mineChanged,
    theirsChanged,
  ]);
  assert.deepEqual(found, [
    ["a", true, false],
    ["b", false, true],
    ["c", false, true],
  ]);
  assert.deepEqual(
    differences(loaded, mine, theirs, true).map(({ name }) => name),
    ["a", "b"],
  );
});
