// Credentials with few or expired permissions, and a server that becomes unreachable.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openExplorer } from "../support/browser.js";
import { openWithSas, signIn } from "../support/pages.js";
import { startServer } from "../support/server.js";

const HOUR_MS = 60 * 60 * 1000;

async function serverWith(test, settings = {}) {
  const server = await startServer({ ownAccount: true, ...settings });
  test.after(() => server.stop());
  await server.createTable("harvest", [
    { partitionKey: "apple", rowKey: "1", weight: 120 },
    { partitionKey: "apple", rowKey: "2", weight: 95 },
    { partitionKey: "pear", rowKey: "1", weight: 80 },
  ]);
  return server;
}

const button = (page, name) => page.getByRole("button", { name, exact: true });
const refused = (page) => page.getByRole("alert").filter({ hasText: "The server refused the credential" });

test("signing in with an expired signature shows that it has expired", async (test) => {
  const server = await serverWith(test);
  const past = { startsOn: new Date(Date.now() - 2 * HOUR_MS), expiresOn: new Date(Date.now() - HOUR_MS) };
  const sas = server.accountSas(["query", "list"], past);
  const page = await openWithSas(test, server, sas, { statuses: [403] });
  await page
    .getByRole("alert")
    .filter({ hasText: /expired/i })
    .waitFor();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

test("a read-only signature offers no action that changes tables", async (test) => {
  const server = await serverWith(test);
  const page = await openWithSas(test, server, server.accountSas(["query", "list"]));
  await page.getByRole("link", { name: "harvest", exact: true }).waitFor();
  await button(page, "Count the entities of harvest").waitFor();
  for (const name of ["Create table", "Delete harvest"]) {
    assert.equal(await button(page, name).count(), 0, name);
  }
  for (const name of ["Access to harvest"]) {
    assert.equal(await page.getByRole("link", { name }).count(), 0, name);
  }
});

test("the page waits for an unreachable server, and lists tables again afterwards", async (test) => {
  const server = await serverWith(test, { onDisk: true });
  const page = await openExplorer(test, server, { unreachable: true });
  await signIn(page, { kind: "Account and key", account: server.account, secret: server.key });
  await page.getByRole("link", { name: "harvest", exact: true }).waitFor();
  await server.pause();
  await button(page, "Refresh").click();
  const banner = page.getByRole("alert").filter({ hasText: "The server cannot be reached. Retrying…" });
  await banner.waitFor();
  await page.getByRole("link", { name: "harvest", exact: true }).waitFor();
  await server.start();
  await server.createTable("orders");
  await banner.waitFor({ state: "hidden" });
  await button(page, "Refresh").click();
  await page.getByRole("link", { name: "orders", exact: true }).waitFor();
});

const ENTITIES = "#/t/harvest";
const grid = (page) => page.getByRole("grid", { name: "Entities of harvest" });
const cells = (page, text) => grid(page).getByRole("gridcell", { name: text, exact: true });

// The permission that each action in the view of a table requires.
const OFFERS = {
  Add: "add",
  Duplicate: "add",
  Import: "add",
  Edit: "update",
  "Edit property": "update",
  Delete: "delete",
};

test("actions that a signature does not allow are not offered", async (test) => {
  const server = await serverWith(test);
  for (const permissions of [["query"], ["query", "add"], ["query", "update"], ["query", "delete"]]) {
    const page = await openWithSas(test, server, server.tableSas("harvest", permissions), { hash: ENTITIES });
    await cells(page, "pear").waitFor();
    for (const [name, permission] of Object.entries(OFFERS)) {
      assert.equal(await button(page, name).count(), permissions.includes(permission) ? 1 : 0, `${name} with ${permissions}`);
    }
    assert.equal(await page.getByRole("link", { name: "Access" }).count(), 0, `Access with ${permissions}`);
    assert.equal(await page.getByRole("link", { name: "Account" }).count(), 0, `Account with ${permissions}`);
    for (const name of ["Columns", "Export", "Run", "Refresh"]) {
      await button(page, name).waitFor();
    }
    await page.close();
  }
});

test("with a read-only signature, an entity is shown but cannot be edited", async (test) => {
  const server = await serverWith(test);
  const page = await openWithSas(test, server, server.tableSas("harvest", ["query"]), { hash: ENTITIES });
  await cells(page, "pear").dblclick();
  const dialog = page.getByRole("dialog");
  const weight = dialog.getByLabel("Value of weight", { exact: true });
  assert.equal(await weight.inputValue(), "80");
  assert.equal(await weight.isEditable(), false);
  for (const name of ["Save", "Add property", "Remove weight"]) {
    assert.equal(await button(dialog, name).count(), 0, name);
  }
  await button(dialog, "Close").click();
  await dialog.waitFor({ state: "detached" });
  await page.keyboard.press("Delete");
  assert.equal(await dialog.count(), 0, "the Delete key opens no dialog");
  await dispatchFile(page);
  assert.equal(await dialog.count(), 0, "a dropped file is ignored");
});

function dispatchFile(page) {
  return page.evaluate(() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["PartitionKey,RowKey\r\na,b\r\n"], "file.csv", { type: "text/csv" }));
    for (const type of ["dragover", "drop"]) {
      document
        .querySelector("main")
        .firstElementChild.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
    }
  });
}

