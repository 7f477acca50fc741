// Shared access signatures created by this client, and stored access policies.

import assert from "node:assert/strict";
import { test } from "node:test";
import { AzureSASCredential, generateAccountSas, generateTableSas } from "@azure/data-tables";
import { NOT_FOUND, assertRefused, collect, rowKeysOf } from "../support/answers.js";
import { credential, newPartition, serviceClient, tableClient, tableForFile, uniqueName } from "../support/target.js";

const table = tableForFile("sas");
const HOUR_MS = 60 * 60 * 1000;

const REFUSED = { status: 403, code: "AuthenticationFailed" };
const NO_PERMISSION = {
  status: 403,
  code: "AuthorizationPermissionMismatch",
  message: "This request is not authorized to perform this operation using this permission.",
};
const WRONG_RESOURCE = {
  status: 403,
  code: "AuthorizationResourceTypeMismatch",
  message: "This request is not authorized to perform this operation using this resource type.",
};
const NOT_AUTHORIZED = {
  status: 403,
  code: "AuthorizationFailure",
  message: "This request is not authorized to perform this operation.",
};

function inHours(hours) {
  return new Date(Date.now() + hours * HOUR_MS);
}

function withToken(token) {
  return tableClient(table.tableName, new AzureSASCredential(token));
}

// Without a policy, the token is valid for an hour.
function withTableSas(options) {
  const expiresOn = options.identifier === undefined ? inHours(1) : undefined;
  return withToken(generateTableSas(table.tableName, credential, { expiresOn, ...options }));
}

function accountSas(permissions, resourceTypes) {
  return generateAccountSas(credential, { permissions, resourceTypes, expiresOn: inHours(1) });
}

// Name of the operation: the required permissions, and the call. Before each call, there is one entity, "old".
const operations = {
  get: [["query"], (client, partitionKey) => client.getEntity(partitionKey, "old")],
  list: [["query"], (client) => collect(client.listEntities())],
  create: [["add"], (client, partitionKey) => client.createEntity({ partitionKey, rowKey: "new" })],
  merge: [["update"], (client, partitionKey) => client.updateEntity({ partitionKey, rowKey: "old", A: 2 }, "Merge")],
  replace: [["update"], (client, partitionKey) => client.updateEntity({ partitionKey, rowKey: "old", A: 2 }, "Replace")],
  "upsert by merge": [["add", "update"], (client, partitionKey) => client.upsertEntity({ partitionKey, rowKey: "old" }, "Merge")],
  "upsert by replace": [["add", "update"], (client, partitionKey) => client.upsertEntity({ partitionKey, rowKey: "new" }, "Replace")],
  delete: [["delete"], (client, partitionKey) => client.deleteEntity(partitionKey, "old")],
};
const actions = {
  "transaction create": [["add"], (partitionKey) => [["create", { partitionKey, rowKey: "new" }]]],
  "transaction update": [["update"], (partitionKey) => [["update", { partitionKey, rowKey: "old" }, "Merge"]]],
  "transaction upsert": [["add", "update"], (partitionKey) => [["upsert", { partitionKey, rowKey: "old" }, "Merge"]]],
  "transaction delete": [["delete"], (partitionKey) => [["delete", { partitionKey, rowKey: "old" }]]],
};
for (const [name, [needed, make]] of Object.entries(actions)) {
  operations[name] = [needed, (client, partitionKey) => client.submitTransaction(make(partitionKey))];
}

const LETTERS = ["query", "add", "update", "delete"];
const subsets = Array.from({ length: 2 ** LETTERS.length - 1 }, (_, index) =>
  LETTERS.filter((_, bit) => (index + 1) & (1 << bit)),
);

// The client prefixes the message of a failed transaction, so only its code is compared.
function denied(name, expected) {
  return name.startsWith("transaction") ? { status: expected.status, code: expected.code } : expected;
}

