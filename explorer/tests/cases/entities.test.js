// The view of entities: the grid, its keyboard commands and columns, weak credentials, and a failing server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { measureNoTime, openExplorer } from "../support/browser.js";
import { startServer } from "../support/server.js";

/** @type {import("../support/server.js").Server} */
let server;
before(async () => {
  server = await startServer();
});
after(() => server.stop());

const EVERY_TYPE = {
  partitionKey: "a",
  rowKey: "1",
  text: "words",
  whole: 5,
  fraction: 1.5,
  yes: true,
  long: { type: "Int64", value: "9007199254740993" },
  id: { type: "Guid", value: "0b0c0d0e-1111-4222-8333-444455556666" },
  time: { type: "DateTime", value: "2026-01-02T03:04:05.1234567Z" },
  bytes: { type: "Binary", value: "3q2+7w==" },
  nothing: { type: "Double", value: "NaN" },
  huge: { type: "Double", value: "Infinity" },
};

const numbered = (count, make = () => ({})) =>
  Array.from({ length: count }, (_, i) => ({
    partitionKey: `p${Math.floor(i / 100)}`,
    rowKey: String(i).padStart(6, "0"),
    n: i,
    ...make(i),
  }));

async function insertMany(table, entities) {
  for (let at = 0; at < entities.length; at += 100) {
    await table.submitTransaction(entities.slice(at, at + 100).map((entity) => ["create", entity]));
  }
}

const cell = (page, name) => page.getByRole("gridcell", { name, exact: true });
const focused = (page) => page.locator(":focus");

test("values of every type are shown correctly, with their types", async (t) => {
  await server.createTable("Types", [EVERY_TYPE, { partitionKey: "a", rowKey: "2", text: "", whole: "not a number" }]);
  const page = await openExplorer(t, server, { hash: "#/t/Types" });
  for (const text of [
    "words",
    "1.5",
    "true",
    "9007199254740993",
    "0b0c0d0e-1111-4222-8333-444455556666",
    "2026-01-02T03:04:05.1234567Z",
    "de ad be ef 4 B",
    "NaN",
    "Infinity",
    "Int32 5",
    "String not a number",
  ]) {
    await cell(page, text).waitFor();
  }
  for (const name of ["text String", "whole several types", "long Int64", "bytes Binary", "time DateTime"]) {
    await page.getByRole("columnheader", { name, exact: true }).waitFor();
  }
  // An empty string has a mark; the cell of a missing property is empty.
  await cell(page, "empty").waitFor();
  assert.equal(await page.locator(".grid-line:visible").nth(1).locator("[data-type='']").count(), 8);
  await page.getByRole("columnheader", { name: "time DateTime" }).click();
  await page.getByRole("menuitemcheckbox", { name: "Show local time" }).click();
  await cell(page, "2026-01-02 08:34:05.1234567 +05:30").waitFor();
});

test("the keyboard reaches every cell", async (t) => {
  const table = await server.createTable("Keyboard");
  await insertMany(table, numbered(250));
  const page = await openExplorer(t, server, { hash: "#/t/Keyboard" });
  const grid = page.getByRole("grid", { name: "Entities of Keyboard" });
  await cell(page, "000000").click();
  assert.equal(await grid.getAttribute("aria-rowcount"), "251");
  assert.equal(await grid.getAttribute("aria-colcount"), "5");
  const at = async () => [
    Number(await focused(page).locator("xpath=..").getAttribute("aria-rowindex")) - 2,
    Number(await focused(page).getAttribute("aria-colindex")) - 1,
  ];
  for (const [key, line, column] of [
    ["ArrowDown", 1, 2],
    ["ArrowRight", 1, 3],
    ["ArrowLeft", 1, 2],
    ["Home", 1, 0],
    ["End", 1, 4],
    ["Control+End", 249, 4],
    ["Control+Home", 0, 0],
    ["ArrowUp", -1, 0],
    ["ArrowDown", 0, 0],
  ]) {
    await page.keyboard.press(key);
    assert.deepEqual(await at(), [line, column], key);
  }
  await page.keyboard.press("PageDown");
  const [down] = await at();
  assert.ok(down > 5 && down < 60, `PageDown moved to line ${down}`);
  await page.keyboard.press("PageUp");
  assert.deepEqual(await at(), [0, 0]);
  // Exactly one cell can be reached by Tab.
  assert.equal(await grid.locator("[tabindex='0']").count(), 1);
});

