// Queries: the filter as text with completion and errors, the filter as fields, projection, limit, history, links and
// cost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { assertAccessible, assertNoSidewaysScroll, focusedName } from "../support/accessibility.js";
import { parseFilter } from "../../web/query/filter-text.js";
import { openExplorer } from "../support/browser.js";
import { answer, assertOnlyText, MARKUP } from "../support/hostile.js";
import { startServer } from "../support/server.js";

const COUNT = 30;

async function serverWithCars(test, settings) {
  const server = await startServer(settings);
  test.after(() => server.stop());
  const cars = await server.createTable("cars");
  for (const make of ["ford", "kestrel", "lada"]) {
    const entities = Array.from({ length: COUNT / 3 }, (_, at) => ({
      partitionKey: make, rowKey: String(at).padStart(4, "0"), Doors: at % 5, Model: `${make} ${at}`, Ready: at % 2 === 0,
      Built: new Date(Date.UTC(2026, 0, at + 1)), Serial: { type: "Int64", value: String(9007199254740990n + BigInt(at)) },
    }));
    await cars.submitTransaction(entities.map((entity) => ["create", entity]));
  }
  return server;
}

const filterOf = (page) => page.getByRole("textbox", { name: "Filter" });
const button = (page, name) => page.getByRole("button", { name, exact: true });
const options = (page) => page.getByRole("listbox", { name: "Suggestions" }).getByRole("option");
const cost = (page, text) => page.getByRole("status").filter({ hasText: text }).waitFor();
const problem = (page) => page.locator(".filter-problem");

async function openCars(test, server, settings = {}) {
  const page = await openExplorer(test, server, { hash: "#/t/cars", ...settings });
  await cost(page, "30 examined, 30 returned");
  return page;
}

async function run(page, filter, result) {
  await filterOf(page).fill(filter);
  await page.keyboard.press("Enter");
  await cost(page, result);
}

test("a filter can be written from suggestions with only the keyboard", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server);
  await filterOf(page).focus();
  const labels = () => options(page).locator("code").allTextContents();
  await page.keyboard.press("ArrowDown");
  assert.deepEqual(await labels(), ["PartitionKey", "RowKey", "Timestamp", "Built", "Doors", "Model", "Ready", "Serial", "not"]);
  await page.keyboard.press("Escape");
  assert.equal(await options(page).count(), 0);
  await page.keyboard.type("part");
  assert.deepEqual(await labels(), ["PartitionKey"]);
  const active = await filterOf(page).getAttribute("aria-activedescendant");
  assert.equal(await page.locator(`#${active}`).getAttribute("aria-selected"), "true");
  await page.keyboard.press("Tab");
  assert.equal(await filterOf(page).inputValue(), "PartitionKey ");
  await page.keyboard.type("e");
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.equal(await filterOf(page).inputValue(), "PartitionKey eq ''");
  await page.keyboard.type("kestrel");
  await page.keyboard.press("End");
  await page.keyboard.type(" and Do");
  await page.keyboard.press("Enter");
  await page.keyboard.type("g");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.keyboard.type("3");
  assert.equal(await filterOf(page).inputValue(), "PartitionKey eq 'kestrel' and Doors ge 3");
  await page.keyboard.press("Enter");
  await cost(page, "10 examined, 4 returned");
  assert.match(await focusedName(page), /Filter$/);
});

test("an accepted suggestion can be undone, and Enter runs the query if no suggestion is selected", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server);
  await filterOf(page).focus();
  await page.keyboard.type("Read");
  await page.keyboard.press("Enter");
  assert.equal(await filterOf(page).inputValue(), "Ready ");
  assert.notEqual(await options(page).count(), 0);
  await page.keyboard.press("Enter");
  await cost(page, "30 examined, 15 returned");
  await page.keyboard.press("Control+z");
  assert.equal(await filterOf(page).inputValue(), "Read");
});

