// The live view of a table's changes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { assertAccessible } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { button, foot } from "../support/entities.js";
import { openWithSas } from "../support/pages.js";
import { startServer } from "../support/server.js";

const HASH = "#/t/orders/changes";

async function serverWithOrders(test, settings = {}) {
  const server = await startServer({ options: ["--keep-log", "1h"], ...settings });
  test.after(() => server.stop());
  const orders = await server.createTable("orders", [{ partitionKey: "p", rowKey: "old" }]);
  return { server, orders };
}

const status = (page, text) => page.locator(".status").getByText(text, { exact: true }).waitFor();
const waiting = (page, count) => status(page, `Waiting for changes \u00b7 ${count}`);

// Waits until the server streams the changes to the page.
async function streaming(page, action) {
  const response = page.waitForResponse((response) => response.url().includes("Changesorders"));
  await action();
  assert.equal((await response).status(), 200);
}

async function lines(page) {
  const rows = await page.locator("tbody tr").all();
  return Promise.all(rows.map(async (row) => {
    const [, operation, partitionKey, rowKey, , json] = await row.locator("td").allTextContents();
    return `${operation} ${partitionKey} ${rowKey} ${json}`.trim();
  }));
}

test("changes appear as they happen, and after a pause", async (test) => {
  const { server, orders } = await serverWithOrders(test);
  const page = await openExplorer(test, server, { hash: "#/t/orders" });
  await foot(page, "1 entity").waitFor();
  await streaming(page, () => page.getByRole("link", { name: "Changes", exact: true }).click());
  await waiting(page, "0 changes");
  await orders.createEntity({ partitionKey: "p", rowKey: "1", Total: { type: "Int64", value: "7" } });
  await orders.deleteEntity("p", "old");
  await waiting(page, "2 changes");
  assert.deepEqual(await lines(page), ["Delete p old", "Put p 1 JSON"]);
  await assertAccessible(page);

  await button(page, "JSON of the change of 1").click();
  const json = JSON.parse(await page.getByRole("region", { name: "JSON" }).textContent());
  assert.deepEqual(json, { PartitionKey: "p", RowKey: "1", "Total@odata.type": "Edm.Int64", Total: "7" });
  await button(page, "Close").click();

  await button(page, "Pause").click();
  await status(page, "Paused \u00b7 2 changes");
  await orders.createEntity({ partitionKey: "p", rowKey: "2" });
  await streaming(page, () => button(page, "Resume").click());
  await waiting(page, "3 changes");
  await button(page, "Clear").click();
  await waiting(page, "0 changes");
  for (let start = 0; start < 600; start += 100) {
    const entities = Array.from({ length: 100 }, (_, at) => ({ partitionKey: "q", rowKey: String(start + at) }));
    await orders.submitTransaction(entities.map((entity) => ["create", entity]));
  }
  await waiting(page, "600 changes, of which the last 500 are shown");
  const shown = await lines(page);
  assert.deepEqual([shown.length, shown[0], shown.at(-1)], [500, "Put q 599 JSON", "Put q 100 JSON"]);
});

test("the changes begin where the user chose, with the old and new values, and lead to the entity and back", async (test) => {
  const { server, orders } = await serverWithOrders(test);
  await orders.createEntity({ partitionKey: "p", rowKey: "1", Total: 7, Note: "same" });
  const page = await openExplorer(test, server, { hash: HASH, statuses: [400] });
  await waiting(page, "0 changes");
  await streaming(page, () => page.getByLabel("Begin").selectOption("From the oldest change"));
  await waiting(page, "3 changes");
  await orders.updateEntity({ partitionKey: "p", rowKey: "1", Total: 8 }, "Merge");
  await waiting(page, "4 changes");
  const values = page.locator("tbody tr").first().locator(".values");
  assert.equal(await values.innerText(), "Total Int32: 7 Int32: 8");
  assert.deepEqual([await values.locator("del").innerText(), await values.locator("ins").innerText()], ["Int32: 7", "Int32: 8"]);
  await orders.deleteEntity("p", "1");
  await waiting(page, "5 changes");
  assert.equal(await values.innerText(), "Note String: same\nTotal Int32: 8");
  await assertAccessible(page, "values");

  await page.getByRole("textbox", { name: "Filter" }).fill("Entity_Total gt 7");
  await streaming(page, () => page.getByRole("textbox", { name: "Filter" }).press("Enter"));
  await waiting(page, "1 change");
  await page.getByRole("textbox", { name: "Filter" }).fill("Entity_Total gtt 7");
  await page.getByRole("textbox", { name: "Filter" }).press("Enter");
  await page.getByRole("alert").filter({ hasText: "400" }).or(page.getByRole("alert").filter({ hasText: "501" })).waitFor();

  await page.getByRole("textbox", { name: "Filter" }).fill("Entity_RowKey eq 'old'");
  await streaming(page, () => page.getByRole("textbox", { name: "Filter" }).press("Enter"));
  await waiting(page, "1 change");
  await page.getByRole("link", { name: "old", exact: true }).click();
  await page.getByRole("gridcell", { name: "old", exact: true }).waitFor();
  await page.goBack();
  await waiting(page, "0 changes");
});

