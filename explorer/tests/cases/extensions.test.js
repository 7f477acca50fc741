// What the explorer offers if the server has extensions: string functions in filters, counts, and deletions by filter.

import assert from "node:assert/strict";
import { test } from "node:test";
import { assertAccessible } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { button, chooseTool, closed, foot, toolsInMenu } from "../support/entities.js";
import { openWithSas, signIn } from "../support/pages.js";
import { startServer } from "../support/server.js";
import { parseFilter } from "../../web/query/filter-text.js";

// The continuation token for the partition "lada".
const AT_LADA = "1!8!bGFkYQ--";
const EXTENSIONS = { options: ["--extensions"] };

// Starts a server with a table of entities in two partitions.
async function serverWithCars(test, settings, count = 20) {
  const server = await startServer(settings);
  test.after(() => server.stop());
  const cars = await server.createTable("cars");
  for (const make of ["ford", "lada"]) {
    for (let start = 0; start < count / 2; start += 100) {
      const entities = Array.from({ length: Math.min(100, count / 2 - start) }, (_, at) => {
        return { partitionKey: make, rowKey: String(start + at), Model: `${make} ${start + at}`, Doors: (start + at) % 5 };
      });
      await cars.submitTransaction(entities.map((entity) => ["create", entity]));
    }
  }
  return server;
}

const filterOf = (page) => page.getByRole("textbox", { name: "Filter" });
const HASH = "#/t/cars";

async function modelsOf(server) {
  const models = [];
  for await (const { Model } of server.table("cars").listEntities()) models.push(Model);
  return models;
}

// Collects the requests that match, as "METHOD path?parameters".
function requestsOf(page, pattern) {
  const sent = [];
  page.on("request", (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (pattern.test(pathname)) sent.push(`${request.method()} ${pathname.split("/").slice(2).join("/")} ${searchParams}`);
  });
  return sent;
}

test("with extensions, the page reports an error for exactly the filters that the server refuses", async (test) => {
  const server = await serverWithCars(test, EXTENSIONS);
  const filters = [
    "startswith(Model,'a')", "endswith(Model,'a')", "contains(Model,'a')", "substringof('a',Model)", " contains ( RowKey , '' ) ",
    "contains((Model),('a'))", "(contains(Model,'a'))", "not contains(Model,'a')", "contains(Model,'a') eq true", "false ne contains(Model,'a')",
    "(contains(Model,'a')) eq false", "contains(Model,'it''s') and Doors eq 1 or not(endswith(Model,'a'))", "contains eq 1", "startswith",
    "startswith(startswith,'b')", "contains()", "contains(Model)", "contains(Model,'a','b')", "contains(Model,5)", "contains(RowKey,X'00')",
    "contains(Timestamp,'2026')", "contains('a',Model)", "substringof(Model,'a')", "contains(Model,Doors)", "contains('a','b')",
    "contains(contains(Model,'a'),'b')", "contains(Model eq 'a','b')", "contains(Model,null)", "contains(Model,'a') eq null",
    "contains(Model,'a') eq 'true'", "1 ne contains(Model,'a')", "contains(Model,'a') and RowKey", "contains(tolower(Model),'a')",
    "contains(Model/x,'a')", "Model/contains(x,'a')", "contains/x('a')", "contains(Model,'a') eq Doors",
    "contains(Model,'a') eq contains(RowKey,'b')", "contains(Model,'a') gt false", "contains(Model,'a') eq true eq true",
    "(contains(Model,'a') and Doors eq 1) eq true", "(contains(Model,'a') eq true) eq true", "contains(,'a')", "contains(Model,'a',)",
    "contains(Model,'a'", "contains(Model 'a')", "Contains(Model,'a')", "tolower(Model) eq 'a'", "now()", "Model contains 'a'", "Doors eq 3",
  ];
  const wrong = filters.map((text) => parseFilter(text).errors.length > 0);
  for (const [at, filter] of filters.entries()) {
    const refused = await server.table("cars").listEntities({ queryOptions: { filter } }).next().then(() => false, (error) => {
      assert.ok([400, 501].includes(error.statusCode), `${filter}: ${error}`);
      return true;
    });
    assert.equal(wrong[at], refused, filter);
  }
});

