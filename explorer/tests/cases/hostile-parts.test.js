// Hostile names and values in queries, cost details, copied programs, files and access policies.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openExplorer } from "../support/browser.js";
import { HASH, TABLE, MARKUP, NAMES, VALUES, answer, assertOnlyText, assertShown, serverWith } from "../support/hostile.js";

const gridOf = (page) => page.getByRole("grid", { name: `Entities of ${TABLE}` });
const button = (scope, name) => scope.getByRole("button", { name, exact: true });
const filterOf = (page) => page.getByLabel("Filter", { exact: true });

const literal = (text) => `'${text.replaceAll("'", "''")}'`;

test("filters, cost details and the history show values as text", async (test) => {
  const server = await serverWith(test, [{ PartitionKey: MARKUP, RowKey: "r" }]);
  const page = await openExplorer(test, server, { hash: HASH });
  await assertShown(gridOf(page), MARKUP);
  const filter = `PartitionKey eq ${literal(MARKUP)} and RowKey ge ${literal(VALUES.closing)}`;
  await filterOf(page).fill(filter);
  await button(page, "Run").click();
  await page.getByText("Cost details").click();
  await page.getByText("Key ranges read").waitFor();
  await assertShown(page.getByRole("region", { name: "Query cost" }), MARKUP);
  await assertOnlyText(page, "what it cost");

  await button(page, "History").click();
  await page.getByRole("menuitem", { name: "PartitionKey eq" }).waitFor();
  await assertOnlyText(page, "the history");
  await page.keyboard.press("Escape");

  await button(page, "Fields").click();
  assert.equal(await page.getByLabel("Value", { exact: true }).first().inputValue(), MARKUP);
  await assertOnlyText(page, "the fields");
});

test("errors in a filter are marked as text", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { hash: HASH, statuses: [400] });
  for (const filter of [MARKUP, `a eq ${MARKUP}`, `${VALUES.svg} eq 1`, `a eq '${VALUES.script}`, VALUES.direction]) {
    await filterOf(page).fill(filter);
    await button(page, "Run").click();
    await page.getByText(/^Character \d+/).first().waitFor();
    await assertOnlyText(page, filter);
  }
});

test("completion and projection show names as text", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server);
  const names = Object.fromEntries([MARKUP, VALUES.svg, ...NAMES.filter((name) => name !== "__proto__")].map((name) => [name, "x"]));
  await answer(page, `/${TABLE}()`, { value: [{ ...names, PartitionKey: "p", RowKey: "r", Timestamp: "", "odata.etag": "e" }] });
  await page.getByRole("link", { name: TABLE, exact: true }).click();
  await assertShown(gridOf(page), "x");
  await filterOf(page).pressSequentially("c");
  const suggestions = page.getByRole("listbox", { name: "Suggestions" });
  await suggestions.getByRole("option", { name: "constructor" }).waitFor();
  await assertOnlyText(page, "completion");
  await page.keyboard.press("Escape");
  await filterOf(page).fill("");
  await page.getByText("Select: all properties").click();
  await page.getByLabel(MARKUP, { exact: true }).check();
  await assertShown(page, `Select: ${MARKUP}`);
  await assertOnlyText(page, "projection");
});

test("names of saved queries are shown as text", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { hash: HASH });
  await filterOf(page).fill(`a eq ${literal(VALUES.svg)}`);
  await button(page, "Save").click();
  await page.getByRole("menuitem", { name: "Save this query as…" }).click();
  await page.getByLabel("Name", { exact: true }).fill(MARKUP);
  await button(page.getByRole("dialog"), "Save").click();
  await page.getByText("The query was saved as").waitFor();
  await assertOnlyText(page, "the notice");
  await button(page, "Save").click();
  await page.getByRole("menuitem", { name: MARKUP }).waitFor();
  await assertOnlyText(page, "the menu");
  await page.getByRole("menuitem", { name: "Delete saved queries…" }).click();
  await assertShown(page.getByRole("dialog"), MARKUP);
  await assertOnlyText(page, "the dialog");
});

test("copied programs show hostile filters as text", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { hash: HASH });
  await filterOf(page).fill(`a eq ${literal(VALUES.closing)} and b eq ${literal("`$(touch x)`\"\\")}`);
  await button(page, "Copy as…").click();
  const dialog = page.getByRole("dialog");
  const languages = await dialog.getByLabel("Language").getByRole("option").allTextContents();
  assert.ok(languages.length >= 7, languages.join());
  for (const language of languages) {
    await dialog.getByLabel("Language").selectOption(language);
    await assertShown(dialog.getByRole("region", { name: "Program" }), "touch x");
    await assertOnlyText(page, language);
  }
});

test("the preview and the report of an import show the content of a file as text", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { hash: HASH, statuses: [400] });
  const quote = (text) => `"${text.replaceAll('"', '""')}"`;
  const name = "<img src=x onerror=alert(1)>.csv";
  const lines = [
    ["PartitionKey", "RowKey", MARKUP, "note"],
    ["p", MARKUP, "x", VALUES.svg],
    ["p", VALUES.direction, VALUES.template, VALUES.formula],
    ["/", VALUES.script, "x", "x"],
  ];
  const content = lines.map((line) => line.map(quote).join(",")).join("\r\n");
  const chooser = page.waitForEvent("filechooser");
  await button(page, "Import").click();
  await (await chooser).setFiles({ name, mimeType: "text/csv", buffer: Buffer.from(content) });
  const dialog = page.getByRole("dialog");
  await assertShown(dialog.getByRole("region", { name: "Preview" }), MARKUP);
  await assertOnlyText(page, "the preview");
  await button(dialog, "Import").click();
  await page.getByRole("dialog").getByText(/PropertyNameInvalid|property/i).first().waitFor();
  await assertShown(page.getByRole("dialog"), MARKUP);
  await assertOnlyText(page, "the report");
});

test("IDs of access policies are shown as text", async (test) => {
  const server = await serverWith(test);
  const accessPolicy = { start: new Date(0), expiry: new Date(), permission: "r" };
  await server.table(TABLE).setAccessPolicy([{ id: MARKUP, accessPolicy }, { id: VALUES.script, accessPolicy }]);
  const page = await openExplorer(test, server, { hash: `${HASH}/access` });
  await page.getByRole("heading", { name: "Stored access policies" }).waitFor();
  await page.waitForFunction((text) => [...document.querySelectorAll("input")].some((input) => input.value === text), MARKUP);
  await page.waitForLoadState("networkidle");
  await assertOnlyText(page, "the policies");
});

test("CORS rules are shown as text", async (test) => {
  const server = await serverWith(test);
  const rule = { allowedOrigins: MARKUP, allowedMethods: "GET", allowedHeaders: MARKUP, exposedHeaders: VALUES.svg, maxAgeInSeconds: 1 };
  await server.service.setProperties({ cors: [rule] });
  const page = await openExplorer(test, server, { hash: "#/account" });
  await page.waitForFunction((text) => [...document.querySelectorAll("input, textarea")].some((input) => input.value.includes(text)), MARKUP);
  await assertOnlyText(page, "the rules");
});
