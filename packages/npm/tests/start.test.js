// Tests of startRowhouse() in the installed package.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { after, afterEach, before, test } from "node:test";
import { TableClient, TableServiceClient } from "@azure/data-tables";
import { folderWith, jest, rowhouse, run, vitest } from "./support.js";

const { startRowhouse } = rowhouse;
const DAY = 86_400_000;
const NEW_YEAR = new Date("2030-01-01T00:00:00Z");
const PRICES = { "data/prices.jsonl": '{"PartitionKey":"north","RowKey":"apple","Price":1.25}\n' };
const insecure = { allowInsecureConnection: true };

let server;
before(async () => (server = await startRowhouse()));
afterEach(() => server.reset());
after(() => server.stop());

function setVariable(name, value) {
  const { [name]: before } = process.env;
  process.env[name] = value;
  return () => (before === undefined ? delete process.env[name] : (process.env[name] = before));
}

async function tables(account) {
  const found = [];
  const service = TableServiceClient.fromConnectionString(account.connectionString, insecure);
  for await (const { name } of service.listTables()) found.push(name);
  return found;
}

async function create(account, name) {
  const table = TableClient.fromConnectionString(account.connectionString, name, insecure);
  await table.createTable();
  await table.createEntity({ partitionKey: "north", rowKey: "1" });
  return new Date((await table.getEntity("north", "1")).timestamp);
}

test("accounts are isolated", async () => {
  const [first, second] = [await server.newAccount(), await server.newAccount()];
  await create(first, "orders");
  assert.deepEqual([await tables(first), await tables(second), await tables(server)], [["orders"], [], []]);
  assert.ok(first.endpoint.endsWith(`/${first.account}`) && first.connectionString.includes(first.key));
  await first.delete();
  await first.delete();
  await assert.rejects(tables(first), { statusCode: 403 });
});

test("the clock", async () => {
  const { clock } = server;
  await clock.stop();
  await clock.set(NEW_YEAR);
  assert.deepEqual(await clock.now(), NEW_YEAR);
  await clock.advance({ days: 1, hours: 2, minutes: 3, seconds: 4, milliseconds: 5 });
  const later = new Date("2030-01-02T02:03:04.005Z");
  assert.deepEqual(await clock.now(), later);
  // The client signs with the system clock.
  assert.deepEqual(await create(server, "orders"), later);
  await clock.resume();
  while ((await clock.now()).getTime() === later.getTime());
  await clock.reset();
  assert.ok(Math.abs((await clock.now()) - Date.now()) < DAY / 1000);
  await assert.rejects(clock.advance({ day: 1 }), /day: 1 is not a duration: use numbers of days, hours/);
  await assert.rejects(clock.advance({ days: NaN }), /days: NaN is not a duration/);
  await assert.rejects(clock.set("tomorrow"), RangeError);
});

test("a snapshot can be restored", async () => {
  await create(server, "orders");
  const snapshot = await server.snapshot();
  for (const _ of [1, 2]) {
    await create(server, "customers");
    await snapshot.restore();
    assert.deepEqual(await tables(server), ["orders"]);
  }
  await snapshot.delete();
  await snapshot.delete();
  await assert.rejects(snapshot.restore(), /there is no snapshot/);
});

test("reset and seed", async (t) => {
  const data = `${await folderWith(t, PRICES)}/data`;
  const account = await server.newAccount();
  await account.seed(data);
  await server.seed(data);
  assert.deepEqual([await tables(account), await tables(server)], [["prices"], ["prices"]]);
  await server.reset();
  assert.deepEqual(await tables(server), []);
  await account.delete();
  await assert.rejects(server.seed(`${data}/missing`), /missing was not imported: .*No such file/);
  await assert.rejects(server.delete(), /first account/);
});

test("arguments and their folder", async (t) => {
  const other = await startRowhouse({ args: ["--seed", "data"], cwd: await folderWith(t, PRICES) });
  try {
    assert.deepEqual(await tables(other), ["prices"]);
  } finally {
    await other.stop();
  }
});

test("the environment does not reach the server", async () => {
  const restore = setVariable("ROWHOUSE_ACCOUNT_KEYS", "other:a2V5");
  const other = await startRowhouse().finally(restore);
  assert.equal(other.account, "devstoreaccount1");
  await other.stop();
});

