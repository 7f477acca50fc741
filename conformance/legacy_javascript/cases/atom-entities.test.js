// Single entities through the Atom client: types, keys, conditions, the properties that each write preserves, and
// errors.

import assert from "node:assert/strict";
import { test } from "node:test";
import { STALE, assertRefused, etagOf, propertiesOf, underCondition } from "../support/entities.js";
import { atomClient, call, newPartition, tableForFile, uniqueName } from "../support/target.js";

const client = atomClient();
const table = tableForFile(client, "entities");

const typed = (type, value) => ({ $: { type }, _: value });

// The value passed to the client, and the value that it returns.
const VALUES = {
  text: ["blue", "blue"],
  blanksOutside: ["  a b ", "  a b "],
  lineEnds: ["a\nb\tc", "a\nb\tc"],
  markup: [`<a href="x">&amp; ' ]]></a>`, `<a href="x">&amp; ' ]]></a>`],
  latin: ["Grüße, señor", "Grüße, señor"],
  cjk: ["日本語", "日本語"],
  astral: ["\u{1F600}", "\u{1F600}"],
  long: ["x".repeat(32768), "x".repeat(32768)],
  yes: [true, true],
  no: [false, false],
  int32: [-2147483648, -2147483648],
  double: [1.5, 1.5],
  doubleTyped: [typed("Edm.Double", 3), 3],
  int64: [typed("Edm.Int64", "4294967296"), 4294967296],
  guid: [typed("Edm.Guid", "0b0c0d0e-1111-4222-8333-444455556666"), "0b0c0d0e-1111-4222-8333-444455556666"],
  time: [new Date("2012-02-29T23:59:58.123Z"), new Date("2012-02-29T23:59:58.123Z")],
};

for (const [name, [given, wanted]] of Object.entries(VALUES)) {
  test(`a value is read as it was written: ${name}`, async () => {
    const PartitionKey = newPartition();
    const answered = await call(client, "insertEntity", table, { PartitionKey, RowKey: "r", Value: given });
    const read = await call(client, "queryEntity", table, PartitionKey, "r");
    assert.deepEqual(propertiesOf(read), { Value: wanted });
    assert.deepEqual(propertiesOf(answered), { Value: wanted });
    assert.equal(etagOf(read), etagOf(answered));
    assert.deepEqual([read.PartitionKey, read.RowKey], [PartitionKey, "r"]);
  });
}

test("a property that the client sends as null is not stored", async () => {
  // The client also marks an empty string as null.
  const PartitionKey = newPartition();
  await call(client, "insertEntity", table, { PartitionKey, RowKey: "r", Nothing: null, Empty: "", A: 1 });
  assert.deepEqual(propertiesOf(await call(client, "queryEntity", table, PartitionKey, "r")), { A: 1 });
});

for (const RowKey of ["a b", "é", "日本", "\u{1F600}", "a+b", "100%", "a&b=c", "<x>", "a,b;c", `a"b`, "x".repeat(512)]) {
  test(`a key with special characters: ${RowKey.slice(0, 10)}`, async () => {
    const PartitionKey = newPartition();
    await call(client, "insertEntity", table, { PartitionKey, RowKey, A: 1 });
    await call(client, "updateEntity", table, { PartitionKey, RowKey, A: 2 });
    await call(client, "mergeEntity", table, { PartitionKey, RowKey, B: 3 });
    const read = await call(client, "queryEntity", table, PartitionKey, RowKey);
    assert.deepEqual([read.RowKey, propertiesOf(read)], [RowKey, { A: 2, B: 3 }]);
    await call(client, "deleteEntity", table, { PartitionKey, RowKey });
    await assertRefused(call(client, "queryEntity", table, PartitionKey, RowKey), 404, "ResourceNotFound");
  });
}

test("an insert of an existing entity is refused", async () => {
  const entity = { PartitionKey: newPartition(), RowKey: "r", A: 1 };
  await call(client, "insertEntity", table, entity);
  await assertRefused(call(client, "insertEntity", table, entity), 409, "EntityAlreadyExists", /^The specified entity already exists/);
});

for (const [method, kept] of [["updateEntity", { A: 2 }], ["mergeEntity", { A: 2, Z: 0 }]]) {
  test(`${method} under a condition`, async () => {
    const keys = { PartitionKey: newPartition(), RowKey: "r" };
    const first = etagOf(await call(client, "insertEntity", table, { ...keys, A: 1, Z: 0 }));
    const conditional = { checkEtag: true };
    const written = await call(client, method, table, underCondition({ ...keys, A: 2 }, first), conditional);
    const read = await call(client, "queryEntity", table, keys.PartitionKey, "r");
    assert.deepEqual(propertiesOf(read), kept);
    assert.equal(etagOf(read), etagOf(written));
    for (const stale of [first, STALE]) {
      await assertRefused(call(client, method, table, underCondition({ ...keys, A: 3 }, stale), conditional), 412, "UpdateConditionNotSatisfied");
    }
    assert.deepEqual(propertiesOf(await call(client, "queryEntity", table, keys.PartitionKey, "r")), kept);
  });

  test(`${method} of a missing entity`, async () => {
    await assertRefused(call(client, method, table, { PartitionKey: newPartition(), RowKey: "r", A: 1 }), 404, "ResourceNotFound");
  });
}

for (const [method, kept] of [["insertOrReplaceEntity", { New: 2 }], ["insertOrMergeEntity", { New: 2, Old: 1 }]]) {
  test(`${method} of a missing and of an existing entity`, async () => {
    const keys = { PartitionKey: newPartition(), RowKey: "r" };
    await call(client, method, table, { ...keys, Old: 1 });
    await call(client, method, table, { ...keys, New: 2 });
    assert.deepEqual(propertiesOf(await call(client, "queryEntity", table, keys.PartitionKey, "r")), kept);
  });
}

test("a delete under a condition", async () => {
  const keys = { PartitionKey: newPartition(), RowKey: "r" };
  const etag = etagOf(await call(client, "insertEntity", table, keys));
  await assertRefused(call(client, "deleteEntity", table, underCondition(keys, STALE), { checkEtag: true }), 412, "UpdateConditionNotSatisfied");
  await call(client, "deleteEntity", table, underCondition(keys, etag), { checkEtag: true });
  await assertRefused(call(client, "deleteEntity", table, keys), 404, "ResourceNotFound");
});

test("a missing table", async () => {
  const missing = uniqueName("missing");
  const entity = { PartitionKey: "p", RowKey: "r" };
  for (const method of ["insertEntity", "updateEntity", "mergeEntity", "insertOrReplaceEntity", "insertOrMergeEntity", "deleteEntity"]) {
    await assertRefused(call(client, method, missing, entity), 404, "TableNotFound");
  }
  await assertRefused(call(client, "queryEntity", missing, "p", "r"), 404, "TableNotFound");
});

test("values beyond the limits are refused", async () => {
  const keys = { PartitionKey: newPartition(), RowKey: "r" };
  await assertRefused(call(client, "insertEntity", table, { ...keys, A: "x".repeat(32769) }), 400, "PropertyValueTooLarge");
  await assertRefused(call(client, "insertEntity", table, { ...keys, A: typed("Edm.Guid", "none") }), 400, "InvalidInput");
  await assertRefused(call(client, "insertEntity", table, { ...keys, A: typed("Edm.Int32", "2147483648") }), 400, "InvalidInput");
});