test("string functions can be written from suggestions, and edited as fields", async (test) => {
  const server = await serverWithCars(test, EXTENSIONS);
  const page = await openExplorer(test, server, { hash: HASH });
  await foot(page, "All 20 entities").waitFor();
  await filterOf(page).focus();
  await page.keyboard.type("ends");
  await page.keyboard.press("Enter");
  await page.keyboard.type("Mod");
  await page.keyboard.press("Enter");
  assert.equal(await filterOf(page).inputValue(), "endswith(Model,'')");
  await page.keyboard.type("a 3");
  await page.keyboard.press("Control+Enter");
  await foot(page, "1 entity").waitFor();
  await button(page, "Fields").click();
  const line = page.getByRole("group", { name: "Condition 1", exact: true });
  assert.equal(await line.getByLabel("Operator").inputValue(), "endsWith");
  await line.getByLabel("Operator").selectOption("contains");
  await line.getByLabel("Value").fill("ford");
  assert.equal(await filterOf(page).inputValue(), "contains(Model,'ford')");
  await page.keyboard.press("Enter");
  await foot(page, "All 10 entities").waitFor();
  await line.getByLabel("Type").selectOption("Int32");
  assert.equal(await line.getByLabel("Operator").inputValue(), "eq");
});

test("a server without extensions gets no request for them, and the page explains why", async (test) => {
  const server = await serverWithCars(test, {}, 1200);
  const page = await openExplorer(test, server, { hash: HASH });
  await foot(page, "1,000 entities loaded, more available").waitFor();
  const sent = requestsOf(page, /cars/);
  await filterOf(page).fill("contains(Model,'ford')");
  await page.keyboard.press("Enter");
  await page.getByText(/^Character 1: The service does not support functions such as contains\(…\)\. Rowhouse .* --extensions\.$/).waitFor();
  assert.deepEqual(sent, []);
  assert.equal(await button(page, "Count all").isVisible(), false);
  assert.equal((await toolsInMenu(page)).includes("Delete all matching…"), false);
  await filterOf(page).fill("Model eq 'x'");
  await button(page, "Fields").click();
  assert.equal(await page.getByLabel("Operator").locator("option", { hasText: "contains" }).count(), 0);
});

test("all matching entities are counted, whatever is loaded", async (test) => {
  const server = await serverWithCars(test, EXTENSIONS, 3000);
  const page = await openExplorer(test, server, { hash: HASH });
  await foot(page, "1,000 entities loaded, more available").waitFor();
  await button(page, "Count all").click();
  await foot(page, "1,000 entities loaded, more available, 3,000 entities in total").waitFor();
  await closed(page);

  // A response may contain only part of the number.
  const sent = requestsOf(page, /\$count$/);
  await page.route((url) => url.pathname.endsWith("/$count") && !url.searchParams.has("NextPartitionKey"), (route) =>
    route.fulfill({ body: "5", headers: { "x-ms-continuation-NextPartitionKey": AT_LADA } }));
  await filterOf(page).fill("Model ge 'f'");
  await page.keyboard.press("Enter");
  await foot(page, "1,000 entities loaded, more available").waitFor();
  await button(page, "Count all").click();
  await foot(page, "1,000 entities loaded, more available, 1,505 entities in total").waitFor();
  assert.deepEqual(sent.map((request) => request.replaceAll("%24", "$")), [
    "GET cars()/$count $filter=Model+ge+%27f%27", "GET cars()/$count $filter=Model+ge+%27f%27&NextPartitionKey=1%218%21bGFkYQ--"]);
});

test("a count can be stopped", async (test) => {
  const server = await serverWithCars(test, EXTENSIONS, 1200);
  const page = await openExplorer(test, server, { hash: HASH });
  await foot(page, "1,000 entities loaded, more available").waitFor();
  let requests = 0;
  await page.route("**/$count**", (route) => {
    requests += 1;
    const headers = { "x-ms-continuation-NextPartitionKey": AT_LADA };
    return requests === 1 ? route.fulfill({ body: "700", headers }) : undefined;
  });
  await button(page, "Count all").click();
  const dialog = page.getByRole("dialog", { name: "Counting all matching entities" });
  await dialog.getByText("700 entities so far").waitFor();
  await assertAccessible(page, "a count");
  await dialog.getByRole("button", { name: "Stop" }).click();
  await closed(page);
  await foot(page, "1,000 entities loaded, more available").waitFor();
});

test("the list of tables counts without reading the entities", async (test) => {
  const server = await serverWithCars(test, EXTENSIONS, 1200);
  const page = await openExplorer(test, server);
  const sent = requestsOf(page, /cars/);
  await button(page, "Count the entities of cars").click();
  await page.getByRole("list", { name: "Tables" }).getByText("1,200 entities", { exact: true }).waitFor();
  assert.deepEqual(sent, ["GET cars()/$count "]);
});

