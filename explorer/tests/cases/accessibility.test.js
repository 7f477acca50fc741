// Checks every view and dialog with axe, in both themes, and on narrow screens.

import assert from "node:assert/strict";
import { test } from "node:test";
import { assertAccessible, assertNoSidewaysScroll, focusedName } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { startServer } from "../support/server.js";

const NARROW = { width: 360, height: 640 };
const WIDE = { width: 1200, height: 800 };
const LONG_NAME = "a".repeat(63);

async function serverWith(test, settings) {
  const server = await startServer(settings);
  test.after(() => server.stop());
  const id = { type: "Guid", value: "6f9619ff-8b86-d011-b42d-00c04fc964ff" };
  const total = { type: "Int64", value: "9007199254740993" };
  const photo = new Uint8Array(100);
  await server.createTable("harvest", [
    {
      partitionKey: "apple",
      rowKey: "1",
      weight: 120,
      ripe: true,
      picked: new Date("2026-05-01T10:00:00Z"),
      id,
      total,
      photo,
      note: "",
    },
    { partitionKey: "pear", rowKey: "k".repeat(500), note: "long ".repeat(400), weight: 1.5 },
  ]);
  await server.createTable(LONG_NAME);
  return server;
}

// Each view or dialog starts at its own URL.
const VIEWS = {
  tables: {
    async show(page) {
      await page.getByText("2 tables").waitFor();
    },
  },
  "create table": {
    async show(page) {
      await page.getByRole("button", { name: "Create table" }).click();
      await page.getByRole("dialog").waitFor();
    },
  },
  "delete table": {
    async show(page) {
      await page.getByRole("button", { name: `Delete ${LONG_NAME}` }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Delete the table" }).click();
      await page.getByRole("dialog").getByRole("alert").filter({ hasText: "exactly" }).waitFor();
    },
  },
  "tables with a notice": {
    async show(page) {
      await page.getByRole("button", { name: "Create table" }).click();
      await page.getByLabel("Name").fill("orders");
      await page.getByLabel("Name").press("Enter");
      await page.getByText("The table orders was created.").waitFor();
    },
  },
  "sign in": {
    async show(page) {
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("heading", { name: "Sign in" }).waitFor();
      await page.getByLabel("Sign in with").selectOption("Account and key");
      await page.getByLabel("Account key").fill("?");
      await page.getByRole("button", { name: "Sign in", exact: true }).click();
      await page.getByRole("alert").filter({ hasText: /./ }).waitFor();
    },
  },
};

const ENTITIES = "#/t/harvest";
const button = (scope, name) => scope.getByRole("button", { name, exact: true });

async function entities(page) {
  await page.getByRole("grid", { name: "Entities of harvest" }).getByText("apple").waitFor();
}

// Returns a view that shows the entities and then presses a button that opens a dialog or a menu.
function opening(name, role = "dialog") {
  return {
    hash: ENTITIES,
    async show(page) {
      await entities(page);
      await button(page, name).click();
      await page.getByRole(role).waitFor();
    },
  };
}

Object.assign(VIEWS, {
  entities: { hash: ENTITIES, show: entities },
  "entities with what the query cost": {
    hash: ENTITIES,
    async show(page) {
      await page.getByLabel("Filter", { exact: true }).fill("weight gt 100");
      await button(page, "Run").click();
      await entities(page);
      await page.getByText("Cost details").click();
      await page.getByText("Plan", { exact: true }).waitFor();
    },
  },
  "an error in a filter": {
    hash: ENTITIES,
    async show(page) {
      await entities(page);
      await page.getByLabel("Filter", { exact: true }).fill("weight gtt 100");
      await page.getByLabel("Filter", { exact: true }).blur();
      await page.getByText(/Character 8/).waitFor();
    },
  },
  completion: {
    hash: ENTITIES,
    async show(page) {
      await entities(page);
      await page.getByLabel("Filter", { exact: true }).pressSequentially("wei");
      await page.getByRole("listbox", { name: "Suggestions" }).waitFor();
    },
  },
  "a filter as fields": {
    hash: `${ENTITIES}?filter=${encodeURIComponent("weight gt 100 and PartitionKey eq 'apple'")}`,
    async show(page) {
      await entities(page);
      await button(page, "Fields").click();
      await page.getByLabel("Property", { exact: true }).first().waitFor();
    },
  },
  projection: {
    hash: ENTITIES,
    async show(page) {
      await entities(page);
      await page.getByText("Select: all properties").click();
      await page.getByLabel("weight", { exact: true }).check();
    },
  },
  history: opening("History", "menu"),
  "saved queries": opening("Save", "menu"),
  "copy as": opening("Copy as…"),
  "add an entity": opening("Add"),
  "the keyboard shortcuts": opening("Keyboard shortcuts"),
  "the menu of the toolbar": opening("More", "menu"),
  columns: opening("Columns"),
  export: opening("Export"),
  "edit an entity": {
    hash: ENTITIES,
    async show(page) {
      await entities(page);
      await page.getByRole("gridcell", { name: "apple" }).dblclick();
      await page.getByRole("dialog").waitFor();
      await button(page, "Add property").click();
      await page.getByLabel("Value of weight", { exact: true }).fill("heavy");
      await button(page.getByRole("dialog"), "Save").click();
    },
  },
  "a conflict": {
    hash: ENTITIES,
    statuses: [412],
    async show(page, server) {
      await entities(page);
      await page.getByRole("gridcell", { name: "apple" }).dblclick();
      await server.table("harvest").updateEntity({ partitionKey: "apple", rowKey: "1", weight: 7 });
      await page.getByLabel("Value of weight", { exact: true }).fill("8");
      await button(page.getByRole("dialog"), "Save").click();
      await page.getByRole("dialog", { name: "The entity was changed by someone else" }).waitFor();
    },
  },
  "the menu of a column": {
    hash: ENTITIES,
    async show(page) {
      await entities(page);
      await page.getByRole("columnheader", { name: "RowKey" }).click();
      await page.getByRole("menu").waitFor();
    },
  },
  "selected entities, and deleting them": {
    hash: ENTITIES,
    async show(page) {
      await entities(page);
      await page.getByRole("gridcell", { name: "apple" }).click();
      await page.keyboard.press("Control+a");
      await button(page, "Delete").click();
      await page.getByRole("dialog").waitFor();
    },
  },
  "one property of many": {
    hash: ENTITIES,
    async show(page) {
      await entities(page);
      await page.getByRole("gridcell", { name: "apple" }).click();
      await page.keyboard.press("Control+a");
      await button(page, "Edit property").click();
      await page.getByRole("dialog").waitFor();
    },
  },
  "import preview": {
    hash: ENTITIES,
    async show(page) {
      await entities(page);
      const chooser = page.waitForEvent("filechooser");
      await button(page, "Import").click();
      const content = "PartitionKey,RowKey,weight,note\r\nplum,1,12,a\r\nplum,2\r\n";
      await (await chooser).setFiles({ name: "plums.csv", mimeType: "text/csv", buffer: Buffer.from(content) });
      await page.getByRole("region", { name: "Preview" }).waitFor();
    },
  },
  "access to a table": {
    hash: "#/t/harvest/access",
    async show(page) {
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.waitForLoadState("networkidle");
    },
  },
  account: {
    hash: "#/account",
    async show(page) {
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.waitForLoadState("networkidle");
    },
  },
});

for (const [name, { hash = "", statuses = [], show }] of Object.entries(VIEWS)) {
  test(`axe, and a narrow screen: ${name}`, async (test) => {
    const server = await serverWith(test);
    const context = { viewport: WIDE, colorScheme: "light", reducedMotion: "reduce" };
    const page = await openExplorer(test, server, { hash, statuses, context });
    await show(page, server);
    await assertAccessible(page, "light");
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize(NARROW);
    await assertNoSidewaysScroll(page, "narrow");
    await assertAccessible(page, "dark and narrow");
  });
}

// Presses Tab from the top of the page until the focus returns there. Returns the elements that had the focus.
async function walk(page) {
  const names = [];
  // After `blur`, Tab would continue behind the element that had the focus.
  await page.evaluate(() => {
    document.body.tabIndex = -1;
    document.body.focus();
    document.body.removeAttribute("tabindex");
  });
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press("Tab");
    const name = await focusedName(page);
    if (name === "" || (presses > 0 && name === names[0])) {
      return names;
    }
    names.push(name);
    const isSeen = await page.evaluate(() => {
      const element = document.activeElement;
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      const { width, height, bottom, top } = element.getBoundingClientRect();
      return (
        outlineStyle !== "none" && parseFloat(outlineWidth) >= 1 && width > 0 && height > 0 && bottom > 0 && top < innerHeight
      );
    });
    assert.ok(isSeen, `${name} must visibly have the focus`);
  }
  assert.fail(`Tab never returns to the start: ${names.join(", ")}`);
}

