// Transactions through the Atom client: either all operations are executed, or none of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import legacy from "azure-storage-legacy";
import { STALE, assertRefused, etagOf, propertiesOf, underCondition } from "../support/entities.js";
import { atomClient, call, callAll, newPartition, tableForFile, uniqueName } from "../support/target.js";

const { TableQuery } = legacy;
const reader = atomClient();
const table = tableForFile(reader, "batches");

async function stored(PartitionKey) {
  const found = await call(reader, "queryEntities", TableQuery.select().from(table).where("PartitionKey eq ?", PartitionKey));
  return Object.fromEntries(found.map((entity) => [entity.RowKey, propertiesOf(entity)]));
}

async function seeded(...rowKeys) {
  const PartitionKey = newPartition();
  const etags = {};
  for (const RowKey of rowKeys) {
    etags[RowKey] = etagOf(await call(reader, "insertEntity", table, { PartitionKey, RowKey, Old: 1 }));
  }
  return { PartitionKey, etags };
}

test("every operation in one transaction", async () => {
  const { PartitionKey, etags } = await seeded("replaced", "merged", "upserted", "joined", "gone");
  const of = (RowKey, more = { New: 2 }) => ({ PartitionKey, RowKey, ...more });
  const client = atomClient();
  client.beginBatch();
  client.insertEntity(table, of("new", { Text: "Söhne <&> \u{1F600}", Flag: true }));
  client.updateEntity(table, underCondition(of("replaced"), etags.replaced), { checkEtag: true });
  client.mergeEntity(table, of("merged"));
  client.insertOrReplaceEntity(table, of("upserted"));
  client.insertOrMergeEntity(table, of("joined"));
  client.insertOrReplaceEntity(table, of("first"));
  client.insertOrMergeEntity(table, of("second"));
  client.deleteEntity(table, of("gone", {}));
  // The client returns only the first response.
  const [, first] = await callAll(client, "commitBatch");
  assert.equal(first.statusCode, 201);
  assert.deepEqual(await stored(PartitionKey), {
    first: { New: 2 }, joined: { New: 2, Old: 1 }, merged: { New: 2, Old: 1 }, new: { Flag: true, Text: "Söhne <&> \u{1F600}" },
    replaced: { New: 2 }, second: { New: 2 }, upserted: { New: 2 },
  });
});

test("a hundred operations", async () => {
  const PartitionKey = newPartition();
  const client = atomClient();
  client.beginBatch();
  for (let N = 0; N < 100; N += 1) client.insertEntity(table, { PartitionKey, RowKey: `r${N}`, N });
  await call(client, "commitBatch");
  assert.equal(Object.keys(await stored(PartitionKey)).length, 100);
});

test("a hundred and one operations are refused", async () => {
  const PartitionKey = newPartition();
  const client = atomClient();
  client.beginBatch();
  for (let N = 0; N < 101; N += 1) client.insertEntity(table, { PartitionKey, RowKey: `r${N}`, N });
  await assertFails(client, "InvalidInput", /^99:/);
  assert.deepEqual(await stored(PartitionKey), {});
});

// The client reports a failed transaction with the code of the failing operation, but without its status.
async function assertFails(client, code, message) {
  await assert.rejects(call(client, "commitBatch"), (error) => {
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  });
}

const FAILURES = {
  "an insert of an existing entity": [(client, keys) => client.insertEntity(table, { ...keys, RowKey: "old" }), "EntityAlreadyExists"],
  "an update under a stale condition": [
    (client, keys) => client.updateEntity(table, underCondition({ ...keys, RowKey: "old", A: 9 }, STALE), { checkEtag: true }),
    "UpdateConditionNotSatisfied",
  ],
  "a merge of a missing entity": [(client, keys) => client.mergeEntity(table, { ...keys, RowKey: "none", A: 9 }), "ResourceNotFound"],
  "a delete of a missing entity": [(client, keys) => client.deleteEntity(table, { ...keys, RowKey: "none" }), "ResourceNotFound"],
  "a value that is too large": [
    (client, keys) => client.insertEntity(table, { ...keys, RowKey: "none", A: "x".repeat(32769) }), "PropertyValueTooLarge",
  ],
};

for (const [name, [operation, code]] of Object.entries(FAILURES)) {
  test(`nothing is applied after ${name}`, async () => {
    const { PartitionKey } = await seeded("old", "other");
    const client = atomClient();
    client.beginBatch();
    client.insertEntity(table, { PartitionKey, RowKey: "new" });
    client.deleteEntity(table, { PartitionKey, RowKey: "other" });
    operation(client, { PartitionKey });
    await assertFails(client, code, /^2:/);
    assert.deepEqual(await stored(PartitionKey), { old: { Old: 1 }, other: { Old: 1 } });
  });
}

test("a transaction on a missing table", async () => {
  const client = atomClient();
  client.beginBatch();
  client.insertEntity(uniqueName("missing"), { PartitionKey: "p", RowKey: "r" });
  await assertFails(client, "TableNotFound", /^0:/);
});

test("a transaction that is rolled back sends nothing", async () => {
  const PartitionKey = newPartition();
  const client = atomClient();
  client.beginBatch();
  client.insertEntity(table, { PartitionKey, RowKey: "r" });
  client.rollback();
  await assertRefused(call(client, "queryEntity", table, PartitionKey, "r"), 404, "ResourceNotFound");
});
