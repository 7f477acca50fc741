// Entity group transactions: either all operations are executed, or none of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TableTransaction, odata } from "@azure/data-tables";
import {
  EXISTS, NOT_FOUND, NO_TABLE, STALE, VALUE_TOO_LARGE, assertIsRefusal, assertRefused, at, collect, propertiesOf,
} from "../support/answers.js";
import { newPartition, tableClient, tableForFile, uniqueName } from "../support/target.js";

const table = tableForFile("transactions");
const WEAK_ETAG = /^W\/"datetime'/;
const OTHER_ETAG = `W/"datetime'2001-02-03T04%3A05%3A06.0000007Z'"`;

const keysOf = (count) => Array.from({ length: count }, (_, index) => String(index).padStart(3, "0"));

async function listed(partitionKey) {
  return collect(table.listEntities({ queryOptions: { filter: odata`PartitionKey eq ${partitionKey}` } }));
}

// Returns a map from row key to properties, to compare whole states.
async function stored(partitionKey) {
  return Object.fromEntries((await listed(partitionKey)).map((entity) => [entity.rowKey, propertiesOf(entity)]));
}

// Returns the ETags of entities a, b and c.
async function seeded() {
  const partitionKey = newPartition();
  const etags = {};
  for (const rowKey of ["a", "b", "c"]) {
    etags[rowKey] = (await table.createEntity({ partitionKey, rowKey, V: 0, Old: true })).etag;
  }
  return { partitionKey, etags };
}

const SEED = { a: { V: 0, Old: true }, b: { V: 0, Old: true }, c: { V: 0, Old: true } };

test("100 inserts are applied together, each with its own answer", async () => {
  const partitionKey = newPartition();
  const rowKeys = keysOf(100);
  const result = await table.submitTransaction(rowKeys.map((rowKey, V) => ["create", { partitionKey, rowKey, V }]));
  assert.equal(result.status, 202);
  assert.equal(result.subResponses.length, 100);
  assert.deepEqual(result.subResponses.map(({ rowKey }) => rowKey), rowKeys);

  const entities = await listed(partitionKey);
  assert.deepEqual(entities.map(({ rowKey, V }) => [rowKey, V]), rowKeys.map((rowKey, V) => [rowKey, V]));
  for (const { rowKey, etag } of entities) {
    assert.deepEqual(result.getResponseForEntity(rowKey), { status: 204, rowKey, etag });
  }
});

test("every kind of operation in one transaction", async () => {
  const { partitionKey, etags } = await seeded();
  await table.createEntity({ partitionKey, rowKey: "d", V: 0, Old: true });
  await table.createEntity({ partitionKey, rowKey: "e", V: 0, Old: true });
  const entity = (rowKey) => ({ partitionKey, rowKey, V: 1 });

  const result = await table.submitTransaction([
    ["update", entity("a"), "Merge", { etag: etags.a }],
    ["update", entity("b"), "Replace", { etag: etags.b }],
    ["upsert", entity("c"), "Merge"],
    ["upsert", entity("d"), "Replace"],
    ["delete", { partitionKey, rowKey: "e" }],
    ["create", entity("f")],
    ["upsert", entity("g"), "Merge"],
    ["upsert", entity("h"), "Replace"],
  ]);
  assert.deepEqual(result.subResponses.map(({ status }) => status), Array(8).fill(204));

  const merged = { V: 1, Old: true };
  const alone = { V: 1 };
  assert.deepEqual(await stored(partitionKey), { a: merged, b: alone, c: merged, d: alone, f: alone, g: alone, h: alone });

  // Every operation except a delete returns the new ETag of its entity.
  const [a, b, c, d, e, f, g, h] = result.subResponses.map(({ etag }) => etag);
  assert.equal(e, undefined);
  const now = Object.fromEntries((await listed(partitionKey)).map(({ rowKey, etag }) => [rowKey, etag]));
  assert.deepEqual({ a, b, c, d, f, g, h }, now);
  assert.notEqual(a, etags.a);
});

