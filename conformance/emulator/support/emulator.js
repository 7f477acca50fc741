// `rowhouse azurite` as a child process, started as tools start the emulator. Its output is the log that the tool
// reads.

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

// The folder where npm installed the emulator's programs.
export const PROGRAMS = fileURLToPath(new URL("../node_modules/.bin", import.meta.url));

export const FREE_PORTS = ["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"];
export const QUIET = ["--silent", "--disableTelemetry"];

// The folder is deleted after the case.
export function newFolder(context) {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-emulator-"));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

// Containers start the program as `azurite`.
export function linkCalledAzurite(folder) {
  const link = join(folder, "azurite");
  symlinkSync(BINARY, link);
  return link;
}

export class Emulator {
  lines = [];
  #waiting = [];
  #isOver = false;

  // `path` comes before the caller's PATH. If it is an empty string, no program can be found.
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

  // Waits for a line that matches a regular expression, as tools do.
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

  // Waits until all three services listen.
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

  children() {
    const parent = String(this.child.pid);
    return readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && statusOf(pid)?.parent === parent);
  }

  // If stopping takes too long, kills the process. The returned signal shows this.
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

// Returns undefined if the process does not exist.
function statusOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, parent] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state, parent };
  } catch {
    return undefined;
  }
}

// A process that has exited but has not been reaped yet does not count as running.
export function isRunning(pid) {
  const status = statusOf(pid);
  return status !== undefined && status.state !== "Z";
}
