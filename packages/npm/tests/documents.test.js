// Runs the JavaScript snippets of docs/testing-with-rowhouse.md that have a file name, as they are, with the test runner that
// the first folder of the name says.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { folderWith, jest, run, vitest } from "./support.js";

const PRICES = '{"PartitionKey":"north","RowKey":"pear","Price":1.75}\n';
const document = readFileSync(new URL("../../../docs/testing-with-rowhouse.md", import.meta.url), "utf8");
const snippets = [...document.matchAll(/^```javascript file=(\S+)\n([^]*?)^```/gm)].map(([, name, body]) => ({ name, body }));

// What each runner prints after one test that passes.
const runners = {
  "vitest/orders.test.js": [[vitest, "run"], /Tests +1 passed/],
  "jest/orders.test.js": [[jest], /Tests: +1 passed, 1 total/],
  "node/orders.test.js": [["--test", "--test-reporter=tap"], /^# pass 1$/m],
  "node/time.test.js": [["--test", "--test-reporter=tap"], /^# pass 2$/m],
};

test("every snippet has a runner", () => {
  assert.deepEqual(snippets.map(({ name }) => name), Object.keys(runners));
});

for (const { name, body } of snippets) {
  test(name, async (t) => {
    const [command, passed] = runners[name];
    const file = name.slice(name.indexOf("/") + 1);
    const type = body.includes("require(") ? "commonjs" : "module";
    const files = { "package.json": JSON.stringify({ type }), [file]: body, "data/prices.jsonl": PRICES };
    assert.match(await run(await folderWith(t, files), ...command), passed);
  });
}
