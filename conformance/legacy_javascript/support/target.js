// The server under test, from the environment, and one client of each kind.

import { randomBytes } from "node:crypto";
import dns from "node:dns";
import { after, before } from "node:test";
import json from "azure-storage";
import atom from "azure-storage-legacy";

const ACCOUNT = process.env.TABLES_ACCOUNT ?? "devstoreaccount1";
const KEY =
  process.env.TABLES_KEY ??
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const ENDPOINT = new URL(process.env.TABLES_ENDPOINT ?? `http://127.0.0.1:10002/${ACCOUNT}`);
const LOCAL_SUFFIX = ".table.localhost";

// The Atom client supports path style only for the emulator at its fixed port, so it gets a host-style name. Names
// under localhost refer to this machine (RFC 6761), but not every resolver supports this rule, so they are resolved
// here. The client is otherwise unmodified.
function hostStyle() {
  if (ENDPOINT.pathname === "/") return ENDPOINT.origin;
  const ordinary = dns.lookup;
  dns.lookup = (name, ...more) => ordinary(name.endsWith(LOCAL_SUFFIX) ? ENDPOINT.hostname : name, ...more);
  return `${ENDPOINT.protocol}//${ACCOUNT}${LOCAL_SUFFIX}${ENDPOINT.port && `:${ENDPOINT.port}`}`;
}

const HOST_STYLE = hostStyle();

// Uses azure-storage-legacy: version 2011-08-18, Atom, data service version 2.0 at most.
export function atomClient(key = KEY) {
  return atom.createTableService(ACCOUNT, key, HOST_STYLE);
}

// Uses azure-storage: version 2018-03-28, JSON. The client retries only if it gets a retry filter.
export function jsonClient() {
  return json.createTableService(ACCOUNT, KEY, ENDPOINT.href.replace(/\/$/, ""));
}

// The method takes a callback. Returns the callback's arguments after the error.
export function callAll(client, method, ...parameters) {
  return new Promise((resolve, reject) => {
    client[method](...parameters, (error, ...results) => (error ? reject(error) : resolve(results)));
  });
}

// Like callAll, but returns only the first result.
export async function call(client, method, ...parameters) {
  return (await callAll(client, method, ...parameters))[0];
}

export function uniqueName(tag) {
  return `old${tag}${randomBytes(8).toString("hex")}`;
}

// All cases of a file share a table. `fill` runs before the first case.
export function tableForFile(client, tag, fill = async () => {}) {
  const name = uniqueName(tag);
  before(async () => {
    await call(client, "createTable", name);
    await fill(name);
  });
  after(() => call(client, "deleteTable", name));
  return name;
}

let partitions = 0;

// Every case has its own partition.
export function newPartition() {
  partitions += 1;
  return `partition-${String(partitions).padStart(4, "0")}`;
}
