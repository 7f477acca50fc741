// The toolbar acts only on what the user sees, confirmations keep the safe button in focus, and typed input is not lost.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { focusedName } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { button, cell, foot, openEntity, toolsInMenu, value } from "../support/entities.js";
import { startServer } from "../support/server.js";

const PHONE = { width: 390, height: 844 };
const FOR_ENTITIES = ["Edit", "Duplicate", "JSON", "Edit property", "Delete"];

/** @type {import("../support/server.js").Server} */
let server;
before(async () => {
  server = await startServer();
  const table = await server.createTable("many");
  const keys = Array.from({ length: 100 }, (_, at) => String(at).padStart(3, "0"));
  await table.submitTransaction(keys.map((rowKey) => ["create", { partitionKey: "p", rowKey, text: `text ${rowKey}` }]));
});
after(() => server.stop());

async function enabled(page) {
  const states = await Promise.all(FOR_ENTITIES.map((name) => button(page, name).isEnabled()));
  return FOR_ENTITIES.filter((_, at) => states[at]);
}

const open = async (t, context = {}) => {
  const page = await openExplorer(t, server, { hash: "#/t/many", context });
  await foot(page, "All 100 entities").waitFor();
  return page;
};

test("an action needs an entity that is marked in view, or a selection", async (t) => {
  const page = await open(t);
  assert.deepEqual(await enabled(page), []);
  await cell(page, "text 001").click();
  assert.deepEqual(await enabled(page), FOR_ENTITIES);
  assert.deepEqual(await page.locator("[aria-current] [aria-colindex='3']").allTextContents(), ["001"]);
  await page.locator("entity-grid").evaluate((grid) => grid.scrollTo(0, 2000));
  assert.deepEqual(await enabled(page), []);
  await page.locator("entity-grid").evaluate((grid) => grid.scrollTo(0, 0));
  assert.deepEqual(await enabled(page), FOR_ENTITIES);

  // The selection counts, wherever the focus is.
  const box = (/** @type {string} */ text) => page.getByRole("row").filter({ hasText: text }).getByRole("gridcell").first();
  await box("text 002").click();
  await box("text 003").click();
  assert.deepEqual(await enabled(page), ["Edit property", "Delete"]);
  assert.equal(await page.locator("entity-grid [aria-current=true]").count(), 0);
  await button(page, "Delete").click();
  await page.getByRole("heading", { name: "Delete 2 entities?" }).waitFor();
  await page.keyboard.press("Escape");
  await button(page, "Refresh").click();
  await foot(page, "All 100 entities").waitFor();
  assert.deepEqual(await enabled(page), []);
});

test("Enter does not confirm a deletion, and the question names the account and the host", async (t) => {
  const page = await open(t);
  await cell(page, "text 001").click();
  await page.keyboard.press("Delete");
  const dialog = page.getByRole("dialog");
  await dialog.getByText(`Account ${server.account} on ${new URL(server.origin).host}`).waitFor();
  assert.equal(await focusedName(page), "button Cancel");
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  await foot(page, "All 100 entities").waitFor();
  assert.equal((await server.table("many").getEntity("p", "001")).text, "text 001");
});

test("Escape and Enter do not lose what was typed", async (t) => {
  const page = await open(t);
  await openEntity(page, "text 001");
  await value(page, "text").fill("typed");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Discard your changes?" }).waitFor();
  assert.equal(await focusedName(page), "button Cancel");
  await page.keyboard.press("Enter");
  assert.equal(await value(page, "text").inputValue(), "typed");
  await page.keyboard.press("Escape");
  await button(page, "Discard").click();
  await page.getByRole("dialog").first().waitFor({ state: "detached" });

  await page.goto(`${server.origin}/_rowhouse/#/`);
  await button(page, "Create table").click();
  await page.keyboard.type("pears");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Discard your changes?" }).waitFor();
  await page.keyboard.press("Enter");
  assert.equal(await page.getByLabel("Name").inputValue(), "pears");
  await page.getByLabel("Name").fill("");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
});

test("on a phone, most of the page is the grid, and the menu has the buttons without room", async (t) => {
  const page = await open(t, { viewport: PHONE });
  const { y, height } = await page.locator("entity-grid").boundingBox();
  assert.ok(y <= 260, `the grid begins at ${y} px`);
  assert.ok(height >= PHONE.height / 2, `the grid is ${height} px high`);
  for (const name of ["Duplicate", "Export"]) assert.equal(await button(page, name).isVisible(), false, name);
  assert.deepEqual(await toolsInMenu(page), ["Duplicate", "JSON", "Edit property", "Export", "Import", "Compare two entities", "Keyboard shortcuts"]);
  await cell(page, "text 001").click();
  await button(page, "More").click();
  await page.keyboard.press("ArrowDown");
  assert.equal(await focusedName(page), "menuitem JSON");
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "JSON" }).getByText("text 001").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await focusedName(page), "button More");
});

test("a question mark shows the keys, and a slash goes to the filter", async (t) => {
  const page = await open(t);
  await cell(page, "text 001").click();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).getByText("Go to the filter").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("/");
  assert.equal(await focusedName(page), "textarea Filter");
  await page.keyboard.type("?/");
  assert.equal(await page.getByLabel("Filter", { exact: true }).inputValue(), "?/");
});

test("a wrong or long filter does not move the page while it is typed", async (t) => {
  const page = await open(t);
  const top = async () => (await page.locator("entity-grid").boundingBox()).y;
  const first = await top();
  const filter = page.getByLabel("Filter", { exact: true });
  await filter.fill(`text eqq ${"x".repeat(400)}`);
  assert.equal(await top(), first);
  await filter.blur();
  await page.getByText(/^Character 6/).waitFor();
  assert.equal(await top(), first);
});
