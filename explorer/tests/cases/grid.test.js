// The grid and its surroundings: widths, sorting, the menu of a cell, JSON, the list of tables and empty states.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { startServer } from "../support/server.js";

/** @type {import("../support/server.js").Server} */
let server;
before(async () => {
  server = await startServer();
});
after(() => server.stop());

const button = (scope, name) => scope.getByRole("button", { name, exact: true });
const menuItem = (page, name) => page.getByRole("menu").getByRole(/^Sort/.test(name) ? "menuitemcheckbox" : "menuitem", { name });
const foot = (page, text) => page.locator(".entities-foot").getByText(text, { exact: true });
const filterOf = (page) => page.getByRole("textbox", { name: "Filter" });

test("columns are as wide as their content", async (test) => {
  await server.createTable("Widths", [
    {
      partitionKey: "p",
      rowKey: "1",
      Built: { type: "DateTime", value: "2026-01-02T03:04:05.1234567Z" },
      Id: { type: "Guid", value: "0b0c0d0e-1111-4222-8333-444455556666" },
      Serial: { type: "Int64", value: "-9223372036854775808" },
      Note: "W".repeat(20),
      APropertyWithALongName: 5,
    },
    { partitionKey: "p", rowKey: "2", Note: "" },
  ]);
  const page = await openExplorer(test, server, { hash: "#/t/Widths" });
  await page.getByRole("gridcell", { name: "2026-01-02T03:04:05.1234567Z" }).waitFor();
  const cut = await page.evaluate(() => {
    const cells = [...document.querySelectorAll(".grid-line:not([hidden]) .grid-cell, .header-name")];
    return cells.filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent);
  });
  assert.deepEqual(cut, []);
  const widest = await page.evaluate(() => Math.max(...[...document.querySelectorAll(".header-cell")].map((cell) => cell.offsetWidth)));
  assert.ok(widest <= 360, `${widest} px`);
});

test("loaded entities are sorted by a column, and changed entities keep that order", async (test) => {
  const weights = [5, 1.5, 3, null, 20];
  await server.createTable("Sorted", weights.map((weight, at) => ({ partitionKey: "p", rowKey: `r${at}`, ...(weight && { weight }) })));
  const page = await openExplorer(test, server, { hash: "#/t/Sorted" });
  await foot(page, "All 5 entities").waitFor();
  const header = page.getByRole("columnheader", { name: "weight" });
  const keys = () => page.evaluate(() => {
    const lines = [...document.querySelectorAll(".grid-line:not([hidden])")];
    lines.sort((a, b) => Number(a.ariaRowIndex ?? a.getAttribute("aria-rowindex")) - Number(b.getAttribute("aria-rowindex")));
    return lines.map((line) => line.children[2].textContent).join(" ");
  });
  await header.click();
  await menuItem(page, "Sort ascending").click();
  await foot(page, "All 5 entities, sorted by weight").waitFor();
  assert.equal(await keys(), "r1 r2 r0 r4 r3");
  assert.equal(await header.getAttribute("aria-sort"), "ascending");
  await assertAccessible(page, "a sorted grid");

  // By keyboard. Opening a line opens the entity that it shows.
  await header.focus();
  await page.keyboard.press("Enter");
  await menuItem(page, "Sort descending").press("Enter");
  await page.waitForFunction(() => document.querySelector("[aria-sort=descending]"));
  assert.equal(await keys(), "r4 r0 r2 r1 r3");
  await page.getByRole("gridcell", { name: "r4" }).dblclick();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Value of weight").fill("2");
  await button(dialog, "Save").click();
  await page.getByText("Edited", { exact: false }).first().waitFor();
  assert.equal(await keys(), "r0 r2 r4 r1 r3");

  await header.click();
  assert.equal(await menuItem(page, "Sort descending").getAttribute("aria-checked"), "true");
  await menuItem(page, "Sort descending").click();
  await foot(page, "All 5 entities").waitFor();
  assert.equal(await keys(), "r0 r1 r2 r3 r4");
});