test("the focus stays in the grid when the focused cell is scrolled out of view and back", async (t) => {
  const table = await server.createTable("Away");
  await insertMany(table, numbered(400));
  const page = await openExplorer(t, server, { hash: "#/t/Away" });
  await cell(page, "000003").click();
  const scroll = (top) => page.locator("entity-grid").evaluate((grid, to) => grid.scrollTo(0, to), top);
  await scroll(9000);
  await cell(page, "000301").waitFor();
  assert.equal(await focused(page).getAttribute("role"), "grid");
  await scroll(0);
  await page.waitForFunction(() => document.activeElement?.textContent === "000003");
  await scroll(9000);
  await cell(page, "000301").waitFor();
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() => document.activeElement?.textContent === "000004");
});

test("lines are selected with the keyboard and the mouse", async (t) => {
  const table = await server.createTable("Selecting");
  await insertMany(table, numbered(50));
  const page = await openExplorer(t, server, { hash: "#/t/Selecting" });
  const selected = () => page.getByRole("row", { selected: true }).count();
  const status = page.locator(".entities-foot");
  await cell(page, "000001").click();
  assert.equal(await selected(), 0);
  await page.keyboard.press("Space");
  await page.keyboard.press("Shift+ArrowDown");
  await page.keyboard.press("Shift+ArrowDown");
  await status.getByText("3 selected").waitFor();
  await cell(page, "000008").click({ modifiers: ["Control"] });
  await status.getByText("4 selected").waitFor();
  await cell(page, "000006").click({ modifiers: ["Shift"] });
  await status.getByText("3 selected").waitFor();
  await page.keyboard.press("Control+a");
  await status.getByText("50 selected").waitFor();
  await page.keyboard.press("Escape");
  await status.getByText("All 50 entities", { exact: true }).waitFor();
  assert.equal(await selected(), 0);
  await page.getByRole("columnheader", { name: "Select all loaded entities" }).click();
  await status.getByText("50 selected").waitFor();
});

test("copying a cell copies the stored value", async (t) => {
  const long = `line\r\n\u202e${"x".repeat(3000)}`;
  await server.createTable("Copied", [{ partitionKey: "a", rowKey: "1", text: long }]);
  const page = await openExplorer(t, server, { hash: "#/t/Copied" });
  await cell(page, "1").click();
  await page.keyboard.press("End");
  await page.keyboard.press("Control+c");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), long);
});

test("columns can be hidden, moved and widened, and the layout is remembered", async (t) => {
  await server.createTable("Layout", [{ partitionKey: "a", rowKey: "1", x: 1, y: 2, z: 3 }]);
  const page = await openExplorer(t, server, { hash: "#/t/Layout" });
  const headers = async () =>
    (await page.getByRole("columnheader").allTextContents()).map((text) => text.split(" ")[0]).slice(1);
  const header = (name) => page.getByRole("columnheader", { name, exact: true });
  await header("z Int32").waitFor();
  // By keyboard.
  await cell(page, "3").click();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Alt+ArrowLeft");
  await page.waitForFunction(() => document.activeElement?.textContent?.startsWith("z"));
  assert.deepEqual(await headers(), ["PartitionKey", "RowKey", "Timestamp", "x", "z", "y"]);
  const width = async () => (await header("z Int32").boundingBox()).width;
  const first = await width();
  await page.keyboard.press("Shift+ArrowRight");
  await page.waitForFunction((than) => document.activeElement?.getBoundingClientRect().width > than, first);
  // Use the mouse to move y before x and to widen x.
  await header("y Int32").dragTo(header("x Int32"));
  await page.waitForFunction(() => document.querySelectorAll(".header-cell")[4]?.textContent?.startsWith("y"));
  const box = await header("x Int32").boundingBox();
  await page.mouse.move(box.x + box.width - 3, box.y + 10);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width + 77, box.y + 10, { steps: 4 });
  await page.mouse.up();
  // Hide the Timestamp in the dialog.
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("dialog").getByRole("checkbox", { name: "Timestamp" }).uncheck();
  await page.getByRole("button", { name: "Close" }).click();
  const expected = ["PartitionKey", "RowKey", "y", "x", "z"];
  assert.deepEqual(await headers(), expected);
  await page.reload();
  await header("z Int32").waitFor();
  assert.deepEqual(await headers(), expected);
  assert.equal(Math.round((await header("x Int32").boundingBox()).width), Math.round(box.width) + 80);
});

