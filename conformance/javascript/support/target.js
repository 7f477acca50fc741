// The server under test, from the environment, and its clients.

import { randomBytes } from "node:crypto";
import { after, before } from "node:test";
import { AzureNamedKeyCredential, TableClient, TableServiceClient } from "@azure/data-tables";

// The defaults are the public development account, so that a local server needs no settings. Remove a trailing slash,
// because connection strings are built from the endpoint.
export const ENDPOINT = (process.env.TABLES_ENDPOINT ?? "http://127.0.0.1:10002/devstoreaccount1").replace(/\/$/, "");
export const ACCOUNT = process.env.TABLES_ACCOUNT ?? "devstoreaccount1";
export const KEY =
  process.env.TABLES_KEY ??
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

export const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);

// Retries are disabled, because a case checks the first response, and an unnoticed second request could hide a wrong
// one.
export function clientOptions(more = {}) {
  return {
    allowInsecureConnection: ENDPOINT.startsWith("http:"),
    retryOptions: { maxRetries: 0 },
    ...more,
  };
}

export function serviceClient(as = credential, options = {}) {
  return new TableServiceClient(ENDPOINT, as, clientOptions(options));
}

export function tableClient(name, as = credential, options = {}) {
  return new TableClient(ENDPOINT, name, as, clientOptions(options));
}

// Names are random, because the suite shares its account with other runs and suites, and because the service reserves
// the name of a deleted table for most of a minute.
export function uniqueName(tag) {
  return `js${tag}${randomBytes(8).toString("hex")}`;
}

// All cases of a file share a table, because creating tables is slow in the cloud, and partitions isolate the cases
// just as well. `fill` runs before the first case. One hook creates and fills the table, because the hooks of a file do
// not wait for each other.
export function tableForFile(tag, fill = async () => {}) {
  const client = tableClient(uniqueName(tag));
  before(async () => {
    await client.createTable();
    await fill(client);
  });
  after(() => client.deleteTable());
  return client;
}

let partitions = 0;

// Every case has its own partition.
export function newPartition() {
  partitions += 1;
  return `partition-${String(partitions).padStart(4, "0")}`;
}