test("Tab reaches every control on a page, and the focus is visible", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { context: { viewport: WIDE } });
  await page.getByText("2 tables").waitFor();
  const tables = await walk(page);
  const wanted = [
    "a Skip to content",
    "a Rowhouse explorer",
    "a Tables",
    "a Account",
    "button Keyboard shortcuts",
    "button Theme",
    "button Sign out",
    "input Search tables",
    "button Refresh",
    "button Create table",
    "a harvest",
    "button Count the entities of harvest",
    "a Access to harvest",
    "button Delete harvest",
  ];
  assert.deepEqual(
    wanted.filter((name) => !tables.includes(name)),
    [],
    tables.join(", "),
  );

  await page.goto(`${server.origin}/_rowhouse/${ENTITIES}`);
  await entities(page);
  // The buttons for an entity can be pressed while one is marked.
  await page.getByRole("gridcell", { name: "apple" }).click();
  const parts = await walk(page);
  const more = [
    "a Access",
    "button Export",
    "button Import",
    "textarea Filter",
    "button Text",
    "button Fields",
    "summary Select: all properties",
    "input Limit",
    "button Run",
    "button History",
    "button Save",
    "button Copy as…",
    "button More",
    "summary Cost details",
    "button Add",
    "button Edit",
    "button Duplicate",
    "button Delete",
    "button JSON",
    "button Columns",
    "button Refresh",
  ];
  assert.deepEqual(
    more.filter((name) => !parts.includes(name)),
    [],
    parts.join(", "),
  );
  assert.equal(parts.filter((name) => name.startsWith("gridcell")).length, 1, "the grid must be a single Tab stop");
});