test("of many columns, only those in view are drawn", async (t) => {
  const wide = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`c${String(i).padStart(3, "0")}`, i]));
  await server.createTable("Wide", [{ partitionKey: "a", rowKey: "1", ...wide }]);
  const page = await openExplorer(t, server, { hash: "#/t/Wide" });
  await cell(page, "1").first().click();
  assert.equal(await page.getByRole("grid").getAttribute("aria-colcount"), "204");
  assert.ok((await page.locator(".header-cell").count()) < 45);
  await page.keyboard.press("End");
  await page.waitForFunction(() => document.activeElement?.textContent === "199");
  assert.equal(await focused(page).getAttribute("aria-colindex"), "204");
  assert.ok((await page.locator(".header-cell").count()) < 45);
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.equal(await focused(page).textContent(), "1");
});

test("hostile names and values are shown as text", async (t) => {
  const hostile = {
    partitionKey: "'\"<b>% +&=\u00e9\u{1f600}",
    rowKey: "",
    constructor: "own",
    toString: "own too",
    html: "<img src=x onerror=\"document.title='broken'\">",
    rtl: "\u05e9\u05dc\u05d5\u05dd \u202eabc",
    control: "a\u0001b\nc",
    blank: "  ",
    long: "x".repeat(30000),
  };
  const table = await server.createTable("Hostile");
  await table.createEntity(hostile);
  const page = await openExplorer(t, server, { hash: "#/t/Hostile" });
  await cell(page, hostile.partitionKey).waitFor();
  await cell(page, hostile.html).waitFor();
  await cell(page, "a\u2039U+0001\u203ab\u21b5c").waitFor();
  await cell(page, "\u05e9\u05dc\u05d5\u05dd \u2039U+202E\u203aabc").waitFor();
  await cell(page, "\u2423\u2423").waitFor();
  assert.equal(await page.locator("entity-grid img").count(), 0);
  await cell(page, hostile.html).click();
  await page.keyboard.press("Enter");
  assert.equal(await page.getByRole("textbox", { name: "Value of long" }).inputValue(), hostile.long);
  assert.equal(await page.getByRole("textbox", { name: "Value of constructor" }).inputValue(), "own");
  await page.getByRole("textbox", { name: "Value of rtl" }).fill("changed");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByText(/^Edited/).waitFor();
  const stored = await table.getEntity(hostile.partitionKey, "");
  assert.equal(stored.rtl, "changed");
  assert.equal(stored.control, hostile.control);
  assert.equal(stored.long, hostile.long);
  assert.notEqual(await page.title(), "broken");
});

test("if loading a page fails, the reason is shown, and the user can retry", async (t) => {
  const table = await server.createTable("Failing");
  await insertMany(table, numbered(1500));
  const page = await openExplorer(t, server, { statuses: [500] });
  let isBroken = true;
  await page.route(/Failing\(\).*NextPartitionKey/, (route) =>
    isBroken ? route.fulfill({ status: 500, body: "" }) : route.continue(),
  );
  await page.goto(`${server.origin}/_rowhouse/#/t/Failing`);
  await page.locator(".entities-foot").getByText("1,000 entities loaded, more available").waitFor();
  await cell(page, "000000").click();
  await page.keyboard.press("Control+End");
  const again = page.getByRole("button", { name: "Try again" });
  await again.waitFor();
  isBroken = false;
  await again.click();
  await page.locator(".entities-foot").getByText("All 1,500 entities").waitFor();
});

test("an empty page is followed by the next page", async (t) => {
  await server.createTable("Gaps", [{ partitionKey: "a", rowKey: "1", text: "found" }]);
  const page = await openExplorer(t, server, { prepare: measureNoTime });
  let asked = 0;
  await page.route(/Gaps\(\)/, (route) => {
    asked += 1;
    if (asked > 3) return route.continue();
    const headers = { "x-ms-continuation-NextPartitionKey": "1!4!YQ--", "x-ms-continuation-NextRowKey": "1!4!MA--" };
    return route.fulfill({ status: 200, contentType: "application/json", headers, body: '{"value":[]}' });
  });
  await page.goto(`${server.origin}/_rowhouse/#/t/Gaps`);
  await page.waitForFunction(() => document.querySelector(".entities-foot")?.textContent?.includes("entit"));
  await page.locator(".entities-foot").getByText("1 entity").or(page.locator(".grid-tail .problem")).waitFor();
  assert.equal(asked, 4);
});