test("errors are marked while typing, and incomplete parts when the text box loses the focus", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server);
  const marks = () => page.locator(".filter-shade mark").allTextContents();
  await filterOf(page).focus();
  await page.keyboard.type("Doors EQ 3 and Model eq 'x");
  assert.deepEqual(await marks(), ["EQ"]);
  assert.equal(await filterOf(page).getAttribute("aria-invalid"), "true");
  const described = await filterOf(page).getAttribute("aria-describedby");
  assert.equal(await page.locator(`#${described}`).textContent(), "Character 7: Operators are written in lower case: eq.");
  await page.getByLabel("Limit").focus();
  assert.deepEqual(await marks(), ["EQ", "'x"]);
  assert.match(await problem(page).textContent(), /Character 25: The closing quote/);
  await assertAccessible(page, "a filter with errors");
  await filterOf(page).fill("Doors eq 3");
  assert.deepEqual(await marks(), []);
  assert.equal(await filterOf(page).getAttribute("aria-invalid"), "false");
});

test("a filter with an error is not sent", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server);
  const sent = [];
  page.on("request", (request) => request.url().includes("cars()") && sent.push(request.url()));
  await filterOf(page).fill("Doors eq");
  await page.keyboard.press("Control+Enter");
  await page.getByText(/^The query was not sent\. Character 9: /).waitFor({ state: "attached" });
  assert.match(await problem(page).textContent(), /too early/);
  assert.match(await focusedName(page), /Filter$/);
  // The previous result is still shown.
  await page.locator(".entities-foot").getByText("All 30 entities").waitFor();
  assert.doesNotMatch(page.url(), /filter=/);

  // The filter is not sent either when it comes from a link, or for an export of all matching entities.
  await page.goto(`${server.origin}/_rowhouse/#/t/cars?filter=${encodeURIComponent("Doors EQ 1")}`);
  await page.getByRole("alert").getByText("The query was not sent because its filter has an error at character 7.").waitFor();
  await page.locator(".entities-foot").getByText("No entities loaded", { exact: true }).waitFor();
  await button(page, "Correct the filter").click();
  assert.match(await focusedName(page), /Filter$/);
  await button(page, "Export").click();
  await page.getByRole("dialog").getByRole("button", { name: "Export" }).click();
  await page.getByText(/^The export failed: The query was not sent/).waitFor();
  assert.deepEqual(sent, []);
});

test("an unsupported query is explained with the page's own message", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server, { statuses: [501] });
  const message = { lang: "en-US", value: "The requested operation is not implemented on the specified resource." };
  await answer(page, "cars()", { "odata.error": { code: "NotImplemented", message } }, 501);
  await filterOf(page).fill("Doors eq 1");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText(/^The service does not support this request\. .*check its operators/).waitFor();
  await page.locator(".entities-foot").getByText("No entities loaded", { exact: true }).waitFor();
  assert.equal(await page.getByText("more available").count(), 0);
  assert.equal(await page.getByText("requested operation").count(), 0);
});