test("entities are read, edited and deleted with only the keyboard", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { hash: ENTITIES });
  await entities(page);
  for (let presses = 0; !(await focusedName(page)).startsWith("gridcell") && presses < 60; presses += 1) {
    await page.keyboard.press("Tab");
  }
  assert.equal(await focusedName(page), "gridcell apple");
  await page.keyboard.press("ArrowDown");
  assert.equal(await focusedName(page), "gridcell pear");

  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  while (!(await focusedName(page)).includes("Value of weight")) {
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Control+a");
  await page.keyboard.type("2.5");
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  assert.equal(await focusedName(page), "gridcell pear");
  assert.equal((await server.table("harvest").getEntity("pear", "k".repeat(500))).weight, 2.5);

  await page.keyboard.press("Delete");
  await dialog.waitFor();
  while ((await focusedName(page)) !== "button Delete") {
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  // The dialog closes before the entity is deleted.
  await page
    .getByText(/^Deleted/)
    .first()
    .waitFor();
  await page.keyboard.press("Control+z");
  await page
    .getByText(/^Undone/)
    .first()
    .waitFor();
  await server.table("harvest").getEntity("pear", "k".repeat(500));

  await page.keyboard.press("ArrowUp");
  assert.equal(await focusedName(page), "gridcell apple");
  await page.keyboard.press("ArrowUp");
  assert.equal(await focusedName(page), "columnheader PartitionKey");
  await page.keyboard.press("Enter");
  await page.getByRole("menu").waitFor();
  assert.equal(await focusedName(page), "menuitemcheckbox Sort ascending");
  await page.keyboard.press("Escape");
  assert.equal(await focusedName(page), "columnheader PartitionKey");
});

test("a dialog keeps the focus inside, and restores it afterwards", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { hash: ENTITIES });
  await entities(page);
  for (const name of ["Add", "Columns", "Export"]) {
    await button(page, name).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    for (let presses = 0; presses < 30; presses += 1) {
      await page.keyboard.press("Tab");
      const isInside = await page.evaluate(
        () => document.activeElement === document.body || document.activeElement.closest("dialog") !== null,
      );
      assert.ok(isInside, `${name}: ${await focusedName(page)}`);
    }
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.notEqual(await focusedName(page), "", `the focus is lost after ${name}`);
  }
});

test("nothing is animated for users who prefer reduced motion", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { context: { reducedMotion: "reduce" } });
  await page.getByRole("button", { name: "Create table" }).click();
  await page.getByLabel("Name").fill("orders");
  await page.getByLabel("Name").press("Enter");
  await page.getByText("The table orders was created.").waitFor();
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
});

test("the page fits at a zoom level of 200%", async (test) => {
  const server = await serverWith(test);
  // At 200%, a browser has half as many CSS pixels, each twice as large.
  const context = { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 };
  const page = await openExplorer(test, server, { hash: ENTITIES, context });
  await entities(page);
  await assertNoSidewaysScroll(page, "entities");
  await page.getByRole("gridcell", { name: "apple" }).click();
  await button(page, "Edit").click();
  await page.getByRole("dialog").waitFor();
  await assertNoSidewaysScroll(page, "the editor");
  const save = button(page.getByRole("dialog"), "Save");
  await save.scrollIntoViewIfNeeded();
  await save.click({ trial: true });
});

test("the user's choice of a theme is remembered", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { context: { colorScheme: "light" } });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByRole("button", { name: "Theme" }).click();
  const dark = await background();
  assert.notEqual(dark, light);
  await page.reload();
  await page.getByRole("button", { name: "Theme" }).waitFor();
  assert.equal(await background(), dark);
  await page.getByRole("button", { name: "Theme" }).click();
  assert.equal(await background(), light);
});
