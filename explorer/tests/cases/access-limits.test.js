// Credentials that allow little, or nothing any more, and a server that goes away.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openExplorer } from "../support/browser.js";
import { openWithSas, signIn } from "../support/pages.js";
import { startServer } from "../support/server.js";

const HOUR_MS = 60 * 60 * 1000;

async function serverWith(test, settings = {}) {
  const server = await startServer({ ownAccount: true, ...settings });
  test.after(() => server.stop());
  await server.createTable("harvest", [
    { partitionKey: "apple", rowKey: "1", weight: 120 },
    { partitionKey: "apple", rowKey: "2", weight: 95 },
    { partitionKey: "pear", rowKey: "1", weight: 80 },
  ]);
  return server;
}

const button = (page, name) => page.getByRole("button", { name, exact: true });
const refused = (page) => page.getByRole("alert").filter({ hasText: "The server refuses the credential" });

test("a signature that has expired is refused when signing in, in words that say so", async (test) => {
  const server = await serverWith(test);
  const past = { startsOn: new Date(Date.now() - 2 * HOUR_MS), expiresOn: new Date(Date.now() - HOUR_MS) };
  const sas = server.accountSas(["query", "list"], past);
  const page = await openWithSas(test, server, sas, { statuses: [403] });
  await page.getByRole("alert").filter({ hasText: /expired/i }).waitFor();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

test("a signature for reading offers nothing that changes tables", async (test) => {
  const server = await serverWith(test);
  const page = await openWithSas(test, server, server.accountSas(["query", "list"]));
  await page.getByRole("link", { name: "harvest", exact: true }).waitFor();
  await button(page, "Count the entities of harvest").waitFor();
  for (const name of ["Create table", "Delete harvest"]) {
    assert.equal(await button(page, name).count(), 0, name);
  }
  for (const name of ["Access to harvest"]) {
    assert.equal(await page.getByRole("link", { name }).count(), 0, name);
  }
});

test("a server that goes away is waited for, and its tables are read again when it is back", async (test) => {
  const server = await serverWith(test, { onDisk: true });
  const page = await openExplorer(test, server, { unreachable: true });
  await signIn(page, { kind: "Account and key", account: server.account, secret: server.key });
  await page.getByRole("link", { name: "harvest", exact: true }).waitFor();
  await server.pause();
  await button(page, "Refresh").click();
  const banner = page.getByRole("alert").filter({ hasText: "The server cannot be reached. Trying again…" });
  await banner.waitFor();
  await page.getByRole("link", { name: "harvest", exact: true }).waitFor();
  await server.start();
  await server.createTable("orders");
  await banner.waitFor({ state: "hidden" });
  await button(page, "Refresh").click();
  await page.getByRole("link", { name: "orders", exact: true }).waitFor();
});
