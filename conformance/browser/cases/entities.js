// The life cycle of a table, from a page that has a shared access signature.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openPage, originOf } from "../support/browser.js";
import { rule, target, uniqueName } from "../support/target.js";

const EVERYTHING = ["query", "add", "update", "delete", "write", "list"];

// Opens a page that a CORS rule allows. Returns a function that runs code in the page, with the URL and the signature
// of a table.
async function pageFor(context, name, token) {
  await target.setRules(rule(originOf("app")));
  const page = await openPage(context);
  const access = { endpoint: target.endpoint, name, token };
  return (run, more) => page.evaluate(run, { ...access, ...more });
}

async function pageWithTable(context, permissions) {
  const table = await target.newTable(context);
  return [await pageFor(context, table.tableName, target.tableSas(table, permissions)), table];
}

test("an account signature creates, lists and deletes a table", async (context) => {
  const name = uniqueName();
  context.after(() => target.table(name).deleteTable());
  const inPage = await pageFor(context, name, target.accountSas(EVERYTHING));
  const seen = await inPage(async (access) => {
    const { name } = access;
    const service = serviceClient(access);
    const list = () => collect(service.listTables({ queryOptions: { filter: odata`TableName eq ${name}` } }));
    await service.createTable(name);
    // The client hides from its caller that a table already exists, and that it does not exist. The hook shows both.
    const hidden = {};
    const show = (operation) => ({
      onResponse: ({ status, headers }) => (hidden[operation] = `${status} ${headers.get("x-ms-error-code")}`),
    });
    await service.createTable(name, show("create"));
    const client = tableClient(access);
    await client.createEntity({ partitionKey: "p", rowKey: "r", A: 1 });
    const [listed, entity] = [await list(), await client.getEntity("p", "r")];
    await client.deleteTable();
    await client.deleteTable(show("delete"));
    return { listed, A: entity.A, hidden, left: await list(), gone: await refusal(client.getEntity("p", "r")) };
  });
  assert.deepEqual(seen.listed.map((table) => table.name), [name]);
  assert.deepEqual([seen.A, seen.left, seen.gone.bodyCode], [1, [], "TableNotFound"]);
  assert.deepEqual(seen.hidden, { create: "409 TableAlreadyExists", delete: "404 ResourceNotFound" });
});

test("an account signature reads and sets the service properties", async (context) => {
  const inPage = await pageFor(context, undefined, target.accountSas(["query", "write"], "s"));
  const hidden = rule("https://other.example,https://*.shop.example", {
    allowedMethods: "GET,PUT",
    allowedHeaders: "x-ms-*,accept",
    exposedHeaders: "",
    maxAgeInSeconds: 7,
  });
  const properties = await inPage(async (access) => {
    const service = serviceClient(access);
    const { cors } = await service.getProperties();
    await service.setProperties({ cors: [...cors, access.hidden] });
    return service.getProperties();
  }, { hidden });
  const { cors } = await target.service.getProperties();
  assert.deepEqual(properties.cors, cors);
  assert.deepEqual(cors.map(({ allowedOrigins }) => allowedOrigins), [originOf("app"), hidden.allowedOrigins]);
  assert.deepEqual([cors[1].allowedMethods, cors[1].maxAgeInSeconds], ["GET,PUT", 7]);
  assert.equal(properties.logging.version, "1.0");
});

test("a value of every type is read as it was sent", async (context) => {
  const [inPage, table] = await pageWithTable(context);
  const entity = {
    text: "\u0000\t\r\n\"'\\ é ß 漢 \u{1f600} \u2028</script>",
    empty: "",
    blanks: "  ",
    yes: true,
    no: false,
    int: -(2 ** 31),
    long: -(2n ** 63n),
    double: 0.1,
    tiny: Number.MIN_VALUE,
    date: new Date("2031-03-14T08:15:30.123Z"),
    bytes: new Uint8Array([0, 1, 127, 128, 255]),
    noBytes: new Uint8Array(),
  };
  const typed = {
    guid: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
    nan: { type: "Double", value: "NaN" },
    infinity: { type: "Double", value: "-Infinity" },
    ticks: { type: "DateTime", value: "2031-03-14T08:15:30.1234567Z" },
    oldest: { type: "DateTime", value: "1601-01-01T00:00:00Z" },
  };
  const [plain, raw, filtered] = await inPage(async ({ entity, typed, ...access }) => {
    const client = tableClient(access);
    await client.createEntity({ partitionKey: "p", rowKey: "plain", ...entity });
    await client.createEntity({ partitionKey: "p", rowKey: "typed", ...typed });
    const [filter, unknown] = [odata`PartitionKey eq ${"p"}` + ` and long eq ${entity.long}L`, { disableTypeConversion: true }];
    return [
      await client.getEntity("p", "plain"),
      await client.getEntity("p", "typed", unknown),
      await collect(client.listEntities({ queryOptions: { filter, select: ["text"] } })),
    ];
  }, { entity, typed });
  // A client outside the browser must read the same entities as the page.
  const { etag, timestamp, "odata.metadata": metadata, ...properties } = plain;
  assert.deepEqual(properties, { partitionKey: "p", rowKey: "plain", ...entity });
  const kept = await target.table(table.tableName).getEntity("p", "plain");
  assert.deepEqual([kept.etag, kept.timestamp, kept.text], [etag, timestamp, entity.text]);
  assert.deepEqual(new Uint8Array(kept.bytes), entity.bytes);
  for (const [name, value] of Object.entries(typed)) {
    assert.deepEqual(raw[name], value, name);
  }
  assert.deepEqual(filtered.map(({ text }) => text), [entity.text]);
});