test("all matching entities are deleted after a confirmation with their number and table", async (test) => {
  const server = await serverWithCars(test, EXTENSIONS, 3000);
  const hash = `${HASH}?filter=${encodeURIComponent("contains(Model,'ford')")}&top=5`;
  const page = await openExplorer(test, server, { hash });
  await foot(page, "All 5 entities").waitFor();
  await chooseTool(page, "Delete all matching…");
  const dialog = page.getByRole("dialog", { name: "Delete 1,500 entities?" });
  await dialog.getByText(/^1,500 entities of the table cars that match contains\(Model,'ford'\) will be deleted.*limit of the query does not apply/).waitFor();
  await assertAccessible(page, "the confirmation");
  const confirm = dialog.getByRole("button", { name: "Delete 1,500 entities" });
  await dialog.getByLabel("Type cars to confirm").fill("Cars");
  await confirm.click();
  await dialog.getByRole("alert").getByText("Type cars exactly.").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await modelsOf(server)).length, 3000);
  await chooseTool(page, "Delete all matching…");
  await dialog.getByLabel("Type cars to confirm").fill("cars");
  await confirm.click();
  await page.getByText("Deleted 1,500 entities of cars.").waitFor();
  await foot(page, "No matching entities").waitFor();
  const left = await modelsOf(server);
  assert.equal(left.length, 1500);
  assert.ok(left.every((model) => model.startsWith("lada")));
  await button(page, "More").click();
  assert.equal(await page.getByRole("menuitem", { name: "Delete all matching…" }).isEnabled(), false);
});

test("a deletion without a filter names all entities, continues after part of them, and can be stopped", async (test) => {
  const server = await serverWithCars(test, EXTENSIONS);
  const page = await openExplorer(test, server, { hash: HASH });
  await foot(page, "All 20 entities").waitFor();
  const sent = requestsOf(page, /cars\(\)$/);
  let requests = 0;
  let ask;
  const asked = new Promise((resolve) => (ask = resolve));
  await page.route("**/cars()?*", async (route) => {
    if (route.request().method() !== "DELETE") return route.continue();
    requests += 1;
    if (requests > 1) return ask();
    // The server deletes one of the partitions in the first request.
    const url = route.request().url().replace("filter=true", `filter=${encodeURIComponent("PartitionKey eq 'ford'")}`);
    const response = await route.fetch({ url });
    return route.fulfill({ response, headers: { ...response.headers(), "x-ms-continuation-NextPartitionKey": AT_LADA } });
  });
  await chooseTool(page, "Delete all matching…");
  const dialog = page.getByRole("dialog", { name: "Delete 20 entities?" });
  await dialog.getByText(/^All 20 entities of the table cars will be deleted/).waitFor();
  await dialog.getByLabel("Type cars to confirm").fill("cars");
  await dialog.getByRole("button", { name: "Delete 20 entities" }).click();
  const progress = page.getByRole("dialog", { name: "Deleting 20 entities" });
  await progress.getByText("10 entities deleted").waitFor();
  await assertAccessible(page, "a deletion");
  await asked;
  await progress.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped. 10 entities were deleted, and perhaps more by the last request.").waitFor();
  await foot(page, "All 10 entities").waitFor();
  const deletions = sent.filter((request) => request.startsWith("DELETE")).map((request) => request.replaceAll("%24", "$"));
  assert.deepEqual(deletions, ["DELETE cars() $filter=true", "DELETE cars() $filter=true&NextPartitionKey=1%218%21bGFkYQ--"]);
});

test("the page offers deletions only if the credential allows them, and reports their errors", async (test) => {
  const server = await serverWithCars(test, { ...EXTENSIONS, ownAccount: true });
  const page = await openWithSas(test, server, server.tableSas("cars", ["query"]), { hash: HASH });
  await foot(page, "All 20 entities").waitFor();
  assert.equal((await toolsInMenu(page)).includes("Delete all matching…"), false);

  const other = await openExplorer(test, server, { hash: HASH, statuses: [403] });
  await signIn(other, { kind: "Connection string", secret: server.connectionString });
  await foot(other, "All 20 entities").waitFor();
  await other.route("**/cars()?*", (route) => {
    const body = JSON.stringify({ "odata.error": { code: "AuthorizationFailure", message: { lang: "en-US", value: "No." } } });
    return route.request().method() === "DELETE" ? route.fulfill({ status: 403, body }) : route.continue();
  });
  await chooseTool(other, "Delete all matching…");
  await other.getByLabel("Type cars to confirm").fill("cars");
  await other.getByRole("button", { name: "Delete 20 entities" }).click();
  await other.getByText("No. (AuthorizationFailure, 403) 0 entities were deleted before.").waitFor();
  await foot(other, "All 20 entities").waitFor();
});
