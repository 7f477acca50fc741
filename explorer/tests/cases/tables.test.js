// The view of tables: search, count, create and delete.

import assert from "node:assert/strict";
import { test } from "node:test";
import { focusedName } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { startServer } from "../support/server.js";

async function serverWith(test, names = []) {
  const server = await startServer();
  test.after(() => server.stop());
  for (const name of names) {
    await server.createTable(name);
  }
  return server;
}

const list = (page) => page.getByRole("list", { name: "Tables" });
const links = (page) => list(page).getByRole("listitem").locator("a:first-child");
const status = (page, text) => page.getByRole("main").getByRole("status").filter({ hasText: text }).waitFor();

async function tablesOf(server) {
  const names = [];
  for await (const { name } of server.service.listTables()) {
    names.push(name);
  }
  return names;
}

// Presses Tab until the role and name of the focused element begin with the given text.
async function tabTo(page, name) {
  for (let presses = 0; presses < 40; presses += 1) {
    await page.keyboard.press("Tab");
    if ((await focusedName(page)).startsWith(name)) {
      return;
    }
  }
  assert.fail(`Tab never reaches ${name}`);
}

test("an empty account shows that it has no tables", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server);
  await status(page, "There are no tables yet.");
});

test("tables can be found by part of their names", async (test) => {
  const server = await serverWith(test, ["apples", "applesauce", "pears"]);
  const page = await openExplorer(test, server);
  await status(page, "3 tables");
  assert.deepEqual(await links(page).allTextContents(), ["apples", "applesauce", "pears"]);
  await page.getByLabel("Search tables").fill("SAUCE");
  await status(page, "1 of 3 tables");
  assert.deepEqual(await links(page).allTextContents(), ["applesauce"]);
  await page.getByLabel("Search tables").fill("plums");
  await status(page, "0 of 3 tables");
  await page.getByLabel("Search tables").fill("");
  await status(page, "3 tables");
});

test("thousands of tables are listed page by page", async (test) => {
  const server = await serverWith(test);
  const names = Array.from({ length: 2500 }, (_, number) => `t${String(number).padStart(4, "0")}`);
  for (let start = 0; start < names.length; start += 100) {
    await Promise.all(names.slice(start, start + 100).map((name) => server.table(name).createTable()));
  }
  const page = await openExplorer(test, server);
  const pages = [];
  page.on("request", (request) => {
    if (request.url().includes("/Tables")) {
      pages.push(new URL(request.url()).searchParams.get("NextTableName"));
    }
  });
  await page.reload();
  await page.getByText("2,500 tables", { exact: true }).waitFor();
  assert.equal(new Set(pages).size, 3, `pages: ${pages}`);
  assert.deepEqual(await links(page).allTextContents(), names.slice(0, 500));
  await page.getByRole("button", { name: "Show all 2,500" }).click();
  assert.deepEqual(await links(page).allTextContents(), names);
  await page.getByLabel("Search tables").fill("t24");
  await status(page, "100 of 2,500 tables");
  assert.equal(await links(page).count(), 100);
});

test("a table is created", async (test) => {
  const server = await serverWith(test, ["apples"]);
  const page = await openExplorer(test, server);
  await page.getByRole("button", { name: "Create table" }).click();
  const dialog = page.getByRole("dialog", { name: "Create table" });
  await dialog.getByLabel("Name").fill("pears");
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByText("The table pears was created.").waitFor();
  await status(page, "2 tables");
  assert.deepEqual(await tablesOf(server), ["apples", "pears"]);
  await list(page).getByRole("link", { name: "pears", exact: true }).click();
  await page.waitForURL("**/#/t/pears");
});

test("an invalid table name is reported with the service's message", async (test) => {
  const server = await serverWith(test, ["apples"]);
  const page = await openExplorer(test, server, { statuses: [400, 409] });
  await page.getByRole("button", { name: "Create table" }).click();
  const dialog = page.getByRole("dialog", { name: "Create table" });
  const refused = { a: "OutOfRangeInput", "two words": "InvalidResourceName", "1st": "InvalidResourceName", tables: "400", APPLES: "TableAlreadyExists" };
  for (const [name, code] of Object.entries(refused)) {
    await dialog.getByLabel("Name").fill(name);
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.getByRole("alert").filter({ hasText: code }).waitFor();
  }
  assert.deepEqual(await tablesOf(server), ["apples"]);
  await dialog.getByLabel("Name").fill("pears");
  await dialog.getByLabel("Name").press("Enter");
  await dialog.waitFor({ state: "detached" });
  await status(page, "2 tables");
});

test("a table is deleted only after its name was typed", async (test) => {
  const server = await serverWith(test, ["apples", "pears"]);
  const page = await openExplorer(test, server);
  await page.getByRole("button", { name: "Delete apples" }).click();
  const dialog = page.getByRole("dialog", { name: "Delete table" });
  const confirm = dialog.getByRole("button", { name: "Delete the table" });
  await confirm.click();
  await dialog.getByRole("alert").filter({ hasText: "Type apples exactly." }).waitFor();
  await dialog.getByLabel("Type apples to confirm").fill("Apples");
  await confirm.click();
  await dialog.getByRole("alert").filter({ hasText: "Type apples exactly." }).waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.deepEqual(await tablesOf(server), ["apples", "pears"]);

  await page.getByRole("button", { name: "Delete apples" }).click();
  await dialog.getByLabel("Type apples to confirm").fill("apples");
  await confirm.click();
  await page.getByText("The table apples was deleted.").waitFor();
  await status(page, "1 table");
  assert.deepEqual(await tablesOf(server), ["pears"]);
});

test("the entities of a table are counted, page by page", async (test) => {
  const server = await serverWith(test);
  const table = await server.createTable("harvest");
  for (const partitionKey of ["a", "b"]) {
    for (let start = 0; start < 700; start += 100) {
      const actions = Array.from({ length: 100 }, (_, at) => ["create", { partitionKey, rowKey: `${start + at}` }]);
      await table.submitTransaction(actions);
    }
  }
  const page = await openExplorer(test, server);
  await page.getByRole("button", { name: "Count the entities of harvest" }).click();
  await list(page).getByText("1,400 entities in 2 partitions").waitFor();
  await page.getByRole("dialog").waitFor({ state: "detached" });
});

test("everything can be done with only the keyboard", async (test) => {
  const server = await serverWith(test, ["apples", "pears"]);
  const page = await openExplorer(test, server);
  await status(page, "2 tables");
  await page.keyboard.press("Tab");
  assert.equal(await focusedName(page), "a Skip to content");
  await page.keyboard.press("Enter");

  await tabTo(page, "button Create table");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  assert.equal(await focusedName(page), "input Name");
  await page.keyboard.type("plums");
  await page.keyboard.press("Enter");
  await status(page, "3 tables");
  assert.equal(await focusedName(page), "button Create table");

  await tabTo(page, "button Delete pears");
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  assert.equal(await focusedName(page), "input Type pears to confirm");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.equal(await focusedName(page), "button Delete pears");

  await page.keyboard.press("Space");
  await page.keyboard.type("pears");
  await tabTo(page, "button Delete the table");
  await page.keyboard.press("Enter");
  await status(page, "2 tables");
  assert.equal(await focusedName(page), "input Search tables");
  await page.keyboard.type("plu");
  await status(page, "1 of 2 tables");
  await tabTo(page, "a plums");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/#/t/plums");
  await page.getByRole("heading", { name: "plums" }).waitFor();
  assert.match(await focusedName(page), /^main /);
});
