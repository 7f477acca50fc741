// Changing entities: one or several, with conflicts, and undoing the changes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openExplorer } from "../support/browser.js";
import { button, cell, closed, foot, openEntity, type, undoButton, value } from "../support/entities.js";
import { startServer } from "../support/server.js";

/** @type {import("../support/server.js").Server} */
let server;
before(async () => {
  server = await startServer();
});
after(() => server.stop());

const save = (page) => page.getByRole("dialog").getByRole("button", { name: "Save", exact: true }).click();

async function insertMany(table, count, partitions = 1) {
  for (let partition = 0; partition < partitions; partition += 1) {
    for (let at = 0; at < count; at += 100) {
      const keys = Array.from({ length: Math.min(100, count - at) }, (_, i) => String(at + i).padStart(4, "0"));
      await table.submitTransaction(
        keys.map((rowKey) => ["create", { partitionKey: `p${partition}`, rowKey, n: Number(rowKey), old: "x" }]),
      );
    }
  }
}

async function countOf(table, options) {
  let count = 0;
  for await (const entity of table.listEntities(options)) count += entity ? 1 : 0;
  return count;
}

async function addProperty(page, name, kind) {
  await button(page, "Add property").click();
  await page.getByLabel("Property name").last().fill(name);
  if (kind) await type(page, name).selectOption(`Edm.${kind}`);
}

test("an entity is added with a value of every type", async (t) => {
  const table = await server.createTable("Added");
  const page = await openExplorer(t, server, { hash: "#/t/Added" });
  await foot(page, "The table has no entities").waitFor();
  await button(page, "Add").click();
  await page.getByLabel("PartitionKey").fill("it's 100% \u{1f600} + & =");
  const values = {
    s: ["String", "two\nlines"],
    i: ["Int32", "-2147483648"],
    l: ["Int64", "9223372036854775807"],
    d: ["Double", "-Infinity"],
    g: ["Guid", "0B0C0D0E-1111-4222-8333-444455556666"],
    t: ["DateTime", "2026-01-02T03:04:05.1234567Z"],
    b: ["Binary", "de ad"],
  };
  for (const [name, [kind, text]] of Object.entries(values)) {
    await addProperty(page, name, kind);
    await value(page, name).fill(text);
  }
  await addProperty(page, "yes", "Boolean");
  await value(page, "yes").selectOption("true");
  await addProperty(page, "__proto__", "Int32");
  await value(page, "__proto__").fill("7");
  await page.getByRole("dialog").getByRole("button", { name: "Add", exact: true }).click();
  await closed(page);
  await foot(page, "1 entity").waitFor();
  const stored = await table.getEntity("it's 100% \u{1f600} + & =", "", { disableTypeConversion: true });
  assert.equal(stored.s.value ?? stored.s, "two\nlines");
  assert.equal(stored.i.value, "-2147483648");
  assert.equal(stored.l.value, "9223372036854775807");
  assert.equal(stored.d.value, "-Infinity");
  assert.equal(stored.g.value, "0b0c0d0e-1111-4222-8333-444455556666");
  assert.equal(stored.t.value, "2026-01-02T03:04:05.1234567Z");
  assert.equal(stored.b.value, "3q0=");
  assert.equal(stored.yes.value, "true");
  await page.getByRole("columnheader", { name: "__proto__ Int32" }).waitFor();
});

test("values are validated, and a type changes only if the value can be converted", async (t) => {
  await server.createTable("Checked", [
    { partitionKey: "a", rowKey: "1", text: "words", n: 5, big: { type: "Int64", value: "9007199254740993" } },
  ]);
  const page = await openExplorer(t, server, { hash: "#/t/Checked" });
  await openEntity(page, "words");
  for (const [name, wrong, reason] of [
    ["n", "2147483648", /between -2147483648 and 2147483647/],
    ["n", "1.5", /digits only/],
    ["big", "9223372036854775808", /between -9223372036854775808/],
  ]) {
    await value(page, name).fill(wrong);
    await page.getByRole("group", { name, exact: true }).getByText(reason).waitFor();
    assert.equal(await value(page, name).getAttribute("aria-invalid"), "true");
    await save(page);
    assert.equal(await value(page, name).evaluate((input) => input === document.activeElement), true);
    await value(page, name).fill("6");
  }
  await type(page, "text").selectOption("Edm.Int32");
  await page.getByText(/\u201cwords\u201d cannot be converted to Int32/).waitFor();
  assert.equal(await type(page, "text").inputValue(), "Edm.String");
  await type(page, "n").selectOption("Edm.Double");
  assert.equal(await value(page, "n").inputValue(), "6");
  await type(page, "text").selectOption("Edm.Binary");
  assert.equal(await value(page, "text").inputValue(), "77 6f 72 64 73");
  await page.getByLabel("Encoding").selectOption("base64");
  assert.equal(await value(page, "text").inputValue(), "d29yZHM=");
});

