// The settings of a table that need extensions of the server: retention and indexes, sorting by an index, and advice to
// add one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { assertAccessible, assertNoSidewaysScroll, focusedName } from "../support/accessibility.js";
import { keepNotices, openExplorer } from "../support/browser.js";
import { button, cell, closed, foot, openEntity, value } from "../support/entities.js";
import { assertOnlyText } from "../support/hostile.js";
import { signIn } from "../support/pages.js";
import { startServer } from "../support/server.js";
import { TableService } from "../../web/core/client.js";
import { KeyCredential } from "../../web/core/credential.js";
import { watchIndexes } from "../../web/core/indexes.js";

const HASH = "#/t/orders";
const SETTINGS = `${HASH}/settings`;

// Starts a server with a table of entities whose Total falls while the RowKey rises. The last entity has no Total.
async function serverWithOrders(test, count = 20, settings = {}) {
  const server = await startServer({ options: ["--extensions"], ...settings });
  test.after(() => server.stop());
  const orders = await server.createTable("orders");
  for (let start = 0; start < count; start += 100) {
    const entities = Array.from({ length: Math.min(100, count - start) }, (_, at) => {
      const number = start + at;
      const more = number === count - 1 ? {} : { Total: count - number };
      return { partitionKey: "p", rowKey: String(number).padStart(5, "0"), Name: `order ${number}`, Even: number % 2 === 0, ...more };
    });
    await orders.submitTransaction(entities.map((entity) => ["create", entity]));
  }
  return server;
}

// Adds indexes, and waits until they are ready.
async function addIndexes(server, properties) {
  const service = new TableService(server.account, server.endpoint, await KeyCredential.of(server.account, server.key));
  await service.setIndexes("orders", properties);
  for await (const _ of watchIndexes(service, "orders", new AbortController().signal));
}

// Collects the bodies of the requests that change a setting.
function bodiesOf(page) {
  const sent = [];
  page.on("request", (request) => {
    if (request.method() === "PUT") sent.push(request.postData().replace(/<\?.*?\?>/, ""));
  });
  return sent;
}

// Waits for the notice after a change of the retention, and closes it.
async function saved(page) {
  const notice = page.locator(".notice", { hasText: "The retention of orders was saved." });
  await button(notice, "Dismiss").click();
  await notice.waitFor({ state: "detached" });
}

const region = (page, name) => page.getByRole("region", { name, exact: true });

