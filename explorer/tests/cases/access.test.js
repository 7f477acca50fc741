// Access: signatures created in the forms allow what their descriptions say, removing a policy revokes them, and
// service properties are saved and shown.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AzureSASCredential, TableClient, TableServiceClient } from "@azure/data-tables";
import { TableService } from "../../web/core/client.js";
import { KeyCredential } from "../../web/core/credential.js";
import { assertAccessible, assertNoSidewaysScroll } from "../support/accessibility.js";
import { keepNotices, openExplorer } from "../support/browser.js";
import { startServer } from "../support/server.js";

const HOSTILE_ID = `<img src=x onerror="alert(1)">&'é\u202E😀`;

let server;
before(async () => {
  server = await startServer();
});
after(() => server.stop());

const part = (page, name) => page.getByRole("region", { name, exact: true });

async function makeSignature(form) {
  await form.getByRole("button", { name: "Create signature" }).click();
  const result = part(form, "Signature");
  const words = await result.getByRole("status").textContent();
  return { words, token: await result.getByLabel("Token", { exact: true }).inputValue(), result };
}

function clientOf(token, table) {
  return new TableClient(server.endpoint, table, new AzureSASCredential(token), server.clientOptions);
}

async function keysOf(client) {
  const keys = [];
  for await (const { partitionKey, rowKey } of client.listEntities()) {
    keys.push(`${partitionKey}/${rowKey}`);
  }
  return keys;
}

test("a table signature allows what its description says, within its key range", async (t) => {
  await server.createTable(
    "Cars",
    ["a", "b", "c", "d"].map((partitionKey) => ({ partitionKey, rowKey: "1", size: 4 })),
  );
  const page = await openExplorer(t, server, { hash: "#/t/Cars/access" });
  const form = part(page, "Shared access signature");
  await form.getByRole("checkbox", { name: "Add" }).check();
  await form.getByLabel("From PartitionKey").fill("b");
  await form.getByLabel("To PartitionKey").fill("c");
  const { words, token, result } = await makeSignature(form);
  assert.match(
    words,
    /^Anyone who has this URL can read and add entities of the table Cars with PartitionKey from 'b' to 'c' until /,
  );
  assert.match(words, / It cannot be revoked before then except by changing the account key\.$/);

  const client = clientOf(token, "Cars");
  assert.deepEqual(await keysOf(client), ["b/1", "c/1"]);
  await client.createEntity({ partitionKey: "b", rowKey: "2" });
  await assert.rejects(client.createEntity({ partitionKey: "d", rowKey: "2" }), { statusCode: 403 });
  await assert.rejects(client.getEntity("a", "1"), { statusCode: 404 });
  await assert.rejects(client.deleteEntity("b", "1"), { statusCode: 403 });

  assert.equal(await result.getByLabel("URL", { exact: true }).inputValue(), `${server.endpoint}/Cars?${token}`);
  await result.getByRole("button", { name: "Copy Connection string" }).click();
  await page.getByText("Connection string was copied.").waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.deepEqual(await keysOf(TableClient.fromConnectionString(copied, "Cars", server.clientOptions)), ["b/1", "b/2", "c/1"]);

  // The result disappears when a field changes.
  await form.getByLabel("To PartitionKey").fill("d");
  await result.waitFor({ state: "detached" });
  await makeSignature(form);
  await form.getByRole("button", { name: "in 1 week" }).click();
  await result.waitFor({ state: "detached" });
});

test("a form shows what is wrong with invalid input", async (t) => {
  await server.createTable("Wrong");
  const page = await openExplorer(t, server, { hash: "#/t/Wrong/access" });
  const form = part(page, "Shared access signature");
  const problem = form.getByRole("alert");
  const make = () => form.getByRole("button", { name: "Create signature" }).click();
  await form.getByLabel("From RowKey").fill("1");
  await make();
  await problem.filter({ hasText: "Enter a PartitionKey, too: a RowKey limits the range only together with a PartitionKey." }).waitFor();
  await form.getByLabel("From RowKey").fill("");
  await form.getByLabel("IP addresses").fill("anywhere");
  await make();
  await problem.filter({ hasText: "Enter an address such as 10.0.0.1" }).waitFor();
  await form.getByRole("checkbox", { name: "Read" }).uncheck();
  await make();
  await problem.filter({ hasText: "Choose at least one permission." }).waitFor();
  assert.equal(await part(page, "Signature").count(), 0);
});

