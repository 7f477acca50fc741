// Tables and queries through the Atom client: lists, filters, projection, and paging over more than a thousand
// entities.

import assert from "node:assert/strict";
import { test } from "node:test";
import legacy from "azure-storage-legacy";
import { assertRefused, propertiesOf } from "../support/entities.js";
import { atomClient, call, callAll, newPartition, tableForFile, uniqueName } from "../support/target.js";

const { TableQuery } = legacy;
const client = atomClient();
const MANY = 1105;

const table = tableForFile(client, "queries", async (name) => {
  const filler = atomClient();
  for (let start = 0; start < MANY; start += 100) {
    filler.beginBatch();
    for (let N = start; N < Math.min(start + 100, MANY); N += 1) {
      filler.insertEntity(name, { PartitionKey: "many", RowKey: String(N).padStart(5, "0"), N, Odd: N % 2 === 1, Text: `n${N % 10}` });
    }
    await call(filler, "commitBatch");
  }
});

// Uses the client's continuation token.
async function pagesOf(query) {
  const pages = [];
  let [entities, continuation] = await callAll(client, "queryEntities", query);
  pages.push(entities);
  while (continuation.hasNextPage()) {
    [entities, continuation] = await callAll(continuation, "getNextPage");
    pages.push(entities);
  }
  return pages;
}

const numbers = (count) => Array.from({ length: count }, (_, index) => index);

test("more than a thousand entities are returned in two pages", async () => {
  const pages = await pagesOf(TableQuery.select().from(table));
  assert.deepEqual(pages.map((page) => page.length), [1000, MANY - 1000]);
  assert.deepEqual(pages.flat().map(({ N }) => N), numbers(MANY));
});

test("top limits every page", async () => {
  const pages = await pagesOf(TableQuery.select().from(table).where("PartitionKey eq ?", "many").top(300));
  assert.deepEqual(pages.map((page) => page.length), [300, 300, 300, 205]);
  assert.deepEqual(pages.flat().map(({ N }) => N), numbers(MANY));
});

test("a filter and a projection over several pages", async () => {
  const pages = await pagesOf(TableQuery.select("N").from(table).where("Odd eq ?", true).and("N ge ?", 100).top(200));
  assert.ok(pages.length >= 3);
  assert.deepEqual(pages.flat().map(propertiesOf), numbers(MANY).filter((N) => N >= 100 && N % 2 === 1).map((N) => ({ N })));
  assert.ok(pages.flat().every((entity) => entity.PartitionKey === undefined));
});

test("a filter with several parts", async () => {
  const query = TableQuery.select().from(table).where("N lt ?", 3).or("N eq ?", 7).or("Text eq ? and N lt ?", "n5", 20);
  assert.deepEqual((await call(client, "queryEntities", query)).map(({ N }) => N), [0, 1, 2, 5, 7, 15]);
});

test("a projection returns missing properties as null", async () => {
  const [found] = await call(client, "queryEntities", TableQuery.select("N", "Absent").from(table).where("RowKey eq ?", "00005"));
  assert.deepEqual(propertiesOf(found), { N: 5, Absent: null });
});

test("a query for keys", async () => {
  const found = await call(client, "queryEntities", TableQuery.select().from(table).where("PartitionKey eq ? and RowKey eq ?", "many", "00042"));
  assert.deepEqual(found.map(({ N }) => N), [42]);
});

test("a filter on a time and on a string with a quote", async () => {
  const PartitionKey = newPartition();
  const When = new Date("2012-02-29T12:00:00Z");
  await call(client, "insertEntity", table, { PartitionKey, RowKey: "r", When, Name: "O'Neil & Söhne" });
  for (const [condition, value, count] of [["When eq ?", When, 1], ["When gt ?", When, 0], ["Name eq ?", "O'Neil & Söhne", 1]]) {
    const query = TableQuery.select().from(table).where("PartitionKey eq ?", PartitionKey).and(condition, value);
    assert.equal((await call(client, "queryEntities", query)).length, count, condition);
  }
  await call(client, "deleteEntity", table, { PartitionKey, RowKey: "r" });
});

test("a query without matches returns an empty list", async () => {
  assert.deepEqual(await call(client, "queryEntities", TableQuery.select().from(table).where("PartitionKey eq ?", "nobody")), []);
});

test("a malformed filter is refused", async () => {
  await assertRefused(call(client, "queryEntities", TableQuery.select().from(table).where("N eq")), 400, "InvalidInput");
});

test("the life cycle of a table", async () => {
  const name = uniqueName("life");
  const created = await call(client, "createTable", name);
  assert.equal(created.TableName, name);
  await assertRefused(call(client, "createTable", name), 409, "TableAlreadyExists", /^The table specified already exists/);
  assert.equal(await call(client, "createTableIfNotExists", name), false);
  assert.equal((await call(client, "getTable", name)).TableName, name);
  assert.equal(await call(client, "deleteTable", name), true);
  await assertRefused(call(client, "deleteTable", name), 404, "ResourceNotFound");
  await assertRefused(call(client, "getTable", name), 404, "ResourceNotFound");
  assert.equal(await call(client, "createTableIfNotExists", name), true);
  await call(client, "deleteTable", name);
});

test("tables are listed", async () => {
  const names = [uniqueName("listed"), uniqueName("listed")].sort();
  for (const name of names) await call(client, "createTable", name);
  const seen = (await call(client, "queryTables")).map(({ TableName }) => TableName);
  assert.deepEqual(seen.filter((name) => names.includes(name)), names);
  for (const name of names) await call(client, "deleteTable", name);
});

test("an invalid name is refused", async () => {
  await assertRefused(call(client, "createTable", "with-dash"), 400, "InvalidResourceName");
});

test("a wrong key is refused", async () => {
  await assert.rejects(call(atomClient("AAAAAAAA"), "getTable", table), ({ statusCode }) => statusCode === 403);
});

test("service properties at version 2011-08-18", async () => {
  const found = await call(client, "getServiceProperties");
  assert.deepEqual(Object.keys(found).sort(), ["Logging", "Metrics"]);
  const wanted = structuredClone(found);
  wanted.Logging.Read = !found.Logging.Read;
  await call(client, "setServiceProperties", wanted);
  assert.deepEqual(await call(client, "getServiceProperties"), wanted);
  await call(client, "setServiceProperties", found);
});
