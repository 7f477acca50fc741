// Credentials: Shared Key Lite signatures of this client, connection strings, and refused signatures.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { AzureNamedKeyCredential, TableClient, TableServiceClient, generateAccountSas } from "@azure/data-tables";
import { NOT_FOUND, assertRefused, collect, rawAnswer } from "../support/answers.js";
import {
  ACCOUNT, ENDPOINT, KEY, clientOptions, credential, newPartition, serviceClient, tableClient, tableForFile, uniqueName,
} from "../support/target.js";

const table = tableForFile("credentials");
const protocol = new URL(ENDPOINT).protocol.slice(0, -1);

const REFUSED = {
  status: 403,
  code: "AuthenticationFailed",
  message:
    "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly " +
    "including the signature.",
};

async function writeAndRead(client) {
  const partitionKey = newPartition();
  await client.createEntity({ partitionKey, rowKey: "it's 100% é", A: 1 });
  assert.equal((await client.getEntity(partitionKey, "it's 100% é")).A, 1);
  const result = await client.submitTransaction([
    ["update", { partitionKey, rowKey: "it's 100% é", A: 2 }, "Merge"],
    ["create", { partitionKey, rowKey: "b" }],
  ]);
  assert.deepEqual(result.subResponses.map(({ status }) => status), [204, 204]);
}

test("a named key signs with Shared Key Lite", async () => {
  const { request } = await rawAnswer((options) => table.createEntity({ partitionKey: newPartition(), rowKey: "r" }, options));
  assert.ok(request.headers.get("authorization").startsWith(`SharedKeyLite ${ACCOUNT}:`));
  assert.ok(request.headers.get("x-ms-date"));
  await writeAndRead(table);
});

test("the signature covers the comp parameter", async () => {
  assert.ok(Array.isArray(await table.getAccessPolicy()));
});

// The service must accept every version that clients sent in recent years.
for (const version of ["2013-08-15", "2014-02-14", "2015-12-11", "2017-07-29", "2019-02-02", "2020-12-06", "2022-11-02", "2024-11-04"]) {
  test(`requests at version ${version}`, async () => {
    await writeAndRead(tableClient(table.tableName, credential, { version }));
  });
}

const wrongKey = new AzureNamedKeyCredential(ACCOUNT, randomBytes(64).toString("base64"));
const wrongAccount = new AzureNamedKeyCredential("otheraccount", KEY);

for (const [name, wrong] of [["a wrong key", wrongKey], ["the name of another account", wrongAccount]]) {
  test(`${name} is refused by every operation`, async () => {
    const key = { partitionKey: newPartition(), rowKey: "r" };
    const client = tableClient(table.tableName, wrong);
    const operations = [
      () => client.createEntity(key),
      () => client.getEntity(key.partitionKey, key.rowKey),
      () => client.updateEntity(key, "Merge"),
      () => client.upsertEntity(key, "Replace"),
      () => client.deleteEntity(key.partitionKey, key.rowKey),
      () => collect(client.listEntities()),
      () => client.submitTransaction([["create", key]]),
      () => client.deleteTable(),
      () => collect(serviceClient(wrong).listTables()),
      () => serviceClient(wrong).createTable(uniqueName("refused")),
    ];
    for (const operation of operations) {
      await assertRefused(operation(), REFUSED);
    }
    await assertRefused(table.getEntity(key.partitionKey, key.rowKey), NOT_FOUND);
  });
}

test("a failed signature is reported before a missing entity or a bad filter", async () => {
  const client = tableClient(table.tableName, wrongKey);
  await assertRefused(collect(client.listEntities({ queryOptions: { filter: "no filter at all" } })), REFUSED);
  await assertRefused(collect(client.listEntities().byPage({ maxPageSize: 5000 })), REFUSED);
});

const shared = `DefaultEndpointsProtocol=${protocol};AccountName=${ACCOUNT};AccountKey=${KEY}`;
const elsewhere = `http://127.0.0.1:9/${ACCOUNT}`;

const connectionStrings = {
  "with the endpoint last": `${shared};TableEndpoint=${ENDPOINT};`,
  "with a slash after the endpoint": `${shared};TableEndpoint=${ENDPOINT}/`,
  "with the endpoint first": `TableEndpoint=${ENDPOINT};AccountKey=${KEY};AccountName=${ACCOUNT};DefaultEndpointsProtocol=${protocol}`,
  "with endpoints of other services": `${shared};BlobEndpoint=${elsewhere};QueueEndpoint=${elsewhere};TableEndpoint=${ENDPOINT};`,
  "in other letter case": `defaultendpointsprotocol=${protocol};accountname=${ACCOUNT};accountkey=${KEY};tableendpoint=${ENDPOINT}`,
};

for (const [name, text] of Object.entries(connectionStrings)) {
  test(`a connection string ${name}`, async () => {
    const service = TableServiceClient.fromConnectionString(text, clientOptions());
    const filter = `TableName eq '${table.tableName}'`;
    assert.deepEqual((await collect(service.listTables({ queryOptions: { filter } }))).length, 1);
    await writeAndRead(TableClient.fromConnectionString(text, table.tableName, clientOptions()));
  });
}

test("a connection string with a shared access signature", async () => {
  const signature = generateAccountSas(credential, {
    permissions: { query: true, add: true, update: true, delete: true, list: true },
    resourceTypes: "sco",
  });
  const text = `TableEndpoint=${ENDPOINT};SharedAccessSignature=${signature}`;
  const client = TableClient.fromConnectionString(text, table.tableName, clientOptions());
  await writeAndRead(client);
});

const isDevelopmentServer = ENDPOINT === "http://127.0.0.1:10002/devstoreaccount1";

test("UseDevelopmentStorage=true", { skip: !isDevelopmentServer && "The server under test is not the development server." }, async () => {
  await writeAndRead(TableClient.fromConnectionString("UseDevelopmentStorage=true", table.tableName, clientOptions()));
});