test("the retention of a table is shown, and changed after a confirmation", async (test) => {
  const server = await serverWithOrders(test);
  const page = await openExplorer(test, server, { hash: HASH, prepare: keepNotices });
  const sent = bodiesOf(page);
  await page.getByRole("navigation", { name: "Table" }).getByRole("link", { name: "Settings" }).click();
  await page.getByRole("heading", { name: "Retention" }).waitFor();
  const card = region(page, "Retention");
  const mode = card.getByLabel("Entities expire");
  assert.equal(await mode.inputValue(), "off");
  await assertAccessible(page, "the settings of a table");

  await mode.selectOption("After a time without a change");
  await card.getByLabel("Time since the last change").fill("0");
  await button(card, "Save retention").click();
  assert.equal(await card.getByLabel("Time since the last change").evaluate((input) => input.validity.valid), false);
  await card.getByLabel("Time since the last change").fill("36501");
  assert.equal(await card.getByLabel("Time since the last change").evaluate((input) => input.validity.rangeOverflow), true);
  await card.getByLabel("Time since the last change").fill("36");
  await card.getByLabel("Unit").selectOption("hours");
  await button(card, "Save retention").click();
  const dialog = page.getByRole("dialog", { name: "Delete expired entities" });
  await dialog.getByText("All entities of orders that have not been changed for this time (36 hours) will be deleted").waitFor();
  await assertAccessible(page, "the confirmation of a retention");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await closed(page);
  await button(card, "Save retention").click();
  await dialog.getByLabel("Type orders to confirm").fill("orders");
  await dialog.getByRole("button", { name: "Save and delete" }).click();
  await saved(page);

  await page.evaluate(() => dispatchEvent(new HashChangeEvent("hashchange")));
  await card.getByLabel("Time since the last change").waitFor();
  assert.equal(await card.getByLabel("Time since the last change").inputValue(), "36");
  assert.equal(await card.getByLabel("Unit").inputValue(), "hours");
  await mode.selectOption("At the time in a property");
  await card.getByLabel("Property").fill("Ends & <b>");
  await card.getByLabel("Time after it").fill("0");
  await button(card, "Save retention").click();
  await dialog.getByText("All entities of orders whose time in Ends & <b> has passed will be deleted").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await assertOnlyText(page, "a retention");
  await server.table("orders").createEntity({ partitionKey: "p", rowKey: "expired", Ends: new Date("2020-01-01T00:00:00Z") });
  await card.getByLabel("Property").fill("Ends");
  await button(card, "Save retention").click();
  await dialog.getByLabel("Type orders to confirm").fill("orders");
  await dialog.getByRole("button", { name: "Save and delete" }).click();
  await saved(page);
  await page.getByRole("link", { name: "Entities" }).click();
  await foot(page, "All 20 entities").waitFor();
  await page.getByRole("navigation", { name: "Table" }).getByRole("link", { name: "Settings" }).click();
  await card.getByLabel("Property").waitFor();
  assert.equal(await card.getByLabel("Property").inputValue(), "Ends");
  await mode.selectOption("Never");
  assert.equal(await card.getByLabel("Unit").isVisible(), false);
  await button(card, "Save retention").click();
  await saved(page);
  assert.deepEqual(sent.map((body) => body.replaceAll(/<\/?TableRetention>/g, "")),
    ["<Seconds>129600</Seconds>", "<Property>Ends</Property><Seconds>0</Seconds>", ""]);
});

test("an error of the server about a retention is shown", async (test) => {
  const server = await serverWithOrders(test);
  const page = await openExplorer(test, server, { hash: SETTINGS, statuses: [400] });
  const card = region(page, "Retention");
  await card.getByLabel("Entities expire").selectOption("At the time in a property");
  // The name of a property contains no space.
  await card.getByLabel("Property").fill("Ends at");
  await button(card, "Save retention").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Type orders to confirm").fill("orders");
  await dialog.getByRole("button", { name: "Save and delete" }).click();
  await dialog.getByRole("alert").getByText(/ \(InvalidXmlDocument, 400\)$/).waitFor();
});

// The server builds the index of a small table immediately. This shows the first index as being built as long as
// `isBuilding` returns true.
async function showBuilding(page, isBuilding) {
  await page.route((url) => url.searchParams.get("comp") === "indexes", async (route) => {
    if (route.request().method() !== "GET") return route.continue();
    const response = await route.fetch();
    const body = await response.text();
    return route.fulfill({ response, body: isBuilding() ? body.replace("ready", "building") : body });
  });
}

test("indexes are added, followed while they are built, and removed", async (test) => {
  const server = await serverWithOrders(test);
  let isBuilding = true;
  const page = await openExplorer(test, server, { hash: SETTINGS, prepare: (page) => showBuilding(page, () => isBuilding) });
  const sent = bodiesOf(page);
  const card = region(page, "Indexes");
  const list = card.getByRole("list", { name: "Indexes" });
  await card.getByText("The table has no indexes.").waitFor();
  await card.getByLabel("Property").fill("Total");
  await page.keyboard.press("Enter");
  await list.getByText("being built").waitFor();
  assert.match(await focusedName(page), /^input Property/);
  await assertAccessible(page, "an index that is being built");
  isBuilding = false;
  await list.getByText("ready", { exact: true }).waitFor();
  await page.getByText("The index of Total is ready.").waitFor({ state: "attached" });
  await card.getByLabel("Property").fill("Total");
  await button(card, "Add index").click();
  await card.getByRole("alert").getByText("Total already has an index.").waitFor();
  await card.getByLabel("Property").fill("Name");
  await button(card, "Add index").click();
  await page.getByText("The index of Name was added.").waitFor();
  assert.deepEqual(await list.getByRole("listitem").locator("code").allTextContents(), ["Total", "Name"]);
  await list.getByRole("button", { name: "Remove the index of Total" }).click();
  await page.getByText("The index of Total was removed.").waitFor();
  assert.deepEqual(await list.getByRole("listitem").locator("code").allTextContents(), ["Name"]);
  const names = sent.map((body) => [...body.matchAll(/<Property>(.*?)<\/Property>/g)].map(([, name]) => name));
  assert.deepEqual(names, [["Total"], ["Total", "Name"], ["Name"]]);
});