test("stored access policies with hostile IDs are saved, used by a signature, and revoke it when removed", async (t) => {
  const table = await server.createTable("Policies", [{ partitionKey: "a", rowKey: "1" }]);
  const page = await openExplorer(t, server, { hash: "#/t/Policies/access", prepare: keepNotices });
  const policies = part(page, "Stored access policies");
  await policies.getByText("The table has no stored access policies.").waitFor();
  await policies.getByRole("button", { name: "Add policy" }).click();
  await policies.getByLabel("ID", { exact: true }).fill(HOSTILE_ID);
  await policies.getByRole("checkbox", { name: "Delete" }).check();
  await policies.getByRole("button", { name: "in 1 day" }).click();
  await policies.getByRole("button", { name: "Save policies" }).click();
  await page.getByText("The policies of Policies were saved.").waitFor();
  const [saved] = await table.getAccessPolicy();
  assert.deepEqual([saved.id, saved.accessPolicy.permission], [HOSTILE_ID, "rd"]);
  const hours = (saved.accessPolicy.expiry - Date.now()) / 3_600_000;
  assert.ok(hours > 23.9 && hours <= 24, `${hours}`);

  const form = part(page, "Shared access signature");
  await form.getByLabel("Stored access policy").selectOption(HOSTILE_ID);
  await form.getByText("The policy specifies permissions, expiry.").waitFor();
  assert.equal(await form.getByRole("group", { name: "Permissions" }).count(), 0);
  assert.equal(await form.getByLabel("Expiry (UTC)").isVisible(), false);
  const { words, token } = await makeSignature(form);
  assert.ok(words.includes("can read and delete entities of the table Policies until "), words);
  assert.ok(words.endsWith(`by removing the stored access policy '${HOSTILE_ID}', or by changing the account key.`), words);
  const client = clientOf(token, "Policies");
  assert.deepEqual(await keysOf(client), ["a/1"]);

  await policies.getByRole("button", { name: "Remove" }).click();
  await policies.getByRole("button", { name: "Save policies" }).click();
  await page.getByText("The policies of Policies were saved.").nth(1).waitFor();
  await policies.getByText("The table has no stored access policies.").waitFor();
  await assert.rejects(keysOf(client), { statusCode: 403 });
});

test("policies can be edited only after they were loaded, and are loaded when the server is reachable again", async (t) => {
  const table = await server.createTable("Slow");
  await table.setAccessPolicy([{ id: "kept", accessPolicy: { permission: "r" } }]);
  const page = await openExplorer(t, server, { unreachable: true });
  let ask, release;
  const asked = new Promise((resolve) => (ask = resolve));
  const released = new Promise((resolve) => (release = resolve));
  await page.route(/comp=acl/, async (route) => {
    ask();
    await released;
    await route.abort();
  });
  await page.goto(`${server.origin}/_rowhouse/#/t/Slow/access`);
  const policies = part(page, "Stored access policies");
  await policies.getByText("Loading…").waitFor();
  const buttons = policies.getByRole("button", { name: /policy|policies/ });
  await asked;
  assert.equal(await buttons.count(), 0);
  release();
  await policies.getByText("The server cannot be reached.").first().waitFor();
  assert.equal(await buttons.count(), 0);
  await page.unroute(/comp=acl/);
  await policies.getByLabel("ID", { exact: true }).waitFor();
  assert.equal(await buttons.count(), 2);
  await policies.getByRole("button", { name: "Save policies" }).click();
  await page.getByText("The policies of Slow were saved.").waitFor();
  assert.deepEqual(
    (await table.getAccessPolicy()).map(({ id }) => id),
    ["kept"],
  );
});

