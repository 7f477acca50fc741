// Chromium, and the web server for the pages that it opens.

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import { delimiter, join } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";

// The first is Chromium without windows, which takes less time.
const PROGRAMS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

let browser;
let pages;

before(async () => {
  pages = await servePages();
  browser = await chromium.launch({
    executablePath: findChromium(),
    // Chromium's sandbox refuses to run as root, the usual user in a container.
    chromiumSandbox: process.getuid?.() !== 0,
    // Resolve names in the domain `example` to this machine, as an attacker could.
    args: ["--host-resolver-rules=MAP *.example 127.0.0.1"],
  });
});

after(async () => {
  await browser?.close();
  pages?.closeAllConnections();
  pages?.close();
});

function findChromium() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const paths = PROGRAMS.flatMap((program) => folders.map((folder) => join(folder, program)));
  const found = paths.find(existsSync);
  assert.ok(found, `none of ${PROGRAMS.join(", ")} is installed (on Debian the package chromium-headless-shell)`);
  return found;
}

// Serves one page and its script for every host name.
async function servePages() {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("page.js", import.meta.url))],
    bundle: true,
    platform: "browser",
    format: "iife",
    write: false,
  });
  const html = '<!doctype html><title>cases</title><link rel="icon" href="data:,"><script src="/page.js"></script>';
  const server = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? outputFiles[0].contents : html);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

// A browser treats each name under `localhost` as a separate site.
export function originOf(site) {
  return `http://${site}.localhost:${pages.address().port}`;
}

// Each case gets a new browser context with empty caches.
export async function openAddress(context, address) {
  const browserContext = await browser.newContext();
  context.after(() => browserContext.close());
  const page = await browserContext.newPage();
  await page.goto(address);
  return page;
}

export async function openPage(context, site = "app") {
  return openAddress(context, originOf(site));
}

// Records the preflight requests that the browser sends. Playwright does not show them, so they are read through the
// browser's own protocol, where they may arrive after the result of the page. Returns a function that waits for the
// expected number of preflight requests and returns the requested methods.
export async function recordPreflights(page) {
  const asked = [];
  const arrivals = new EventEmitter();
  const session = await page.context().newCDPSession(page);
  session.on("Network.requestWillBeSent", ({ request }) => {
    if (request.method === "OPTIONS") {
      asked.push(request.headers["Access-Control-Request-Method"]);
      arrivals.emit("arrival");
    }
  });
  await session.send("Network.enable");
  return async (count) => {
    while (asked.length < count) {
      await once(arrivals, "arrival");
    }
    return asked;
  };
}
