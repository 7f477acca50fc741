// The load of a cluster, in the view of the account.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { assertAccessible } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { button } from "../support/entities.js";
import { signIn } from "../support/pages.js";
import { startServer } from "../support/server.js";

const HASH = "#/account";
// A test of the server compares its response with this file.
const RESPONSE = await readFile(new URL("../support/load.json", import.meta.url), "utf8");

// These servers have no cluster, so the test answers for one.
async function asOnCluster(page, respond) {
  await page.route("**/_rowhouse/settings.json", async (route) => {
    const response = await route.fetch();
    return route.fulfill({ response, json: { ...(await response.json()), load: true } });
  });
  await page.route((url) => url.searchParams.get("comp") === "balance", respond);
}

const section = (page) => page.getByRole("region", { name: "Load of the cluster" });

async function cells(page, name) {
  const rows = await section(page).getByRole("region", { name, exact: true }).locator("tbody tr").all();
  return Promise.all(rows.map((row) => row.locator("th, td").allTextContents()));
}

test("the load of a cluster is shown on request", async (test) => {
  const server = await startServer({ options: ["--extensions"] });
  test.after(() => server.stop());
  let requests = 0;
  const respond = (route) => {
    assert.match(route.request().headers().authorization, /^SharedKey(Lite)? devstoreaccount1:/);
    requests += 1;
    return route.fulfill({ contentType: "application/json", body: RESPONSE });
  };
  const page = await openExplorer(test, server, { hash: HASH, prepare: (page) => asOnCluster(page, respond) });
  await button(section(page), "Show load").click();
  const advice = "Move shard 102009 from node 2 to node 3: the hottest node now has 1.50 times the average load, and then 1.12 times.";
  await section(page).getByText(advice).waitFor();
  assert.deepEqual(await cells(page, "Nodes"), [
    ["1 coordinator.example:5432", "0", "0.000", "0", "0", "0", "0.000"],
    ["2 worker1.example:5432", "2", "1.500", "8,000", "1,500", "70,000", "3.250"],
    ["3 worker2.example:5432", "1", "0.500", "4,000", "250", "5,000", "0.500"],
  ]);
  const shards = await cells(page, "Hottest shards");
  assert.deepEqual(shards.map(([id, node, load]) => [id, node, load]), [
    ["102008", "2", "1.125"],
    ["102010", "3", "0.500"],
    ["102009", "2", "0.375"],
  ]);
  assert.deepEqual(await cells(page, "Hottest partitions"), [["<b>2026\n11", "orders", "0.750"]]);
  const steps = await cells(page, "Steps");
  assert.deepEqual(steps.map(([, , result]) => result), ["took 45 s", "failed: the <i>disk</i> is full", "running, or interrupted"]);
  assert.match(steps[0][0], /^2026-11-28T\d\d:00:00Z$/);
  await assertAccessible(page, "the load of a cluster");
  await button(section(page), "Refresh").click();
  await section(page).getByText(advice).waitFor();
  assert.equal(requests, 2);
});

test("without a cluster, and for a signature, no load is offered", async (test) => {
  const plain = await startServer({ options: ["--extensions"] });
  test.after(() => plain.stop());
  const page = await openExplorer(test, plain, { hash: HASH });
  await page.getByRole("region", { name: "Service properties" }).waitFor();
  assert.equal(await section(page).count(), 0);

  const server = await startServer({ ownAccount: true, options: ["--extensions"] });
  test.after(() => server.stop());
  const prepare = (page) => asOnCluster(page, (route) => route.abort());
  const visitor = await openExplorer(test, server, { hash: HASH, prepare });
  await signIn(visitor, { kind: "Shared access signature", account: server.account, secret: server.accountSas(["query", "list"]) });
  await visitor.getByRole("region", { name: "Service properties" }).waitFor();
  assert.equal(await section(visitor).count(), 0);
});
