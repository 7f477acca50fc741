// The screenshots in docs/explorer.md. UPDATE_SCREENSHOTS=1 writes them; otherwise, this test only checks that they can
// be taken.

import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { settle } from "../support/accessibility.js";
import { openBrowser, openExplorer } from "../support/browser.js";
import { startServer } from "../support/server.js";

const SIZE = { width: 1200, height: 750 };
const BYTES_MAX = 150 * 1024;
const COLOURS_MIN = 20;
const DOCUMENTED = fileURLToPath(new URL("../../../docs/images/", import.meta.url));

const CUSTOMERS = ["adatum", "contoso", "fabrikam", "litware", "northwind"];
const NOTES = ["", "Deliver to the back door", "Gift", "Call before delivery", "Frühstück für zwei", "お届けは午前中に"];

// The orders are the same in every screenshot.
function orders() {
  return CUSTOMERS.flatMap((partitionKey, customer) =>
    Array.from({ length: 12 }, (_, at) => {
      const number = customer * 12 + at;
      return {
        partitionKey,
        rowKey: `2026-${String(at + 1).padStart(2, "0")}-${1000 + number * 7}`,
        Total: Number((((number * 7919) % 40000) / 100 + 9.95).toFixed(2)),
        Items: 1 + (number % 9),
        Paid: number % 3 !== 0,
        Placed: new Date(Date.UTC(2026, at, 3 + customer, 8 + (number % 10), (number * 13) % 60)),
        Invoice: { type: "Int64", value: String(9007199254740993n + BigInt(number)) },
        Note: NOTES[number % NOTES.length],
        Receipt: { type: "Guid", value: `6f9619ff-8b86-4011-b42d-00c04f${String(100000 + number)}` },
      };
    }),
  );
}

async function shopServer(test) {
  const server = await startServer({ options: ["--extensions", "--keep-log", "1h"] });
  test.after(() => server.stop());
  for (const name of ["customers", "inventory", "sessions", "telemetry2026"]) {
    await server.createTable(name);
  }
  await server.createTable("orders", orders());
  return server;
}

async function showEntities(page) {
  const grid = page.getByRole("grid", { name: "Entities of orders" });
  await grid.getByText("contoso").first().waitFor();
  // The service sets the Timestamp, so it would differ in every screenshot.
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("dialog").getByRole("checkbox", { name: "Timestamp" }).uncheck();
  await page.keyboard.press("Escape");
}

async function showData(page) {
  await showEntities(page);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("60 examined, 11 returned").waitFor();
  await page.getByRole("gridcell", { name: "adatum" }).first().waitFor();
  const top = await page.getByRole("gridcell", { name: "adatum" }).first().evaluate((cell) => cell.getBoundingClientRect().bottom);
  assert.ok(top < SIZE.height / 2, `the first entity ends at ${top} px, below the upper half`);
}

async function showChanges(page) {
  await page.getByLabel("Begin").selectOption("From the oldest change");
  await page.getByText("61 changes").waitFor();
}

const heading = (name) => (page) => page.getByRole("heading", { name, exact: true }).waitFor();

// The pages of docs/explorer.md, each with what shows that it is complete.
const LARGE_ORDERS = `#/t/orders?filter=${encodeURIComponent("Total gt 350.0")}`;
const PICTURES = {
  entities: { hash: LARGE_ORDERS, show: showData },
  cell: {
    hash: LARGE_ORDERS,
    async show(page) {
      await showEntities(page);
      await page.getByRole("gridcell", { name: "Deliver to the back door" }).first().dblclick();
      await page.getByRole("dialog").waitFor();
    },
  },
  tables: { hash: "#/", show: (page) => page.getByText("5 tables").waitFor() },
  changes: { hash: "#/t/orders/changes", show: showChanges },
  access: { hash: "#/t/orders/access", show: heading("Stored access policies") },
  settings: { hash: "#/t/orders/settings", show: (page) => page.getByRole("button", { name: "Add index" }).waitFor() },
  account: { hash: "#/account", show: (page) => page.getByRole("heading", { name: "CORS" }).waitFor() },
  dark: { hash: LARGE_ORDERS, show: showData, colorScheme: "dark" },
};

// An empty page has few colours.
async function countColours(path) {
  const browser = await openBrowser();
  const page = await browser.newPage();
  const colours = await page.evaluate(async (base64) => {
    const response = await fetch(`data:image/png;base64,${base64}`);
    const picture = await createImageBitmap(await response.blob());
    const context = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
    context.drawImage(picture, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, picture.width, picture.height).data.buffer);
    return new Set(pixels).size;
  }, (await readFile(path)).toString("base64"));
  await page.close();
  return colours;
}

test("the screenshots of the documentation", async (test) => {
  const isUpdate = process.env.UPDATE_SCREENSHOTS === "1";
  const folder = isUpdate ? DOCUMENTED : await mkdtemp(join(tmpdir(), "explorer-pictures-"));
  await mkdir(folder, { recursive: true });
  if (!isUpdate) {
    test.after(() => rm(folder, { recursive: true }));
  }
  const server = await shopServer(test);
  for (const [name, { hash, show, colorScheme = "light" }] of Object.entries(PICTURES)) {
    const context = { viewport: SIZE, colorScheme, timezoneId: "UTC", reducedMotion: "reduce" };
    const page = await openExplorer(test, server, { hash, context });
    await show(page);
    await page.mouse.move(0, 0);
    await settle(page);
    const path = join(folder, `explorer-${name}.png`);
    await page.screenshot({ path, caret: "hide" });
    await page.close();
    assert.ok((await stat(path)).size < BYTES_MAX, `${name} is small`);
    assert.ok((await countColours(path)) > COLOURS_MIN, `${name} shows something`);
  }
});
