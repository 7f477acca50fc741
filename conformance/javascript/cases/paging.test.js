// Pages and continuation tokens, with more entities than a single response can contain.

import assert from "node:assert/strict";
import { test } from "node:test";
import { odata } from "@azure/data-tables";
import { assertRefused, collect, rowKeysOf } from "../support/answers.js";
import { newPartition, tableForFile } from "../support/target.js";

const LARGE = newPartition();
const SMALL = newPartition();
const LARGE_COUNT = 1050;
const numbered = (count) => Array.from({ length: count }, (_, index) => String(index).padStart(5, "0"));

async function fill(table, partitionKey, rowKeys) {
  for (let from = 0; from < rowKeys.length; from += 100) {
    const part = rowKeys.slice(from, from + 100);
    await table.submitTransaction(
      part.map((rowKey) => ["create", { partitionKey, rowKey, Number: Number(rowKey), Even: Number(rowKey) % 2 === 0 }]),
    );
  }
}

const table = tableForFile("paging", async (table) => {
  await fill(table, LARGE, numbered(LARGE_COUNT));
  await fill(table, SMALL, numbered(100));
});

const inPartition = (partitionKey) => ({ queryOptions: { filter: odata`PartitionKey eq ${partitionKey}` } });

function assertPages(pages, size) {
  assert.ok(pages.every((page) => page.length <= size), `A page must not hold more than ${size} entities.`);
  assert.ok(pages.slice(0, -1).every((page) => page.continuationToken));
  assert.equal(pages.at(-1).continuationToken, undefined);
}

test("iteration crosses the page limit of 1,000 entities", async () => {
  assert.deepEqual(await rowKeysOf(table.listEntities(inPartition(LARGE))), numbered(LARGE_COUNT));
});

test("pages hold at most 1,000 entities and continue across partitions", async () => {
  const pages = await collect(table.listEntities().byPage());
  assertPages(pages, 1000);
  assert.ok(pages.length >= 2);
  const all = pages.flat().filter(({ partitionKey }) => [LARGE, SMALL].includes(partitionKey));
  const expected = [...numbered(LARGE_COUNT).map((key) => `${LARGE}/${key}`), ...numbered(100).map((key) => `${SMALL}/${key}`)];
  assert.deepEqual(all.map(({ partitionKey, rowKey }) => `${partitionKey}/${rowKey}`), expected);
});

for (const maxPageSize of [1, 7, 50, 99, 100, 1000]) {
  test(`pages of ${maxPageSize}`, async () => {
    const pages = await collect(table.listEntities(inPartition(SMALL)).byPage({ maxPageSize }));
    assertPages(pages, maxPageSize);
    assert.equal(pages.length, Math.ceil(100 / maxPageSize), "The last page must not have a token.");
    assert.deepEqual(pages.flat().map(({ rowKey }) => rowKey), numbered(100));
  });
}

test("pages of a filtered listing", async () => {
  const queryOptions = { filter: odata`PartitionKey eq ${SMALL} and Even eq true` };
  const pages = await collect(table.listEntities({ queryOptions }).byPage({ maxPageSize: 20 }));
  assertPages(pages, 20);
  assert.deepEqual(pages.flat().map(({ rowKey }) => rowKey), numbered(100).filter((key) => Number(key) % 2 === 0));
});

test("a listing continues from the token of any page, in another client", async () => {
  const pages = await collect(table.listEntities(inPartition(SMALL)).byPage({ maxPageSize: 30 }));
  let seen = 0;
  for (const { length, continuationToken } of pages.slice(0, -1)) {
    seen += length;
    const rest = await collect(table.listEntities(inPartition(SMALL)).byPage({ maxPageSize: 40, continuationToken }));
    assert.deepEqual(rest.flat().map(({ rowKey }) => rowKey), numbered(100).slice(seen));
  }
});

test("pages of a filtered projection", async () => {
  const queryOptions = { filter: odata`PartitionKey eq ${SMALL} and Number ge 10`, select: ["rowKey", "Number"] };
  const pages = await collect(table.listEntities({ queryOptions }).byPage({ maxPageSize: 45 }));
  assert.deepEqual(pages.map((page) => page.length), [45, 45]);
  assert.ok(pages.flat().every((entity) => Object.keys(entity).sort().join() === "Number,etag,rowKey"));
});

test("a token is a position: later inserts before it do not appear, deleted entities are skipped", async () => {
  const partitionKey = newPartition();
  await fill(table, partitionKey, numbered(10));
  const [first] = await collect(table.listEntities(inPartition(partitionKey)).byPage({ maxPageSize: 5 }));
  const { continuationToken } = first;
  await table.deleteEntity(partitionKey, "00005");
  await table.createEntity({ partitionKey, rowKey: "00004b" });
  await table.createEntity({ partitionKey, rowKey: "00007b" });
  const rest = await collect(table.listEntities(inPartition(partitionKey)).byPage({ continuationToken }));
  assert.deepEqual(rest.flat().map(({ rowKey }) => rowKey), ["00006", "00007", "00007b", "00008", "00009"]);
});