test("the page reports an error for exactly the filters that the service refuses", async (test) => {
  const server = await serverWithCars(test);
  const filters = [
    "Doors eq 3", "3 lt Doors", "Ready", "not Ready", "not(Ready)and(Doors eq 1)", "true", "false or Ready", "Model eq 'it''s'", "Model eq ''",
    "Doors eq 2147483648", "Doors eq 2147483648L", "Doors eq 1.5", "Doors eq 3D", "Doors eq 1e400", "Doors eq NaN", "Doors eq -INF", "Doors eq 3m",
    "Doors eq 5l", "Doors eq -9223372036854775808L", "Doors eq 9223372036854775808L", "Doors eq null", "Doors eq Model", "1 eq 2", "1", "Doors EQ 1",
    "Ready AND Ready", "PartitionKey eq 1", "PartitionKey", "Timestamp gt 'x'", "Timestamp gt datetime'2026-01-01T00:00:00Z'",
    "Built gt datetime'2026-02-30T00:00:00Z'", "Built gt datetime'1600-01-01T00:00:00Z'", "Built gt datetime'2026-01-01'",
    "Built gt DATETIME'2026-01-01T00:00:00+01:00'", "Built gt datetimeoffset'2026-01-01'", "Model eq guid'00000000-0000-0000-0000-000000000000'",
    "Built gt datetime' 2026-01-01Z '", "Built gt datetime'2026-02-30'", "Built gt datetime'2026-01-01T'", "Built gt datetime'2026-01'",
    "Model eq guid'{00000000-0000-0000-0000-000000000000}'", "Model eq guid' (00000000-0000-0000-0000-000000000000)'",
    "Model eq guid'00000000000000000000000000000000'", "Model eq guid'{00000000000000000000000000000000}'",
    "Model eq guid'{00000000-0000-0000-0000-000000000000'", "Model eq guid'x'", "Model eq X'0g'", "Model eq x'0aFF'", "startswith(Model,'a')", "Model/x eq 1", "Doors eq (1)", "(Doors) eq 1", "((Ready))", "(Ready",
    "Ready)", "Doors eq not Ready", "Doors eq 1 eq 2", "Doors add 1 eq 2", "Doors eq - 1", "-Doors eq 1", "Doors eq", "and", "eq eq 1", "not", "$x eq 1",
    "Doors eq 'x", 'Model eq "x"', "Ünï eq 1", "Doors eq 1 Ready", "Doors eq 1'x'", "Ready or", "Ready and and", "Doors in (1,2)", "constructor eq 1",
    "constructor'x' eq 1",
  ];
  const wrong = filters.map((text) => parseFilter(text, false).errors.length > 0);
  const cars = server.table("cars");
  for (const [at, filter] of filters.entries()) {
    const refused = await cars.listEntities({ queryOptions: { filter } }).next().then(() => false, (error) => {
      assert.ok([400, 501].includes(error.statusCode), `${filter}: ${error}`);
      return true;
    });
    assert.equal(wrong[at], refused, filter);
  }
});

test("editing fields updates the text of the filter", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server);
  await button(page, "Fields").click();
  const line = (number) => page.getByRole("group", { name: `Condition ${number}`, exact: true });
  await line(1).getByLabel("Value").fill("it's");
  assert.equal(await filterOf(page).inputValue(), "PartitionKey eq 'it''s'");
  await line(1).getByLabel("Value").fill("ford");
  await button(page, "Add condition").click();
  await line(2).getByLabel("Property").fill("Model");
  await line(2).getByLabel("Operator").selectOption("begins with");
  await line(2).getByLabel("Value").fill("ford 1");
  assert.equal(await filterOf(page).inputValue(), "PartitionKey eq 'ford' and Model ge 'ford 1' and Model lt 'ford 2'");
  await button(page, "Add condition").click();
  await line(3).getByLabel("Property").fill("Serial");
  assert.equal(await line(3).getByLabel("Type").inputValue(), "Edm.Int64");
  await line(3).getByLabel("Operator").selectOption("is at least");
  await line(3).getByLabel("Value").fill("9007199254740991x");
  await button(page, "Run").click();
  assert.equal(await line(3).getByLabel("Value").getAttribute("aria-invalid"), "true");
  assert.match(await focusedName(page), /Value$/);
  await assertAccessible(page, "fields");
  await line(3).getByLabel("Value").fill("9007199254740991");
  await page.keyboard.press("Enter");
  await cost(page, "10 examined, 1 returned");
  await line(2).getByRole("button", { name: "Remove condition" }).click();
  assert.equal(await filterOf(page).inputValue(), "PartitionKey eq 'ford' and Serial ge 9007199254740991L");
  await page.keyboard.press("Enter");
  await cost(page, "10 examined, 9 returned");
});

