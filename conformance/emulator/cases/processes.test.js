// Tests that the emulator's programs never outlive the server, and that the server does not continue without them.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { spawnSync } from "node:child_process";
import test from "node:test";
import { Emulator, BINARY, FREE_PORTS, QUIET, isRunning } from "../support/emulator.js";

const WORDS = [...FREE_PORTS, ...QUIET, "--inMemoryPersistence"];

// Returns the processes of the emulator's programs.
async function started(context) {
  const emulator = Emulator.rowhouse(context, WORDS);
  await emulator.connectionString();
  const children = emulator.children();
  assert.equal(children.length, 2, "the programs for blobs and queues");
  return { emulator, children };
}

async function gone(processes) {
  for (let waited = 0; waited < 20_000 && processes.some(isRunning); waited += 50) {
    await pause(50);
  }
  assert.deepEqual(processes.filter(isRunning), []);
}

test("SIGKILL leaves no process", async (context) => {
  const { emulator, children } = await started(context);
  assert.deepEqual(await emulator.stop("SIGKILL"), { code: null, signal: "SIGKILL" });
  await gone(children);
});

test("SIGTERM shuts everything down cleanly", async (context) => {
  const { emulator, children } = await started(context);
  assert.deepEqual(await emulator.stop(), { code: 0, signal: null });
  assert.deepEqual(children.filter(isRunning), []);
  assert.equal(emulator.lines.at(-1), "Azurite Table service successfully closed");
});

test("SIGTERM during startup stops everything", async (context) => {
  const emulator = Emulator.rowhouse(context, WORDS);
  await emulator.line(/Azurite Blob service is starting/);
  const children = emulator.children();
  assert.ok(children.length > 0);
  assert.deepEqual(await emulator.stop(), { code: 0, signal: null });
  await gone(children);
});

test("when a program dies, everything stops and the exit code is 1", async (context) => {
  const { emulator, children } = await started(context);
  process.kill(Number(children[0]), "SIGKILL");
  assert.deepEqual(await emulator.exit, { code: 1, signal: null });
  assert.match(emulator.lines.join("\n"), /the emulator's program for (blobs|queues) has exited/);
  await gone(children);
});

test("an error names a port that is in use, for tables and for blobs", async (context) => {
  const holder = createServer().listen(0, "127.0.0.1");
  context.after(() => holder.close());
  await once(holder, "listening");
  const { port } = holder.address();
  for (const service of ["table", "blob"]) {
    const emulator = Emulator.rowhouse(context, [...WORDS, `--${service}Port`, String(port)]);
    assert.deepEqual(await emulator.exit, { code: 1, signal: null });
    const said = emulator.lines.join("\n");
    assert.ok(emulator.lines.some((line) => line.includes(`127.0.0.1:${port}`) && /in use/i.test(line)), said);
    assert.ok(!said.includes("Table service is successfully"), said);
  }
});

test("the error for an unknown option shows the usage", () => {
  const { status, stderr } = spawnSync(BINARY, ["azurite", "--tablePrt", "0"], { encoding: "utf8" });
  assert.equal(status, 2);
  assert.match(stderr, /--tablePort/);
});