test("the client's list of actions works as well as its tuples", async () => {
  const { partitionKey, etags } = await seeded();
  const transaction = new TableTransaction();
  transaction.createEntity({ partitionKey, rowKey: "n", V: 1 });
  transaction.updateEntity({ partitionKey, rowKey: "a", V: 1 }, "Replace", { etag: etags.a });
  transaction.upsertEntity({ partitionKey, rowKey: "b", V: 1 }, "Merge");
  transaction.deleteEntity(partitionKey, "c");
  await table.submitTransaction(transaction.actions);
  assert.deepEqual(await stored(partitionKey), { a: { V: 1 }, b: { V: 1, Old: true }, n: { V: 1 } });
});

test("a transaction of one operation", async () => {
  const partitionKey = newPartition();
  const result = await table.submitTransaction([["create", { partitionKey, rowKey: "only", V: 1 }]]);
  assert.deepEqual(result.subResponses.map(({ status, rowKey }) => [status, rowKey]), [[204, "only"]]);
  assert.match(result.subResponses[0].etag, WEAK_ETAG);
});

test("a hundred deletes", async () => {
  const partitionKey = newPartition();
  const rowKeys = keysOf(100);
  await table.submitTransaction(rowKeys.map((rowKey) => ["create", { partitionKey, rowKey }]));
  const result = await table.submitTransaction(rowKeys.map((rowKey) => ["delete", { partitionKey, rowKey }]));
  assert.deepEqual(result.subResponses, Array(100).fill({ status: 204 }));
  assert.deepEqual(await stored(partitionKey), {});
});

const outOfRangeKey = {
  status: 400,
  code: "OutOfRangeInput",
  message: "The 'RowKey' parameter of value 'x/y' is out of range.",
};
const needValue = {
  status: 400,
  code: "PropertiesNeedValue",
  message: "The values are not specified for all properties in the entity.",
};

// Operations that fail on the seeded partition. The last member is true if the failure is detected before execution.
// Only in that case does the error of a single operation have the index 0.
const failing = [
  ["insert of an existing entity", "create", { rowKey: "b" }, {}, EXISTS, false],
  ["merge of a missing entity", "update", { rowKey: "x" }, {}, NOT_FOUND, false],
  ["merge of a missing entity under an ETag", "update", { rowKey: "x" }, { etag: OTHER_ETAG }, NOT_FOUND, false],
  ["merge under an old ETag", "update", { rowKey: "b" }, { etag: OTHER_ETAG }, STALE, false],
  ["delete of a missing entity", "delete", { rowKey: "x" }, {}, NOT_FOUND, false],
  ["insert of a value that is too large", "create", { rowKey: "x", L: "x".repeat(32769) }, {}, VALUE_TOO_LARGE, false],
  ["insert without a row key", "create", {}, {}, needValue, true],
  ["insert under a key that is out of range", "create", { rowKey: "x/y" }, {}, outOfRangeKey, true],
];

for (const [name, action, entity, options, expected, early] of failing) {
  test(`rolled back: ${name}`, async () => {
    const { partitionKey, etags } = await seeded();
    const wrong = [action, { partitionKey, ...entity }, "Merge", options];
    const good = [
      ["create", { partitionKey, rowKey: "n1", V: 1 }],
      ["update", { partitionKey, rowKey: "a", V: 1 }, "Replace", { etag: etags.a }],
      ["delete", { partitionKey, rowKey: "c" }],
    ];
    for (const index of [0, 1, 3]) {
      const actions = [...good.slice(0, index), wrong, ...good.slice(index)];
      await assertRefused(table.submitTransaction(actions), at(index, expected));
      assert.deepEqual(await stored(partitionKey), SEED);
    }
    assert.equal((await table.getEntity(partitionKey, "a")).etag, etags.a);
  });

  test(`alone in its transaction: ${name}`, async () => {
    const { partitionKey } = await seeded();
    const actions = [[action, { partitionKey, ...entity }, "Merge", options]];
    await assertRefused(table.submitTransaction(actions), early ? at(0, expected) : expected);
    assert.deepEqual(await stored(partitionKey), SEED);
  });
}

test("the first failing operation is reported", async () => {
  const { partitionKey } = await seeded();
  const actions = [
    ["create", { partitionKey, rowKey: "n" }],
    ["update", { partitionKey, rowKey: "b", V: 1 }, "Merge", { etag: OTHER_ETAG }],
    ["create", { partitionKey, rowKey: "a" }],
  ];
  await assertRefused(table.submitTransaction(actions), at(1, STALE));
  assert.deepEqual(await stored(partitionKey), SEED);
});