for (const [name, [needed, run]] of Object.entries(operations)) {
  test(`a table SAS and ${name}: every set of permissions`, async () => {
    for (const granted of subsets) {
      const partitionKey = newPartition();
      await table.createEntity({ partitionKey, rowKey: "old", A: 1 });
      const client = withTableSas({ permissions: Object.fromEntries(granted.map((letter) => [letter, true])) });
      if (needed.every((letter) => granted.includes(letter))) {
        await run(client, partitionKey);
      } else {
        await assertRefused(run(client, partitionKey), denied(name, NO_PERMISSION));
        assert.equal((await table.getEntity(partitionKey, "old")).A, 1);
        await assertRefused(table.getEntity(partitionKey, "new"), NOT_FOUND);
      }
    }
  });

  test(`an account SAS and ${name}: every kind of resource`, async () => {
    for (const resourceTypes of ["s", "c", "o", "sc", "sco"]) {
      for (const granted of subsets) {
        const partitionKey = newPartition();
        await table.createEntity({ partitionKey, rowKey: "old", A: 1 });
        const permissions = Object.fromEntries(granted.map((letter) => [letter, true]));
        const client = withToken(accountSas(permissions, resourceTypes));
        if (!resourceTypes.includes("o")) {
          await assertRefused(run(client, partitionKey), denied(name, WRONG_RESOURCE));
        } else if (needed.every((letter) => granted.includes(letter))) {
          await run(client, partitionKey);
        } else {
          await assertRefused(run(client, partitionKey), denied(name, NO_PERMISSION));
        }
      }
    }
  });
}

// Name of the operation: the resource types and the permissions (one of each is required), and the call. This client
// has no name for the create permission, so the cases use the write permission to create tables.
const tableOperations = {
  list: ["c", ["list"], (service) => service.listTables().byPage({ maxPageSize: 1 }).next()],
  create: ["c", ["write"], (service, name) => service.createTable(name)],
  delete: ["c", ["delete"], (service, name) => service.deleteTable(name)],
};

for (const [name, [resources, needed, run]] of Object.entries(tableOperations)) {
  test(`an account SAS and tables: ${name}`, async (context) => {
    for (const resourceType of "sco") {
      for (const letter of ["query", "write", "delete", "list", "add", "update"]) {
        const newTable = uniqueName("sas");
        const service = serviceClient(new AzureSASCredential(accountSas({ [letter]: true }, resourceType)));
        context.after(() => serviceClient().deleteTable(newTable));
        if (!resources.includes(resourceType)) {
          await assertRefused(run(service, newTable), WRONG_RESOURCE);
        } else if (needed.includes(letter)) {
          await run(service, newTable);
        } else {
          await assertRefused(run(service, newTable), NO_PERMISSION);
        }
      }
    }
  });
}

test("a table SAS applies only to entities", async () => {
  const all = { query: true, add: true, update: true, delete: true };
  const token = new AzureSASCredential(generateTableSas(table.tableName, credential, { permissions: all, expiresOn: inHours(1) }));
  await assertRefused(serviceClient(token).createTable(uniqueName("sas")), NOT_AUTHORIZED);
  await assertRefused(serviceClient(token).deleteTable(table.tableName), NOT_AUTHORIZED);
  await assertRefused(collect(serviceClient(token).listTables()), NOT_AUTHORIZED);
  await assertRefused(withToken(token.signature).getAccessPolicy(), { status: 403 });
});

test("times, addresses and protocols", async () => {
  const permissions = { query: true };
  const list = (options) => collect(withTableSas({ permissions, ...options }).listEntities());
  await list({ startsOn: inHours(-1) });
  await assertRefused(list({ startsOn: inHours(0.5) }), REFUSED);
  await assertRefused(list({ expiresOn: inHours(-0.5) }), REFUSED);
  await list({ ipRange: { start: "0.0.0.0", end: "255.255.255.255" } });
  await assertRefused(list({ ipRange: { start: "203.0.113.4" } }), { status: 403, code: "AuthorizationSourceIPMismatch" });
  await list({ protocol: "https,http" });
  const isHttps = table.url.startsWith("https:");
  await (isHttps ? list({ protocol: "https" }) : assertRefused(list({ protocol: "https" }), { status: 403, code: "AuthorizationProtocolMismatch" }));
});

