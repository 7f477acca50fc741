// Editing where the user looks: a cell, an entity as JSON, and two entities side by side.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { assertAccessible } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { button, cell, chooseTool, closed, type, undoButton, value } from "../support/entities.js";
import { startServer } from "../support/server.js";

/** @type {import("../support/server.js").Server} */
let server;
before(async () => {
  server = await startServer();
});
after(() => server.stop());

const ENTITIES = [
  { partitionKey: "p", rowKey: "1", text: "first", n: 5, big: { type: "Int64", value: "9007199254740993" } },
  { partitionKey: "p", rowKey: "2", text: "second", n: 5 },
];

test("a double click on a cell edits its value with its type, and undo restores it", async (t) => {
  const table = await server.createTable("Cells", ENTITIES);
  const page = await openExplorer(t, server, { hash: "#/t/Cells" });
  await cell(page, "first").dblclick();
  const dialog = page.getByRole("dialog", { name: "text of \u201cp\u201d / \u201c1\u201d" });
  await assertAccessible(page, "a cell");
  const near = await dialog.boundingBox();
  const { x, y, height } = await cell(page, "first").boundingBox();
  assert.ok(Math.abs(near.x - x) < 2 && Math.abs(near.y - y - height) < 2, "the dialog opens at the cell");
  await value(page, "text").fill("changed");
  await page.keyboard.press("Enter");
  await cell(page, "changed").waitFor();
  await closed(page);
  assert.equal((await table.getEntity("p", "1")).big, 9007199254740993n);
  await undoButton(page).click();
  await cell(page, "first").waitFor();
  assert.equal((await table.getEntity("p", "1")).text, "first");

  // The type can change, and a wrong value is not sent.
  await cell(page, "second").dblclick();
  await type(page, "text").selectOption("Edm.Int32");
  await page.getByRole("dialog").getByText(/cannot be converted to Int32/).waitFor();
  await page.keyboard.press("Escape");
  await closed(page);
  await page.getByRole("row").filter({ hasText: "second" }).getByRole("gridcell", { name: "5", exact: true }).dblclick();
  await value(page, "n").fill("five");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByText(/digits only/).waitFor();
  await value(page, "n").fill("6");
  await page.keyboard.press("Enter");
  await closed(page);
  await cell(page, "6").waitFor();
  assert.equal((await table.getEntity("p", "2")).n, 6);
});

test("an empty cell gets a property of the type of the column, and stays empty if nothing is entered", async (t) => {
  const table = await server.createTable("Empty", ENTITIES);
  const page = await openExplorer(t, server, { hash: "#/t/Empty" });
  const empty = page.getByRole("row").filter({ hasText: "second" }).locator("[data-type='']");
  await empty.dblclick();
  await button(page.getByRole("dialog"), "Save").click();
  await closed(page);
  assert.equal((await table.getEntity("p", "2")).big, undefined);
  await empty.dblclick();
  assert.equal(await type(page, "big").inputValue(), "Edm.Int64");
  await value(page, "big").fill("9223372036854775807");
  await page.keyboard.press("Enter");
  await cell(page, "9223372036854775807").waitFor();
  assert.equal((await table.getEntity("p", "2")).big, 9223372036854775807n);
});

test("an entity is edited as JSON; what is not an entity is refused before it is sent", async (t) => {
  const table = await server.createTable("Json", ENTITIES);
  const page = await openExplorer(t, server, { hash: "#/t/Json" });
  await cell(page, "first").click();
  await button(page, "JSON").click();
  await button(page.getByRole("dialog"), "Edit").click();
  const area = page.getByLabel("Entity", { exact: true });
  const json = JSON.parse(await area.inputValue());
  assert.deepEqual(json, { PartitionKey: "p", RowKey: "1", text: "first", n: 5, "big@odata.type": "Edm.Int64", big: "9007199254740993" });
  await assertAccessible(page, "the editor of JSON");
  const save = button(page.getByRole("dialog"), "Save");
  for (const [text, reason] of [
    ["{", /not valid JSON/],
    ["[]", /Enter one JSON object/],
    [JSON.stringify({ ...json, deep: { a: 1 } }), /deep must be a string/],
    [JSON.stringify({ ...json, RowKey: "9" }), /keys of an entity cannot change/],
    [JSON.stringify({ ...json, big: "many" }), /^big: /],
  ]) {
    await area.fill(text);
    await save.click();
    await page.getByRole("dialog").getByRole("alert").getByText(reason).waitFor();
  }
  await area.fill(JSON.stringify({ ...json, n: 1.5, text: null, big: "9223372036854775807" }));
  await save.click();
  await closed(page);
  await cell(page, "9223372036854775807").waitFor();
  const { n, text, big } = await table.getEntity("p", "1");
  assert.deepEqual({ n, text, big }, { n: 1.5, text: undefined, big: 9223372036854775807n });
});

test("two selected entities are compared side by side", async (t) => {
  await server.createTable("Two", ENTITIES);
  const page = await openExplorer(t, server, { hash: "#/t/Two" });
  await cell(page, "first").click();
  await page.keyboard.press("Control+a");
  await chooseTool(page, "Compare two entities");
  const dialog = page.getByRole("dialog", { name: "Compare two entities" });
  const rows = dialog.getByRole("row");
  assert.deepEqual(await rows.allInnerTexts().then((all) => all.map((text) => text.split("\t").map((part) => part.trim()))), [
    ["Property", "\u201cp\u201d / \u201c1\u201d", "\u201cp\u201d / \u201c2\u201d"],
    ["text", "String: first", "String: second"],
    ["n", "Int32: 5", "Int32: 5"],
    ["big", "Int64: 9007199254740993", "(no value)"],
  ]);
  assert.equal(await dialog.locator("tr.differs").count(), 2);
});
