// 100,000 entities: the number of elements does not depend on the number of loaded entities, and scrolling is smooth.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openExplorer } from "../support/browser.js";
import { startServer } from "../support/server.js";

const ENTITIES = 100_000;
const PARTITIONS = 10;
/** Enough for the elements of the lines on and around the screen; 100,000 lines would have a million elements. */
const ELEMENTS_MAX = 2500;
/**
 * Times and memory depend on the machine and on other work on it, so these limits only detect errors of an order of
 * magnitude: a frame whose work is proportional to the number of loaded entities takes seconds here, and entities that
 * are kept twice, or as elements, exceed the memory limit. The test prints the measurements.
 */
const MEDIAN_FRAME_MS_MAX = 1000;
const HEAP_BYTES_MAX = 400_000_000;

let server;
before(async () => {
  server = await startServer();
});
after(() => server.stop());

async function fill(table) {
  const partition = async (name) => {
    for (let at = 0; at < ENTITIES / PARTITIONS; at += 100) {
      await table.submitTransaction(
        Array.from({ length: 100 }, (_, i) => [
          "create",
          {
            partitionKey: name,
            rowKey: String(at + i).padStart(6, "0"),
            number: at + i,
            text: `entity ${at + i} of ${name}`,
            time: new Date(at + i),
            price: (at + i) / 8 + 0.5,
            yes: i % 2 === 0,
          },
        ]),
      );
    }
  };
  await Promise.all(Array.from({ length: PARTITIONS }, (_, i) => partition(`p${i}`)));
}

/** Scrolls part of the way in every frame. Returns the duration of each frame. */
function scrollThrough(grid, { from, to, frames }) {
  return new Promise((resolve) => {
    const times = [];
    let last = performance.now();
    const step = (now) => {
      times.push(now - last);
      last = now;
      if (times.length > frames) resolve(times.slice(1));
      else {
        grid.scrollTop = from + (to - from) * (times.length / frames);
        requestAnimationFrame(step);
      }
    };
    requestAnimationFrame(step);
  });
}

test("100,000 entities are loaded and scrolled through", { timeout: 1_200_000 }, async (t) => {
  const table = await server.createTable("Large");
  await fill(table);
  const page = await openExplorer(t, server, { hash: "#/t/Large" });
  const grid = page.locator("entity-grid");
  const elements = () => grid.evaluate((element) => element.querySelectorAll("*").length);
  await page.getByRole("gridcell", { name: "000000", exact: true }).click();
  const atFirst = await elements();
  await page.getByRole("button", { name: "Load all" }).click();
  await page.locator(".entities-foot").getByText("All 100,000 entities").waitFor({ timeout: 600_000 });
  const height = await grid.evaluate((element) => element.scrollHeight);

  const results = {};
  for (const [name, way] of Object.entries({
    "line by line": { from: 0, to: 30 * 240, frames: 240 },
    "screen by screen": { from: height / 2, to: height / 2 + 600 * 120, frames: 120 },
    "from end to end": { from: 0, to: height, frames: 120 },
  })) {
    const times = (await grid.evaluate(scrollThrough, way)).sort((a, b) => a - b);
    results[name] = { median: times[times.length >> 1], "95%": times[Math.floor(times.length * 0.95)], longest: times.at(-1) };
    assert.ok(results[name].median <= MEDIAN_FRAME_MS_MAX, `${name}: the median frame took ${results[name].median} ms`);
  }
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  await session.send("Performance.enable");
  const { metrics } = await session.send("Performance.getMetrics");
  const heap = metrics.find(({ name }) => name === "JSHeapUsedSize").value;
  const drawn = await elements();
  const milliseconds = (time) => `${time.toFixed(1)} ms`;
  for (const [name, { median, "95%": most, longest }] of Object.entries(results)) {
    t.diagnostic(
      `frames ${name}: median ${milliseconds(median)}, 95% ${milliseconds(most)}, longest ${milliseconds(longest)}`,
    );
  }
  t.diagnostic(`${(heap / 1e6).toFixed(0)} MB of heap; ${atFirst} elements in the grid with one page, ${drawn} with all entities`);
  assert.ok(drawn <= ELEMENTS_MAX, `${drawn} elements`);
  assert.ok(Math.abs(drawn - atFirst) < 300, "the number of elements must not depend on the number of loaded entities");
  assert.ok(heap < HEAP_BYTES_MAX, `${heap} bytes of heap`);

  // The last entity can be reached, and all entities can be selected.
  await page.getByRole("gridcell").first().click();
  await page.keyboard.press("Control+End");
  await page.getByRole("gridcell", { name: "entity 9999 of p9" }).waitFor();
  await page.keyboard.press("Control+a");
  await page.locator(".entities-foot").getByText("100,000 selected").waitFor();
});

test("pages are loaded while scrolling, and none while the end is far away", async (t) => {
  const table = await server.createTable("Streamed");
  for (let at = 0; at < 4000; at += 100) {
    await table.submitTransaction(
      Array.from({ length: 100 }, (_, i) => ["create", { partitionKey: "p", rowKey: String(at + i).padStart(6, "0") }]),
    );
  }
  const page = await openExplorer(t, server);
  let pages = 0;
  page.on("request", (request) => {
    if (request.url().includes("Streamed()")) pages += 1;
  });
  await page.goto(`${server.origin}/_rowhouse/#/t/Streamed`);
  const foot = (text) => page.locator(".entities-foot").getByText(text).waitFor();
  await foot("1,000 entities loaded, more available");
  await page.getByRole("gridcell", { name: "000000", exact: true }).click();
  for (let i = 0; i < 10; i += 1) await page.keyboard.press("PageDown");
  assert.equal(pages, 1);
  await page.keyboard.press("Control+End");
  await foot("2,000 entities loaded, more available");
  // A key may arrive when a page is there, but before the next frame shows it.
  await page.locator("entity-grid").evaluate((grid) => {
    const { grown } = grid;
    grid.grown = (complete) => {
      grown.call(grid, complete);
      grid.focusCell(Infinity, 0);
    };
  });
  await page.keyboard.press("Control+End");
  await foot("All 4,000 entities");
  assert.equal(pages, 4);
});
