// A server for tests: the program as a child process, and its accounts, clock and snapshots.
//
// The server keeps everything in memory and listens on a free port of this machine. It stops when its standard input is
// closed, and therefore when this process exits, even if the process is killed. This module is CommonJS, which import
// statements can load too, so that one copy serves both.
"use strict";

const { execFile, spawn } = require("node:child_process");
const { once } = require("node:events");
const { mkdtemp, rm } = require("node:fs/promises");
const { request: httpRequest } = require("node:http");
const { tmpdir } = require("node:os");
const { join, resolve } = require("node:path");
const { createInterface } = require("node:readline");
const { promisify } = require("node:util");
const { programPath } = require("./program.js");

// The server prints this instead of the key of an account from a file.
const HIDDEN_KEY = "<key>";
// The maximum number of characters of the log that are kept.
const LOG_LENGTH = 100_000;
// The environment variable that tells other processes about a shared server.
const SHARED = "ROWHOUSE_SHARED_SERVER";
const SECONDS = { days: 86_400, hours: 3_600, minutes: 60, seconds: 1, milliseconds: 0.001 };

async function startRowhouse({ args = [], cwd } = {}) {
  const program = programPath();
  const child = spawn(program, ["serve", "--in-memory", "--test-controls", "--stop-with-stdin", ...args], {
    cwd,
    // The port is set in an environment variable, so that an argument can override it.
    env: { ...environment(), ROWHOUSE_LISTEN: "127.0.0.1:0" },
    stdio: ["pipe", "pipe", "pipe"],
    windowsHide: true,
    // Ctrl-C must reach only the tests, which stop the server when they have finished.
    detached: true,
  });
  const running = new ServerProcess(program, child);
  const found = await running.addresses();
  const connectionString = found["connection string: "];
  const fields = Object.fromEntries(connectionString.split(";").map((field) => field.split(/=(.*)/, 2)));
  if (fields.AccountKey === HIDDEN_KEY) {
    await running.stop();
    throw new Error("--accounts hides the keys: leave it out; newAccount() creates accounts with their own keys");
  }
  return new OwnServer(running, found["admin on "], {
    connectionString,
    endpoint: fields.TableEndpoint,
    account: fields.AccountName,
    key: fields.AccountKey,
  });
}

// Starts a server for all files of a test run. Returns a function that stops it. Test runners pass on their
// environment.
async function shareRowhouse(options) {
  const server = await startRowhouse(options);
  process.env[SHARED] = JSON.stringify(server);
  return () => server.stop();
}

function sharedRowhouse() {
  const shared = process.env[SHARED];
  if (shared === undefined) {
    throw new Error('no server is shared: set globalSetup of the test runner to "rowhouse-tables/global-setup"');
  }
  const { admin, ...account } = JSON.parse(shared);
  return new Server(new Controls(admin), account);
}

class Account {
  #controls;

  constructor(controls, { connectionString, endpoint, account, key }) {
    this.#controls = controls;
    this.connectionString = connectionString;
    this.endpoint = endpoint;
    this.account = account;
    this.key = key;
  }

  async seed(folder) {
    await importFolder(folder, this.connectionString);
  }

  async delete() {
    await this.#controls.deleteIfPresent(`/test/accounts/${this.account}`);
  }
}

class Server extends Account {
  #controls;

  constructor(controls, account) {
    super(controls, account);
    this.#controls = controls;
    this.clock = new Clock(controls);
  }