test("binary values are downloaded and loaded from a file", async (t) => {
  const table = await server.createTable("Bytes", [
    { partitionKey: "a", rowKey: "1", b: { type: "Binary", value: "3q2+7w==" } },
  ]);
  const page = await openExplorer(t, server, { hash: "#/t/Bytes" });
  await cell(page, "de ad be ef 4 B").dblclick();
  const waiting = page.waitForEvent("download");
  await button(page, "Download").click();
  const chunks = [];
  for await (const chunk of await (await waiting).createReadStream()) chunks.push(chunk);
  assert.deepEqual(Buffer.concat(chunks), Buffer.from([0xde, 0xad, 0xbe, 0xef]));
  await page.getByLabel("File to load").setInputFiles({ name: "x.bin", mimeType: "", buffer: Buffer.from([1, 2, 255]) });
  assert.equal(await value(page, "b").inputValue(), "01 02 ff");
  await save(page);
  await closed(page);
  assert.deepEqual([...(await table.getEntity("a", "1")).b], [1, 2, 255]);
});

test("an error from the service is shown in the dialog, which stays open", async (t) => {
  await server.createTable("Refused", [{ partitionKey: "a", rowKey: "1" }]);
  const page = await openExplorer(t, server, { hash: "#/t/Refused", statuses: [400, 409] });
  await button(page, "Add").click();
  await page.getByLabel("PartitionKey").fill("a");
  await page.getByLabel("RowKey").fill("1");
  const add = page.getByRole("dialog").getByRole("button", { name: "Add", exact: true });
  await add.click();
  await page
    .getByRole("dialog")
    .getByRole("alert")
    .getByText(/EntityAlreadyExists/)
    .waitFor();
  await page.getByLabel("RowKey").fill("2");
  await addProperty(page, "long", "String");
  await value(page, "long").fill("x".repeat(40000));
  await add.click();
  await page
    .getByRole("dialog")
    .getByRole("alert")
    .getByText(/PropertyValueTooLarge/)
    .waitFor();
  await value(page, "long").fill("short");
  await add.click();
  await closed(page);
  await foot(page, "All 2 entities").waitFor();
});

test("an entity is edited, duplicated and deleted, and each is undone", async (t) => {
  const table = await server.createTable("Undone", [{ partitionKey: "a", rowKey: "1", text: "first", gone: 1 }]);
  const page = await openExplorer(t, server, { hash: "#/t/Undone", statuses: [404] });
  await cell(page, "first").click();
  await page.keyboard.press("Enter");
  await value(page, "text").fill("second");
  await button(page, "Remove gone").click();
  await save(page);
  await cell(page, "second").waitFor();
  assert.equal((await table.getEntity("a", "1")).gone, undefined);
  assert.equal(await undoButton(page).textContent(), "Undo: edit \u201ca\u201d / \u201c1\u201d");
  await page.waitForFunction(() => document.activeElement?.getAttribute("role") === "gridcell");
  await page.keyboard.press("Control+z");
  await cell(page, "first").waitFor();
  assert.equal((await table.getEntity("a", "1")).gone, 1);

  await button(page, "Duplicate").click();
  await page.getByLabel("RowKey").fill("2");
  await page.getByRole("dialog").getByRole("button", { name: "Add", exact: true }).click();
  await foot(page, "All 2 entities").waitFor();
  assert.equal((await table.getEntity("a", "2")).text, "first");
  await undoButton(page).click();
  await foot(page, "1 entity").waitFor();
  await assert.rejects(table.getEntity("a", "2"), { statusCode: 404 });

  await cell(page, "first").click();
  await page.keyboard.press("Delete");
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await foot(page, "The table has no entities").waitFor();
  await undoButton(page).click();
  await foot(page, "1 entity").waitFor();
  assert.equal((await table.getEntity("a", "1")).text, "first");
  assert.equal(await undoButton(page).count(), 0);
});