test("the policy selected for a signature stays selected until it is removed", async (t) => {
  const table = await server.createTable("Chosen");
  await table.setAccessPolicy(["readers", "writers", "admins"].map((id) => ({ id, accessPolicy: { permission: "r" } })));
  const page = await openExplorer(t, server, { hash: "#/t/Chosen/access" });
  const policies = part(page, "Stored access policies");
  const form = part(page, "Shared access signature");
  const chosen = form.getByLabel("Stored access policy");
  await chosen.selectOption("writers");
  const remove = async (id) => {
    await policies.getByRole("group", { name: id }).getByRole("button", { name: "Remove" }).click();
    await policies.getByRole("button", { name: "Save policies" }).click();
    await chosen.getByRole("option", { name: id }).waitFor({ state: "detached" });
  };
  await remove("readers");
  assert.equal(await chosen.locator("option:checked").textContent(), "writers");
  await remove("writers");
  assert.equal(await chosen.locator("option:checked").textContent(), "none");
  await form.getByText("The stored access policy 'writers' was removed. No policy is selected now.").waitFor();
});

test("policies of other clients are saved unchanged, their number is limited to five, and errors are shown", async (t) => {
  const table = await server.createTable("Five");
  // Only this client shows all digits of a time.
  const service = new TableService(server.account, server.endpoint, await KeyCredential.of(server.account, server.key));
  const ids = ["one", "two", "three", "four"];
  const others = ids.map((id) => ({ id, start: "2031-04-01T06:30:00.1234567Z", expiry: "", permissions: "ra" }));
  await service.setPolicies("Five", others);
  const page = await openExplorer(t, server, { hash: "#/t/Five/access", statuses: [404] });
  const policies = part(page, "Stored access policies");
  await policies.getByLabel("ID", { exact: true }).nth(3).waitFor();
  const add = policies.getByRole("button", { name: "Add policy" });
  await add.click();
  assert.equal(await add.isDisabled(), true);
  await policies.getByRole("button", { name: "Save policies" }).click();
  await policies.getByText("Each policy needs a unique ID.").waitFor();
  await policies.getByLabel("ID", { exact: true }).nth(4).fill("five");
  await policies.getByRole("button", { name: "Save policies" }).click();
  await page.getByText("The policies of Five were saved.").waitFor();
  assert.deepEqual(await service.getPolicies("Five"), [...others, { id: "five", start: "", expiry: "", permissions: "r" }]);

  await table.deleteTable();
  await policies.getByRole("button", { name: "Save policies" }).click();
  await policies.getByText(/\(TableNotFound, 404\)/).waitFor();
});

test("an account signature allows what its description says", async (t) => {
  await server.createTable("Listed");
  const page = await openExplorer(t, server, { hash: "#/account" });
  const form = part(page, "Shared access signature");
  await form.getByRole("checkbox", { name: /^Object/ }).uncheck();
  await form.getByRole("checkbox", { name: /^Container/ }).check();
  const nothing = await makeSignature(form);
  assert.equal(nothing.words, "This signature allows nothing: no permission applies to any of the resource types.");
  await form.getByRole("checkbox", { name: "List", exact: true }).check();
  await form.getByRole("checkbox", { name: "Create", exact: true }).check();
  const { words, token } = await makeSignature(form);
  await form.getByRole("button", { name: "in 1 day" }).click();
  await part(form, "Signature").waitFor({ state: "detached" });
  assert.match(words, /^Anyone who has this URL can list tables and create tables in the account devstoreaccount1 until /);
  const service = new TableServiceClient(server.endpoint, new AzureSASCredential(token), server.clientOptions);
  await service.createTable("Made");
  const names = [];
  for await (const { name } of service.listTables()) {
    names.push(name);
  }
  assert.ok(names.includes("Listed") && names.includes("Made"), names.join());
  await assert.rejects(service.deleteTable("Made"), { statusCode: 403 });
  await assert.rejects(service.getProperties(), { statusCode: 403 });
});