test("a table with the maximum number of indexes offers no more, also on a narrow screen in the dark theme", async (test) => {
  const server = await serverWithOrders(test);
  const indexes = Array.from({ length: 8 }, (_, at) => `${"Property".repeat(20)}${at}`);
  await addIndexes(server, indexes);
  const page = await openExplorer(test, server, {
    hash: SETTINGS,
    context: { viewport: { width: 360, height: 740 }, colorScheme: "dark" },
  });
  const card = region(page, "Indexes");
  await card.getByText(indexes[7]).waitFor();
  assert.equal(await button(card, "Add index").isDisabled(), true);
  await region(page, "Retention").getByLabel("Entities expire").selectOption("At the time in a property");
  await assertNoSidewaysScroll(page, "the settings of a table");
  await assertAccessible(page, "the settings of a table in the dark theme");
});

test("the settings of a table need extensions and the account key", async (test) => {
  const server = await serverWithOrders(test, 20, { ownAccount: true });
  const page = await openExplorer(test, server, { hash: HASH });
  await signIn(page, { kind: "Shared access signature", account: server.account, secret: server.tableSas("orders") });
  await foot(page, "All 20 entities").waitFor();
  assert.equal(await page.getByRole("link", { name: "Settings" }).count(), 0);
  await page.goto(`${server.origin}/_rowhouse/${SETTINGS}`);
  await page.getByText("Changing them requires the account key.").waitFor();
  const other = await serverWithOrders(test, 20, { options: [] });
  const plain = await openExplorer(test, other, { hash: HASH });
  await foot(plain, "All 20 entities").waitFor();
  assert.equal(await plain.getByRole("link", { name: "Settings" }).count(), 0);
  await plain.goto(`${other.origin}/_rowhouse/${SETTINGS}`);
  await plain.getByText("The server needs the option --extensions.").waitFor();
});

async function sortBy(page, column, item) {
  await page.getByRole("columnheader", { name: column }).click();
  // The name begins with a mark if the item is checked.
  await page.getByRole("menuitemcheckbox", { name: new RegExp(`${item}$`) }).click();
}

test("a column with an index sorts the whole table, with the filter and the projection", async (test) => {
  const server = await serverWithOrders(test, 1500);
  await addIndexes(server, ["Total"]);
  const page = await openExplorer(test, server, { hash: `${HASH}?filter=${encodeURIComponent("Total gt 100")}&select=Total` });
  await foot(page, "1,000 entities loaded, more available, selected properties only").waitFor();
  const asked = page.waitForRequest((request) => request.url().includes("By"));
  await sortBy(page, "Total", "Sort the whole table ascending");
  const url = new URL((await asked).url());
  assert.equal(decodeURIComponent(url.pathname), "/devstoreaccount1/$ByTotalOforders()");
  assert.equal(url.searchParams.get("$filter"), "Total gt 100");
  assert.equal(url.searchParams.get("$select"), "PartitionKey,RowKey,Timestamp,Total");
  const words = ", selected properties only, sorted by Total; entities without it are not listed";
  await foot(page, `1,000 entities loaded, more available${words}`).waitFor();
  const first = (text) => page.locator("[aria-rowindex='2']").getByText(text, { exact: true });
  await first("101").waitFor();
  await button(page, "Load all").click();
  await foot(page, `All 1,400 entities${words}`).waitFor();

  await sortBy(page, "Total", "Sort the whole table descending");
  await first("1500").waitFor();
  await assertAccessible(page, "a sorted table");
  await sortBy(page, "Total", "Sort the whole table descending");
  await foot(page, "1,000 entities loaded, more available, selected properties only").waitFor();
  await first("00000").waitFor();
});