const duplicate = {
  status: 400,
  code: "InvalidDuplicateRow",
  message:
    "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
};

test("an entity may occur once in a transaction", async () => {
  const { partitionKey } = await seeded();
  const entity = (rowKey) => ({ partitionKey, rowKey, V: 1 });
  const twice = [
    [[["create", entity("n")], ["create", entity("n")]], 1],
    [[["update", entity("a"), "Merge"], ["upsert", entity("b"), "Merge"], ["delete", entity("a")]], 2],
    // The duplicate is detected before execution, so it is reported instead of the insert that would fail.
    [[["create", entity("a")], ["upsert", entity("b"), "Merge"], ["upsert", entity("b"), "Merge"]], 2],
  ];
  for (const [actions, index] of twice) {
    await assertRefused(table.submitTransaction(actions), at(index, duplicate));
    assert.deepEqual(await stored(partitionKey), SEED);
  }
});

test("row keys that differ in letter case are different entities", async () => {
  const partitionKey = newPartition();
  await table.submitTransaction(["key", "KEY", "Key"].map((rowKey) => ["create", { partitionKey, rowKey }]));
  assert.deepEqual(Object.keys(await stored(partitionKey)), ["KEY", "Key", "key"]);
});

test("101 operations are too many", async () => {
  const partitionKey = newPartition();
  const actions = keysOf(101).map((rowKey) => ["create", { partitionKey, rowKey }]);
  await assertRefused(table.submitTransaction(actions), {
    status: 400,
    code: "InvalidInput",
    message: "99:The batch request operation exceeds the maximum 100 changes per change set.",
  });
  assert.deepEqual(await stored(partitionKey), {});
});

test("a transaction on a missing table is refused", async () => {
  const missing = tableClient(uniqueName("none"));
  const actions = ["a", "b"].map((rowKey) => ["create", { partitionKey: "p", rowKey }]);
  await assertRefused(missing.submitTransaction(actions), at(0, NO_TABLE));
  await assertRefused(missing.submitTransaction(actions.slice(0, 1)), at(0, NO_TABLE));
});

test("two entities, each under its own ETag", async () => {
  // An actor runtime commits its state in this way: both entities must still have the ETags that were read.
  const { partitionKey, etags } = await seeded();
  const commit = (a, b, V) =>
    table.submitTransaction([
      ["update", { partitionKey, rowKey: "a", V }, "Replace", { etag: a }],
      ["update", { partitionKey, rowKey: "b", V }, "Replace", { etag: b }],
    ]);
  const { subResponses } = await commit(etags.a, etags.b, 1);
  const [first, second] = subResponses.map(({ etag }) => etag);

  await assertRefused(commit(etags.a, second, 2), at(0, STALE));
  await assertRefused(commit(first, etags.b, 2), at(1, STALE));
  assert.deepEqual(await stored(partitionKey), { ...SEED, a: { V: 1 }, b: { V: 1 } });

  await commit(first, second, 2);
  assert.deepEqual(await stored(partitionKey), { ...SEED, a: { V: 2 }, b: { V: 2 } });
});

test("99 upserts and a sentinel under its ETag", async () => {
  // A workflow runtime appends history in this way: a stale sentinel means that another writer came first.
  const partitionKey = newPartition();
  const sentinel = { partitionKey, rowKey: "sentinel" };
  const { etag: first } = await table.createEntity({ ...sentinel, Checkpoint: 0 });
  const append = (episode, etag) =>
    table.submitTransaction([
      ...keysOf(99).map((rowKey) => ["upsert", { partitionKey, rowKey, Episode: episode }, "Replace"]),
      ["update", { ...sentinel, Checkpoint: episode }, "Merge", { etag }],
    ]);

  const { subResponses } = await append(1, first);
  assert.equal(subResponses.length, 100);
  assert.ok(subResponses.every(({ status, etag }) => status === 204 && WEAK_ETAG.test(etag)));

  await assertRefused(append(2, first), at(99, STALE));
  const entities = await listed(partitionKey);
  assert.ok(entities.every(({ Episode, Checkpoint }) => Episode === 1 || Checkpoint === 1));

  await append(2, subResponses.at(-1).etag);
  assert.equal((await table.getEntity(partitionKey, "sentinel")).Checkpoint, 2);
});

