// Copying a query as a program: the program contains no secrets and finds the same entities as the page.

import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { assertAccessible, assertNoSidewaysScroll } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { openWithSas } from "../support/pages.js";
import { startServer } from "../support/server.js";

const run = promisify(execFile);
const MAKE = "it's \"O'Neil\" $HOME `x` %s 日本😀\u202e";
const NOTE = "C:\\new\\u0041\\'\n\t${x}";
const literal = (text) => `'${text.replaceAll("'", "''")}'`;
const FILTER = `PartitionKey eq ${literal(MAKE)} and Doors ge 2 and Note eq ${literal(NOTE)}`;
const LANGUAGES = ["Python", "JavaScript", "C#", "Java", "Rust", "curl", "Command line"];

async function serverWithCars(test, settings) {
  const server = await startServer(settings);
  test.after(() => server.stop());
  const keys = ["0001", "0002", "0003", "0004", "0005"];
  const entities = keys.map((rowKey, at) => ({ partitionKey: MAKE, rowKey, Doors: at, Note: NOTE, Model: `model ${at}` }));
  await server.createTable("cars", entities);
  return server;
}

async function openCopy(page) {
  await page.getByRole("button", { name: "Copy as…", exact: true }).click();
  return page.getByRole("dialog", { name: "Copy the query as a program" });
}

async function copied(page, dialog, language) {
  await dialog.getByLabel("Language").selectOption(language);
  await page.evaluate(() => navigator.clipboard.writeText(""));
  await dialog.getByRole("button", { name: "Copy", exact: true }).click();
  await page.waitForFunction(async () => (await navigator.clipboard.readText()) !== "");
  return page.evaluate(() => navigator.clipboard.readText());
}

const HASH = `#/t/cars?filter=${encodeURIComponent(FILTER)}&select=Doors&top=2`;
const found = (page) => page.getByRole("status").filter({ hasText: "2 returned" }).waitFor();

// With packages, the program can import the packages of the tests.
async function folderOf(test, isWithPackages) {
  const parent = isWithPackages ? fileURLToPath(new URL("..", import.meta.url)) : tmpdir();
  const folder = await mkdtemp(join(parent, "copied-"));
  test.after(() => rm(folder, { recursive: true }));
  return folder;
}

function assertFound(output, what) {
  for (const text of ["0003", "0004"]) {
    assert.ok(output.includes(text), `${what}: ${output}`);
  }
  for (const text of ["0001", "0002", "0005", "model"]) {
    assert.ok(!output.includes(text), `${what}: ${output}`);
  }
}

test("the JavaScript program finds the same entities as the page", async (test) => {
  const server = await serverWithCars(test);
  const page = await openExplorer(test, server, { hash: HASH });
  await found(page);
  const program = await copied(page, await openCopy(page), "JavaScript");
  const file = join(await folderOf(test, true), "query.mjs");
  await writeFile(file, program);
  const { stdout } = await run(process.execPath, [file], { env: { ...process.env, AZURE_STORAGE_CONNECTION_STRING: server.connectionString } });
  assertFound(stdout, program);
});

test("the curl program finds the same entities as the page, with a signature created on request", async (test) => {
  const server = await serverWithCars(test);
  const page = await openExplorer(test, server, { hash: HASH });
  await found(page);
  const dialog = await openCopy(page);
  const without = await copied(page, dialog, "curl");
  assert.doesNotMatch(without, /sig=/);
  await dialog.getByRole("button", { name: "Create signature" }).click();
  await dialog.getByText("The signature allows queries of this table for one hour.").waitFor();
  const program = await copied(page, dialog, "curl");
  const token = new URLSearchParams(/^TABLE_SAS='([^']+)'$/m.exec(program)[1]);
  assert.equal(token.get("sp"), "r");
  assert.equal(token.get("tn"), "cars");
  const minutes = (Date.parse(token.get("se")) - Date.now()) / 60_000;
  assert.ok(minutes > 55 && minutes <= 60, String(minutes));
  assert.equal(await dialog.getByRole("button", { name: "Create signature" }).count(), 0);
  const { stdout } = await run("sh", ["-c", program]);
  assertFound(stdout, program);
  // Only the curl program contains the signature.
  assert.doesNotMatch(await copied(page, dialog, "Python"), /sig=/);
});

test("the command line finds the same entities as the page", async (test) => {
  const server = await serverWithCars(test);
  const page = await openExplorer(test, server, { hash: HASH });
  await found(page);
  const program = await copied(page, await openCopy(page), "Command line");
  const binary = process.env.ROWHOUSE_REAL ?? process.env.ROWHOUSE_BINARY;
  const { stdout } = await run("sh", ["-c", `rowhouse() { "$BINARY" "$@"; }\n${program}`],
    { env: { PATH: process.env.PATH, BINARY: binary, ROWHOUSE_KEY: server.key } });
  assertFound(stdout, program);
});

test("the Python program finds the same entities as the page", async (test) => {
  const python = process.env.EXPLORER_PYTHON ?? "python3";
  const hasLibrary = spawnSync(python, ["-c", "import azure.data.tables"]).status === 0;
  const server = await serverWithCars(test);
  const page = await openExplorer(test, server, { hash: HASH });
  await found(page);
  const program = await copied(page, await openCopy(page), "Python");
  const file = join(await folderOf(test, false), "query.py");
  await writeFile(file, program);
  if (!hasLibrary) {
    test.diagnostic("azure-data-tables is not installed, so the program is only compiled");
    await run(python, ["-m", "py_compile", file]);
    return;
  }
  const { stdout } = await run(python, [file], { env: { ...process.env, AZURE_STORAGE_CONNECTION_STRING: server.connectionString } });
  assertFound(stdout, program);
});

test("no program contains the account key", async (test) => {
  const server = await serverWithCars(test);
  const page = await openExplorer(test, server, { hash: HASH });
  await found(page);
  const dialog = await openCopy(page);
  await assertAccessible(page, "the program");
  for (const language of LANGUAGES) {
    assert.ok(!(await copied(page, dialog, language)).includes(server.key.slice(0, 20)), language);
  }
  await dialog.getByRole("button", { name: "Close" }).click();
  assert.equal(await (await openCopy(page)).getByLabel("Language").inputValue(), "command-line");
});

test("no program contains the signature that the page is signed in with, and none can be created", async (test) => {
  const server = await serverWithCars(test, { ownAccount: true });
  const sas = server.tableSas("cars", ["query"]);
  const page = await openWithSas(test, server, sas, { hash: HASH, context: { viewport: { width: 360, height: 740 } } });
  await found(page);
  const dialog = await openCopy(page);
  const signature = new URLSearchParams(sas).get("sig");
  for (const language of LANGUAGES) {
    const program = await copied(page, dialog, language);
    assert.ok(!program.includes(signature) && !program.includes(encodeURIComponent(signature)), language);
    assert.equal(await dialog.getByRole("button", { name: "Create signature" }).count(), 0);
  }
  await assertNoSidewaysScroll(page, "the program on a narrow screen");
});