  async newAccount() {
    const { name, ...made } = await this.#controls.send("POST", "/test/accounts", {});
    return new Account(this.#controls, { ...made, account: name });
  }

  async delete() {
    throw new Error("the first account of a server cannot be deleted; reset() removes what was written to it");
  }

  async snapshot() {
    const { snapshot } = await this.#controls.send("POST", "/test/snapshots", {});
    return new Snapshot(this.#controls, snapshot);
  }

  async reset() {
    await this.#controls.send("POST", "/test/reset", {});
  }

}

class OwnServer extends Server {
  #process;
  #admin;

  constructor(process, admin, account) {
    super(new Controls(admin, () => process.end()), account);
    this.#process = process;
    this.#admin = admin;
  }

  // The data that other processes need to use the server.
  toJSON() {
    const { connectionString, endpoint, account, key } = this;
    return { connectionString, endpoint, account, key, admin: this.#admin };
  }

  log() {
    return this.#process.log;
  }

  async stop() {
    await this.#process.stop();
  }

  // If the runtime lacks the symbol, compilers of `await using` look for this name.
  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.stop();
  }
}

class Clock {
  #controls;

  constructor(controls) {
    this.#controls = controls;
  }

  async now() {
    return new Date((await this.#controls.send("GET", "/test/clock")).now);
  }

  async set(time) {
    await this.#change({ now: new Date(time).toISOString() });
  }

  async advance(duration) {
    let advanceSeconds = 0;
    for (const [unit, amount] of Object.entries(duration)) {
      if (!(unit in SECONDS) || !Number.isFinite(amount)) {
        throw new TypeError(`${unit}: ${amount} is not a duration: use numbers of ${Object.keys(SECONDS).join(", ")}`);
      }
      advanceSeconds += amount * SECONDS[unit];
    }
    await this.#change({ advanceSeconds });
  }

  async stop() {
    await this.#change({ stopped: true });
  }

  async resume() {
    await this.#change({ stopped: false });
  }

  async reset() {
    await this.#change({ system: true });
  }

  async #change(body) {
    await this.#controls.send("PUT", "/test/clock", body);
  }
}

class Snapshot {
  #controls;
  #path;

  constructor(controls, name) {
    this.#controls = controls;
    this.#path = `/test/snapshots/${name}`;
  }

  async restore() {
    await this.#controls.send("POST", `${this.#path}/restore`, {});
  }

  async delete() {
    await this.#controls.deleteIfPresent(this.#path);
  }
}

class ServerProcess {
  log = "";
  #child;
  #ended;

  constructor(program, child) {
    this.#child = child;
    // The first event determines the result. An error means that the program could not be started.
    this.#ended = new Promise((resolve) => {
      child.on("error", (error) => resolve(`${program} cannot be run: ${error.message}`));
      child.on("close", (code, signal) => resolve(`it exited with ${signal ?? `code ${code}`}\n${this.log}`));
    });
    child.stderr.setEncoding("utf8").on("data", (text) => (this.log = (this.log + text).slice(-LOG_LENGTH)));
    // Writing to a server that has exited fails.
    child.stdin.on("error", () => {});
    // A server that was not stopped does not keep this process running, but stops when this process exits.
    for (const handle of [child, child.stdin, child.stdout, child.stderr]) handle.unref();
  }

  // Waits until the server is ready, and returns the addresses in its first lines by their prefixes.
  async addresses() {
    const found = {};
    this.#keepAwake(true);
    const lines = createInterface({ input: this.#child.stdout });
    const ready = new Promise((resolve) => {
      lines.on("line", (line) => {
        for (const beginning of ["listening on ", "connection string: ", "admin on "]) {
          if (line.startsWith(beginning)) found[beginning] = line.slice(beginning.length);
        }
        if (found["admin on "] !== undefined) resolve();
      });
    });
    const end = await Promise.race([ready, this.#ended]);
    this.#keepAwake(false);
    if (end !== undefined) throw new Error(`rowhouse did not start: ${end}`);
    return found;
  }

  async stop() {
    this.#keepAwake(true);
    this.#child.stdin.end();
    await this.#ended;
  }

  // If a request failed because the server has exited, returns the reason; otherwise, returns undefined.
  async end() {
    if (this.#child.exitCode === null && this.#child.signalCode === null) return undefined;
    return this.#ended;
  }

  #keepAwake(isAwake) {
    for (const handle of [this.#child, this.#child.stdout, this.#child.stderr]) handle[isAwake ? "ref" : "unref"]();
  }
}

class Controls {
  #address;
  #end;

  // If a request failed because the server has exited, `end` returns the reason; otherwise, it returns undefined.
  constructor(address, end = async () => undefined) {
    this.#address = address;
    this.#end = end;
  }

  // Sends a request, and returns the JSON of the response, if any.
  async send(method, path, body) {
    const { status, text } = await this.#exchange(method, path, body);
    if (status >= 300) throw new Error(`${method} ${path} was refused: ${reason(text)}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  async deleteIfPresent(path) {
    const { status, text } = await this.#exchange("DELETE", path);
    if (status >= 300 && status !== 404) throw new Error(`DELETE ${path} was refused: ${reason(text)}`);
  }

  async #exchange(method, path, body) {
    const content = body === undefined ? undefined : JSON.stringify(body);
    const headers = content === undefined ? {} : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(content) };
    // Send the request without an agent, so that no connection stays open.
    const request = httpRequest(new URL(path, this.#address), { method, headers, agent: false });
    try {
      request.end(content);
      const [response] = await once(request, "response");
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      return { status: response.statusCode, text };
    } catch (error) {
      const end = await this.#end();
      throw new Error(end === undefined ? `${method} ${path} failed: ${error.message}` : `the server is no longer running: ${end}`);
    }
  }
}

async function importFolder(folder, connectionString) {
  // The command keeps a progress file in its current folder.
  const cwd = await mkdtemp(join(tmpdir(), "rowhouse-"));
  try {
    // The key is not passed on the command line, which other users of the machine can read.
    const env = { ...environment(), ROWHOUSE_TO: connectionString };
    await promisify(execFile)(programPath(), ["import", "--from", resolve(folder)], { cwd, env });
  } catch (error) {
    throw new Error(`${folder} was not imported: ${error.stderr?.trim() || error.message}`);
  } finally {
    await rm(cwd, { recursive: true });
  }
}

// Returns the error message from the response to a refused request.
function reason(text) {
  try {
    return JSON.parse(text).error ?? text;
  } catch {
    return text;
  }
}

// Returns the environment without ROWHOUSE_ variables, which a developer may have set for another server.
function environment() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("ROWHOUSE_")));
}

module.exports = { startRowhouse, shareRowhouse, sharedRowhouse, programPath };
