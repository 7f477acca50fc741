// Starts Chromium and opens pages of the explorer. A test fails if its page does something that the explorer must never
// do.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { after } from "node:test";
import { chromium } from "playwright-core";

// The first is Chromium without windows. The others draw an address bar for every page even in headless mode, which takes
// half of the processor time.
const PROGRAMS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
const WAIT_MS = 60_000;
const FRAMES_MS = 15_000;

// The browser of the current test file; undefined until it is started.
let launch;

after(async () => {
  const browser = await launch?.catch(() => undefined);
  await browser?.close();
});

function findChromium() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const paths = PROGRAMS.flatMap((program) => folders.map((folder) => join(folder, program)));
  const found = paths.find(existsSync);
  assert.ok(found, `none of ${PROGRAMS.join(", ")} is installed; on Debian, install the package chromium-headless-shell`);
  return found;
}

// For tests that need more than a page of the explorer.
export function openBrowser() {
  launch ??= chromium.launch({
    executablePath: findChromium(),
    // Chromium's sandbox does not work for root, the usual user in a container.
    chromiumSandbox: process.getuid?.() !== 0,
  });
  return launch;
}

// Opens the explorer of a server for one test, in a separate browser context, and returns the page. `test` is the test
// context of node:test. The test fails if the page logs an error, has an uncaught exception, violates its
// Content-Security-Policy, opens a browser dialog, or sends a request to another origin.
//
//   hash         the fragment to open, such as "#/t/people"
//   statuses     the error statuses that the test expects; Chromium logs each error response
//   unreachable  whether the test stops the server, so that requests fail
//   context      additional options of the browser context, such as colorScheme and viewport
//   prepare      is called with the page before it loads
export async function openExplorer(
  test, server, { hash = "", statuses = [], unreachable = false, context = {}, prepare = () => {} } = {},
) {
  const browser = await openBrowser();
  const browserContext = await browser.newContext({
    locale: "en-US",
    // Not UTC, so that local times differ from stored times.
    timezoneId: "Asia/Kolkata",
    permissions: ["clipboard-read", "clipboard-write"],
    ...context,
  });
  server.closeBeforeStop(browserContext);
  browserContext.setDefaultTimeout(WAIT_MS);
  const page = await browserContext.newPage();
  readAfterDrawing(page);
  const faults = watch(page, server.origin, { statuses, unreachable });
  test.after(async () => {
    await browserContext.close();
    assert.deepEqual(faults, [], "the page did something that it must never do");
  });
  await prepare(page);
  await page.goto(`${server.origin}/_rowhouse/${hash}`);
  return page;
}

// SHOWN_MS in web/ui/notify.js.
const NOTICE_MS = 8000;

// Keeps notices until they are dismissed, for a test that uses a notice or waits for a second one with the same text: on
// a busy machine, that takes longer than a notice is shown. To be called before the page loads (`prepare`).
export function keepNotices(page) {
  return page.addInitScript((shownMs) => {
    const { setTimeout } = window;
    window.setTimeout = (run, delay, ...given) => (delay === shownMs ? 0 : setTimeout(run, delay, ...given));
  }, NOTICE_MS);
}

// Makes the page measure no time, for a test that counts pages: without a request of the user, the explorer loads pages
// for five seconds at most, which can be one or two pages on a busy machine. To be called before the page loads.
export function measureNoTime(page) {
  return page.addInitScript(() => {
    performance.now = () => 0;
  });
}

// Methods that read the page once, without waiting for what a test expects.
const READS = [
  "allTextContents", "boundingBox", "count", "evaluate", "evaluateAll", "getAttribute", "innerText", "inputValue",
  "isChecked", "isDisabled", "isEnabled", "isHidden", "isVisible", "textContent",
];
const afterDrawing = new WeakMap();

// The grid draws what has changed in the next frame, but texts change at once. A test that has waited for a text would
// therefore read the former lines.
function readAfterDrawing(page) {
  const evaluate = page.evaluate.bind(page);
  // A page draws no frames while it is not visible. On a busy machine, two frames can take seconds.
  const drawn = () => evaluate((framesMs) => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(done));
    setTimeout(done, framesMs);
  }), FRAMES_MS);
  afterDrawing.set(page, drawn);
  page.evaluate = async (...given) => {
    await drawn();
    return evaluate(...given);
  };
  const locator = Object.getPrototypeOf(page.locator("html"));
  if (afterDrawing.has(locator)) return;
  afterDrawing.set(locator, drawn);
  for (const name of READS) {
    const read = locator[name];
    locator[name] = async function readDrawn(...given) {
      await afterDrawing.get(this.page())?.();
      return read.apply(this, given);
    };
  }
}

function watch(page, origin, { statuses, unreachable }) {
  const faults = [];
  const isExpected = (text) =>
    statuses.some((status) => text.startsWith(`Failed to load resource: the server responded with a status of ${status} `)) ||
    (unreachable && text.startsWith("Failed to load resource: net::ERR_"));
  page.on("console", (message) => {
    if (message.type() === "error" && !isExpected(message.text())) {
      faults.push(`console: ${message.text()} (${message.location().url})`);
    }
  });
  page.on("pageerror", (error) => faults.push(`exception: ${error.stack ?? error}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol.startsWith("http") && url.origin !== origin) {
      faults.push(`request to another origin: ${request.url()}`);
    }
  });
  page.on("dialog", async (dialog) => {
    if (dialog.type() === "beforeunload") {
      await dialog.accept();
      return;
    }
    faults.push(`dialog: ${dialog.type()} ${dialog.message()}`);
    await dialog.dismiss();
  });
  return faults;
}
