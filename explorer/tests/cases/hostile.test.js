// Names and values are shown as text and never as markup, and the response headers restrict the page.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { openBrowser, openExplorer } from "../support/browser.js";
import { MARKUP, VALUES, answer, assertOnlyText, assertShown } from "../support/hostile.js";
import { startServer } from "../support/server.js";

async function serverWith(test, settings) {
  const server = await startServer(settings);
  test.after(() => server.stop());
  return server;
}

test("every file is served with a strict content security policy", async (test) => {
  const server = await serverWith(test);
  for (const path of ["", "index.html", "explorer.js", "views.js", "settings.json", "nothing"]) {
    const response = await fetch(`${server.origin}/_rowhouse/${path}`);
    assert.equal(response.status, path === "nothing" ? 404 : 200, path);
    const policy = new Map(
      (response.headers.get("content-security-policy") ?? "").split(";").map((directive) => {
        const [name, ...sources] = directive.trim().split(/\s+/);
        return [name, sources];
      }),
    );
    const strict = {
      "default-src": ["'none'"],
      "script-src": ["'self'"],
      "style-src": ["'self'"],
      "connect-src": ["'self'"],
      "base-uri": ["'none'"],
      "form-action": ["'none'"],
      "frame-ancestors": ["'none'"],
      "require-trusted-types-for": ["'script'"],
    };
    for (const [name, sources] of Object.entries(strict)) {
      assert.deepEqual(policy.get(name), sources, `${path}: ${name}`);
    }
    assert.doesNotMatch(JSON.stringify([...policy.values()]), /unsafe|\*|https?:|blob:/, path);
    assert.equal(response.headers.get("x-content-type-options"), "nosniff", path);
    assert.equal(response.headers.get("referrer-policy"), "no-referrer", path);
    assert.equal(response.headers.get("set-cookie"), null, path);
    assert.equal(response.headers.get("access-control-allow-origin"), null, path);
  }
});

test("other sites cannot frame the explorer", async (test) => {
  const server = await serverWith(test);
  const site = createServer((_request, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(`<!doctype html><title>site</title><iframe src="${server.origin}/_rowhouse/"></iframe>`);
  });
  await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
  test.after(() => {
    site.closeAllConnections();
    site.close();
  });
  const browser = await openBrowser();
  const context = await browser.newContext();
  test.after(() => context.close());
  const page = await context.newPage();
  const refusal = page.waitForEvent("console", (message) => /frame-ancestors/.test(message.text()));
  await page.goto(`http://localhost:${site.address().port}/`);
  await refusal;
  const frame = page.frames().find((frame) => frame !== page.mainFrame());
  assert.equal(await frame.locator("rowhouse-explorer").count(), 0);
});

test("a script in the URL is shown as text", async (test) => {
  const server = await serverWith(test);
  for (const hash of [`#/t/${encodeURIComponent(MARKUP)}`, `#${MARKUP}`, `#/t/harvest?filter=${encodeURIComponent(MARKUP)}`, "#/t/%E0%A4%A"]) {
    const page = await openExplorer(test, server, { hash, statuses: [400, 403, 404] });
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.waitForLoadState("networkidle");
    await assertOnlyText(page, hash);
    await page.close();
  }
});

test("table names and messages from a hostile server are shown as text", async (test) => {
  const server = await serverWith(test);
  const page = await openExplorer(test, server, { statuses: [400] });
  await answer(page, "/Tables", { value: [{ TableName: MARKUP }, { TableName: "__proto__" }, { TableName: VALUES.direction }] });
  await page.getByRole("button", { name: "Refresh" }).click();
  await assertShown(page.getByRole("list", { name: "Tables" }), MARKUP);
  await assertOnlyText(page, "the list");

  await page.getByRole("button", { name: `Delete ${MARKUP}` }).click();
  await assertShown(page.getByRole("dialog"), MARKUP);
  await assertOnlyText(page, "the dialog");
  await page.keyboard.press("Escape");

  await page.unrouteAll();
  await answer(page, "/Tables", { "odata.error": { code: MARKUP, message: { lang: "en", value: VALUES.svg } } }, 400);
  await page.getByRole("button", { name: "Refresh" }).click();
  await assertShown(page.getByRole("main"), VALUES.svg);
  await assertOnlyText(page, "the message");

  await page.getByRole("button", { name: "Create table" }).click();
  await page.getByLabel("Name").fill(MARKUP);
  await page.getByLabel("Name").press("Enter");
  await assertShown(page.getByRole("dialog").getByRole("alert"), VALUES.svg);
  await assertOnlyText(page, "the message in a dialog");
});