test("exactly one of several simultaneous transactions under one ETag succeeds", async () => {
  const { partitionKey, etags } = await seeded();
  const attempt = (writer) =>
    table.submitTransaction([
      ["create", { partitionKey, rowKey: `writer ${writer}` }],
      ["update", { partitionKey, rowKey: "a", Writer: writer }, "Merge", { etag: etags.a }],
    ]);
  const outcomes = await Promise.allSettled([0, 1, 2, 3, 4, 5].map(attempt));
  const winner = outcomes.findIndex(({ status }) => status === "fulfilled");
  assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
  for (const { reason } of outcomes.filter(({ status }) => status === "rejected")) {
    assertIsRefusal(reason, at(1, STALE));
  }
  const state = await stored(partitionKey);
  assert.equal(state.a.Writer, winner);
  assert.deepEqual(Object.keys(state), ["a", "b", "c", `writer ${winner}`]);
});

test("a reader sees either all operations of a transaction or none", async () => {
  const partitionKey = newPartition();
  const write = (Version) =>
    table.submitTransaction(keysOf(20).map((rowKey) => ["upsert", { partitionKey, rowKey, Version }, "Replace"]));
  await write(0);
  let writing = true;
  const writer = async () => {
    for (let version = 1; version <= 15; version += 1) {
      await write(version);
    }
    writing = false;
  };
  const reader = async () => {
    while (writing) {
      const versions = new Set((await listed(partitionKey)).map(({ Version }) => Version));
      assert.equal(versions.size, 1, `Versions seen together: ${[...versions]}`);
    }
  };
  // If a writer fails, the reader must also stop, or the case would never end.
  const written = writer().finally(() => (writing = false));
  const outcomes = await Promise.allSettled([written, reader()]);
  assert.deepEqual(outcomes.filter(({ status }) => status === "rejected").map(({ reason }) => reason), []);
});

test("a transaction stores special keys and every type", async () => {
  const partitionKey = `${newPartition()} %27'+&\`日😀`;
  const rowKeys = ["", " ", "O'Neil", "a%20b", "a+b", '"{}"', "`", "日本語", "😀"].sort();
  const properties = {
    S: "it's \"{quoted}\"\r\n--changeset 日😀", I: -1, L: 9007199254740993n, D: 1.5, B: true, X: Buffer.from([0, 255]),
    G: { type: "Guid", value: "0b0c0d0e-1111-4222-8333-444455556666" }, T: new Date("2024-05-06T07:08:09.120Z"),
  };
  await table.submitTransaction(rowKeys.map((rowKey) => ["create", { partitionKey, rowKey, ...properties }]));
  const expected = Object.fromEntries(rowKeys.map((rowKey) => [rowKey, properties]));
  assert.deepEqual(await stored(partitionKey), expected);

  await table.submitTransaction(rowKeys.map((rowKey) => ["update", { partitionKey, rowKey, I: 2 }, "Merge"]));
  assert.deepEqual(Object.values(await stored(partitionKey)).map(({ I }) => I), rowKeys.map(() => 2));
  await table.submitTransaction(rowKeys.map((rowKey) => ["delete", { partitionKey, rowKey }]));
  assert.deepEqual(await stored(partitionKey), {});
});

test("the body of a transaction may have 3 MiB but not 6 MiB", async () => {
  const partitionKey = newPartition();
  const text = "x".repeat(32000);
  const inserts = (properties) => keysOf(100).map((rowKey) => ["create", { partitionKey, rowKey, ...properties }]);
  const error = await table.submitTransaction(inserts({ V: text, W: text })).then(
    () => assert.fail("A transaction of 6 MiB was accepted."),
    (reason) => reason,
  );
  // The connection may be closed before the response is read. In either case, nothing may be stored.
  if (error.statusCode !== undefined) {
    assertIsRefusal(error, { status: 413, code: "RequestBodyTooLarge" });
  }
  assert.deepEqual(await stored(partitionKey), {});

  await table.submitTransaction(inserts({ V: text }));
  assert.equal((await listed(partitionKey)).length, 100);
});