test("undo reports a concurrent change", async (t) => {
  const table = await server.createTable("Between", [{ partitionKey: "a", rowKey: "1", text: "first" }]);
  const page = await openExplorer(t, server, { hash: "#/t/Between", statuses: [409, 412] });
  await cell(page, "first").dblclick();
  await value(page, "text").fill("second");
  await save(page);
  await cell(page, "second").waitFor();
  await table.updateEntity({ partitionKey: "a", rowKey: "1", text: "theirs" }, "Replace");
  await undoButton(page).click();
  await page.getByText("Not undone: it was changed in the meantime.").waitFor();
  assert.equal((await table.getEntity("a", "1")).text, "theirs");
  await button(page, "Refresh").click();
  await cell(page, "theirs").click();
  await page.keyboard.press("Delete");
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await foot(page, "The table has no entities").waitFor();
  await table.createEntity({ partitionKey: "a", rowKey: "1", text: "again" });
  await undoButton(page).click();
  await page.getByText("Not undone: it was inserted again in the meantime.").waitFor();
  assert.equal((await table.getEntity("a", "1")).text, "again");
});

async function conflict(t, name) {
  const first = { partitionKey: "a", rowKey: "1", text: "loaded", number: 1, same: "same" };
  const table = await server.createTable(name, [first]);
  const page = await openExplorer(t, server, { hash: `#/t/${name}`, statuses: [412] });
  await cell(page, "loaded").dblclick();
  await value(page, "text").fill("mine");
  await table.updateEntity({ ...first, text: "theirs", number: 2 }, "Replace");
  await save(page);
  await page.getByRole("heading", { name: "The entity was changed by someone else" }).waitFor();
  return { page, stored: () => table.getEntity("a", "1") };
}

test("a conflict shows both versions and lets the user choose for each property", async (t) => {
  const { page, stored } = await conflict(t, "Choose");
  const row = (name) => page.getByRole("row", { name: new RegExp(`^${name} `) });
  assert.deepEqual(
    (await row("text").getByRole("cell").allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim()),
    ["String: loaded", "text, mine: String: minechanged", "text, theirs: String: theirschanged"],
  );
  assert.equal(await row("same").getByRole("radio").count(), 0);
  // For a property that only the other side changed, their value is preselected.
  assert.equal(await page.getByRole("radio", { name: /^number, theirs/ }).isChecked(), true);
  assert.equal(await page.getByRole("radio", { name: /^text, mine/ }).isChecked(), true);
  await button(page, "Save the chosen values").click();
  await cell(page, "mine").waitFor();
  const { text, number, same } = await stored();
  assert.deepEqual({ text, number, same }, { text: "mine", number: 2, same: "same" });
});

test("a conflict can be resolved by keeping all of one version", async (t) => {
  const mine = await conflict(t, "Mine");
  await button(mine.page, "Keep mine").click();
  await cell(mine.page, "mine").waitFor();
  assert.equal((await mine.stored()).number, 1);
  const theirs = await conflict(t, "Theirs");
  await button(theirs.page, "Keep theirs").click();
  await cell(theirs.page, "theirs").waitFor();
  assert.equal(await theirs.page.getByRole("dialog").count(), 0);
  assert.equal((await theirs.stored()).text, "theirs");
});

test("an entity that someone else deleted can be inserted again", async (t) => {
  const table = await server.createTable("Deleted", [{ partitionKey: "a", rowKey: "1", text: "loaded" }]);
  const page = await openExplorer(t, server, { hash: "#/t/Deleted", statuses: [404, 412] });
  await cell(page, "loaded").dblclick();
  await value(page, "text").fill("mine");
  await table.deleteEntity("a", "1");
  await save(page);
  await button(page, "Insert again").click();
  await cell(page, "mine").waitFor();
  assert.equal((await table.getEntity("a", "1")).text, "mine");
});