test("entities in the order of an index are edited in their table, and sorted again", async (test) => {
  const server = await serverWithOrders(test);
  await addIndexes(server, ["Total"]);
  const page = await openExplorer(test, server, { hash: HASH });
  await foot(page, "All 20 entities").waitFor();
  await sortBy(page, "Total", "Sort the whole table descending");
  await foot(page, "All 19 entities, sorted by Total; entities without it are not listed").waitFor();
  const totals = () => page.getByRole("row").evaluateAll((rows) => rows.slice(1, 4).map((row) => /order (\d+)/.exec(row.textContent)?.[1]));
  assert.deepEqual(await totals(), ["0", "1", "2"]);
  await openEntity(page, "order 0");
  await value(page, "Total").fill("19");
  await button(page.getByRole("dialog"), "Save").click();
  await closed(page);
  await page.getByText(/^Edited /).first().waitFor();
  await openEntity(page, "order 1");
  await value(page, "Total").fill("1");
  await button(page.getByRole("dialog"), "Save").click();
  await closed(page);
  await page.waitForFunction(() => !document.querySelector("[aria-rowindex='3']")?.textContent?.includes("order 1,"));
  assert.deepEqual(await totals(), ["0", "2", "3"]);
  assert.equal((await server.table("orders").getEntity("p", "00001")).Total, 1);
  // A column without an index sorts the loaded entities of the table itself.
  await sortBy(page, "Name", "Sort descending");
  await foot(page, "All 20 entities, sorted by Name").waitFor();
});

test("the cost of a query says that an index would help, and adds it", async (test) => {
  const server = await serverWithOrders(test, 300);
  const page = await openExplorer(test, server, { hash: HASH });
  const sent = bodiesOf(page);
  await foot(page, "All 300 entities").waitFor();
  await page.getByText("Cost details").click();
  const filter = page.getByRole("textbox", { name: "Filter" });
  await filter.fill("Total eq 5 and Name gt 'a'");
  await page.keyboard.press("Enter");
  const advice = page.getByRole("list", { name: "Advice" });
  await advice.getByText("300 entities were examined to return 1. With an index of Total, the query would read only").waitFor();
  assert.equal(await advice.getByText("store the entities a second time").count(), 0);
  await assertAccessible(page, "advice to add an index");
  await advice.getByRole("button", { name: "Add an index of Total" }).click();
  await page.getByText("The index of Total was added.").waitFor();
  await advice.getByRole("button").waitFor({ state: "detached" });
  assert.match(await focusedName(page), /^summary Cost details/);
  assert.deepEqual(sent, ["<TableIndexes><TableIndex><Property>Total</Property></TableIndex></TableIndexes>"]);
});

test("the cost of a query names the index that was read, also in the order of the index", async (test) => {
  const server = await serverWithOrders(test, 300);
  await addIndexes(server, ["Total"]);
  const page = await openExplorer(test, server, { hash: `${HASH}?filter=${encodeURIComponent("Total gt 298")}` });
  await foot(page, "All 2 entities").waitFor();
  await page.getByText("Cost details").click();
  const cost = page.getByRole("region", { name: "Query cost" });
  const advice = page.getByRole("list", { name: "Advice" });
  await cost.getByRole("status").getByText(/^Index of Total: 2 examined, 2 returned, 1 page,/).waitFor();
  const found = "The entities were found in the index of Total, not by reading the key ranges.";
  assert.deepEqual(await advice.getByRole("listitem").allTextContents(), [found]);
  await assertAccessible(page, "the cost of a query with an index");
  await page.getByRole("textbox", { name: "Filter" }).fill("Name eq 'order 7'");
  await page.keyboard.press("Enter");
  await advice.getByRole("button", { name: "Add an index of Name" }).waitFor();
  await sortBy(page, "Total", "Sort the whole table descending");
  await cost.getByRole("status").getByText(/^Index of Total: 299 examined, 1 returned, 1 page,/).waitFor();
  assert.deepEqual(await advice.getByRole("listitem").allTextContents(), [found]);
});
