// The server under test, from the environment, and the ways in which programs and cases connect to it.

import { randomBytes } from "node:crypto";
import { AzureNamedKeyCredential, TableClient } from "@azure/data-tables";

export const ENDPOINT = (process.env.TABLES_ENDPOINT ?? "http://127.0.0.1:10002/devstoreaccount1").replace(/\/$/, "");
export const ACCOUNT = process.env.TABLES_ACCOUNT ?? "devstoreaccount1";
export const KEY =
  process.env.TABLES_KEY ??
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

export function connectionString(endpoint) {
  const protocol = new URL(endpoint).protocol.slice(0, -1);
  return `DefaultEndpointsProtocol=${protocol};AccountName=${ACCOUNT};AccountKey=${KEY};TableEndpoint=${endpoint}`;
}

export function tableClient(name) {
  const allowInsecureConnection = ENDPOINT.startsWith("http:");
  return new TableClient(ENDPOINT, name, new AzureNamedKeyCredential(ACCOUNT, KEY), { allowInsecureConnection });
}

// Does not create the table, because the program may have to do so. The table is deleted after the case.
export function newTable(context) {
  const table = tableClient(`prog${randomBytes(8).toString("hex")}`);
  context.after(() => table.deleteTable());
  return table;
}

// Omits the properties that the server adds.
export async function entitiesOf(table) {
  const entities = [];
  for await (const { etag, timestamp, ...entity } of table.listEntities()) {
    entities.push(entity);
  }
  return entities;
}