test("errors say what to do", async (t) => {
  await assert.rejects(startRowhouse({ args: ["--nonsense"] }), /did not start: it exited with code 2\n.*--nonsense/);
  await assert.rejects(startRowhouse({ cwd: "/nonexistent" }), /cannot be run: .*ENOENT/);
  const folder = await folderWith(t, { "case.mjs": 'import { startRowhouse } from "rowhouse-tables"; await startRowhouse();' });
  const restore = setVariable("ROWHOUSE_BINARY", "/nonexistent/program");
  await assert.rejects(run(folder, "case.mjs"), /ROWHOUSE_BINARY names a file that does not exist/).finally(restore);
});

test("a file of accounts is refused, because it hides the keys", async (t) => {
  const accounts = '[[account]]\nname = "orchard"\nkey1 = "c2l4dGVlbiBieXRlcyBvZiBrZXk="\n';
  const cwd = await folderWith(t, { "accounts.toml": accounts });
  const start = startRowhouse({ args: ["--accounts", "accounts.toml"], cwd });
  await assert.rejects(start, /--accounts hides the keys.*newAccount\(\)/);
});

test("the error after the end of a server says so", async () => {
  const other = await startRowhouse();
  await Promise.all([other.stop(), other.stop()]);
  assert.match(other.log(), /stopped/);
  await assert.rejects(other.reset(), /no longer running: it exited with code 0\n[^]*stopped/);
});

test("a server is stopped at the end of a block", async () => {
  const other = await startRowhouse();
  await other[Symbol.asyncDispose]();
  await assert.rejects(other.reset(), /no longer running/);
});

const STARTS = `
  import { startRowhouse } from "rowhouse-tables";
  console.log((await startRowhouse()).endpoint);
`;

async function ended(endpoint) {
  const { hostname: host, port } = new URL(endpoint);
  const deadline = Date.now() + 60_000;
  for (;;) {
    const socket = connect({ host, port });
    const isRefused = await once(socket, "connect").then(() => false, () => true);
    socket.destroy();
    if (isRefused) return;
    assert.ok(Date.now() < deadline, "the server outlived its owner");
  }
}

test("a server that was not stopped does not keep a program running, and ends with it", async (t) => {
  const folder = await folderWith(t, { "case.mjs": STARTS });
  await ended((await run(folder, "case.mjs")).trim());
});

test("the server ends when its program is killed", async (t) => {
  const folder = await folderWith(t, { "case.mjs": `${STARTS} setInterval(() => {}, 1000);` });
  const child = spawn(process.execPath, ["case.mjs"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  const { value: endpoint } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  assert.equal((await fetch(endpoint)).status, 403);
  child.kill("SIGKILL");
  await ended(endpoint);
});

const SHARES = `
  const { appendFile } = require("node:fs/promises");
  const { sharedRowhouse } = require("rowhouse-tables");
  test("shares", async () => appendFile("seen", (await sharedRowhouse().newAccount()).endpoint + "\\n"));
`;

const SHARED = { globalSetup: "rowhouse-tables/global-setup" };
for (const [name, command, config] of [
  ["vitest", [vitest, "run"], { test: { globals: true, ...SHARED } }],
  ["jest", [jest], SHARED],
]) {
  test(`all files of a run of ${name} share a server, which ends with the run`, async (t) => {
    const files = { "first.test.js": SHARES, "second.test.js": SHARES, "package.json": "{}" };
    files[`${name}.config.js`] = `module.exports = ${JSON.stringify(config)};`;
    const folder = await folderWith(t, files);
    await run(folder, ...command);
    const seen = (await readFile(`${folder}/seen`, "utf8")).trim().split("\n").map((endpoint) => new URL(endpoint));
    assert.deepEqual([seen.length, new Set(seen.map(({ host }) => host)).size, new Set(seen.map(String)).size], [2, 1, 2]);
    await ended(seen[0].href);
  });
}

test("the shared server works like a server of this process", async (t) => {
  assert.throws(() => rowhouse.sharedRowhouse(), /no server is shared: set globalSetup/);
  const stop = await rowhouse.shareRowhouse({ args: ["--seed", "data"], cwd: await folderWith(t, PRICES) });
  const shared = rowhouse.sharedRowhouse();
  const snapshot = await shared.snapshot();
  await create(shared, "orders");
  await shared.clock.set(NEW_YEAR);
  await snapshot.restore();
  assert.deepEqual(await tables(shared), ["prices"]);
  await shared.reset();
  await shared.seed(await folderWith(t, { "orders.jsonl": PRICES["data/prices.jsonl"] }));
  assert.deepEqual(await tables(shared), ["orders", "prices"]);
  assert.deepEqual(Object.keys(shared).sort(), ["account", "clock", "connectionString", "endpoint", "key"]);
  await stop();
  await assert.rejects(shared.reset(), /POST \/test\/reset failed/);
});