test("other clients see saved CORS rules and metrics settings, and their rules are shown", async (t) => {
  const page = await openExplorer(t, server, { hash: "#/account", statuses: [400] });
  const properties = part(page, "Service properties");
  const save = properties.getByRole("button", { name: "Save properties" });
  const saved = page.getByText("The service properties were saved.");
  await properties.getByText("There are no rules").waitFor();
  await properties.getByRole("button", { name: "Add rule" }).click();
  await save.click();
  await properties.getByText(/\(InvalidXml\w+, 400\)/).waitFor();
  await properties.getByLabel("Allowed origins").fill("https://a.example,https://*.b.example");
  await properties.getByLabel("Allowed methods").fill("get,put");
  await properties.getByLabel("Allowed headers").fill("content-type,x-ms-*");
  await properties.getByLabel("Exposed headers").fill("");
  await properties.getByLabel("Maximum age in seconds").fill("60");
  const minutes = properties.getByRole("group", { name: "Metrics per minute" });
  await minutes.getByRole("checkbox", { name: "Record metrics" }).check();
  await minutes.getByRole("checkbox", { name: "Delete after a number of days" }).check();
  await minutes.getByLabel("Days", { exact: true }).fill("3");
  await save.click();
  await saved.waitFor();

  const read = await server.service.getProperties();
  assert.deepEqual(
    read.cors.map((rule) => ({ ...rule })),
    [
      {
        allowedOrigins: "https://a.example,https://*.b.example",
        allowedMethods: "GET,PUT",
        allowedHeaders: "content-type,x-ms-*",
        exposedHeaders: "",
        maxAgeInSeconds: 60,
      },
    ],
  );
  assert.deepEqual([read.minuteMetrics.enabled, read.minuteMetrics.retentionPolicy.days], [true, 3]);

  await server.service.setProperties({ cors: [{ ...read.cors[0], allowedOrigins: "*", exposedHeaders: "etag" }] });
  await page.reload();
  await properties.getByLabel("Exposed headers").waitFor();
  assert.equal(await properties.getByLabel("Allowed origins").inputValue(), "*");
  assert.equal(await minutes.getByRole("checkbox", { name: "Record metrics" }).isChecked(), true);
  await properties.getByRole("button", { name: "Remove" }).click();
  await save.click();
  await saved.waitFor();
  assert.deepEqual((await server.service.getProperties()).cors ?? [], []);
});

test("the replication status is shown, and a note if the server does not record metrics", async (t) => {
  const page = await openExplorer(t, server, { hash: "#/account", statuses: [404] });
  const replication = part(page, "Replication");
  await replication.getByRole("button", { name: "Show replication status" }).click();
  await replication.getByText("live").waitFor();
  const requests = part(page, "Requests in the last 24 hours");
  await requests.getByRole("button", { name: "Show requests" }).click();
  await requests.getByText("start it with --analytics.").waitFor();
  await page.route(/Metrics/, (route) => route.fulfill({ contentType: "application/json", body: '{"value":[]}' }));
  await requests.getByRole("button", { name: "Refresh" }).click();
  await requests.getByText("The metrics of an hour are written after the hour ends.").waitFor();
});

test("properties that could not be loaded are loaded when the server is reachable again", async (t) => {
  const page = await openExplorer(t, server, { unreachable: true });
  await page.route(/comp=properties/, (route) => route.abort());
  await page.goto(`${server.origin}/_rowhouse/#/account`);
  const properties = part(page, "Service properties");
  await properties.getByText("The server cannot be reached.").waitFor();
  await page.unroute(/comp=properties/);
  await properties.getByRole("button", { name: "Add rule" }).waitFor();
});

