// Rowhouse's own rules protect the development account, whose key is publicly known, against web pages. As in the
// service, there are no such rules for an account with a private key. Each case starts its own server.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openAddress, openPage, originOf } from "../support/browser.js";
import { skip, startServer } from "../support/server.js";
import { rule } from "../support/target.js";

async function rowKeysOf(table) {
  const rowKeys = [];
  for await (const { rowKey } of table.listEntities()) {
    rowKeys.push(rowKey);
  }
  return rowKeys;
}

function addressOf(target, table) {
  return `${target.endpoint}/${table.tableName}?${target.tableSas(table)}`;
}

// Inserts an entity with a request that the browser sends without a preflight request. The page cannot see the result.
function insertUnasked(page, address, rowKey) {
  return page.evaluate(
    async ([address, body]) => {
      const { type } = await fetch(address, { method: "POST", mode: "no-cors", body: new Blob([body]) });
      return type;
    },
    [address, JSON.stringify({ PartitionKey: "p", RowKey: rowKey })],
  );
}

// Such a request cannot have the media type of an entity.
test("a page cannot write without a preflight request, whatever the rules", { skip }, async (context) => {
  const { development, own } = await startServer(context);
  const page = await openPage(context);
  for (const target of [development, own]) {
    const table = await target.createTable();
    const insert = async (rowKey) => assert.equal(await insertUnasked(page, addressOf(target, table), rowKey), "opaque");
    await insert("no rule");
    await target.setRules(rule(originOf("app"), { allowedMethods: "POST", allowedHeaders: "" }));
    await insert("a rule");
    assert.deepEqual(await rowKeysOf(table), []);
  }
});

test("a page reads why its write was refused if a rule allows it to read", { skip }, async (context) => {
  const { development } = await startServer(context);
  const page = await openPage(context);
  const table = await development.createTable();
  const insert = () =>
    page.evaluate(async (address) => {
      try {
        const response = await fetch(address, { method: "POST", body: new Blob(["{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}"]) });
        return [response.status, response.headers.get("x-ms-error-code")];
      } catch (error) {
        return error.message;
      }
    }, addressOf(development, table));
  assert.equal(await insert(), "Failed to fetch");
  await development.setRules(rule(originOf("app"), { allowedMethods: "POST" }));
  assert.deepEqual(await insert(), [400, "InvalidInput"]);
});

test("a page that no rule allows cannot read anything", { skip }, async (context) => {
  const { development, own } = await startServer(context);
  const page = await openPage(context);
  for (const target of [development, own]) {
    const table = await target.createTable();
    await table.createEntity({ partitionKey: "p", rowKey: "r" });
    const seen = await page.evaluate(async (address) => {
      const read = async (mode) => {
        const response = await fetch(address, { mode });
        return [response.type, response.status, await response.text()];
      };
      return [await read("no-cors"), await read("cors").catch(({ message }) => message)];
    }, addressOf(target, table));
    assert.deepEqual(seen, [["opaque", 0, ""], "Failed to fetch"]);
  }
});

// If the host name of a page resolves to this machine, the page has the same origin as the server. The browser then
// neither sends preflight requests nor hides responses.
test("a page whose name resolves to this machine does not reach the development account", { skip }, async (context) => {
  const { port, development, own } = await startServer(context);
  const results = {};
  for (const host of ["rebound.example", "localhost", "127.0.0.1"]) {
    const origin = `http://${host}:${port}`;
    const page = await openAddress(context, `${origin}/`);
    results[host] = [];
    for (const target of [development, own]) {
      const table = await target.createTable();
      const address = addressOf(target, table).replace(/^http:\/\/[^/]*/, origin);
      const seen = await page.evaluate(async (address) => {
        const headers = { Accept: "application/json;odata=nometadata", "Content-Type": "application/json" };
        const write = { method: "POST", headers, body: JSON.stringify({ PartitionKey: "p", RowKey: "r" }) };
        const requests = [await fetch(address, write), await fetch(address, { headers })];
        return requests.map(({ status, headers }) => headers.get("x-ms-error-code") ?? status);
      }, address);
      results[host].push([seen, await rowKeysOf(table)]);
    }
  }
  const served = [[201, 200], ["r"]];
  const refused = [["AuthorizationFailure", "AuthorizationFailure"], []];
  assert.deepEqual(results, {
    "rebound.example": [refused, served],
    localhost: [served, served],
    "127.0.0.1": [served, served],
  });
});
