// Grouping and writing entities, tested with a fake service.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ServiceError, Unreachable } from "../../web/core/errors.js";
import { EntityWriter, areEqual, tasksOf } from "../../web/moving/writer.js";

function record(partitionKey, rowKey, value = "1", line = 1, text = "x") {
  const properties = new Map([["A", { type: "Edm.Double", text: value }]]);
  return { line, text, problem: "", entity: { partitionKey, rowKey, timestamp: "", etag: "", properties } };
}

// The service has one table. It refuses the given keys and records the requests.
function fakeService({ refuse = () => null } = {}) {
  const table = new Map();
  const calls = [];
  let inFlight = 0;
  const service = { calls, table, mostInFlight: 0 };
  const apply = async (operations) => {
    inFlight += 1;
    service.mostInFlight = Math.max(service.mostInFlight, inFlight);
    await new Promise((resolve) => setImmediate(resolve));
    inFlight -= 1;
    calls.push(operations.map(({ entity }) => `${entity.partitionKey}/${entity.rowKey}`));
    for (const operation of operations) {
      const key = `${operation.entity.partitionKey}/${operation.entity.rowKey}`;
      const exists = operation.kind === "insert" && table.has(key);
      const refusal = refuse(key, calls.length) ?? (exists ? new ServiceError(409, "EntityAlreadyExists", "It exists.") : null);
      if (refusal) {
        throw refusal;
      }
    }
    operations.forEach(({ entity }) => table.set(`${entity.partitionKey}/${entity.rowKey}`, entity));
  };
  service.transaction = (_table, operations) => apply(operations);
  service.change = (_table, operation) => apply([operation]);
  service.queryEntities = async (_table, { filter }) => {
    calls.push([filter]);
    return { entities: [...table.values()] };
  };
  service.getEntity = async (_table, partitionKey, rowKey) => table.get(`${partitionKey}/${rowKey}`);
  return service;
}

async function write(service, records, kind = "insert", signal = new AbortController().signal) {
  const writer = new EntityWriter(service, "t", kind, { signal, onProgress: () => {} });
  await writer.add(records);
  await writer.flush();
  return writer.outcome;
}

test("a transaction covers one partition, at most 100 entities and 1 MiB, and no key twice", () => {
  const keys = (records) =>
    tasksOf(records).map((task) => task.map((items) => items.map(({ entity }) => entity.rowKey).join("")));
  const p = (rowKeys, text) => [...rowKeys].map((rowKey) => record("p", rowKey, "1", 1, text));
  assert.deepEqual(keys([record("p", "1"), record("q", "2"), record("p", "3")]), [["13"], ["2"]]);
  assert.deepEqual(keys(p("1213")), [["12", "13"]]);
  assert.deepEqual(keys(p("12345", "x".repeat(400_000))), [["12"], ["34"], ["5"]]);
  const many = Array.from({ length: 250 }, (_, at) => record("p", String(at)));
  assert.deepEqual(
    tasksOf(many).map((task) => task.map((items) => items.length)),
    [[100], [100], [50]],
  );
});

test("all entities are written, in several parallel transactions", async () => {
  const service = fakeService();
  const records = Array.from({ length: 9_950 }, (_, at) => record(`p${at % 7}`, String(at)));
  const outcome = await write(service, records);
  assert.deepEqual([outcome.written, outcome.failures.length, service.table.size], [9_950, 0, 9_950]);
  assert.equal(service.mostInFlight, 4);
});

test("of two entities with the same keys, the second is written last, in any order of partitions", async () => {
  const service = fakeService();
  const records = ["1", "2", "3"].flatMap((value) => [record("p", "r", value), record("q", "r", value)]);
  await write(service, records, "insertOrReplace");
  assert.deepEqual(
    [...service.table.values()].map(({ properties }) => properties.get("A").text),
    ["3", "3"],
  );
});

