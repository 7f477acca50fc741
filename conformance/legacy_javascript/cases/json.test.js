// The whole life cycle of a table through azure-storage 2.10, the predecessor of the current client. It uses JSON.

import assert from "node:assert/strict";
import { test } from "node:test";
import azure from "azure-storage";
import { STALE, assertRefused } from "../support/entities.js";
import { call, jsonClient, newPartition, tableForFile, uniqueName } from "../support/target.js";

const { TableBatch, TableQuery, TableUtilities } = azure;
const make = TableUtilities.entityGenerator;
const client = jsonClient();
const table = tableForFile(client, "json");

const keysOf = (PartitionKey, RowKey) => ({ PartitionKey: make.String(PartitionKey), RowKey: make.String(RowKey) });
const valuesOf = (entity) =>
  Object.fromEntries(Object.entries(entity).filter(([name]) => ![".metadata", "PartitionKey", "RowKey", "Timestamp"].includes(name))
    .map(([name, { _ }]) => [name, _]));
const read = (PartitionKey, RowKey) => call(client, "retrieveEntity", table, PartitionKey, RowKey);

const VALUES = {
  string: [make.String("Söhne <&> \u{1F600}"), "Söhne <&> \u{1F600}"],
  empty: [make.String(""), ""],
  blanks: [make.String("  a "), "  a "],
  int32: [make.Int32(-7), -7],
  int64: [make.Int64("9007199254740993"), "9007199254740993"],
  double: [make.Double(1.5), 1.5],
  doubleIntegral: [make.Double(3), 3],
  boolean: [make.Boolean(false), false],
  time: [make.DateTime(new Date("2012-02-29T23:59:58.123Z")), new Date("2012-02-29T23:59:58.123Z")],
  guid: [make.Guid("0b0c0d0e-1111-4222-8333-444455556666"), "0b0c0d0e-1111-4222-8333-444455556666"],
  binary: [make.Binary(Buffer.from([0, 1, 254, 255])), Buffer.from([0, 1, 254, 255])],
};

for (const [name, [given, wanted]] of Object.entries(VALUES)) {
  test(`JSON: a value is read as it was written: ${name}`, async () => {
    const partition = newPartition();
    await call(client, "insertEntity", table, { ...keysOf(partition, "r"), Value: given });
    assert.deepEqual(valuesOf(await read(partition, "r")), { Value: wanted });
  });
}

for (const rowKey of ["O'Neil", "a b", "é日本", "a+b", "100%", "a&b=c", "\u{1F600}"]) {
  test(`JSON: a key with special characters: ${rowKey}`, async () => {
    const partition = newPartition();
    await call(client, "insertOrReplaceEntity", table, { ...keysOf(partition, rowKey), A: make.Int32(1) });
    await call(client, "mergeEntity", table, { ...keysOf(partition, rowKey), B: make.Int32(2) });
    assert.deepEqual(valuesOf(await read(partition, rowKey)), { A: 1, B: 2 });
    await call(client, "deleteEntity", table, keysOf(partition, rowKey));
    await assertRefused(read(partition, rowKey), 404, "ResourceNotFound");
  });
}

for (const [method, kept] of [["replaceEntity", { A: 2 }], ["mergeEntity", { A: 2, Z: 0 }]]) {
  test(`JSON: ${method} under a condition`, async () => {
    const partition = newPartition();
    const keys = keysOf(partition, "r");
    const { ".metadata": first } = await call(client, "insertEntity", table, { ...keys, A: make.Int32(1), Z: make.Int32(0) });
    await call(client, method, table, { ...keys, A: make.Int32(2), ".metadata": { etag: first.etag } });
    assert.deepEqual(valuesOf(await read(partition, "r")), kept);
    await assertRefused(call(client, method, table, { ...keys, A: make.Int32(3), ".metadata": { etag: first.etag } }), 412, "UpdateConditionNotSatisfied");
    assert.deepEqual(valuesOf(await read(partition, "r")), kept);
  });
}

test("JSON: a delete under a stale condition", async () => {
  const keys = keysOf(newPartition(), "r");
  await call(client, "insertEntity", table, keys);
  await assertRefused(call(client, "deleteEntity", table, { ...keys, ".metadata": { etag: STALE } }), 412, "UpdateConditionNotSatisfied");
});

async function pagesOf(query) {
  const pages = [];
  let token = null;
  do {
    const { entries, continuationToken } = await call(client, "queryEntities", table, query, token);
    pages.push(entries.map(valuesOf));
    token = continuationToken;
  } while (token);
  return pages;
}

async function fill(partition, count) {
  for (let start = 0; start < count; start += 100) {
    const batch = new TableBatch();
    for (let N = start; N < Math.min(start + 100, count); N += 1) {
      batch.insertEntity({ ...keysOf(partition, String(N).padStart(5, "0")), N: make.Int32(N) });
    }
    await call(client, "executeBatch", table, batch);
  }
}

test("JSON: queries: more than a thousand entities, a filter, a projection and top", async () => {
  const partition = newPartition();
  await fill(partition, 1105);
  const inPartition = () => new TableQuery().where("PartitionKey eq ?", partition);
  assert.deepEqual((await pagesOf(inPartition())).map((page) => page.length), [1000, 105]);
  const filtered = await pagesOf(inPartition().and("N ge ?", 1000).select(["N"]).top(50));
  assert.deepEqual(filtered.map((page) => page.length), [50, 50, 5]);
  assert.deepEqual(filtered.flat(), Array.from({ length: 105 }, (_, index) => ({ N: 1000 + index })));
});

test("JSON: a transaction that succeeds, and one that fails and changes nothing", async () => {
  const partition = newPartition();
  await call(client, "insertEntity", table, { ...keysOf(partition, "old"), A: make.Int32(1) });
  const batch = new TableBatch();
  batch.insertEntity({ ...keysOf(partition, "new"), A: make.Int32(2) }, { echoContent: true });
  batch.mergeEntity({ ...keysOf(partition, "old"), B: make.Int32(3) });
  batch.insertOrReplaceEntity({ ...keysOf(partition, "upserted"), A: make.Int32(4) });
  const answers = await call(client, "executeBatch", table, batch);
  assert.deepEqual(answers.map(({ response }) => response.statusCode), [201, 204, 204]);
  const failing = new TableBatch();
  failing.deleteEntity(keysOf(partition, "new"));
  failing.insertEntity(keysOf(partition, "old"));
  await assert.rejects(call(client, "executeBatch", table, failing), ({ code }) => code === "EntityAlreadyExists");
  const [stored] = await pagesOf(new TableQuery().where("PartitionKey eq ?", partition));
  assert.deepEqual(stored, [{ A: 2 }, { A: 1, B: 3 }, { A: 4 }]);
});

test("JSON: tables are created, listed in pages, and deleted", async () => {
  const prefix = uniqueName("list");
  const names = [`${prefix}a`, `${prefix}b`, `${prefix}c`];
  for (const name of names) assert.equal((await call(client, "createTableIfNotExists", name)).created, true);
  const seen = [];
  let token = null;
  do {
    const { entries, continuationToken } = await call(client, "listTablesSegmentedWithPrefix", prefix, token, { maxResults: 2 });
    assert.ok(entries.length <= 2);
    seen.push(...entries);
    token = continuationToken;
  } while (token);
  assert.deepEqual(seen, names);
  for (const name of names) assert.equal(await call(client, "deleteTableIfExists", name), true);
  assert.equal((await call(client, "doesTableExist", names[0])).exists, false);
});
