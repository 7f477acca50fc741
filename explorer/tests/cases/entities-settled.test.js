// Safeguards for entities: lost responses, conflicts, confirmation before input is discarded, and checks of names and
// types.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { keepNotices, measureNoTime, openExplorer } from "../support/browser.js";
import { button, cell, closed, foot, openEntity, type, undoButton, value } from "../support/entities.js";
import { startServer } from "../support/server.js";

/** @type {import("../support/server.js").Server} */
let server;
before(async () => {
  server = await startServer();
});
after(() => server.stop());

const dialogButton = (page, name) => page.getByRole("dialog").last().getByRole("button", { name, exact: true });
const numbered = (count) => Array.from({ length: count }, (_, i) => ({ partitionKey: "p", rowKey: `r${i}`, text: `t${i}` }));

async function all(table) {
  const found = [];
  for await (const entity of table.listEntities()) found.push(entity);
  return found;
}

// Lets the server carry out requests with the given method, but drops their responses.
async function loseAnswers(page, address, method) {
  await page.route(address, async (route) => {
    if (route.request().method() !== method) return route.continue();
    await route.fetch();
    await route.abort("connectionreset");
  });
}

async function editText(page, from, to) {
  await cell(page, from).dblclick();
  await value(page, "text").fill(to);
  await dialogButton(page, "Save").click();
}

test("Enter after the name of a property writes nothing, and no value is suggested if the values differ", async (t) => {
  const table = await server.createTable("Enter", numbered(3));
  const page = await openExplorer(t, server, { hash: "#/t/Enter" });
  await cell(page, "t0").click();
  await page.keyboard.press("Control+a");
  await button(page, "Edit property").click();
  await page.getByLabel("Property", { exact: true }).pressSequentially("text");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "Value of text");
  assert.equal(await value(page, "text").inputValue(), "");
  assert.equal(await page.getByRole("dialog").count(), 1);
  await page.getByLabel("Property", { exact: true }).fill("a@b");
  await button(page, "Apply").click();
  await page.getByText(/neither \u201c\.\u201d nor \u201c@\u201d/).waitFor();
  assert.deepEqual((await all(table)).map(({ text }) => text), ["t0", "t1", "t2"]);
});