test("if a filter cannot be shown as fields, the page shows why and keeps the text", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server);
  await filterOf(page).fill("Ready or Doors eq 1");
  await button(page, "Fields").click();
  await page.getByText("This filter cannot be shown as fields. Fields can be joined only by “and”, but this filter contains “or”.").waitFor();
  assert.equal(await button(page, "Text").getAttribute("aria-pressed"), "true");
  await filterOf(page).fill("PartitionKey eq 'lada' and Ready");
  await button(page, "Fields").click();
  assert.equal(await page.getByLabel("Property", { exact: true }).nth(1).inputValue(), "Ready");
});

test("properties can be selected from the known ones or by name, and the limit applies", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server);
  const summary = page.getByText("Select: all properties");
  await summary.click();
  await page.getByRole("checkbox", { name: "Doors" }).check();
  await page.getByLabel("Other properties, separated by commas").fill("Missing, Model");
  await assertAccessible(page, "the choice of properties");
  await page.keyboard.press("Escape");
  await page.getByText("Select: 3 properties").waitFor();
  await page.getByLabel("Limit").fill("12");
  const asked = page.waitForRequest((request) => request.url().includes("cars()"));
  await page.keyboard.press("Enter");
  const url = new URL((await asked).url());
  assert.equal(url.searchParams.get("$select"), "PartitionKey,RowKey,Timestamp,Doors,Missing,Model");
  assert.equal(url.searchParams.get("$top"), "12");
  await cost(page, "12 returned");
  assert.equal(new URLSearchParams(page.url().split("?")[1]).get("select"), "Doors,Missing,Model");
  await page.reload();
  await cost(page, "12 returned");
  await page.getByText("Select: 3 properties").click();
  assert.equal(await page.getByRole("checkbox", { name: "Doors" }).isChecked(), true);
  await button(page, "All properties").click();
  await summary.waitFor();
});

test("earlier queries can be run again from the history of their table", async (test) => {
  const server = await serverWithCars(test);
  await server.createTable("other");
  const page = await openCars(test, server);
  await run(page, "PartitionKey eq 'ford'", "10 examined, 10 returned");
  await run(page, "PartitionKey eq 'lada' and Ready", "10 examined, 5 returned");
  await page.reload();
  await cost(page, "5 returned");
  await button(page, "History").click();
  assert.deepEqual(await page.getByRole("menuitem").allTextContents(),
    ["PartitionKey eq 'lada' and Ready", "PartitionKey eq 'ford'", "Clear history"]);
  await assertAccessible(page, "the history");
  await page.getByRole("menuitem", { name: "PartitionKey eq 'ford'" }).click();
  await cost(page, "10 examined, 10 returned");
  assert.equal(await filterOf(page).inputValue(), "PartitionKey eq 'ford'");
  await page.goto(`${server.origin}/_rowhouse/#/t/other`);
  await cost(page, "0 returned");
  await button(page, "History").click();
  await page.getByRole("menuitem", { name: "No queries have been run yet" }).waitFor();
});

test("a query can be saved under a name, and copied as a link without secrets", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server);
  await run(page, "PartitionKey eq 'ford' and Model ne '#/?&=%+'", "10 returned");
  await button(page, "Save").click();
  await page.getByRole("menuitem", { name: "Copy a link to this query" }).click();
  await page.getByText("The link was copied.").waitFor();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(link, /^http:\/\/127\.0\.0\.1:\d+\/_rowhouse\/#\/t\/cars\?filter=/);
  assert.doesNotMatch(decodeURIComponent(link), /sig=|sv=|AccountKey|Eby8vdM0/);

  await button(page, "Save").click();
  await page.getByRole("menuitem", { name: "Save this query as…" }).click();
  await page.getByLabel("Name", { exact: true }).fill(MARKUP);
  await page.keyboard.press("Enter");
  await page.getByText(`The query was saved as ${MARKUP}.`).waitFor();
  await run(page, "", "30 returned");
  await button(page, "Save").click();
  await page.getByRole("menuitem", { name: MARKUP }).click();
  await cost(page, "10 returned");
  await assertOnlyText(page, "a saved query");

  await page.goto("about:blank");
  await page.goto(link);
  await cost(page, "10 examined, 10 returned");
  assert.equal(await filterOf(page).inputValue(), "PartitionKey eq 'ford' and Model ne '#/?&=%+'");

  await button(page, "Save").click();
  await page.getByRole("menuitem", { name: "Delete saved queries…" }).click();
  await page.getByRole("checkbox").first().check();
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await button(page, "Save").click();
  assert.equal(await page.getByRole("menuitem", { name: MARKUP }).count(), 0);
  const stored = await page.evaluate(() => JSON.stringify({ ...localStorage }));
  assert.doesNotMatch(stored, /sig=|AccountKey|Eby8vdM0/);
});