test("keys with characters that are special in an address", async (context) => {
  const [inPage] = await pageWithTable(context);
  const keys = ["", " ", "a b", "it's", "''", "100%", "%41", "a+b", "a&b=c", "ä漢\u{1f600}", "(x)", "a,b", "a;b:c@d", "$filter", "<b>", "\"", "é", "e\u0301"];
  const found = await inPage(async ({ keys, ...access }) => {
    const client = tableClient(access);
    const found = [];
    for (const key of keys) {
      await client.createEntity({ partitionKey: key, rowKey: key });
      await client.updateEntity({ partitionKey: key, rowKey: key, A: 1 }, "Merge");
      const one = await client.getEntity(key, key);
      const [queried] = await collect(client.listEntities({ queryOptions: { filter: odata`PartitionKey eq ${key} and RowKey eq ${key}` } }));
      found.push([one.partitionKey, queried.rowKey, queried.A]);
      await client.deleteEntity(key, key);
    }
    return { found, left: await collect(client.listEntities()) };
  }, { keys });
  assert.deepEqual(found, { found: keys.map((key) => [key, key, 1]), left: [] });
});

test("conditions: an ETag that a page has read is current, then stale", async (context) => {
  const [inPage, table] = await pageWithTable(context);
  const seen = await inPage(async (access) => {
    const client = tableClient(access);
    const entity = { partitionKey: "p", rowKey: "r" };
    const created = await client.createEntity({ ...entity, A: 1 });
    const read = await client.getEntity("p", "r");
    const updated = await client.updateEntity({ ...entity, A: 2 }, "Merge", { etag: read.etag });
    const stale = [
      await refusal(client.updateEntity({ ...entity, A: 3 }, "Merge", { etag: read.etag })),
      await refusal(client.updateEntity({ ...entity, A: 3 }, "Replace", { etag: read.etag })),
      await refusal(client.deleteEntity("p", "r", { etag: read.etag })),
    ];
    const again = await refusal(client.createEntity(entity));
    const upserted = await client.upsertEntity({ ...entity, B: 1 }, "Replace");
    return { created: created.etag, read: read.etag, updated: updated.etag, stale, again, upserted: upserted.etag };
  });
  assert.match(seen.created, /^W\/"datetime'.*'"$/);
  assert.equal(seen.created, seen.read);
  assert.notEqual(seen.updated, seen.read);
  for (const { status, bodyCode, headerCode } of seen.stale) {
    assert.deepEqual([status, bodyCode, headerCode], [412, "UpdateConditionNotSatisfied", "UpdateConditionNotSatisfied"]);
  }
  assert.deepEqual([seen.again.status, seen.again.headerCode], [409, "EntityAlreadyExists"]);
  const { etag, A, B } = await table.getEntity("p", "r");
  assert.deepEqual({ etag, A, B }, { etag: seen.upserted, A: undefined, B: 1 });
});

test("a query over pages, with a filter", async (context) => {
  const [inPage, table] = await pageWithTable(context);
  const keyOf = (number) => String(number).padStart(4, "0");
  const numbers = Array.from({ length: 1100 }, (_, number) => number);
  for (let first = 0; first < numbers.length; first += 100) {
    const some = numbers.slice(first, first + 100);
    await table.submitTransaction(some.map((number) => ["create", { partitionKey: "p q", rowKey: keyOf(number), odd: number % 2 === 1 }]));
  }
  const seen = await inPage(async (access) => {
    const client = tableClient(access);
    const all = await collect(client.listEntities({ queryOptions: { select: ["RowKey"] } }));
    const queryOptions = { filter: "odd eq true and RowKey lt '0010'" };
    const pages = await collect(client.listEntities({ queryOptions }).byPage({ maxPageSize: 2 }));
    // A continuation token from one iterator works in another.
    const { value: first } = await client.listEntities({ queryOptions }).byPage({ maxPageSize: 2 }).next();
    const { value: next } = await client.listEntities({ queryOptions }).byPage({ continuationToken: first.continuationToken }).next();
    const rowKeys = (entities) => entities.map(({ rowKey }) => rowKey);
    return { all: rowKeys(all), pages: pages.map(rowKeys).filter((page) => page.length > 0), next: rowKeys(next) };
  });
  assert.deepEqual(seen.all, numbers.map(keyOf));
  assert.deepEqual(seen.pages, [["0001", "0003"], ["0005", "0007"], ["0009"]]);
  assert.deepEqual(seen.next, ["0005", "0007", "0009"]);
});

