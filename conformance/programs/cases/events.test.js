// @nestjs/azure-database: the repository of a Nest application.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Program, Visitor } from "../support/program.js";
import { skip, startSecureServer } from "../support/secure_server.js";
import { connectionString } from "../support/target.js";

test("a repository creates its table and keeps entities across processes", { skip }, async (context) => {
  const { endpoint, certificate } = await startSecureServer(context);
  const environment = { AZURE_STORAGE_CONNECTION_STRING: connectionString(endpoint), NODE_EXTRA_CA_CERTS: certificate };
  const start = () => Program.start(context, "events", "Event", environment);
  let application = await start();
  const visitor = new Visitor();
  const send = async (method, path, body) => {
    const headers = { "Content-Type": "application/json" };
    const response = await visitor.request(`${application.address}/events${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    return [response.status, text === "" ? undefined : JSON.parse(text)];
  };
  const read = async (path) => (await send("GET", path))[1].event;

  const event = { partitionKey: "meetup", rowKey: "it's 1+2", name: "漢 \u{1f600}", seats: 25, price: 9.5, open: true };
  const path = `/meetup/${encodeURIComponent(event.rowKey)}`;
  const [status, created] = await send("POST", "", event);
  assert.equal(status, 201);
  assert.ok(created.event.etag);
  const { etag, timestamp, ...kept } = await read(path);
  assert.deepEqual([kept, etag], [event, created.event.etag]);
  // The repository recognizes these errors by their codes and returns null to the application.
  assert.deepEqual(await send("POST", "", event), [201, { event: null }]);
  assert.equal(await read("/meetup/missing"), null);
  assert.equal((await send("PUT", "/meetup/missing", { seats: 1 }))[1].event, null);
  assert.equal((await send("DELETE", "/meetup/missing"))[0], 404);

  for (let number = 0; number < 3; number += 1) {
    await send("POST", "", { partitionKey: "talk", rowKey: String(number) });
  }
  const [, updated] = await send("PUT", path, { seats: 24 });
  assert.notEqual(updated.event.etag, etag);
  await application.stop();
  application = await start();
  const merged = await read(path);
  assert.deepEqual([merged.seats, merged.name, merged.etag], [24, event.name, updated.event.etag]);
  assert.deepEqual((await send("GET", ""))[1].map(({ rowKey }) => rowKey), [event.rowKey, "0", "1", "2"]);
  assert.deepEqual(await send("DELETE", path), [200, undefined]);
  assert.equal(await read(path), null);
});