test("a key range restricts reading, writing and paging", async () => {
  const [before, inside, behind] = [newPartition(), newPartition(), newPartition()];
  for (const partitionKey of [before, inside, behind]) {
    for (const rowKey of ["1", "2", "3", "4"]) {
      await table.createEntity({ partitionKey, rowKey, A: 1 });
    }
  }
  const range = { startPartitionKey: inside, startRowKey: "2", endPartitionKey: inside, endRowKey: "3" };
  const client = withTableSas({ permissions: { query: true, add: true, update: true, delete: true }, ...range });
  assert.deepEqual(await rowKeysOf(client.listEntities()), ["2", "3"]);
  const paged = [];
  for await (const page of client.listEntities().byPage({ maxPageSize: 1 })) {
    paged.push(...page.map(({ rowKey }) => rowKey));
  }
  assert.deepEqual(paged, ["2", "3"]);
  // The continuation token comes from a query with full permissions. Starting there, the shared access signature of
  // this case returns only its own range.
  const { value: first } = await table.listEntities({ queryOptions: { filter: `PartitionKey ge '${before}'` } }).byPage({ maxPageSize: 1 }).next();
  const { value: next } = await client.listEntities().byPage({ maxPageSize: 1000, continuationToken: first.continuationToken }).next();
  assert.deepEqual(next.map(({ rowKey }) => rowKey), ["2", "3"]);
  assert.equal((await client.getEntity(inside, "3")).A, 1);
  for (const [partitionKey, rowKey] of [[inside, "1"], [inside, "4"], [before, "2"], [behind, "2"], [inside, "missing"]]) {
    await assertRefused(client.getEntity(partitionKey, rowKey), NOT_FOUND);
    await assertRefused(client.updateEntity({ partitionKey, rowKey, A: 2 }, "Merge"), NOT_AUTHORIZED);
    await assertRefused(client.upsertEntity({ partitionKey, rowKey, A: 2 }, "Replace"), NOT_AUTHORIZED);
    await assertRefused(client.deleteEntity(partitionKey, rowKey), NOT_AUTHORIZED);
    await assertRefused(client.createEntity({ partitionKey, rowKey }), NOT_AUTHORIZED);
  }
  const partly = [
    ["update", { partitionKey: inside, rowKey: "2", A: 2 }, "Merge"],
    ["update", { partitionKey: inside, rowKey: "4", A: 2 }, "Merge"],
  ];
  await assertRefused(client.submitTransaction(partly), { status: 403, code: "AuthorizationFailure" });
  assert.equal((await table.getEntity(inside, "2")).A, 1, "no part of the transaction may be applied");
  await client.submitTransaction(partly.slice(0, 1));
  assert.equal((await table.getEntity(inside, "2")).A, 2);
});

test("stored access policies grant, revoke and restore a token's permissions", async (context) => {
  context.after(() => table.setAccessPolicy([]));
  const client = withTableSas({ identifier: "readers", permissions: undefined });
  const list = () => collect(client.listEntities());
  const policy = (permission, hours = 1) => ({ id: "readers", accessPolicy: { start: inHours(-1), expiry: inHours(hours), permission } });
  await table.setAccessPolicy([]);
  await assertRefused(list(), REFUSED);
  await table.setAccessPolicy([{ id: "others" }, policy("r")].map((p) => ({ accessPolicy: {}, ...p })));
  await list();
  await assertRefused(client.createEntity({ partitionKey: newPartition(), rowKey: "r" }), NO_PERMISSION);
  await table.setAccessPolicy([policy("a")]);
  await assertRefused(list(), NO_PERMISSION);
  await client.createEntity({ partitionKey: newPartition(), rowKey: "r" });
  await table.setAccessPolicy([policy("r", -0.5)]);
  await assertRefused(list(), REFUSED);
  await table.setAccessPolicy([policy("r")]);
  await list();
  const [read] = await table.getAccessPolicy();
  assert.equal(read.id, "readers");
  assert.equal(read.accessPolicy.permission, "r");
  await table.setAccessPolicy([]);
  assert.deepEqual(await table.getAccessPolicy(), []);
  await assertRefused(list(), REFUSED);
});