test("opening another table with a signature for one table shows an error", async (test) => {
  const server = await serverWith(test);
  await server.createTable("orders");
  const page = await openWithSas(test, server, server.tableSas("harvest"), { statuses: [403], hash: ENTITIES });
  await cells(page, "pear").waitFor();
  await page.goto(`${server.origin}/_rowhouse/#/t/orders`);
  await page
    .getByText(/AuthenticationFailed|AuthorizationFailure|AuthorizationPermissionMismatch/)
    .first()
    .waitFor();
  assert.equal(await button(page, "Add").count(), 0);
});

test("a signature for a key range shows only that range", async (test) => {
  const server = await serverWith(test);
  const range = { startPartitionKey: "apple", startRowKey: "2", endPartitionKey: "apple", endRowKey: "9" };
  const page = await openWithSas(test, server, server.tableSas("harvest", ["query", "add", "update"], range), {
    hash: ENTITIES,
    statuses: [403],
  });
  await cells(page, "95").waitFor();
  await page.getByText("1 entity").first().waitFor();
  assert.equal(await cells(page, "120").count(), 0);
  await button(page, "Add").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("PartitionKey").fill("pear");
  await dialog.getByLabel("RowKey").fill("2");
  await button(dialog, "Add").click();
  await dialog
    .getByRole("alert")
    .filter({ hasText: /Authorization/ })
    .waitFor();
  await dialog.getByLabel("PartitionKey").fill("apple");
  await dialog.getByLabel("RowKey").fill("3");
  await button(dialog, "Add").click();
  await dialog.waitFor({ state: "detached" });
  await server.table("harvest").getEntity("apple", "3");
});

async function renew(page, secret) {
  const form = page.getByRole("dialog", { name: "Sign in again" });
  await form.getByLabel("Sign in with").selectOption("Shared access signature");
  await form.getByLabel("Signature", { exact: true }).fill(secret);
  await button(form, "Sign in").click();
  await form.waitFor({ state: "detached" });
}

