// Partition keys and row keys: characters that need escaping, order, letter case and limits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { odata } from "@azure/data-tables";
import { NOT_FOUND, VALUE_TOO_LARGE, assertRefused, collect, rawAnswer, rowKeysOf } from "../support/answers.js";
import { newPartition, tableForFile } from "../support/target.js";

const table = tableForFile("keys");

const keys = {
  "the empty key": "",
  "a blank": " ",
  "blanks inside and at the ends": "  a  b ",
  "a quote": "O'Neil",
  "quotes only": "''",
  "a double quote": 'say "no"',
  "a percent sign": "100%",
  "text that looks escaped": "a%20b%27c%2Fd%252F",
  "a plus": "a+b c",
  "delimiters of a query": "a=b&c;d,e:f@g$h",
  "delimiters of an entity address": "x',RowKey='y",
  parentheses: "(a)!*~",
  brackets: "[a]{b}<c>|^",
  "a backtick": "`back`tick``",
  dots: "..",
  Latin: "naïve café",
  Greek: "Ωμέγα",
  Japanese: "日本語",
  "an astral character": "😀𝒳",
  "a joined astral sequence": "👩‍👩‍👧",
  "a combining mark": "e\u0301",
  "a soft hyphen and a no-break space": "a\u00ad\u00a0b",
  "the longest key": "k".repeat(512),
};

async function roundTrip(partitionKey, rowKey) {
  const filter = odata`PartitionKey eq ${partitionKey} and RowKey eq ${rowKey}`;
  const found = async () => (await collect(table.listEntities({ queryOptions: { filter } }))).map((entity) => entity.A);

  const { etag } = await table.createEntity({ partitionKey, rowKey, A: 1 });
  const entity = await table.getEntity(partitionKey, rowKey);
  assert.equal(entity.partitionKey, partitionKey);
  assert.equal(entity.rowKey, rowKey);
  assert.deepEqual(await found(), [1]);

  await table.updateEntity({ partitionKey, rowKey, A: 2 }, "Merge", { etag });
  assert.deepEqual(await found(), [2]);
  await table.updateEntity({ partitionKey, rowKey, A: 3 }, "Replace");
  assert.deepEqual(await found(), [3]);
  await table.upsertEntity({ partitionKey, rowKey, A: 4 }, "Merge");
  assert.deepEqual(await found(), [4]);
  await table.upsertEntity({ partitionKey, rowKey, A: 5 }, "Replace");
  assert.equal((await table.getEntity(partitionKey, rowKey)).A, 5);

  await table.deleteEntity(partitionKey, rowKey);
  assert.deepEqual(await found(), []);
  await assertRefused(table.getEntity(partitionKey, rowKey), NOT_FOUND);
}

for (const [name, key] of Object.entries(keys)) {
  test(`${name} as partition key`, () => roundTrip(key, "some row key"));
  test(`${name} as row key`, () => roundTrip("some partition key", key));
  test(`${name} as both keys`, () => roundTrip(key, key));
  test(`${name} as row key of an upsert into a new partition`, async () => {
    const partitionKey = newPartition();
    await table.upsertEntity({ partitionKey, rowKey: key, A: 1 }, "Merge");
    assert.equal((await table.getEntity(partitionKey, key)).A, 1);
  });
}

test("an entity with every key is listed under that key", async () => {
  const partitionKey = newPartition();
  for (const rowKey of Object.values(keys)) {
    await table.createEntity({ partitionKey, rowKey });
  }
  const filter = odata`PartitionKey eq ${partitionKey}`;
  const expected = Object.values(keys).sort();
  assert.deepEqual(await rowKeysOf(table.listEntities({ queryOptions: { filter } })), expected);
});

test("the address of a new entity is escaped as in the service", async () => {
  const partitionKey = `${newPartition()} a'b`;
  const { headers } = await rawAnswer((options) => table.createEntity({ partitionKey, rowKey: '"$%&+,:=@é' }, options));
  const escaped = partitionKey.replace("'", "''").replace(" ", "%20");
  const address = `/${table.tableName}(PartitionKey='${escaped}',RowKey='%22%24%25%26%2B%2C%3A%3D%40%C3%A9')`;
  assert.ok(headers.get("location").endsWith(address), headers.get("location"));
});