test("the cost of a query is shown with reasons and advice", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server);
  await page.getByText("Cost details").click();
  const advice = page.getByRole("list", { name: "Advice" });
  const panel = page.getByRole("region", { name: "Query cost" });
  await advice.getByText("Without a filter, the table is read from the beginning").waitFor();
  await run(page, "Model eq 'ford 3'", "Table scan: 30 examined, 1 returned, 1 page");
  await advice.getByText("This query reads the whole table: 30 entities examined to return 1. Add PartitionKey eq '…' to read one partition.").waitFor();
  const guide = advice.getByRole("link", { name: "Inter-partition secondary index" });
  const [opened] = await Promise.all([page.context().waitForEvent("page"), guide.click()]);
  await opened.getByText("### Inter-partition secondary index").waitFor();
  await opened.close();
  await run(page, "PartitionKey eq 'ford' and Model eq 'ford 3'", "10 examined, 1 returned");
  await advice.getByText("A RowKey range would read less: put Model into the RowKey").waitFor();
  await panel.getByText("PartitionKey = 'ford', every RowKey").waitFor();
  await run(page, "PartitionKey eq 'ford' and RowKey ge '0002' and RowKey lt '0004'", "2 examined, 2 returned");
  await panel.getByText("PartitionKey = 'ford', RowKey from '0002' before '0004'").waitFor();
  await run(page, "PartitionKey eq 'ford' and RowKey eq '0003'", "Point query: 1 examined, 1 returned");
  await panel.getByText("PartitionKey = 'ford', RowKey = '0003'").waitFor();
  await run(page, "PartitionKey eq 'ford' or PartitionKey eq 'lada'", "20 examined, 20 returned");
  await advice.getByText("The 2 ranges are read one after the other.").waitFor();
  await assertAccessible(page, "the cost of a query");
});

test("cost details show hostile keys as text", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server);
  await page.getByText("Cost details").click();
  const keys = [MARKUP, "\u202egnp.exe 😀", "it''s"];
  for (const key of keys) {
    await run(page, `PartitionKey eq '${key}' and RowKey lt '${key}'`, "0 examined, 0 returned");
    await page.getByText(`PartitionKey = '${key.replace("''", "'")}', RowKey before`).waitFor();
  }
  await assertOnlyText(page, "keys in cost details");
});

test("the query bar is usable on a narrow screen in the dark theme", async (test) => {
  const server = await serverWithCars(test);
  const page = await openCars(test, server, { context: { viewport: { width: 360, height: 740 }, colorScheme: "dark" } });
  await page.getByText("Cost details").click();
  await button(page, "Fields").click();
  await assertNoSidewaysScroll(page, "fields");
  await assertAccessible(page, "fields in the dark theme");
  await page.getByText("Select: all properties").click();
  await assertNoSidewaysScroll(page, "the choice of properties");
  await page.keyboard.press("Escape");
  await button(page, "Text").click();
  await filterOf(page).fill(`${"PartitionKey eq 'ford' and ".repeat(8)}Rea`);
  await options(page).first().waitFor();
  await assertNoSidewaysScroll(page, "a long filter");
  await assertAccessible(page, "suggestions in the dark theme");
});