test("the menu of a cell filters by its value", async (test) => {
  const bytes = new Uint8Array([0xde, 0xad]);
  await server.createTable("Values", [
    { partitionKey: "p", rowKey: "1", Name: "it's", Photo: bytes, Ready: true },
    { partitionKey: "p", rowKey: "2", Name: "other", Photo: bytes },
    { partitionKey: "p", rowKey: "3", Name: "it's", not: 1 },
  ]);
  const page = await openExplorer(test, server, { hash: "#/t/Values" });
  await page.getByRole("gridcell", { name: "it's" }).first().click({ button: "right" });
  await assertAccessible(page, "the menu of a cell");
  await menuItem(page, "Filter by this value").click();
  await foot(page, "All 2 entities").waitFor();
  assert.equal(await filterOf(page).inputValue(), "Name eq 'it''s'");
  assert.match(page.url(), /filter=Name/);

  // By keyboard, in addition to the existing filter.
  await page.getByRole("gridcell", { name: "de ad" }).focus();
  await page.keyboard.press("Shift+F10");
  await menuItem(page, "Filter by this value").press("Enter");
  await foot(page, "1 entity").waitFor();
  assert.equal(await filterOf(page).inputValue(), "Name eq 'it''s' and Photo eq X'dead'");

  await filterOf(page).fill("RowKey eq '3'");
  await page.keyboard.press("Enter");
  await foot(page, "1 entity").waitFor();
  await page.getByRole("columnheader", { name: "not" }).waitFor();
  await page.locator(".grid-line:not([hidden])").getByRole("gridcell", { name: "1", exact: true }).click({ button: "right" });
  assert.equal(await menuItem(page, "Filter by this value").isDisabled(), true, "this property cannot be used in a filter");
  await page.keyboard.press("Escape");
});

test("entities and strings that contain JSON are shown as JSON", async (test) => {
  await server.createTable("Json", [
    { partitionKey: "p", rowKey: "1", Big: { type: "Int64", value: "9007199254740993" }, Data: '{"a":[1.0,"\u202e"]}', Text: "{" },
  ]);
  const page = await openExplorer(test, server, { hash: "#/t/Json" });
  const json = page.getByRole("region", { name: "JSON" });
  await page.getByRole("gridcell", { name: "1", exact: true }).click();
  await button(page, "JSON").click();
  const text = await json.textContent();
  assert.match(text, /^\{\n  "PartitionKey": "p",\n  "RowKey": "1",\n  "Big@odata.type": "Edm.Int64",\n  "Big": "9007199254740993",/);
  await assertAccessible(page, "an entity as JSON");
  await button(page.getByRole("dialog"), "Copy").click();
  await page.getByText("The JSON was copied.").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text.replaceAll("\\u202e", "\u202e"));
  await page.keyboard.press("Escape");

  await page.getByRole("gridcell", { name: /^.+a.+1\.0/ }).click({ button: "right" });
  await menuItem(page, "Show value as JSON").click();
  assert.equal(await json.textContent(), '{\n  "a": [\n    1.0,\n    "\\u202e"\n  ]\n}');
  await page.keyboard.press("Escape");
  await page.getByRole("gridcell", { name: "{", exact: true }).click({ button: "right" });
  assert.equal(await menuItem(page, "Show value as JSON").count(), 0);
  await page.keyboard.press("Escape");

  await page.getByRole("gridcell", { name: "1", exact: true }).dblclick();
  await button(page.getByRole("dialog"), "Show as JSON").click();
  await json.waitFor();
});

