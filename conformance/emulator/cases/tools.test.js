// The unchanged command lines of tools, on the default ports. They run in a private network namespace, so they use no
// port of the machine. If this is not possible, the cases are skipped.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import test from "node:test";
import { TOOLS } from "../support/tools.js";

const SCRIPT = fileURLToPath(new URL("../support/on_default_ports.js", import.meta.url));

// Returns a command prefix, or undefined if this user cannot create a private network namespace.
function privateNetwork() {
  const ways = [["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"]];
  const inside = (way) => [...way, "sh", "-c", 'ip link set lo up && exec "$0" "$@"'];
  return ways.map(inside).find(([program, ...words]) => spawnSync(program, [...words, "true"]).status === 0);
}

const network = privateNetwork();

for (const [index, { tool }] of TOOLS.entries()) {
  test(tool, { skip: network ? false : "this user cannot create a network namespace (unshare --net)" }, () => {
    const { NODE_TEST_CONTEXT, ...env } = process.env;
    const [program, ...words] = [...network, process.execPath, SCRIPT, String(index)];
    const { status, stdout, stderr } = spawnSync(program, words, { env, encoding: "utf8", timeout: 120_000 });
    assert.equal(status, 0, stdout + stderr);
  });
}