test("when a signature expires, the user continues with a new one in the same place", async (test) => {
  const server = await serverWith(test);
  const table = server.table("harvest");
  // The times come from a policy, so that the test can move them into the past.
  const expire = (expiry) => {
    const accessPolicy = { start: new Date(Date.now() - 2 * HOUR_MS), expiry, permission: "raud" };
    return table.setAccessPolicy([{ id: "visit", accessPolicy }]);
  };
  const inAnHour = new Date(Date.now() + HOUR_MS);
  await expire(inAnHour);
  const sas = server.tableSas("harvest", [], { identifier: "visit", permissions: undefined, expiresOn: undefined });
  const hash = `${ENTITIES}?filter=${encodeURIComponent("PartitionKey eq 'apple'")}`;
  const page = await openWithSas(test, server, sas, { hash, statuses: [403] });
  await cells(page, "120").click();
  await page.keyboard.press("Enter");
  const editor = page.getByRole("dialog", { name: /^Entity/ });
  const weight = editor.getByLabel("Value of weight", { exact: true });
  await weight.fill("121");

  await expire(new Date(Date.now() - HOUR_MS));
  await button(editor, "Save").click();
  await editor.getByRole("alert").filter({ hasText: "AuthenticationFailed" }).first().waitFor();
  await button(editor, "Sign in again").click();
  await renew(page, server.tableSas("harvest"));
  assert.equal(await weight.inputValue(), "121", "the user's input is kept");
  await button(editor, "Save").click();
  await editor.waitFor({ state: "detached" });
  await refused(page).first().waitFor({ state: "hidden" });
  assert.equal((await table.getEntity("apple", "1")).weight, 121);
  assert.equal(new URL(page.url()).hash, hash);
  await cells(page, "121").waitFor();
});

test("a query that fails because the signature has expired is run again with a new one", async (test) => {
  const server = await serverWith(test);
  const table = server.table("harvest");
  await table.setAccessPolicy([
    { id: "visit", accessPolicy: { start: new Date(0), expiry: new Date(Date.now() + HOUR_MS), permission: "r" } },
  ]);
  const sas = server.tableSas("harvest", [], { identifier: "visit", permissions: undefined, expiresOn: undefined });
  const page = await openWithSas(test, server, sas, { hash: ENTITIES, statuses: [403] });
  await cells(page, "120").waitFor();
  await table.setAccessPolicy([]);
  await button(page, "Refresh").click();
  await refused(page).waitFor();
  await button(page, "Sign in again").click();
  await renew(page, server.tableSas("harvest", ["query"]));
  await cells(page, "120").waitFor();
  await refused(page).waitFor({ state: "hidden" });
  assert.equal(new URL(page.url()).hash, ENTITIES);
});

test("while the server is unreachable, no input is lost, and saving works afterwards", async (test) => {
  const server = await serverWith(test, { onDisk: true });
  const page = await openExplorer(test, server, { hash: ENTITIES, unreachable: true });
  await signIn(page, { kind: "Account and key", account: server.account, secret: server.key });
  await cells(page, "pear").dblclick();
  const dialog = page.getByRole("dialog");
  const weight = dialog.getByLabel("Value of weight", { exact: true });
  await weight.fill("81");
  await server.pause();
  await button(dialog, "Save").click();
  await dialog.getByRole("alert").filter({ hasText: "The server cannot be reached." }).waitFor();
  assert.equal(await weight.inputValue(), "81");
  await server.start();
  await page.locator(".banner").waitFor({ state: "hidden" });
  assert.equal(await weight.inputValue(), "81");
  await button(dialog, "Save").click();
  await dialog.waitFor({ state: "detached" });
  await cells(page, "81").waitFor();
  assert.equal((await server.table("harvest").getEntity("pear", "1")).weight, 81);
});

test("a page of entities that could not be loaded is loaded when the server is reachable again", async (test) => {
  const server = await serverWith(test, { onDisk: true });
  const page = await openExplorer(test, server, { hash: ENTITIES, unreachable: true });
  await signIn(page, { kind: "Account and key", account: server.account, secret: server.key });
  await cells(page, "pear").waitFor();
  await server.pause();
  await button(page, "Refresh").click();
  await page.getByRole("alert").filter({ hasText: "The server cannot be reached. Retrying…" }).waitFor();
  await button(page, "Try again").waitFor();
  await server.start();
  await cells(page, "pear").waitFor();
  await page.locator(".banner").waitFor({ state: "hidden" });
});
