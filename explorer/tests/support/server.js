// Rowhouse servers for the tests, each with an empty account, and Node.js clients of that account.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import {
  AzureNamedKeyCredential,
  TableClient,
  TableServiceClient,
  generateAccountSas,
  generateTableSas,
} from "@azure/data-tables";

const HOUR_MS = 60 * 60 * 1000;
const LOG_CHARACTERS_MAX = 4000;

export const DEVELOPMENT_ACCOUNT = {
  account: "devstoreaccount1",
  key: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
};

// The servers that are still running are stopped when this process exits.
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill()));

// Starts a server on a free port. By default, it keeps everything in memory and has only the development account, so
// that its explorer signs in automatically.
//
//   ownAccount  whether the server has an account with a random key instead of the development account
//   onDisk      whether the data is stored in a folder, so that it outlives `pause`
//   options     additional options of `rowhouse serve`
export async function startServer({ ownAccount = false, onDisk = false, options = [] } = {}) {
  const server = new Server({ ownAccount, onDisk, options });
  await server.start();
  return server;
}

export class Server {
  #child;
  #folder;
  #arguments;
  #reservation;
  #visits = [];
  #settings;

  constructor(settings) {
    this.#settings = settings;
    const own = { account: "orchard", key: randomBytes(64).toString("base64") };
    ({ account: this.account, key: this.key } = settings.ownAccount ? own : DEVELOPMENT_ACCOUNT);
    this.credential = new AzureNamedKeyCredential(this.account, this.key);
    this.clientOptions = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
  }

  // After `pause`, the server has the same port and accounts, but data in memory was lost.
  async start() {
    this.#reservation ??= await reservePort();
    this.#arguments ??= await this.#prepare();
    const child = spawn(binary(), [...this.#arguments, "--listen", `127.0.0.1:${this.#reservation.address().port}`], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    running.add(child);
    this.#child = child;
    this.origin = await readAddress(child);
    this.endpoint = `${this.origin}/${this.account}`;
    this.connectionString =
      `DefaultEndpointsProtocol=http;AccountName=${this.account};AccountKey=${this.key};TableEndpoint=${this.endpoint};`;
    this.service = new TableServiceClient(this.endpoint, this.credential, this.clientOptions);
  }

  async #prepare() {
    const { ownAccount, onDisk, options } = this.#settings;
    this.#folder = await mkdtemp(join(tmpdir(), "explorer-"));
    const storage = onDisk ? ["--data", join(this.#folder, "data")] : ["--in-memory"];
    if (!ownAccount) {
      return ["serve", ...storage, ...options];
    }
    const accounts = join(this.#folder, "accounts.toml");
    await writeFile(accounts, `[[account]]\nname = "${this.account}"\nkey1 = "${this.key}"\n`, { mode: 0o600 });
    return ["serve", ...storage, "--accounts", accounts, "--explorer", ...options];
  }

  async pause() {
    const child = this.#child;
    if (child && child.exitCode === null && child.signalCode === null) {
      const exit = once(child, "exit");
      child.kill();
      await exit;
    }
    running.delete(child);
  }

  // Registers a browser context to close before the server stops for good, because its requests would fail.
  closeBeforeStop(visit) {
    this.#visits.push(visit);
  }

  // Removes the data of the server as well.
  async stop() {
    await Promise.all(this.#visits.map((visit) => visit.close()));
    await this.pause();
    this.#reservation.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  table(name) {
    return new TableClient(this.endpoint, name, this.credential, this.clientOptions);
  }

  async createTable(name, entities = []) {
    const table = this.table(name);
    await table.createTable();
    for (const entity of entities) {
      await table.createEntity(entity);
    }
    return table;
  }

  // Sends a request without a client library, for data that the library cannot express. Returns the JSON of the
  // response. `content` is the body.
  async send(path, content) {
    const response = await fetch(`${this.endpoint}/${path}?${this.accountSas(["query", "add"])}`, {
      method: content === undefined ? "GET" : "POST",
      headers: { Accept: "application/json;odata=nometadata", "Content-Type": "application/json", "x-ms-version": "2019-02-02" },
      body: content === undefined ? undefined : JSON.stringify(content),
    });
    const text = await response.text();
    if (!response.ok) {
      throw new Error(`${response.status} ${text}`);
    }
    return JSON.parse(text);
  }

  // Creates an account signature, without "?". `permissions` is a list such as ["query", "add", "list"].
  accountSas(permissions, { resourceTypes = "sco", ...more } = {}) {
    return generateAccountSas(this.credential, { permissions: granted(permissions), resourceTypes, expiresOn: inAnHour(), ...more });
  }

  // Creates a table signature, without "?". `more` may contain a key range and a different expiry time.
  tableSas(name, permissions = ["query", "add", "update", "delete"], more = {}) {
    return generateTableSas(name, this.credential, { permissions: granted(permissions), expiresOn: inAnHour(), ...more });
  }
}

function binary() {
  const path = process.env.ROWHOUSE_BINARY;
  if (!path) {
    throw new Error("ROWHOUSE_BINARY is not set: set it to the path of the program");
  }
  return path;
}

// Reserves a port that no other test gets, even while the server is paused: all of them reserve ports as
// test-support/src/port.rs does. The system might have given a port of its choice to another program in the meantime.
async function reservePort() {
  for (let port = 12_000; port < 20_000; port += 1) {
    const reservation = createSocket("udp4");
    try {
      await once(reservation.bind(port, "127.0.0.1"), "listening");
      const listener = createServer().listen(port, "127.0.0.1");
      await once(listener, "listening");
      await once(listener.close(), "close");
      return reservation.unref();
    } catch {
      reservation.close();
    }
  }
  throw new Error("all ports for tests are in use");
}

// Waits for the line that a server prints when it is ready, and returns its URL.
async function readAddress(child) {
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    log = (log + text).slice(-LOG_CHARACTERS_MAX);
  });
  const lines = createInterface({ input: child.stdout });
  const line = once(lines, "line").then(([line]) => line);
  const exit = once(child, "exit").then(() => "");
  const first = await Promise.race([line, exit]);
  const address = /^listening on (http:\S+)$/.exec(first)?.[1];
  if (!address) {
    child.kill();
    throw new Error(`the server did not start: ${first} ${log}`);
  }
  return address;
}

function granted(permissions) {
  return Object.fromEntries(permissions.map((permission) => [permission, true]));
}

function inAnHour() {
  return new Date(Date.now() + HOUR_MS);
}
