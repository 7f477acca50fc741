// Runs the JavaScript snippets of docs/testing-with-rowhouse.md that have a file name, as they are, with the test runner that
// the first folder of the name says.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { folderWith, jest, run, vitest } from "./support.js";

const document = readFileSync(new URL("../../../docs/testing-with-rowhouse.md", import.meta.url), "utf8");
const fences = [...document.matchAll(/^```(javascript|json) file=(\S+)\n([^]*?)^```/gm)];
const find = (wanted) => fences.filter(([, language]) => language === wanted).map(([, , name, body]) => [name, body]);
const snippets = find("javascript");
const data = Object.fromEntries(find("json"));

// What each runner prints after one test that passes.
const runners = {
  "vitest/orders.test.js": [[vitest, "run"], /Tests +1 passed/],
  "jest/orders.test.js": [[jest], /Tests: +1 passed, 1 total/],
  "node/orders.test.js": [["--test", "--test-reporter=tap"], /^# pass 1$/m],
  "node/time.test.js": [["--test", "--test-reporter=tap"], /^# pass 2$/m],
};

test("every snippet has a runner", () => {
  assert.deepEqual(snippets.map(([name]) => name), Object.keys(runners));
});

for (const [name, body] of snippets) {
  test(name, async (t) => {
    const [command, passed] = runners[name];
    const file = name.slice(name.indexOf("/") + 1);
    const type = body.includes("require(") ? "commonjs" : "module";
    const files = { "package.json": JSON.stringify({ type }), [file]: body, ...data };
    assert.match(await run(await folderWith(t, files), ...command), passed);
  });
}
