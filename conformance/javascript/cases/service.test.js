// Service properties and statistics, as this client sends and reads them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AzureNamedKeyCredential, RestError } from "@azure/data-tables";
import { rawAnswer } from "../support/answers.js";
import { ACCOUNT, ENDPOINT, KEY, serviceClient } from "../support/target.js";

const service = serviceClient(new AzureNamedKeyCredential(ACCOUNT, KEY));
const NO_RETENTION = { enabled: false };

// The properties belong to the whole account, so the file restores them.
let found;
before(async () => {
  found = await service.getProperties();
});
after(() => service.setProperties(settings(found)));

function settings({ logging, hourMetrics, minuteMetrics, cors }) {
  return { logging, hourMetrics, minuteMetrics, cors };
}

test("properties come back as they were set", async () => {
  const sent = {
    logging: { version: "1.0", read: true, write: false, delete: true, retentionPolicy: { enabled: true, days: 5 } },
    hourMetrics: { version: "1.0", enabled: true, includeAPIs: false, retentionPolicy: { enabled: true, days: 365 } },
    minuteMetrics: { version: "1.0", enabled: false, retentionPolicy: NO_RETENTION },
    cors: [
      { allowedOrigins: "https://a.example,https://b.example", allowedMethods: "GET,PUT", allowedHeaders: "x-one,x-p*",
        exposedHeaders: "etag", maxAgeInSeconds: 60 },
      { allowedOrigins: "*", allowedMethods: "GET", allowedHeaders: "", exposedHeaders: "", maxAgeInSeconds: 0 },
    ],
  };
  const answer = await rawAnswer((options) => service.setProperties(sent, options));
  assert.equal(answer.status, 202);
  assert.equal(answer.bodyAsText ?? "", "");
  const now = settings(await service.getProperties());
  assert.deepEqual(now.logging, sent.logging);
  assert.deepEqual(now.hourMetrics, sent.hourMetrics);
  assert.equal(now.minuteMetrics.enabled, false);
  assert.deepEqual(now.cors.map((rule) => ({ ...rule, allowedHeaders: rule.allowedHeaders || "", exposedHeaders: rule.exposedHeaders || "" })), sent.cors);
});

test("setting one section keeps the others", async () => {
  const rule = { allowedOrigins: "*", allowedMethods: "GET", allowedHeaders: "*", exposedHeaders: "*", maxAgeInSeconds: 1 };
  await service.setProperties({ cors: [rule] });
  await service.setProperties({
    logging: { version: "1.0", read: false, write: true, delete: false, retentionPolicy: NO_RETENTION },
  });
  const now = await service.getProperties();
  assert.deepEqual(now.cors, [rule]);
  assert.equal(now.logging.write, true);
});

test("properties beyond the limits are refused", async () => {
  const hourMetrics = { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy: { enabled: true, days: 366 } };
  const error = await service.setProperties({ hourMetrics }).then(
    () => assert.fail("Expected a refusal."),
    (reason) => reason,
  );
  assert.ok(error instanceof RestError);
  assert.equal(error.statusCode, 400);
  assert.equal(error.response.headers.get("x-ms-error-code"), "InvalidXmlDocument");
  assert.match(error.response.bodyAsText, /<m:code>InvalidXmlDocument<\/m:code>/);
});

test("statistics", async (context) => {
  const endpoint = new URL(ENDPOINT);
  const call = service.getStatistics();
  if (endpoint.pathname.length > 1) {
    // The client changes the first label of the host name, which in path style yields the primary endpoint. A server
    // may refuse this request, as the service does, or accept it.
    const stats = await call.catch((error) => error);
    if (stats instanceof Error) {
      assert.equal(stats.statusCode, 400, stats.message);
      context.skip("the client cannot request statistics in path style");
      return;
    }
    assert.equal(stats.geoReplication.status, "live");
    return;
  }
  const { geoReplication } = await call;
  assert.equal(geoReplication.status, "live");
  assert.ok(geoReplication.lastSyncTime instanceof Date);
});