test("a write whose response is lost counts as done if it was carried out, and can be undone", async (t) => {
  const table = await server.createTable("Lost", numbered(2));
  const page = await openExplorer(t, server, { hash: "#/t/Lost", unreachable: true, statuses: [404] });
  await loseAnswers(page, /Lost\(P/, "PUT");
  await editText(page, "t0", "mine");
  await cell(page, "mine").waitFor();
  await closed(page);
  await page.unroute(/Lost\(P/);
  await undoButton(page).click();
  await cell(page, "t0").waitFor();
  await loseAnswers(page, /Lost\(P/, "DELETE");
  await cell(page, "t1").click();
  await page.keyboard.press("Delete");
  await dialogButton(page, "Delete").click();
  await foot(page, "1 entity").waitFor();
  await undoButton(page).click();
  await foot(page, "All 2 entities").waitFor();
  assert.deepEqual((await all(table)).map(({ text }) => text), ["t0", "t1"]);
});

test("an unknown result of a write is reported, and retrying it causes no conflict", async (t) => {
  const table = await server.createTable("Unknown", numbered(1));
  const page = await openExplorer(t, server, { hash: "#/t/Unknown", unreachable: true, statuses: [409, 412, 503] });
  await page.route(/Unknown\(P/, async (route) => {
    if (route.request().method() === "PUT") await route.fetch();
    await route.abort("connectionreset");
  });
  await editText(page, "t0", "mine");
  await page.getByText(/It is not known whether the change was made/).waitFor();
  await page.unroute(/Unknown\(P/);
  await dialogButton(page, "Save").click();
  await cell(page, "mine").waitFor();
  await closed(page);
  // A request to a busy server is retried, even if the first attempt was carried out.
  let requests = 0;
  await page.route(/\/Unknown$/, async (route) => {
    requests += 1;
    if (requests > 1) return route.continue();
    await route.fetch();
    await route.fulfill({ status: 503, body: "busy", headers: { "Retry-After": "0" } });
  });
  await button(page, "Add").click();
  await page.getByLabel("PartitionKey").fill("q");
  await dialogButton(page, "Add").click();
  await foot(page, "All 2 entities").waitFor();
  assert.equal(requests, 2);
  assert.equal((await all(table)).length, 2);
});

test("transactions whose response is lost count as done", async (t) => {
  const table = await server.createTable("LostMany", numbered(30));
  const page = await openExplorer(t, server, { hash: "#/t/LostMany", unreachable: true, statuses: [404] });
  await loseAnswers(page, /\$batch/, "POST");
  await cell(page, "t0").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await dialogButton(page, "Delete").click();
  await page.getByText("Deleted 30 entities.").waitFor();
  assert.equal((await all(table)).length, 0);
  await page.unroute(/\$batch/);
  await undoButton(page).click();
  await foot(page, "All 30 entities").waitFor();
});

test("a conflict during a deletion shows both versions", async (t) => {
  const table = await server.createTable("DeleteConflict", numbered(2));
  const page = await openExplorer(t, server, { hash: "#/t/DeleteConflict", statuses: [412] });
  for (const [name, choice] of [["t0", "Keep theirs"], ["t1", "Delete theirs"]]) {
    await cell(page, name).click();
    await table.updateEntity({ partitionKey: "p", rowKey: name.replace("t", "r"), text: `their ${name}` }, "Replace");
    await page.keyboard.press("Delete");
    await dialogButton(page, "Delete").click();
    await page.getByRole("row", { name: new RegExp(`^text String: ${name} String: their ${name}`) }).waitFor();
    assert.equal(await page.getByRole("columnheader", { name: "Mine" }).count(), 0);
    await button(page, choice).click();
    await closed(page);
  }
  await foot(page, "1 entity").waitFor();
  assert.deepEqual((await all(table)).map(({ text }) => text), ["their t0"]);
});

test("conflicts of several entities are resolved from the report", async (t) => {
  const table = await server.createTable("ManyConflicts", numbered(5));
  const page = await openExplorer(t, server, { hash: "#/t/ManyConflicts", statuses: [412], prepare: keepNotices });
  await cell(page, "t0").click();
  await page.keyboard.press("Control+a");
  for (const rowKey of ["r1", "r2", "r3"]) {
    await table.updateEntity({ partitionKey: "p", rowKey, text: "theirs", more: rowKey }, "Replace");
  }
  await button(page, "Edit property").click();
  await page.getByLabel("Property", { exact: true }).fill("text");
  await page.keyboard.press("Enter");
  await value(page, "text").fill("mine");
  await button(page, "Apply").click();
  const report = page.getByRole("dialog", { name: "Some entities were not edited" });
  await report.getByRole("listitem").filter({ hasText: "r1" }).getByRole("button", { name: "Show both versions" }).click();
  await button(page, "Keep theirs").click();
  await report.getByText("resolved").waitFor();
  await button(page, "Overwrite their changes").click();
  await closed(page);
  await cell(page, "mine").nth(3).waitFor();
  assert.deepEqual(
    (await all(table)).map(({ text, more }) => [text, more]),
    [["mine", undefined], ["theirs", "r1"], ["mine", "r2"], ["mine", "r3"], ["mine", undefined]],
  );
});

test("an entity is not inserted again if only some of its properties are known", async (t) => {
  const table = await server.createTable("Part", [{ partitionKey: "p", rowKey: "1", text: "old", more: 1 }]);
  const page = await openExplorer(t, server, { hash: "#/t/Part?select=text", statuses: [404] });
  await cell(page, "old").waitFor();
  await table.deleteEntity("p", "1");
  await editText(page, "old", "mine");
  await page.getByText(/Only some of its properties were loaded, so it cannot be inserted again/).waitFor();
  assert.equal((await all(table)).length, 0);
});

test("a deleted table is not mistaken for a deleted entity", async (t) => {
  const table = await server.createTable("Gone", numbered(1));
  const page = await openExplorer(t, server, { hash: "#/t/Gone", statuses: [404] });
  await cell(page, "t0").waitFor();
  await table.deleteTable();
  await editText(page, "t0", "mine");
  await page.getByRole("dialog").getByText(/TableNotFound/).waitFor();
});

test("the editor asks before it discards changes", async (t) => {
  await server.createTable("Typed", numbered(1));
  const page = await openExplorer(t, server, { hash: "#/t/Typed" });
  await cell(page, "t0").dblclick();
  await page.keyboard.press("Escape");
  await closed(page);
  await cell(page, "t0").dblclick();
  await value(page, "text").fill("typed");
  for (let i = 0; i < 3; i += 1) {
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Discard your changes?" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Discard your changes?" }).waitFor({ state: "detached" });
  }
  assert.equal(await value(page, "text").inputValue(), "typed");
  await button(page, "Cancel").click();
  await button(page, "Discard").click();
  await closed(page);
  await cell(page, "t0").waitFor();
});

test("reserved property names are refused", async (t) => {
  await server.createTable("Names");
  const page = await openExplorer(t, server, { hash: "#/t/Names" });
  await button(page, "Add").click();
  await button(page, "Add property").click();
  for (const [name, text] of [
    ["Timestamp", "Timestamp is a system property"],
    ["RowKey", "RowKey is a system property"],
    ["odata.type", "neither \u201c.\u201d"],
    ["a@b", "nor \u201c@\u201d"],
  ]) {
    await page.getByLabel("Property name").fill(name);
    await dialogButton(page, "Add").click();
    await page.getByRole("alert").getByText(text).waitFor();
  }
});

test("a type change converts the value that was typed, and a new property can have any type", async (t) => {
  await server.createTable("Retyped", [
    { partitionKey: "p", rowKey: "1", code: "007", big: "9007199254740993", yes: true },
  ]);
  const page = await openExplorer(t, server, { hash: "#/t/Retyped" });
  await openEntity(page, "007");
  await type(page, "code").selectOption("Edm.Int32");
  assert.equal(await value(page, "code").inputValue(), "7");
  await type(page, "code").selectOption("Edm.String");
  assert.equal(await value(page, "code").inputValue(), "007");
  await type(page, "big").selectOption("Edm.Double");
  await page.getByText(/a Double would round it/).waitFor();
  await type(page, "yes").selectOption("Edm.Int32");
  await page.getByText(/\u201ctrue\u201d cannot be converted to Int32/).waitFor();
  await button(page, "Add property").click();
  await page.getByLabel("Property name").fill("fresh");
  for (const kind of ["Boolean", "Int32", "Int64", "Double", "DateTime", "Guid", "Binary", "Boolean", "String"]) {
    await type(page, "fresh").selectOption(`Edm.${kind}`);
    assert.equal(await type(page, "fresh").inputValue(), `Edm.${kind}`);
  }
});

test("undo does not add an entity to the result of a different query", async (t) => {
  const table = await server.createTable("Elsewhere", numbered(3));
  const page = await openExplorer(t, server, { hash: "#/t/Elsewhere" });
  await cell(page, "t0").click();
  await page.keyboard.press("Delete");
  await dialogButton(page, "Delete").click();
  await foot(page, "All 2 entities").waitFor();
  await page.getByLabel("Filter", { exact: true }).fill("RowKey eq 'r2'");
  await page.keyboard.press("Control+Enter");
  await foot(page, "1 entity").waitFor();
  await undoButton(page).click();
  await page.getByText(/^Undone/).waitFor();
  await foot(page, "1 entity").waitFor();
  assert.equal(await cell(page, "t0").count(), 0);
  assert.equal((await all(table)).length, 3);
});

test("a notice that offers to undo a change leaves with the next change", async (t) => {
  const table = await server.createTable("Notices", numbered(3));
  const page = await openExplorer(t, server, { hash: "#/t/Notices", prepare: keepNotices });
  for (const name of ["t0", "t1"]) {
    await cell(page, name).click();
    await page.keyboard.press("Delete");
    await dialogButton(page, "Delete").click();
    await page.getByText(`Deleted \u201cp\u201d / \u201c${name.replace("t", "r")}\u201d.`).waitFor();
  }
  assert.equal(await page.locator(".notice").count(), 1);
  await page.locator(".notice").getByRole("button", { name: "Undo" }).click();
  await page.getByText(/^Undone/).waitFor();
  assert.equal(await page.locator(".notice", { hasText: "Deleted" }).count(), 0);
  assert.deepEqual((await all(table)).map(({ text }) => text), ["t1", "t2"]);
});

test("an import does not change the URL after its view was closed", async (t) => {
  await server.createTable("Importing", numbered(1));
  const page = await openExplorer(t, server, { hash: "#/" });
  await page.getByRole("link", { name: "Importing", exact: true }).click();
  await cell(page, "t0").waitFor();
  let pass = () => {};
  const held = new Promise((resolve) => {
    pass = resolve;
  });
  await page.route(/\$batch|Importing$/, async (route) => {
    await held;
    await route.continue();
  });
  const chooser = page.waitForEvent("filechooser");
  await button(page, "Import").click();
  const buffer = Buffer.from('{"PartitionKey":"p","RowKey":"imported"}\n');
  await (await chooser).setFiles({ name: "x.jsonl", mimeType: "text/plain", buffer });
  await dialogButton(page, "Import").click();
  await page.goBack();
  await page.getByRole("link", { name: "Importing", exact: true }).waitFor();
  pass();
  await page.getByText(/ from x.jsonl written to Importing/).first().waitFor();
  assert.equal(await page.evaluate(() => location.hash), "#/");
});

test("after signing in with a weaker credential, actions that it does not allow are removed", async (t) => {
  await server.createTable("Weaker", numbered(1));
  const page = await openExplorer(t, server, { hash: "#/t/Weaker", statuses: [403] });
  await cell(page, "t0").click();
  const body = JSON.stringify({ "odata.error": { code: "AuthenticationFailed", message: { value: "expired" } } });
  await page.route(/Weaker\(\)/, (route) => route.fulfill({ status: 403, contentType: "application/json", body }));
  await button(page, "Refresh").click();
  await button(page, "Sign in again").click();
  await page.unroute(/Weaker\(\)/);
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Sign in with").selectOption("sas");
  await dialog.getByLabel("Signature", { exact: true }).fill(server.tableSas("Weaker", ["query"]));
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await cell(page, "t0").waitFor();
  for (const name of ["Add", "Duplicate", "Delete", "Edit property", "Import", "Edit"]) {
    assert.equal(await button(page, name).count(), 0, name);
  }
  await button(page, "View").waitFor();
});

test("a query that few entities match pauses, and continues when the user requests more", async (t) => {
  await server.createTable("Sparse");
  const page = await openExplorer(t, server, { prepare: measureNoTime });
  let pages = 0;
  let asked = () => {};
  let held;
  await page.route(/Sparse\(\)/, async (route) => {
    pages += 1;
    asked();
    await held;
    await route.fulfill({
      status: 200,
      contentType: "application/json",
      headers: { "x-ms-continuation-NextPartitionKey": "a", "x-ms-continuation-NextRowKey": "b" },
      body: JSON.stringify({ value: [{ "odata.etag": "W/x", PartitionKey: "p", RowKey: String(pages) }] }),
    });
  });
  await page.goto(`${server.origin}/_rowhouse/#/t/Sparse`);
  await button(page, "Load more").waitFor();
  assert.equal(pages, 10);
  let pass = () => {};
  held = new Promise((resolve) => {
    pass = resolve;
  });
  const isAsked = new Promise((resolve) => {
    asked = resolve;
  });
  await button(page, "Load more").click();
  await isAsked;
  await button(page, "Stop").click();
  await button(page, "Load more").waitFor();
  pass();
  assert.equal(pages, 11);
});
