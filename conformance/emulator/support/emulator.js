// `rowhouse azurite` in a process of its own, as a tool starts the emulator: what it prints is the log that the tool reads.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { DEVELOPMENT_KEY } from "./clients.js";

export const BINARY = process.env.ROWHOUSE_BINARY;
assert.ok(BINARY, "ROWHOUSE_BINARY must name the program.");

// Where npm has installed the emulator's programs.
export const PROGRAMS = fileURLToPath(new URL("../node_modules/.bin", import.meta.url));

export const FREE_PORTS = ["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"];
export const QUIET = ["--silent", "--disableTelemetry"];

// A folder that is deleted after the case.
export function newFolder(context) {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-emulator-"));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

// The program under the name `azurite`, which containers are started by.
export function linkCalledAzurite(folder) {
  const link = join(folder, "azurite");
  symlinkSync(BINARY, link);
  return link;
}

export class Emulator {
  lines = [];
  #waiting = [];
  #isOver = false;

  // Starts a command. `path` is where programs are looked for first; an empty one holds none at all.
  constructor(context, command, { cwd, environment = {}, path = PROGRAMS } = {}) {
    const { NODE_TEST_CONTEXT, ...inherited } = process.env;
    const PATH = path === "" ? "/nonexistent" : `${path}${delimiter}${process.env.PATH}`;
    this.child = spawn(command[0], command.slice(1), {
      cwd: cwd ?? newFolder(context),
      env: { ...inherited, PATH, ...environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    context.after(() => this.stop());
    this.exit = once(this.child, "close").then(([code, signal]) => {
      this.#isOver = true;
      this.#waiting.splice(0).forEach((look) => look());
      return { code, signal };
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        this.lines.push(line);
        this.#waiting.splice(0).forEach((look) => look());
      });
    }
  }

  static rowhouse(context, words, options) {
    return new Emulator(context, [BINARY, "azurite", ...words], options);
  }

  // Waits for a line as tools do: by a regular expression.
  async line(pattern) {
    for (;;) {
      const line = this.lines.find((line) => pattern.test(line));
      if (line !== undefined) {
        return line;
      }
      assert.ok(!this.#isOver, `The process ended before a line with ${pattern}:\n${this.lines.join("\n")}`);
      await new Promise((resolve) => this.#waiting.push(resolve));
    }
  }

  // Waits until all three services listen, and returns a connection string for them.
  async connectionString(account = "devstoreaccount1", key = DEVELOPMENT_KEY) {
    const address = {};
    for (const service of ["Blob", "Queue", "Table"]) {
      const line = await this.line(new RegExp(`Azurite ${service} service is successfully listening at `));
      address[service] = `${line.split(" ").at(-1)}/${account}`;
    }
    return (
      `DefaultEndpointsProtocol=${new URL(address.Table).protocol.slice(0, -1)};AccountName=${account};AccountKey=${key};` +
      `BlobEndpoint=${address.Blob};QueueEndpoint=${address.Queue};TableEndpoint=${address.Table};`
    );
  }

  // The processes that this one has started and that still run.
  children() {
    const parent = String(this.child.pid);
    return readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && statusOf(pid)?.parent === parent);
  }

  // Ends the process. If it takes too long it is killed, which the caller sees by the signal.
  async stop(signal = "SIGTERM") {
    if (!this.#isOver) {
      this.child.kill(signal);
    }
    const late = setTimeout(() => this.child.kill("SIGKILL"), 30_000);
    const exit = await this.exit;
    clearTimeout(late);
    return exit;
  }
}

// State and parent of a process; undefined if there is none.
function statusOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, parent] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state, parent };
  } catch {
    return undefined;
  }
}

// Whether a process runs: one that has ended and whose parent has not looked counts as gone.
export function isRunning(pid) {
  const status = statusOf(pid);
  return status !== undefined && status.state !== "Z";
}
