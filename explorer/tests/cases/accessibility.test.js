// What axe says about every view and dialog, in light and dark, and the explorer on narrow screens.

import assert from "node:assert/strict";
import { test } from "node:test";
import { assertAccessible, assertNoSidewaysScroll } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { startServer } from "../support/server.js";

const NARROW = { width: 360, height: 640 };
const WIDE = { width: 1200, height: 800 };
const LONG_NAME = "a".repeat(63);

async function serverWith(test, settings) {
  const server = await startServer(settings);
  test.after(() => server.stop());
  await server.createTable("harvest", [
    { partitionKey: "apple", rowKey: "1", weight: 120, ripe: true, picked: new Date("2026-05-01T10:00:00Z") },
    { partitionKey: "pear", rowKey: "k".repeat(500), note: "long ".repeat(400) },
  ]);
  await server.createTable(LONG_NAME);
  return server;
}

// What is shown, and how to get there from a page that has just been opened. Each begins at its own address.
const VIEWS = {
  tables: { async show(page) {
    await page.getByText("2 tables").waitFor();
  } },
  "create table": { async show(page) {
    await page.getByRole("button", { name: "Create table" }).click();
    await page.getByRole("dialog").waitFor();
  } },
  "delete table": { async show(page) {
    await page.getByRole("button", { name: `Delete ${LONG_NAME}` }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete the table" }).click();
    await page.getByRole("dialog").getByRole("alert").filter({ hasText: "exactly" }).waitFor();
  } },
  "tables with a notice": { async show(page) {
    await page.getByRole("button", { name: "Create table" }).click();
    await page.getByLabel("Name").fill("orders");
    await page.getByLabel("Name").press("Enter");
    await page.getByText("The table orders was created.").waitFor();
  } },
  "sign in": { async show(page) {
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.getByLabel("Sign in with").selectOption("Account and key");
    await page.getByLabel("Account key").fill("?");
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByRole("alert").filter({ hasText: /./ }).waitFor();
  } },
};

for (const [name, { hash = "", show }] of Object.entries(VIEWS)) {
  test(`axe, and a narrow screen: ${name}`, async (test) => {
    const server = await serverWith(test);
    const page = await openExplorer(test, server, { hash, context: { viewport: WIDE, colorScheme: "light", reducedMotion: "reduce" } });
    await show(page);
    await assertAccessible(page, "light");
    await page.emulateMedia({ colorScheme: "dark" });
    await assertAccessible(page, "dark");
    await page.setViewportSize(NARROW);
    await assertNoSidewaysScroll(page, "narrow");
    await assertAccessible(page, "narrow and dark");
  });
}

test("the user chooses light or dark, and the choice is remembered", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { context: { colorScheme: "light" } });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByRole("button", { name: "Light or dark" }).click();
  const dark = await background();
  assert.notEqual(dark, light);
  await page.reload();
  await page.getByRole("button", { name: "Light or dark" }).waitFor();
  assert.equal(await background(), dark);
  await page.getByRole("button", { name: "Light or dark" }).click();
  assert.equal(await background(), light);
});
