// Tests of the Storage Analytics tables, with servers that the suite starts. A server writes its figures when it stops,
// and the next server shows them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { AzureNamedKeyCredential, TableClient, TableServiceClient } from "@azure/data-tables";

const BINARY = process.env.ROWHOUSE_BINARY;
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const HOUR = "$MetricsHourPrimaryTransactionsTable";

class Server {
  static async start(folder) {
    const server = new Server();
    const options = ["serve", "--data", folder, "--listen", "127.0.0.1:0", "--analytics"];
    server.process = spawn(BINARY, options, { stdio: ["ignore", "pipe", "ignore"] });
    const [line] = await once(createInterface(server.process.stdout), "line");
    server.endpoint = `${line.replace("listening on ", "")}/${ACCOUNT}`;
    return server;
  }

  table(name) {
    const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
    return new TableClient(this.endpoint, name, new AzureNamedKeyCredential(ACCOUNT, KEY), options);
  }

  service() {
    return new TableServiceClient(this.endpoint, new AzureNamedKeyCredential(ACCOUNT, KEY), { allowInsecureConnection: true });
  }

  async stop() {
    this.process.kill("SIGTERM");
    const [code] = await once(this.process, "exit");
    assert.equal(code, 0);
  }
}

// Adds the figures of all hours, because an hour may end between two requests.
async function total(table, rowKey, column) {
  let sum = 0n;
  for await (const row of table.listEntities({ queryOptions: { filter: `RowKey eq '${rowKey}'` } })) {
    assert.equal(typeof row[column], "bigint");
    sum += row[column];
  }
  return sum;
}

describe("storage analytics", { skip: BINARY ? false : "set ROWHOUSE_BINARY to the server program" }, () => {
  let folder;
  let server;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "rowhouse-analytics-"));
    const first = await Server.start(folder);
    const harvest = first.table("harvest");
    await harvest.createTable();
    for (const rowKey of ["1", "2", "3"]) {
      await harvest.createEntity({ partitionKey: "p", rowKey });
    }
    await assert.rejects(harvest.createEntity({ partitionKey: "p", rowKey: "3" }), { statusCode: 409 });
    await first.stop();
    server = await Server.start(folder);
  });

  after(async () => {
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test("figures by operation", async () => {
    const hours = server.table(HOUR);
    assert.equal(await total(hours, "user;InsertEntity", "Success"), 3n);
    assert.equal(await total(hours, "user;InsertEntity", "ClientOtherError"), 1n);
    assert.equal(await total(hours, "user;CreateTable", "TotalRequests"), 1n);
    assert.equal(await total(hours, "user;All", "TotalRequests"), 5n);
    assert.equal(await total(hours, "user;All", "TotalBillableRequests"), 5n);
    for await (const row of hours.listEntities({ queryOptions: { filter: "RowKey eq 'user;All'" } })) {
      assert.match(row.partitionKey, /^\d{8}T\d{2}00$/);
      assert.equal(row.Availability, 100);
      const again = await hours.getEntity(row.partitionKey, row.rowKey);
      assert.deepEqual([again.etag, again.TotalRequests], [row.etag, row.TotalRequests]);
    }
  });

  test("a new account has hourly metrics", async () => {
    const { hourMetrics, minuteMetrics } = await server.service().getProperties();
    assert.equal(hourMetrics.enabled, true);
    assert.equal(hourMetrics.includeAPIs, true);
    assert.equal(hourMetrics.retentionPolicy.days, 7);
    assert.equal(minuteMetrics.enabled, false);
  });

  test("clients can neither list nor write the tables", async () => {
    const names = [];
    for await (const table of server.service().listTables()) {
      names.push(table.name);
    }
    assert.deepEqual(names, ["harvest"]);
    const entity = { partitionKey: "20310314T0800", rowKey: "user;All" };
    await assert.rejects(server.table(HOUR).createEntity(entity), { statusCode: 403 });
    await assert.rejects(server.table(HOUR).upsertEntity(entity), { statusCode: 403 });
  });
});