test("a transaction that succeeds, and transactions that fail", async (context) => {
  const [inPage, table] = await pageWithTable(context);
  const seen = await inPage(async (access) => {
    const client = tableClient(access);
    const entity = (rowKey, more) => ({ partitionKey: "p", rowKey, ...more });
    const created = await client.submitTransaction([
      ["create", entity("a", { text: "漢 {x} \u{1f600}" })],
      ["create", entity("b's", { A: 1 })],
      ["upsert", entity("c", { A: 1 })],
    ]);
    const { etag } = await client.getEntity("p", "a");
    const transaction = new TableTransaction();
    transaction.updateEntity(entity("a", { A: 2 }), "Merge", { etag });
    transaction.deleteEntity("p", "b's");
    const changed = await client.submitTransaction(transaction.actions);
    const failed = [
      await refusal(client.submitTransaction([["create", entity("d")], ["update", entity("missing"), "Merge"], ["delete", entity("c")]])),
      await refusal(client.submitTransaction([["create", entity("d")], ["create", entity("c")]])),
      await refusal(client.submitTransaction([["update", entity("a", { A: 3 }), "Merge", { etag }], ["delete", entity("c")]])),
      await refusal(client.submitTransaction(Array.from({ length: 101 }, (_, index) => ["create", entity(`${index}`)]))),
    ];
    return { created, etag, changed, failed };
  });
  assert.deepEqual(seen.created.subResponses.map(({ status }) => status), [204, 204, 204]);
  assert.deepEqual([seen.created.subResponses[0].rowKey, seen.created.subResponses[0].etag.trim()], ["a", seen.etag]);
  assert.deepEqual(seen.changed.subResponses.map(({ status }) => status), [204, 204]);
  // The client takes the details from the part of the failed operation, because no header of the response contains
  // them.
  assert.deepEqual(
    seen.failed.map(({ status, code, message }) => [status, code, message.split("\n")[0]]),
    [
      [404, "ResourceNotFound", "1:The specified resource does not exist."],
      [409, "EntityAlreadyExists", "1:The specified entity already exists."],
      [412, "UpdateConditionNotSatisfied", "0:The update condition specified in the request was not satisfied."],
      [400, "InvalidInput", "99:The batch request operation exceeds the maximum 100 changes per change set."],
    ],
  );
  const left = [];
  for await (const { rowKey, A, text } of table.listEntities()) {
    left.push([rowKey, A, text]);
  }
  assert.deepEqual(left, [["a", 2, "漢 {x} \u{1f600}"], ["c", 1, undefined]]);
});

test("a page reads why a signature does not allow an operation", async (context) => {
  const [inPage, table] = await pageWithTable(context, ["query"]);
  await table.createEntity({ partitionKey: "p", rowKey: "r", A: 1 });
  const seen = await inPage(async (access) => {
    const client = tableClient(access);
    const entity = { partitionKey: "p", rowKey: "r", A: 2 };
    const broken = tableClient({ ...access, token: access.token.replace(/sig=[^&]*/, "sig=AAAA") });
    return {
      read: (await client.getEntity("p", "r")).A,
      mismatches: [
        await refusal(client.createEntity(entity)),
        await refusal(client.updateEntity(entity, "Merge")),
        await refusal(client.upsertEntity(entity, "Replace")),
        await refusal(client.deleteEntity("p", "r")),
      ],
      transaction: await refusal(client.submitTransaction([["update", entity, "Merge"]])),
      tables: await refusal(collect(serviceClient(access).listTables())),
      broken: await refusal(broken.getEntity("p", "r")),
    };
  });
  assert.equal(seen.read, 1);
  for (const { status, bodyCode, headerCode } of seen.mismatches) {
    assert.deepEqual([status, bodyCode, headerCode], [403, "AuthorizationPermissionMismatch", "AuthorizationPermissionMismatch"]);
  }
  assert.deepEqual([seen.transaction.status, seen.transaction.code], [403, "AuthorizationPermissionMismatch"]);
  assert.deepEqual([seen.tables.status, seen.tables.headerCode], [403, "AuthorizationFailure"]);
  assert.deepEqual([seen.broken.status, seen.broken.headerCode], [403, "AuthenticationFailed"]);
  assert.equal((await table.getEntity("p", "r")).A, 1);
});

test("a page reads what a stored access policy allows, until the policy is removed", async (context) => {
  const table = await target.newTable(context);
  const now = Date.now();
  const accessPolicy = { start: new Date(now - 3_600_000), expiry: new Date(now + 3_600_000), permission: "r" };
  await table.setAccessPolicy([{ id: "readers", accessPolicy }]);
  const inPage = await pageFor(context, table.tableName, target.policySas(table, "readers"));
  const list = () => inPage((access) => collect(tableClient(access).listEntities()));
  assert.deepEqual(await list(), []);
  await table.setAccessPolicy([]);
  const { status, headerCode } = await inPage((access) => refusal(collect(tableClient(access).listEntities())));
  assert.deepEqual([status, headerCode], [403, "AuthenticationFailed"]);
});

