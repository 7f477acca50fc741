// Entities whose keys, names and values try to become something other than text, in every place that shows them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openExplorer } from "../support/browser.js";
import { HASH, TABLE, KEYS, MARKUP, NAMES, VALUES, answer, assertOnlyText, assertShown, serverWith } from "../support/hostile.js";

// The property names have a meaning in JavaScript.
function hostileEntity() {
  const entity = { PartitionKey: MARKUP, RowKey: "'\"" };
  // An assignment to __proto__ would not create a property.
  const define = (name, value) => Object.defineProperty(entity, name, { value, enumerable: true, configurable: true, writable: true });
  Object.entries(VALUES).forEach(([name, value]) => define(`v_${name}`, value));
  NAMES.forEach((name) => define(name, `${MARKUP} of ${name}`));
  return entity;
}

const gridOf = (page) => page.getByRole("grid", { name: `Entities of ${TABLE}` });
const button = (scope, name) => scope.getByRole("button", { name, exact: true });

async function openEditor(page) {
  await gridOf(page).getByRole("gridcell").nth(1).click();
  await button(page, "Edit").click();
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  return dialog;
}

test("the grid shows keys, names and values as text", async (test) => {
  const server = await serverWith(test, [hostileEntity(), ...KEYS.map((key, at) => ({ PartitionKey: key, RowKey: KEYS.at(-1 - at) }))]);
  const page = await openExplorer(test, server, { hash: HASH });
  const grid = gridOf(page);
  await assertShown(grid, MARKUP);
  await assertOnlyText(page, "the first columns");
  await grid.getByRole("gridcell").nth(1).click();
  for (let steps = 0; steps < 40; steps += 1) {
    await page.keyboard.press("ArrowRight");
  }
  await assertShown(grid, `${MARKUP} of length`);
  await assertOnlyText(page, "the last columns");
  for (const name of NAMES) {
    await grid.getByRole("columnheader", { name: new RegExp(`^${name}\\b|^${name}`) }).first().waitFor({ state: "attached" });
  }
  await page.keyboard.press("Control+End");
  await assertOnlyText(page, "the last line");
});

test("the editor shows every value exactly, and saving keeps unchanged values", async (test) => {
  const entity = hostileEntity();
  const server = await serverWith(test, [entity]);
  const page = await openExplorer(test, server, { hash: HASH });
  await assertShown(gridOf(page), MARKUP);
  const dialog = await openEditor(page);
  assert.equal(await dialog.getByLabel("PartitionKey").inputValue(), MARKUP);
  await assertOnlyText(page, "the editor");
  for (const [name, value] of Object.entries(VALUES)) {
    const shown = await dialog.getByLabel(`Value of v_${name}`, { exact: true }).inputValue();
    assert.equal(shown, value.replace(/\r\n?/g, "\n"), name);
  }
  await dialog.getByLabel("Value of v_emoji", { exact: true }).fill("changed");
  await button(dialog, "Save").click();
  await dialog.waitFor({ state: "detached" });
  await page.getByText(/^Edited /).first().waitFor();
  await assertOnlyText(page, "the notice");

  const [stored] = (await server.send(`${TABLE}()`)).value;
  for (const [name, value] of Object.entries(VALUES)) {
    assert.equal(stored[`v_${name}`], name === "emoji" ? "changed" : value, name);
  }
  for (const name of NAMES) {
    assert.equal(Object.getOwnPropertyDescriptor(stored, name)?.value, `${MARKUP} of ${name}`, name);
  }
});

test("entities with hostile keys can be read, edited and deleted", async (test) => {
  const server = await serverWith(test, KEYS.map((key, at) => ({ PartitionKey: key, RowKey: KEYS.at(-1 - at), mark: 0 })));
  const page = await openExplorer(test, server, { hash: HASH });
  const grid = gridOf(page);
  await grid.getByRole("gridcell").nth(1).click();
  await page.keyboard.press("Control+a");
  await button(page, "Edit property").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Property", { exact: true }).fill("mark");
  await dialog.getByLabel("Property", { exact: true }).blur();
  await dialog.getByLabel("Value of mark").fill("7");
  await button(dialog, "Apply").click();
  await page.getByText(/^Edited .*11 entities/).first().waitFor();
  for (const [at, key] of KEYS.entries()) {
    assert.equal((await server.table(TABLE).getEntity(key, KEYS.at(-1 - at))).mark, 7, `${key} was edited`);
  }
  await assertOnlyText(page, "after editing");

  await button(page, "Delete").click();
  await assertOnlyText(page, "the question");
  await button(page.getByRole("dialog"), "Delete").click();
  await page.getByText(/^Deleted .*11 entities/).first().waitFor();
  const left = [];
  for await (const entity of server.table(TABLE).listEntities()) {
    left.push(entity);
  }
  assert.deepEqual(left, []);
});

test("dialogs and notices show hostile keys as text", async (test) => {
  const keys = KEYS.filter((key) => key !== "");
  const server = await serverWith(test, keys.map((key) => ({ PartitionKey: "p", RowKey: key })));
  const page = await openExplorer(test, server, { hash: HASH });
  const grid = gridOf(page);
  for (let left = keys.length; left > 0; left -= 1) {
    await grid.getByRole("gridcell").nth(1).click();
    await button(page, "Delete").click();
    await page.getByRole("dialog").waitFor();
    await assertOnlyText(page, "the question");
    await button(page.getByRole("dialog"), "Delete").click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await assertOnlyText(page, "the notice");
  }
  await page.getByText("The table has no entities").first().waitFor();
});

test("names that only a hostile server can send are shown as text, too", async (test) => {
  const server = await serverWith(test, []);
  const page = await openExplorer(test, server, { statuses: [400] });
  const entity = { "odata.etag": MARKUP, PartitionKey: "p", RowKey: "r", Timestamp: MARKUP, [MARKUP]: MARKUP, [VALUES.svg]: "x" };
  await answer(page, `/${TABLE}()`, { value: [entity] });
  await page.getByRole("link", { name: TABLE, exact: true }).click();
  const grid = gridOf(page);
  await grid.getByRole("columnheader", { name: MARKUP }).waitFor();
  await assertOnlyText(page, "the grid");

  await button(page, "Columns").click();
  await assertShown(page.getByRole("dialog"), MARKUP);
  await assertOnlyText(page, "the columns");
  await page.keyboard.press("Escape");

  await grid.getByRole("columnheader", { name: MARKUP }).click();
  await page.getByRole("menu").waitFor();
  await assertOnlyText(page, "the menu");
  await page.keyboard.press("Escape");

  const dialog = await openEditor(page);
  await assertShown(dialog, MARKUP);
  await assertOnlyText(page, "the editor");
  await page.keyboard.press("Escape");

  await page.unrouteAll();
  const error = { code: MARKUP, message: { lang: "en", value: VALUES.svg } };
  await answer(page, `/${TABLE}()`, { "odata.error": error }, 400);
  await button(page, "Refresh").click();
  await assertShown(page.getByRole("main"), VALUES.svg);
  await assertOnlyText(page, "the message");

  await page.unrouteAll();
  await answer(page, `/${TABLE}()`, { value: [{ ...entity, "n@odata.type": `Edm.${MARKUP}`, n: "x" }] });
  await button(page, "Refresh").click();
  await assertShown(page.getByRole("main"), `Unknown type: Edm.${MARKUP}`);
  await assertOnlyText(page, "the message about a type");
});