test("the entities of a refused transaction are written one by one, and equal existing entities do not fail", async () => {
  const refuse = (key) => (key === "p/bad" ? new ServiceError(400, "PropertyValueTooLarge", "Too large.") : null);
  const service = fakeService({ refuse });
  await write(service, [record("p", "1"), record("p", "2")]);
  const records = [
    record("p", "1", "1.0", 1),
    record("p", "2", "7", 2, "two"),
    record("p", "3", "1", 3),
    record("p", "bad", "1", 4, "four"),
  ];
  const outcome = await write(service, [...records, { line: 5, text: "five", entity: null, problem: "no JSON" }]);
  assert.deepEqual([outcome.written, outcome.unchanged], [1, 1]);
  assert.deepEqual(
    outcome.failures.map(({ line, text, rowKey, code, message }) => [line, text, rowKey, code, message]),
    [
      [5, "five", "", "", "no JSON"],
      [2, "two", "2", "EntityAlreadyExists", "It exists. (EntityAlreadyExists, 409)"],
      [4, "four", "bad", "PropertyValueTooLarge", "Too large. (PropertyValueTooLarge, 400)"],
    ],
  );
});

test("when a file is imported again, whole groups are compared", async () => {
  const service = fakeService();
  const records = Array.from({ length: 150 }, (_, at) => record("p'", String(at).padStart(3, "0")));
  await write(service, records.slice(0, 120));
  service.calls.length = 0;
  const outcome = await write(service, records);
  assert.deepEqual([outcome.written, outcome.unchanged, outcome.failures.length], [30, 120, 0]);
  assert.ok(service.calls.length <= 5, `${service.calls.length} requests`);
  assert.ok(service.calls.some(([call]) => call === "PartitionKey eq 'p''' and RowKey ge '000' and RowKey le '099'"));
});

test("an error that the next entity would also get ends the import", async () => {
  for (const [status, code] of [
    [403, "AuthenticationFailed"],
    [404, "TableNotFound"],
    [403, "AuthorizationPermissionMismatch"],
    [500, "InternalError"],
  ]) {
    const service = fakeService({ refuse: () => new ServiceError(status, code, "No.") });
    const records = Array.from({ length: 1000 }, (_, at) => record("p", String(at)));
    await assert.rejects(write(service, records), { code });
    assert.ok(service.calls.length <= 4, `${code}: ${service.calls.length} requests`);
  }
});

test("when an import ends early, the entities that were not written are known", async () => {
  const refuse = (key) =>
    key === "q/5" ? new ServiceError(500, "InternalError", "No.") : key === "q/1" ? new ServiceError(400, "Bad", "Bad.") : null;
  const service = fakeService({ refuse });
  const writer = new EntityWriter(service, "t", "insert", { signal: new AbortController().signal, onProgress: () => {} });
  await write(service, [record("q", "2")]);
  const records = ["0", "1", "2", "3", "4", "5", "6", "7"].map((rowKey, at) => record("q", rowKey, "1", at + 1));
  await writer.add(records);
  await assert.rejects(writer.flush(), { code: "InternalError" });
  const { outcome } = writer;
  assert.deepEqual([outcome.written, outcome.unchanged, outcome.last.line], [3, 1, 8]);
  assert.deepEqual(
    outcome.failures.map(({ line }) => line),
    [2],
  );
  assert.deepEqual(
    [...outcome.waiting].map(({ line }) => line),
    [6, 7, 8],
  );
});

test("a request is retried if the server is briefly unreachable", async () => {
  const service = fakeService({ refuse: (_key, call) => (call === 1 ? new Unreachable() : null) });
  const outcome = await write(service, [record("p", "1"), record("p", "2")]);
  assert.deepEqual([outcome.written, service.calls.length], [2, 2]);
});

test("equal entities have the same properties with the same types", () => {
  const one = record("p", "r", "1.0").entity;
  assert.equal(areEqual(one, record("p", "r", "1").entity), true);
  assert.equal(areEqual(one, record("p", "r", "2").entity), false);
  assert.equal(areEqual(one, { ...one, properties: new Map() }), false);
  assert.equal(areEqual(one, { ...one, properties: new Map([["A", { type: "Edm.Int32", text: "1.0" }]]) }), false);
});
