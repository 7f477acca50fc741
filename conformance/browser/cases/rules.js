// The effect of an account's CORS rules on a page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openPage, originOf, recordPreflights } from "../support/browser.js";
import { rule, target, uniqueName } from "../support/target.js";

// The client reports this error if the browser refuses a request. The page cannot see the reason.
const HIDDEN = { name: "RestError", message: "Error sending request: Failed to fetch", code: "REQUEST_SEND_ERROR" };

// Returns whether a page can create a table and list it, with a signature that allows both.
async function createFrom(page) {
  const name = uniqueName();
  const access = { endpoint: target.endpoint, token: target.accountSas(["write", "list"]), name };
  const seen = await page.evaluate(async (access) => {
    const service = serviceClient(access);
    try {
      await service.createTable(access.name);
    } catch (error) {
      return { name: error.name, message: error.message, code: error.code };
    }
    const { name } = access;
    return (await collect(service.listTables({ queryOptions: { filter: odata`TableName eq ${name}` } }))).map((table) => table.name);
  }, access);
  const tables = [];
  for await (const table of target.service.listTables({ queryOptions: { filter: `TableName eq '${name}'` } })) {
    tables.push(table.name);
    await target.service.deleteTable(name);
  }
  if (Array.isArray(seen)) {
    assert.deepEqual([seen, tables], [[name], [name]]);
    return "allowed";
  }
  assert.deepEqual(seen, HIDDEN);
  assert.deepEqual(tables, [], "the browser must not send the request");
  return "refused";
}

test("a page is refused without a rule, accepted with one, and refused again after the rule is removed", async (context) => {
  const page = await openPage(context);
  await target.setRules();
  assert.equal(await createFrom(page), "refused");
  await target.setRules(rule(originOf("app")));
  assert.equal(await createFrom(page), "allowed");
  await target.setRules();
  assert.equal(await createFrom(page), "refused");
});

test("a rule applies only to its origins, methods and headers", async (context) => {
  const page = await openPage(context);
  const [app, other] = [originOf("app"), originOf("other")];
  const headers = "accept,content-type,dataserviceversion,prefer,x-ms-client-request-id,x-ms-useragent,x-ms-version";
  for (const [rules, expected] of [
    [[rule("*")], "allowed"],
    [[rule(`${other},${app}`)], "allowed"],
    [[rule(app.replace("app", "*"))], "allowed"],
    [[rule(app.replace("app", "*.app"))], "refused"],
    [[rule(other)], "refused"],
    [[rule(other), rule(app)], "allowed"],
    [[rule(app.replace(/:\d+$/, ""))], "refused"],
    [[rule(app.replace("http:", "https:"))], "refused"],
    [[rule(app, { allowedMethods: "GET,POST" })], "allowed"],
    [[rule(app, { allowedMethods: "GET" })], "refused"],
    [[rule(app, { allowedMethods: "PUT" })], "refused"],
    [[rule(app, { allowedHeaders: headers })], "allowed"],
    [[rule(app, { allowedHeaders: "accept,content-type,dataserviceversion,prefer,x-ms-*" })], "allowed"],
    [[rule(app, { allowedHeaders: headers.replace(",x-ms-version", "") })], "refused"],
    [[rule(app, { allowedHeaders: "x-ms-*" })], "refused"],
    // Only the first rule that matches the origin and the method applies.
    [[rule(app, { allowedHeaders: "x-ms-*" }), rule("*")], "refused"],
  ]) {
    await target.setRules(...rules);
    assert.equal(await createFrom(page), expected, JSON.stringify(rules));
  }
});

test("the browser sends a preflight request before every request", { timeout: 300_000 }, async (context) => {
  const page = await openPage(context);
  const preflights = await recordPreflights(page);
  await target.setRules(rule(originOf("app")));
  const table = await target.newTable(context);
  await page.evaluate(async (access) => {
    const client = tableClient(access);
    const entity = { partitionKey: "p", rowKey: "r" };
    await client.createEntity(entity);
    await client.getEntity("p", "r");
    await client.updateEntity(entity, "Merge");
    await client.updateEntity(entity, "Replace");
    await client.submitTransaction([["update", entity, "Merge"]]);
    await client.deleteEntity("p", "r");
  }, { endpoint: target.endpoint, token: target.tableSas(table), name: table.tableName });
  const expected = ["POST", "GET", "PATCH", "PUT", "POST", "DELETE"];
  assert.deepEqual(await preflights(expected.length), expected);
});

test("a page sees the headers that the rule exposes", async (context) => {
  const page = await openPage(context);
  const table = await target.newTable(context);
  for (const rowKey of ["a", "b", "c"]) {
    await table.createEntity({ partitionKey: "p", rowKey });
  }
  const access = { endpoint: target.endpoint, token: target.tableSas(table, ["query", "add"]), name: table.tableName };
  const look = () =>
    page.evaluate(async (access) => {
      const client = tableClient(access);
      const created = await client.createEntity({ partitionKey: crypto.randomUUID(), rowKey: "" });
      const pages = await collect(client.listEntities({ queryOptions: { filter: "PartitionKey eq 'p'" } }).byPage({ maxPageSize: 2 }));
      const { headerCode, bodyCode } = await refusal(client.getEntity("p", "missing"));
      return { hasEtag: created.etag !== undefined, pages: pages.map(({ length }) => length), headerCode, bodyCode };
    }, access);
  const bodyCode = "ResourceNotFound";
  const nothing = { hasEtag: false, pages: [2], headerCode: undefined, bodyCode };
  const everything = { hasEtag: true, pages: [2, 1], headerCode: bodyCode, bodyCode };
  for (const [exposedHeaders, expected] of [
    ["*", everything],
    ["ETag,x-ms-*", everything],
    ["etag,x-ms-continuation-nextpartitionkey,x-ms-continuation-nextrowkey,x-ms-error-code", everything],
    ["x-ms-error-code", { ...nothing, headerCode: bodyCode }],
    ["x-ms-continuation-*", { ...nothing, pages: everything.pages }],
    ["etag", { ...nothing, hasEtag: true }],
    ["x-other", nothing],
    // Without a continuation token, the client mistakes the first page for the last one.
    ["", nothing],
  ]) {
    await target.setRules(rule(originOf("app"), { exposedHeaders }));
    assert.deepEqual(await look(), expected, exposedHeaders);
  }
});

test("a page that sends cookies needs a rule for its own origin", async (context) => {
  const page = await openPage(context);
  const table = await target.newTable(context);
  const address = `${target.endpoint}/${table.tableName}()?${target.tableSas(table, ["query"])}`;
  const look = (credentials) =>
    page.evaluate(
      async ([address, credentials]) => {
        const headers = { Accept: "application/json;odata=nometadata", "x-ms-version": "2019-02-02" };
        try {
          return await (await fetch(address, { credentials, headers })).json();
        } catch (error) {
          return error.message;
        }
      },
      [address, credentials],
    );
  await target.setRules(rule(originOf("app")));
  assert.deepEqual([await look("omit"), await look("include")], [{ value: [] }, { value: [] }]);
  await target.setRules(rule("*"));
  assert.deepEqual([await look("omit"), await look("include")], [{ value: [] }, "Failed to fetch"]);
});