test("a list that was scrolled stays where it is when changes arrive", async (test) => {
  const { server, orders } = await serverWithOrders(test);
  const page = await openExplorer(test, server, { hash: HASH });
  await waiting(page, "0 changes");
  const insert = (from) => orders.submitTransaction(Array.from({ length: 60 }, (_, at) => ["create", { partitionKey: "q", rowKey: `${from + at}` }]));
  await insert(100);
  await waiting(page, "60 changes");
  const region = page.getByRole("region", { name: "Changes, the latest first" });
  await region.evaluate((element) => element.scrollTo(0, 500));
  const row = page.getByRole("cell", { name: "130", exact: true });
  const { y } = await row.boundingBox();
  await insert(200);
  await waiting(page, "120 changes");
  assert.ok(Math.abs((await row.boundingBox()).y - y) < 1, "the line has not moved");
});

test("a signature for the table is enough", async (test) => {
  const { server, orders } = await serverWithOrders(test, { ownAccount: true });
  const page = await openWithSas(test, server, server.tableSas("orders", ["query"]), { hash: "#/t/orders" });
  await foot(page, "1 entity").waitFor();
  await streaming(page, () => page.getByRole("link", { name: "Changes", exact: true }).click());
  await orders.createEntity({ partitionKey: "p", rowKey: "<b>1<b>" });
  await waiting(page, "1 change");
  assert.deepEqual(await lines(page), ["Put p <b>1<b> JSON"]);
});

test("the page continues after the server was restarted", async (test) => {
  const { server, orders } = await serverWithOrders(test, { onDisk: true });
  const page = await openExplorer(test, server, { hash: HASH, unreachable: true });
  await waiting(page, "0 changes");
  await orders.createEntity({ partitionKey: "p", rowKey: "1" });
  await waiting(page, "1 change");
  await server.pause();
  await status(page, "Not connected; trying again \u00b7 1 change");
  await server.start();
  await orders.createEntity({ partitionKey: "p", rowKey: "2" });
  await waiting(page, "2 changes");
  assert.deepEqual(await lines(page), ["Put p 2 JSON", "Put p 1 JSON"]);
});

test("positions of another log are a gap", async (test) => {
  const { server, orders } = await serverWithOrders(test);
  const page = await openExplorer(test, server, { hash: HASH, statuses: [410], unreachable: true });
  await waiting(page, "0 changes");
  for (let number = 0; number < 5; number += 1) await orders.createEntity({ partitionKey: "p", rowKey: String(number) });
  await waiting(page, "5 changes");
  // The server has lost its data and its log.
  await server.pause();
  await server.start();
  await page.getByRole("alert").getByText("The server has dropped changes that are not shown here.").waitFor();
  await status(page, "Stopped \u00b7 5 changes");
  await server.createTable("orders");
  await streaming(page, () => button(page, "Resume").click());
  await orders.createEntity({ partitionKey: "p", rowKey: "new" });
  await waiting(page, "6 changes");
});

test("without a change feed, the page says what the server needs", async (test) => {
  const { server } = await serverWithOrders(test, { options: [] });
  const page = await openExplorer(test, server, { hash: "#/t/orders" });
  await foot(page, "1 entity").waitFor();
  assert.equal(await page.getByRole("link", { name: "Changes", exact: true }).count(), 0);
  await page.evaluate((hash) => (location.hash = hash), HASH);
  await page.getByText("The server needs the option --keep-log.").waitFor();
});
