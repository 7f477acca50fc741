// Loading the page takes few requests and bytes, and a message appears immediately.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openBrowser } from "../support/browser.js";
import { startServer } from "../support/server.js";

const REQUESTS_MAX = 4;
const BYTES_MAX = 45_000;
const TABLE_REQUESTS_MAX = 6;
const TABLE_BYTES_MAX = 120_000;

// The browser context has no cache.
async function newPage(test) {
  const server = await startServer();
  test.after(() => server.stop());
  await server.createTable("cars", [{ partitionKey: "ford", rowKey: "1", Model: "Focus" }]);
  const context = await (await openBrowser()).newContext();
  test.after(() => context.close());
  return { server, page: await context.newPage() };
}

// The size of a response includes its headers.
async function measure(page) {
  const session = await page.context().newCDPSession(page);
  const sent = { urls: [], bytes: 0 };
  session.on("Network.requestWillBeSent", ({ request }) => request.url.startsWith("http") && sent.urls.push(request.url));
  session.on("Network.loadingFinished", ({ encodedDataLength }) => (sent.bytes += encodedDataLength));
  await session.send("Network.enable");
  return sent;
}

test("the first view takes few requests and bytes", async (test) => {
  const { server, page } = await newPage(test);
  const sent = await measure(page);
  await page.goto(`${server.origin}/_rowhouse/`);
  await page.getByRole("link", { name: "cars", exact: true }).waitFor();
  await page.waitForLoadState("networkidle");
  test.diagnostic(`${sent.urls.length} requests, ${sent.bytes} bytes`);
  assert.ok(sent.urls.length <= REQUESTS_MAX, sent.urls.join("\n"));
  assert.ok(sent.bytes > 0 && sent.bytes <= BYTES_MAX, `${sent.bytes} bytes`);
});

test("a link to a table takes few requests and bytes", async (test) => {
  const { server, page } = await newPage(test);
  const sent = await measure(page);
  await page.goto(`${server.origin}/_rowhouse/#/t/cars`);
  await page.getByRole("gridcell", { name: "Focus" }).waitFor();
  await page.waitForLoadState("networkidle");
  test.diagnostic(`${sent.urls.length} requests, ${sent.bytes} bytes`);
  assert.ok(sent.urls.length <= TABLE_REQUESTS_MAX, sent.urls.join("\n"));
  assert.ok(sent.bytes > 0 && sent.bytes <= TABLE_BYTES_MAX, `${sent.bytes} bytes`);
});

test("a table that is opened twice while its script loads is read only once", async (test) => {
  const { server, page } = await newPage(test);
  let release;
  const isReleased = new Promise((resolve) => (release = resolve));
  await page.route("**/views.js", async (route) => {
    await isReleased;
    await route.continue();
  });
  const queries = [];
  page.on("request", (request) => request.url().includes("cars()") && queries.push(request.url()));
  const script = page.waitForRequest("**/views.js");
  await page.goto(`${server.origin}/_rowhouse/#/t/cars`);
  await script;
  await page.evaluate(() => dispatchEvent(new Event("hashchange")));
  release();
  await page.getByRole("gridcell", { name: "Focus" }).waitFor();
  await page.waitForLoadState("networkidle");
  assert.equal(queries.length, 1, queries.join("\n"));
});

test("a view that loads slowly shows a message", async (test) => {
  const { server, page } = await newPage(test);
  let release;
  const isReleased = new Promise((resolve) => (release = resolve));
  await page.route("**/views.js", async (route) => {
    await isReleased;
    await route.continue();
  });
  await page.goto(`${server.origin}/_rowhouse/`);
  await page.getByRole("link", { name: "cars", exact: true }).click();
  await page.getByRole("main").getByText("Loading…", { exact: true }).waitFor();
  release();
  await page.getByRole("gridcell", { name: "Focus" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
});

test("the page immediately shows that it is loading", async (test) => {
  const { server, page } = await newPage(test);
  let release;
  const isReleased = new Promise((resolve) => (release = resolve));
  await page.route("**/explorer.js", async (route) => {
    await isReleased;
    await route.continue();
  });
  const settings = page.waitForRequest("**/settings.json");
  await page.goto(`${server.origin}/_rowhouse/`, { waitUntil: "commit" });
  const loading = page.getByText("Loading the explorer…");
  await loading.waitFor();
  // The settings are requested while the script is loading.
  await settings;
  release();
  await page.getByRole("link", { name: "cars", exact: true }).waitFor();
  assert.equal(await loading.count(), 0);
});
