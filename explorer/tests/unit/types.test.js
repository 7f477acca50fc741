// Checks the types that the comments of the explorer declare.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ERRORS_SHOWN_MAX = 4000;

test("the types are correct", () => {
  const compiler = fileURLToPath(new URL("../node_modules/.bin/tsc", import.meta.url));
  const project = fileURLToPath(new URL("../../tsconfig.json", import.meta.url));
  const { status, stdout, stderr } = spawnSync(compiler, ["--project", project], { encoding: "utf8" });
  assert.equal(status, 0, `${stdout}${stderr}`.slice(0, ERRORS_SHOWN_MAX));
});