test("known properties are offered for a new entity, and written only if they are filled in", async (test) => {
  const table = await server.createTable("Offered", [
    { partitionKey: "p", rowKey: "1", Name: "a", Count: 1, Ready: true, When: new Date("2026-01-01T00:00:00Z") },
  ]);
  const page = await openExplorer(test, server, { hash: "#/t/Offered" });
  await foot(page, "1 entity").waitFor();
  await button(page, "Add").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Properties left empty are not added.").waitFor();
  assert.equal(await dialog.getByLabel("Type of When").inputValue(), "Edm.DateTime");
  await assertAccessible(page, "a new entity with known properties");
  await dialog.getByLabel("PartitionKey").fill("p");
  await dialog.getByLabel("RowKey").fill("2");
  await dialog.getByLabel("Value of Count").fill("x");
  await button(dialog, "Add").click();
  await dialog.locator(".value-field .problem").filter({ hasText: /./ }).waitFor();
  await dialog.getByLabel("Value of Count").fill("7");
  await button(dialog, "Add").click();
  await dialog.waitFor({ state: "detached" });
  const { partitionKey, rowKey, Count, Name, Ready, When } = await table.getEntity("p", "2");
  assert.deepEqual({ partitionKey, rowKey, Count, Name, Ready, When }, {
    partitionKey: "p", rowKey: "2", Count: 7, Name: undefined, Ready: undefined, When: undefined,
  });
});

test("the other tables are listed beside a table", async (test) => {
  await server.createTable("SideOne", [{ partitionKey: "p", rowKey: "first" }]);
  await server.createTable("SideTwo", [{ partitionKey: "p", rowKey: "second" }]);
  const page = await openExplorer(test, server, { hash: "#/t/SideOne" });
  const side = page.getByRole("navigation", { name: "Tables of the account" });
  await side.getByRole("link", { name: "SideOne" }).waitFor();
  assert.equal(await side.locator("[aria-current=page]").textContent(), "SideOne");
  await assertAccessible(page, "tables at the side");
  await side.getByRole("link", { name: "SideTwo" }).click();
  await page.getByRole("gridcell", { name: "second" }).waitFor();
  assert.equal(await side.locator("[aria-current=page]").textContent(), "SideTwo");
  await page.getByRole("link", { name: "Access", exact: true }).click();
  await page.getByRole("heading", { name: "Stored access policies" }).waitFor();
  assert.equal(await side.locator("[aria-current=page]").textContent(), "SideTwo");
  // The view of all tables needs no list.
  await page.getByRole("navigation", { name: "Explorer" }).getByRole("link", { name: "Tables" }).click();
  await page.getByLabel("Search tables").waitFor();
  assert.equal(await side.count(), 0);
});

test("empty views offer the next step", async (test) => {
  await server.createTable("Nothing");
  const page = await openExplorer(test, server, { hash: "#/t/Nothing" });
  await button(page, "Add an entity").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("PartitionKey").fill("p");
  await button(dialog, "Add").click();
  await page.getByRole("gridcell", { name: "p", exact: true }).waitFor();
  assert.equal(await button(page, "Add an entity").count(), 0);

  await filterOf(page).fill("PartitionKey eq 'other'");
  await page.keyboard.press("Enter");
  await foot(page, "No matching entities").waitFor();
  await assertAccessible(page, "no entity matches");
  await button(page, "Show all entities").click();
  await page.getByRole("gridcell", { name: "p", exact: true }).waitFor();
  assert.equal(await filterOf(page).inputValue(), "");

  const empty = await startServer();
  test.after(() => empty.stop());
  const tables = await openExplorer(test, empty);
  await tables.getByText("There are no tables yet.").waitFor();
  await button(tables, "Import files").waitFor();
  await assertAccessible(tables, "no tables");
  await button(tables, "Create the first table").click();
  await tables.getByLabel("Name").fill("first");
  await tables.getByLabel("Name").press("Enter");
  await tables.getByText("1 table", { exact: true }).waitFor();
  assert.equal(await button(tables, "Create the first table").count(), 0);
  await tables.getByLabel("Search tables").fill("x");
  await button(tables, "Show all tables").click();
  await tables.getByRole("link", { name: "first", exact: true }).waitFor();
});