test("keys that differ in letter case, blanks or normal form are different", async () => {
  const partitionKey = newPartition();
  const rowKeys = ["key", "Key", "KEY", " key", "key ", "caf\u00e9", "cafe\u0301", "key\u00a0"];
  for (const [index, rowKey] of rowKeys.entries()) {
    await table.createEntity({ partitionKey, rowKey, A: index });
  }
  for (const [index, rowKey] of rowKeys.entries()) {
    assert.equal((await table.getEntity(partitionKey, rowKey)).A, index);
  }
});

test("entities are listed in the order of UTF-16 code units", async () => {
  // A supplementary character sorts before U+E000 in UTF-16, but after it in UTF-8.
  const partitionKey = newPartition();
  const ordered = ["", " ", "!", "10", "2", "A", "B", "Z", "_", "a", "aa", "b", "é", "日", "\u{1F600}", "\uE000", "\uFF21"];
  for (const rowKey of ordered.toReversed()) {
    await table.createEntity({ partitionKey, rowKey });
  }
  const filter = odata`PartitionKey eq ${partitionKey}`;
  assert.deepEqual(await rowKeysOf(table.listEntities({ queryOptions: { filter } })), ordered);

  const range = odata`PartitionKey eq ${partitionKey} and RowKey ge ${"\u{1F600}"} and RowKey lt ${"\uFF21"}`;
  assert.deepEqual(await rowKeysOf(table.listEntities({ queryOptions: { filter: range } })), ["\u{1F600}", "\uE000"]);
});

test("partitions are listed in the order of UTF-16 code units", async () => {
  const tag = newPartition();
  const ordered = ["", "A", "a", "é", "日", "\u{1F600}", "\uFF21"].map((end) => `${tag}${end}`);
  for (const partitionKey of ordered.toReversed()) {
    await table.createEntity({ partitionKey, rowKey: "r" });
  }
  const filter = odata`PartitionKey ge ${tag} and PartitionKey lt ${`${tag}\uFFFF`}`;
  const found = await collect(table.listEntities({ queryOptions: { filter } }));
  assert.deepEqual(found.map((entity) => entity.partitionKey), ordered);
});

const long = "k".repeat(2048);

test("a key of 2,048 characters cannot be inserted", async () => {
  const other = newPartition();
  await assertRefused(table.createEntity({ partitionKey: long, rowKey: "r" }), VALUE_TOO_LARGE);
  await assertRefused(table.createEntity({ partitionKey: other, rowKey: long }), VALUE_TOO_LARGE);
});

test("an entity under a key of 2,048 characters does not exist", async () => {
  const other = newPartition();
  for (const [partitionKey, rowKey] of [[long, "r"], [other, long]]) {
    await assertRefused(table.getEntity(partitionKey, rowKey), NOT_FOUND);
    await assertRefused(table.updateEntity({ partitionKey, rowKey }, "Merge"), NOT_FOUND);
    await assertRefused(table.updateEntity({ partitionKey, rowKey }, "Replace"), NOT_FOUND);
    await assertRefused(table.deleteEntity(partitionKey, rowKey), NOT_FOUND);
  }
});

const forbidden = ["a/b", "a\\b", "a#b", "a?b", "a\u0001b", "tab\t", "line\n", "a\u007fb", "a\u0081b"];

for (const value of forbidden) {
  test(`a key cannot be ${JSON.stringify(value)} in an insert`, async () => {
    const outOfRange = (name) => ({
      status: 400,
      code: "OutOfRangeInput",
      message: `The '${name}' parameter of value '${value}' is out of range.`,
    });
    await assertRefused(table.createEntity({ partitionKey: value, rowKey: "r" }), outOfRange("PartitionKey"));
    await assertRefused(table.createEntity({ partitionKey: newPartition(), rowKey: value }), outOfRange("RowKey"));
  });
}

const syntax = { status: 400, code: "InvalidInput", message: "Bad Request - Error in query syntax." };
const range = { status: 400, code: "OutOfRangeInput", message: "One of the request inputs is out of range." };
const forbiddenInAddress = [["a/b", syntax], ["a\\b", syntax], ["a#b", range], ["a?b", range], ["a\u0081b", range]];

for (const [value, expected] of forbiddenInAddress) {
  test(`a key cannot be ${JSON.stringify(value)} in the address of an entity`, async () => {
    const partitionKey = newPartition();
    await assertRefused(table.getEntity(partitionKey, value), expected);
    await assertRefused(table.deleteEntity(value, "r"), expected);
    await assertRefused(table.updateEntity({ partitionKey: value, rowKey: "r" }, "Replace"), expected);
    await assertRefused(table.upsertEntity({ partitionKey, rowKey: value }, "Merge"), expected);
  });
}