test("a read-only signature is offered only actions that it allows", async (t) => {
  const own = await startServer({ ownAccount: true });
  t.after(() => own.stop());
  await own.createTable("Guarded", [{ partitionKey: "a", rowKey: "1", text: "to read" }]);
  const page = await openExplorer(t, own, { hash: "#/t/Guarded" });
  await page.getByLabel("Sign in with").selectOption("sas");
  await page.getByLabel("Account").fill(own.account);
  await page.getByLabel("Signature", { exact: true }).fill(own.tableSas("Guarded", ["query"]));
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await cell(page, "to read").click();
  const tools = page.getByRole("toolbar", { name: "Entities" });
  assert.deepEqual(await tools.getByRole("button").allTextContents(), ["View", "JSON", "Columns", "Refresh", "Export", "More"]);
  await page.keyboard.press("Delete");
  assert.equal(await page.getByRole("dialog").count(), 0);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByRole("textbox", { name: "Value of text" }).isEditable(), false);
  assert.deepEqual(await dialog.getByRole("button").allTextContents(), ["Close"]);
});

test("the view fits on a narrow screen, where keys scroll with the other columns", async (t) => {
  await server.createTable("Narrow", [EVERY_TYPE]);
  const page = await openExplorer(t, server, { hash: "#/t/Narrow", context: { viewport: { width: 360, height: 640 } } });
  await cell(page, "words").click();
  await cell(page, "a").click();
  assert.equal(await focused(page).evaluate((element) => getComputedStyle(element).position), "static");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
  await page.keyboard.press("Enter");
  const box = await page.getByRole("dialog").boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 360);
  assert.equal(await page.getByRole("dialog").evaluate((dialog) => dialog.scrollWidth > dialog.clientWidth), false);
});

test("a key that the service refuses is reported in the dialog, and loading all entities can be stopped", async (t) => {
  const table = await server.createTable("Limits");
  await insertMany(table, numbered(3000));
  const page = await openExplorer(t, server, { statuses: [400] });
  let ask, pass;
  const asked = new Promise((resolve) => (ask = resolve));
  const passed = new Promise((resolve) => (pass = resolve));
  await page.route(/Limits\(\).*NextPartitionKey/, async (route) => {
    ask();
    await passed;
    await route.continue();
  });
  await page.goto(`${server.origin}/_rowhouse/#/t/Limits`);
  const foot = (text) => page.locator(".entities-foot").getByText(text).waitFor();
  await foot("1,000 entities loaded, more available");
  await page.getByRole("button", { name: "Load all" }).click();
  await asked;
  await page.getByRole("dialog").getByRole("button", { name: "Stop" }).click();
  pass();
  await foot("2,000 entities loaded, more available");
  assert.equal(await page.getByRole("dialog").count(), 0);

  await page.getByRole("button", { name: "Add", exact: true }).click();
  const add = page.getByRole("dialog").getByRole("button", { name: "Add", exact: true });
  for (const key of ["a/b", "a\\b", "a#b", "a?b"]) {
    await page.getByLabel("PartitionKey").fill(key);
    await add.click();
    await page.getByRole("dialog").getByRole("alert").getByText(/400/).waitFor();
    await page.getByLabel("PartitionKey").fill("");
  }
});

test("the grid waits for an unreachable server, and continues afterwards", async (t) => {
  const own = await startServer({ onDisk: true });
  t.after(() => own.stop());
  const table = await own.createTable("Back");
  await insertMany(table, numbered(1500));
  const page = await openExplorer(t, own, { hash: "#/t/Back", unreachable: true, statuses: [502] });
  const foot = (text) => page.locator(".entities-foot").getByText(text).waitFor();
  await foot("1,000 entities loaded, more available");
  await own.pause();
  await cell(page, "000000").click();
  await page.keyboard.press("Control+End");
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await own.start();
  await foot("All 1,500 entities");
});
