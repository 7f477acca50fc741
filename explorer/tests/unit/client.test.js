// What the client does when the server is too busy.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TableService } from "../../web/core/client.js";
import { SasCredential } from "../../web/core/credential.js";

/** Returns the response to a transaction whose changeset has one part. */
function transactionResponse(part) {
  const lines = ["--b", "Content-Type: multipart/mixed; boundary=c", "", "--c", "Content-Type: application/http", "", part];
  const body = [...lines, "--c--", "--b--", ""].join("\r\n");
  return new Response(body, { status: 202, headers: { "Content-Type": "multipart/mixed; boundary=b" } });
}

const BUSY = 'HTTP/1.1 503 Service Unavailable\r\n\r\n{"odata.error":{"code":"ServerBusy","message":{"value":"Busy."}}}';
const DONE = 'HTTP/1.1 204 No Content\r\nETag: W/"1"\r\n\r\n';

/** Returns a service whose requests get the given responses, in order. */
function serviceOf(t, responses) {
  t.mock.method(globalThis, "fetch", async () => responses.shift());
  t.mock.method(globalThis, "setTimeout", (/** @type {() => void} */ resolve) => queueMicrotask(resolve));
  return new TableService("acct", "http://127.0.0.1/acct", new SasCredential("sv=2019-02-02&sig=x"));
}

const entity = { partitionKey: "p", rowKey: "r", timestamp: "", etag: "", properties: new Map() };

test("a transaction is sent again if one of its parts says that the server was busy", async (t) => {
  const responses = [BUSY, BUSY, DONE].map(transactionResponse);
  const etags = await serviceOf(t, responses).transaction("cars", [{ kind: "upsert", entity }]);
  assert.deepEqual([etags, responses.length], [['W/"1"'], 0]);
});

test("a server that stays busy is reported", async (t) => {
  const responses = Array.from({ length: 10 }, () => transactionResponse(BUSY));
  const service = serviceOf(t, responses);
  const sent = service.transaction("cars", [{ kind: "upsert", entity }]);
  await assert.rejects(sent, { status: 503, code: "ServerBusy", index: null });
  assert.equal(responses.length, 4, "it is repeated five times");
});
