// The server under test, from the environment, its clients in Node.js, and the signatures that pages get from these
// clients.

import { randomBytes } from "node:crypto";
import {
  AzureNamedKeyCredential,
  TableClient,
  TableServiceClient,
  generateAccountSas,
  generateTableSas,
} from "@azure/data-tables";

const HOUR_MS = 60 * 60 * 1000;

export const DEVELOPMENT_ACCOUNT = {
  account: "devstoreaccount1",
  key: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
};

// One account of a server. A page cannot sign with a key, so its requests use signatures that are created here.
export class Target {
  constructor({ endpoint, account, key }) {
    this.endpoint = endpoint.replace(/\/$/, "");
    this.credential = new AzureNamedKeyCredential(account, key);
    this.options = { allowInsecureConnection: this.endpoint.startsWith("http:"), retryOptions: { maxRetries: 0 } };
    this.service = new TableServiceClient(this.endpoint, this.credential, this.options);
  }

  table(name) {
    return new TableClient(this.endpoint, name, this.credential, this.options);
  }

  async createTable() {
    const table = this.table(uniqueName());
    await table.createTable();
    return table;
  }

  // The table is deleted after the case.
  async newTable(context) {
    const table = await this.createTable();
    context.after(() => table.deleteTable());
    return table;
  }

  async setRules(...rules) {
    await this.service.setProperties({ cors: rules });
  }

  // `permissions` is a list such as ["query", "add"].
  accountSas(permissions, resourceTypes = "sco") {
    return generateAccountSas(this.credential, { permissions: granted(permissions), resourceTypes, expiresOn: inAnHour() });
  }

  tableSas(table, permissions = ["query", "add", "update", "delete"]) {
    return generateTableSas(table.tableName, this.credential, { permissions: granted(permissions), expiresOn: inAnHour() });
  }

  // A stored access policy specifies the permissions and times.
  policySas(table, identifier) {
    return generateTableSas(table.tableName, this.credential, { identifier, permissions: undefined });
  }
}

function granted(permissions) {
  return Object.fromEntries(permissions.map((permission) => [permission, true]));
}

function inAnHour() {
  return new Date(Date.now() + HOUR_MS);
}

export const target = new Target({
  endpoint: process.env.TABLES_ENDPOINT ?? `http://127.0.0.1:10002/${DEVELOPMENT_ACCOUNT.account}`,
  account: process.env.TABLES_ACCOUNT ?? DEVELOPMENT_ACCOUNT.account,
  key: process.env.TABLES_KEY ?? DEVELOPMENT_ACCOUNT.key,
});

export function uniqueName() {
  return `web${randomBytes(8).toString("hex")}`;
}

// Returns a CORS rule that allows everything for an origin. The maximum age is 0, because a browser with a cached
// preflight response would ignore the rules of the next case.
export function rule(allowedOrigins, more = {}) {
  return {
    allowedOrigins,
    allowedMethods: "DELETE,GET,HEAD,MERGE,OPTIONS,PATCH,POST,PUT",
    allowedHeaders: "*",
    exposedHeaders: "*",
    maxAgeInSeconds: 0,
    ...more,
  };
}
