// Runs the JavaScript snippets in docs/testing-with-rowhouse.md that have a file name, unchanged, with the test runner
// that the first folder in the name selects. The snippets in a folder form one project.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { folderWith, jest, run, vitest } from "./support.js";

const document = readFileSync(new URL("../../../docs/testing-with-rowhouse.md", import.meta.url), "utf8");
const fences = [...document.matchAll(/^```(javascript|json) file=(\S+)\n([^]*?)^```/gm)];
const find = (wanted) => fences.filter(([, language]) => language === wanted).map(([, , name, body]) => [name, body]);
const data = Object.fromEntries(find("json"));
const projects = {};
for (const [name, body] of find("javascript")) {
  const [folder, file] = name.split("/");
  (projects[folder] ??= {})[file] = body;
}

// The expected output of each runner after the tests in a folder. The third member copies a file under a different
// name, to show what two test files share.
const runners = {
  vitest: [[vitest, "run"], /Tests +1 passed/],
  "vitest-shared": [[vitest, "run"], /Test Files +2 passed/, { "orders.test.js": "same.test.js" }],
  "vitest-seed": [[vitest, "run"], /Test Files +2 passed/, { "prices.test.js": "same.test.js" }],
  jest: [[jest], /Tests: +1 passed, 1 total/],
  node: [["--test", "--test-reporter=tap"], /^# pass 3$/m],
};

test("every snippet has a runner", () => {
  assert.deepEqual(Object.keys(projects).sort(), Object.keys(runners).sort());
});

for (const [name, files] of Object.entries(projects)) {
  test(name, async (t) => {
    const [command, passed, copies = {}] = runners[name];
    for (const [file, copy] of Object.entries(copies)) files[copy] = files[file];
    const type = Object.values(files).some((body) => body.includes("require(")) ? "commonjs" : "module";
    const folder = await folderWith(t, { "package.json": JSON.stringify({ type }), ...files, ...data });
    assert.match(await run(folder, ...command), passed);
  });
}
