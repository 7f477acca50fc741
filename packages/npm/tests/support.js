// The project for the tests, in which the packages are installed. scripts/test_fixtures.sh creates it.

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const project = process.env.PACKAGES_PROJECT;
if (!project) throw new Error("set PACKAGES_PROJECT to the folder where the packages are installed: run scripts/test_fixtures.sh");

export const rowhouse = createRequire(join(project, "any.js"))("rowhouse-tables");

// The folder has the test runners, the client libraries and the given files. It is removed after the test.
export async function folderWith(t, files) {
  const folder = await mkdtemp(join(project, "case-"));
  t.after(() => rm(folder, { recursive: true }));
  await symlink(new URL("node_modules", import.meta.url).pathname, join(folder, "node_modules"));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

// The script must succeed. Returns its output.
export async function run(folder, script, ...args) {
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  const options = { cwd: folder, env: { ...env, NO_COLOR: "1", CI: "true" }, timeout: 120_000 };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [script, ...args], options).catch((error) => {
    throw new Error(`${script} ${args.join(" ")} failed: ${error.message}\n${error.stdout}\n${error.stderr}`);
  });
  return stdout + stderr;
}

export const vitest = "node_modules/vitest/vitest.mjs";
export const jest = "node_modules/jest/bin/jest.js";

// Returns the path of the compiler, which its package specifies.
export async function tsc() {
  const folder = new URL("node_modules/typescript/", import.meta.url);
  const { bin } = JSON.parse(await readFile(new URL("package.json", folder), "utf8"));
  return new URL(bin.tsc, folder).pathname;
}