test("a token stays valid after every later entity was deleted", async () => {
  const partitionKey = newPartition();
  await fill(table, partitionKey, numbered(4));
  const [{ continuationToken }] = await collect(table.listEntities(inPartition(partitionKey)).byPage({ maxPageSize: 2 }));
  await table.submitTransaction(["00002", "00003"].map((rowKey) => ["delete", { partitionKey, rowKey }]));
  const rest = await collect(table.listEntities(inPartition(partitionKey)).byPage({ continuationToken }));
  assert.deepEqual(rest.flat(), []);
});

test("tokens can contain any key", async () => {
  const partitions = ["", " ' ", "100%+&=", "`", "é日", "😀", "\uFF21"].map((end) => `special ${end}`).sort();
  const rowKeys = ["", " ", "'", "a%20b", "a+b", "`", "日本語", "😀"].sort();
  for (const partitionKey of partitions) {
    await table.submitTransaction(rowKeys.map((rowKey) => ["create", { partitionKey, rowKey }]));
  }
  const queryOptions = { filter: odata`PartitionKey ge ${"special "} and PartitionKey lt ${"special!"}` };
  const pages = await collect(table.listEntities({ queryOptions }).byPage({ maxPageSize: 3 }));
  assertPages(pages, 3);
  const expected = partitions.flatMap((partitionKey) => rowKeys.map((rowKey) => [partitionKey, rowKey]));
  assert.deepEqual(pages.flat().map((entity) => [entity.partitionKey, entity.rowKey]), expected);
});

test("tokens can contain the empty partition key", async () => {
  const rowKeys = ["", "a", "b"];
  await table.submitTransaction(rowKeys.map((rowKey) => ["create", { partitionKey: "", rowKey }]));
  const pages = await collect(table.listEntities(inPartition("")).byPage({ maxPageSize: 1 }));
  assert.deepEqual(pages.flat().map(({ rowKey }) => rowKey), rowKeys);
});

const ranges = [
  ["one partition", odata`PartitionKey eq ${SMALL}`, numbered(100)],
  ["a range of row keys", odata`PartitionKey eq ${SMALL} and RowKey ge ${"00010"} and RowKey lt ${"00013"}`, ["00010", "00011", "00012"]],
  ["a range of row keys, the other way round", odata`PartitionKey eq ${SMALL} and RowKey le ${"00001"} and RowKey gt ${""}`, ["00000", "00001"]],
  ["a prefix", odata`PartitionKey eq ${LARGE} and RowKey ge ${"0100"} and RowKey lt ${"0101"}`, numbered(1010).slice(1000)],
  ["two ranges", odata`PartitionKey eq ${SMALL} and (RowKey lt ${"00002"} or RowKey ge ${"00098"})`, ["00000", "00001", "00098", "00099"]],
  ["a range and a property", odata`PartitionKey eq ${SMALL} and RowKey lt ${"00010"} and Even and Number gt ${3}`, ["00004", "00006", "00008"]],
  ["an empty range", odata`PartitionKey eq ${SMALL} and RowKey gt ${"00050"} and RowKey lt ${"00040"}`, []],
  [
    "the end of one partition and the start of the next",
    odata`(PartitionKey eq ${LARGE} and RowKey ge ${"01048"}) or (PartitionKey eq ${SMALL} and RowKey lt ${"00002"})`,
    ["01048", "01049", "00000", "00001"],
  ],
  ["a range of partitions", odata`PartitionKey gt ${LARGE} and PartitionKey le ${SMALL} and RowKey lt ${"00002"}`, ["00000", "00001"]],
];

for (const [name, filter, expected] of ranges) {
  test(`range: ${name}`, async () => {
    assert.deepEqual(await rowKeysOf(table.listEntities({ queryOptions: { filter } })), expected);
    const pages = await collect(table.listEntities({ queryOptions: { filter } }).byPage({ maxPageSize: 2 }));
    assertPages(pages, 2);
    assert.deepEqual(pages.flat().map(({ rowKey }) => rowKey), expected);
  });
}

test("a page of 0 entities is empty", async () => {
  const { value } = await table.listEntities(inPartition(SMALL)).byPage({ maxPageSize: 0 }).next();
  assert.deepEqual([...value], []);
});

for (const maxPageSize of [-1, 1001, 5000]) {
  test(`a page of ${maxPageSize} entities is refused`, async () => {
    await assertRefused(collect(table.listEntities().byPage({ maxPageSize })), {
      status: 400,
      code: "InvalidInput",
      message: "One of the request inputs is not valid.",
    });
  });
}
