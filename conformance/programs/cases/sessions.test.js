// connect-azuretables: the sessions of an Express application.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Program, Visitor } from "../support/program.js";
import { entitiesOf, newTable } from "../support/target.js";

const HOUR_MS = 60 * 60 * 1000;

// The table exists before the application starts, so that the first request finds it.
async function start(context, table, maxAgeMs = HOUR_MS) {
  await table.createTable();
  return Program.start(context, "sessions", table.tableName, { COOKIE_MAX_AGE_MS: String(maxAgeMs) });
}

test("a session persists across requests, processes and other sessions", async (context) => {
  const table = newTable(context);
  const app = await start(context, table);
  const [one, two] = [new Visitor(), new Visitor()];
  assert.deepEqual(await one.json(`${app.address}/visits`), { visits: null });
  assert.deepEqual([await entitiesOf(table), one.cookies.size], [[], 0], "a session without content must not be stored");
  const visits = [];
  for (const visitor of [one, two, one, one, two]) {
    visits.push((await visitor.json(`${app.address}/visits`, { method: "POST" })).visits);
  }
  assert.deepEqual(visits, [1, 1, 2, 3, 2]);
  await app.stop();
  const again = await start(context, table);
  assert.deepEqual(await one.json(`${again.address}/visits`), { visits: 3 });
  assert.deepEqual(await two.json(`${again.address}/visits`), { visits: 2 });
  const entities = await entitiesOf(table);
  assert.equal(entities.length, 2);
  for (const { partitionKey, rowKey, data, expiryDate } of entities) {
    assert.equal(partitionKey, rowKey);
    assert.equal(JSON.parse(data).note, "it's 漢 \u{1f600}");
    assert.ok(expiryDate instanceof Date && expiryDate > new Date());
  }
});

test("a request that changes nothing touches the session", async (context) => {
  const table = newTable(context);
  const app = await start(context, table);
  const visitor = new Visitor();
  await visitor.json(`${app.address}/visits`, { method: "POST" });
  const [{ rowKey }] = await entitiesOf(table);
  const before = await table.getEntity(rowKey, rowKey);
  assert.deepEqual(await visitor.json(`${app.address}/visits`), { visits: 1 });
  const after = await table.getEntity(rowKey, rowKey);
  assert.notEqual(after.etag, before.etag);
  assert.ok(after.expiryDate >= before.expiryDate);
  assert.equal(JSON.parse(after.data).visits, 1);
});

test("a session ends when it is destroyed, and another replaces it", async (context) => {
  const table = newTable(context);
  const app = await start(context, table);
  const visitor = new Visitor();
  await visitor.json(`${app.address}/visits`, { method: "POST" });
  const [first] = await entitiesOf(table);
  await visitor.json(`${app.address}/new`, { method: "POST" });
  await visitor.json(`${app.address}/visits`, { method: "POST" });
  const [second, ...others] = await entitiesOf(table);
  assert.deepEqual(others, []);
  assert.notEqual(second.rowKey, first.rowKey);
  await visitor.json(`${app.address}/leave`, { method: "POST" });
  assert.deepEqual(await entitiesOf(table), []);
  assert.deepEqual(await visitor.json(`${app.address}/visits`), { visits: null });
});

test("expired sessions are removed, and others stay", { timeout: 300_000 }, async (context) => {
  const table = newTable(context);
  const lasting = await start(context, table);
  const visitor = new Visitor();
  await visitor.json(`${lasting.address}/visits`, { method: "POST" });
  const [kept] = await entitiesOf(table);
  await lasting.stop();
  const brief = await start(context, table, 1);
  await new Visitor().json(`${brief.address}/visits`, { method: "POST" });
  assert.notEqual(await brief.waitFor("cleaned up session "), kept.rowKey);
  assert.deepEqual((await entitiesOf(table)).map(({ rowKey }) => rowKey), [kept.rowKey]);
});