test("with a projection, saving merges, and a note explains it", async (t) => {
  const table = await server.createTable("Merged", [{ partitionKey: "a", rowKey: "1", shown: "old", hidden: "kept" }]);
  const page = await openExplorer(t, server, { hash: "#/t/Merged?select=shown" });
  await openEntity(page, "old");
  await page.getByText(/Only some properties are loaded\. Saving merges/).waitFor();
  assert.equal(await button(page, "Remove shown").count(), 0);
  await value(page, "shown").fill("new");
  await save(page);
  await cell(page, "new").waitFor();
  assert.equal((await table.getEntity("a", "1")).hidden, "kept");
  await undoButton(page).click();
  await cell(page, "old").waitFor();
  assert.equal((await table.getEntity("a", "1")).hidden, "kept");
});

test("entities are deleted in transactions; one conflict does not stop the rest; undo inserts them again", async (t) => {
  const table = await server.createTable("Many");
  await insertMany(table, 150, 2);
  const page = await openExplorer(t, server, { hash: "#/t/Many", statuses: [412] });
  await foot(page, "All 300 entities").waitFor();
  await table.updateEntity({ partitionKey: "p1", rowKey: "0007", n: -1 }, "Replace");
  let batches = 0;
  page.on("request", (request) => {
    if (request.url().endsWith("/$batch")) batches += 1;
  });
  await cell(page, "0000").first().click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.getByRole("heading", { name: "Delete 300 entities?" }).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  const report = page.getByRole("dialog", { name: "Some entities were not deleted" });
  await report.getByText("299 entities written, 1 entity failed.").waitFor();
  await report.getByText(/\u201cp1\u201d \/ \u201c0007\u201d: it was changed in the meantime/).waitFor();
  await button(page, "Close").click();
  assert.equal(batches, 4);
  assert.equal(await countOf(table), 1);
  await foot(page, "1 entity, 1 selected").waitFor();
  assert.equal(await undoButton(page).textContent(), "Undo: delete 299 entities");
  await undoButton(page).click();
  await foot(page, "All 300 entities, 1 selected").waitFor();
  assert.equal(await countOf(table), 300);
});

test("a property of several entities is set, removed, and restored", async (t) => {
  const table = await server.createTable("Property");
  await insertMany(table, 120);
  const page = await openExplorer(t, server, { hash: "#/t/Property" });
  await cell(page, "0000").click();
  await page.keyboard.press("Control+a");
  await button(page, "Edit property").click();
  await page.getByLabel("Property", { exact: true }).fill("state");
  await type(page, "state").or(type(page, "the property")).selectOption("Edm.Int64");
  await page.getByLabel(/^Value of/).fill("12");
  await button(page, "Apply").click();
  await page.getByText("Edited 120 entities.").waitFor();
  assert.equal(await countOf(table, { queryOptions: { filter: "state eq 12L and old eq 'x'" } }), 120);
  await button(page, "Edit property").click();
  await page.getByLabel("Property", { exact: true }).fill("old");
  await page.getByLabel("Action", { exact: true }).selectOption("remove");
  await button(page, "Apply").click();
  await page.getByRole("dialog").first().waitFor({ state: "detached" });
  await page.waitForFunction(() => document.querySelectorAll("[data-type='']").length > 10);
  assert.equal(await countOf(table, { queryOptions: { filter: "old eq 'x'" } }), 0);
  await undoButton(page).click();
  await page.waitForFunction(() => document.querySelectorAll("[data-type='']").length === 0);
  assert.equal(await countOf(table, { queryOptions: { filter: "old eq 'x' and state eq 12L" } }), 120);
});

test("deleting can be stopped, and the remaining entities are counted", async (t) => {
  const table = await server.createTable("Stopped");
  await insertMany(table, 100, 8);
  const page = await openExplorer(t, server, { hash: "#/t/Stopped" });
  await foot(page, "All 800 entities").waitFor();
  let pass;
  const held = new Promise((resolve) => {
    pass = resolve;
  });
  await page.route(/\$batch/, async (route) => {
    await held;
    await route.continue();
  });
  await cell(page, "0000").first().click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await button(page, "Stop").click();
  pass();
  await page.getByText("400 entities written, 0 entities failed, 400 entities not attempted.").waitFor();
  assert.equal(await countOf(table), 400);
});