test("requests are shown by operation if the server records metrics", async (t) => {
  const counting = await startServer({ onDisk: true, options: ["--analytics"] });
  t.after(() => counting.stop());
  const table = await counting.createTable(
    "Counted",
    ["1", "2", "3"].map((rowKey) => ({ partitionKey: "p", rowKey })),
  );
  await assert.rejects(table.getEntity("p", "4"));
  // The server also writes the metrics of the current hour when it stops.
  await counting.pause();
  await counting.start();
  const page = await openExplorer(t, counting, { hash: "#/account" });
  const requests = part(page, "Requests in the last 24 hours");
  await requests.getByRole("button", { name: "Show requests" }).click();
  const row = (name) => requests.getByRole("row").filter({ has: page.getByRole("rowheader", { name, exact: true }) });
  assert.deepEqual((await row("InsertEntity").getByRole("cell").allTextContents()).slice(0, 2), ["3", "0"]);
  assert.deepEqual((await row("QueryEntity").getByRole("cell").allTextContents()).slice(0, 2), ["1", "1"]);
  assert.deepEqual((await row("All").getByRole("cell").allTextContents()).slice(0, 2), ["5", "1"]);
});

test("without an account key, signatures and policies are not offered, and properties cannot be changed", async (t) => {
  const other = await startServer({ ownAccount: true });
  t.after(() => other.stop());
  await other.createTable("Cars");
  const page = await openExplorer(t, other);
  const signIn = { kind: "sas", account: other.account, secret: other.accountSas(["query", "list"]) };
  await page.evaluate((signIn) => sessionStorage.setItem("rowhouse-sign-in", JSON.stringify(signIn)), signIn);
  await page.goto(`${other.origin}/_rowhouse/#/t/Cars/access`);
  await page.reload();
  await part(page, "Shared access signature").getByText("Creating signatures requires the account key").waitFor();
  await part(page, "Stored access policies").getByText("requires the account key").waitFor();
  assert.equal(await page.getByRole("button", { name: /Create signature|Save/ }).count(), 0);
  await page.goto(`${other.origin}/_rowhouse/#/account`);
  const add = part(page, "Service properties").getByRole("button", { name: "Add rule" });
  await add.waitFor();
  assert.equal(await add.isDisabled(), true);
  assert.equal(await page.getByRole("button", { name: "Save properties" }).count(), 0);
});

test("the forms are accessible in both themes and on narrow screens", async (t) => {
  const table = await server.createTable("Narrow");
  await table.setAccessPolicy([{ id: "x".repeat(64), accessPolicy: { permission: "r" } }]);
  await server.service.setProperties({
    cors: [{ allowedOrigins: "*", allowedMethods: "GET", allowedHeaders: "", exposedHeaders: "", maxAgeInSeconds: 1 }],
  });
  for (const [colorScheme, width] of [
    ["light", 360],
    ["dark", 1200],
  ]) {
    const page = await openExplorer(t, server, {
      hash: "#/t/Narrow/access",
      context: { colorScheme, viewport: { width, height: 800 } },
    });
    const what = `${colorScheme}, ${width} px`;
    const show = async (view) => {
      await part(page, "Shared access signature").getByRole("button", { name: "Create signature" }).click();
      await part(page, "Signature").waitFor();
      await assertAccessible(page, `${view}, ${what}`);
      await assertNoSidewaysScroll(page, `${view}, ${what}`);
    };
    await part(page, "Stored access policies").getByLabel("ID", { exact: true }).waitFor();
    await show("access to a table");
    await page.goto(`${server.origin}/_rowhouse/#/account`);
    await part(page, "Service properties").getByLabel("Allowed origins").waitFor();
    await show("the account");
  }
});

test("forms can be filled in and submitted with only the keyboard", async (t) => {
  await server.createTable("Keys");
  const page = await openExplorer(t, server, { hash: "#/t/Keys/access" });
  const form = part(page, "Shared access signature");
  await form.getByRole("checkbox", { name: "Read" }).focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Space");
  await form.getByLabel("From PartitionKey").focus();
  await page.keyboard.type("a");
  await page.keyboard.press("Enter");
  const words = await part(form, "Signature").getByRole("status").textContent();
  assert.match(words, /can read and add entities of the table Keys with PartitionKey from 'a' on until/);
});
