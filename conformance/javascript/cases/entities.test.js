// Single entities: insert, read, replace, merge, upsert and delete, with their ETags.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EXISTS, NOT_FOUND, STALE, assertIsRefusal, assertRefused, propertiesOf, rawAnswer } from "../support/answers.js";
import { ENDPOINT, newPartition, tableForFile } from "../support/target.js";

const table = tableForFile("entities");
const WEAK_ETAG = /^W\/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(\.\d{1,7})?Z'"$/;
// A well-formed ETag that no entity has: nothing was written at its time.
const OTHER_ETAG = `W/"datetime'2001-02-03T04%3A05%3A06.0000007Z'"`;

async function existing(properties = { A: 1, B: "two" }) {
  const key = { partitionKey: newPartition(), rowKey: "r" };
  const { etag } = await table.createEntity({ ...key, ...properties });
  return { key, etag };
}

const read = ({ partitionKey, rowKey }) => table.getEntity(partitionKey, rowKey);
const readProperties = async (key) => propertiesOf(await read(key));

test("the answer to an insert without content has the address and the ETag", async () => {
  const key = { partitionKey: newPartition(), rowKey: "r" };
  const { status, headers, bodyAsText } = await rawAnswer((options) => table.createEntity({ ...key, A: 1 }, options));
  const address = `/${table.tableName}(PartitionKey='${key.partitionKey}',RowKey='r')`;
  assert.equal(status, 204);
  assert.match(headers.get("etag"), WEAK_ETAG);
  assert.equal(headers.get("preference-applied"), "return-no-content");
  assert.ok(headers.get("location").endsWith(address), headers.get("location"));
  assert.equal(headers.get("dataserviceid"), headers.get("location"));
  assert.ok(headers.get("location").startsWith(new URL(ENDPOINT).protocol));
  assert.equal(bodyAsText ?? "", "");
  assert.equal((await read(key)).etag, headers.get("etag"));
});

test("an entity that is read has its keys, its ETag and the Timestamp that the ETag contains", async () => {
  const { key, etag } = await existing();
  const answer = await rawAnswer((options) => table.getEntity(key.partitionKey, key.rowKey, options));
  const body = JSON.parse(answer.bodyAsText);
  assert.equal(answer.headers.get("etag"), etag);
  assert.equal(body["odata.etag"], etag);
  assert.equal(body.PartitionKey, key.partitionKey);
  assert.equal(body.RowKey, key.rowKey);
  assert.equal(etag, `W/"datetime'${body.Timestamp.replaceAll(":", "%3A")}'"`);
  assert.ok(body["odata.metadata"].endsWith(`/$metadata#${table.tableName}/@Element`));
});

test("a Timestamp from the client is ignored", async () => {
  const { key } = await existing({ timestamp: { type: "DateTime", value: "2001-01-01T00:00:00Z" }, A: 1 });
  const entity = await read(key);
  assert.ok(new Date(entity.timestamp) > new Date("2020-01-01T00:00:00Z"));
  assert.deepEqual(propertiesOf(entity), { A: 1 });
});

test("an insert of an existing entity is refused and changes nothing", async () => {
  const { key, etag } = await existing();
  await assertRefused(table.createEntity({ ...key, A: 9 }), EXISTS);
  const entity = await read(key);
  assert.equal(entity.etag, etag);
  assert.equal(entity.A, 1);
});

// The properties after each write to an entity that had A=1 and B="two".
const writes = [
  ["replace", (entity, options) => table.updateEntity(entity, "Replace", options), { B: 3, C: true }],
  ["merge", (entity, options) => table.updateEntity(entity, "Merge", options), { A: 1, B: 3, C: true }],
  ["insert or replace", (entity, options) => table.upsertEntity(entity, "Replace", options), { B: 3, C: true }],
  ["insert or merge", (entity, options) => table.upsertEntity(entity, "Merge", options), { A: 1, B: 3, C: true }],
];

for (const [name, write, expected] of writes) {
  test(`${name} of an existing entity`, async () => {
    const { key, etag } = await existing();
    const { status, headers } = await rawAnswer((options) => write({ ...key, B: 3, C: true }, options));
    assert.equal(status, 204);
    assert.match(headers.get("etag"), WEAK_ETAG);
    assert.notEqual(headers.get("etag"), etag);
    const entity = await read(key);
    assert.equal(entity.etag, headers.get("etag"));
    assert.deepEqual(propertiesOf(entity), expected);
  });
}

for (const [name, write] of writes.slice(2)) {
  test(`${name} of a missing entity inserts it`, async () => {
    const key = { partitionKey: newPartition(), rowKey: "r" };
    const { status, headers } = await rawAnswer((options) => write({ ...key, B: 3 }, options));
    assert.equal(status, 204);
    const entity = await read(key);
    assert.equal(entity.etag, headers.get("etag"));
    assert.deepEqual(propertiesOf(entity), { B: 3 });
  });
}

const conditional = [
  ...writes.slice(0, 2).map(([name, write]) => [name, (key, options) => write({ ...key, B: 3 }, options)]),
  ["delete", ({ partitionKey, rowKey }, options) => table.deleteEntity(partitionKey, rowKey, options)],
];

for (const [name, run] of conditional) {
  test(`${name} under the current ETag succeeds`, async () => {
    const { key, etag } = await existing();
    const { status } = await rawAnswer((options) => run(key, { ...options, etag }));
    assert.equal(status, 204);
  });

  test(`${name} under an old ETag is refused and changes nothing`, async () => {
    const { key, etag: old } = await existing();
    const { etag: current } = await table.updateEntity({ ...key, A: 2 }, "Merge");
    for (const etag of [old, OTHER_ETAG]) {
      await assertRefused(run(key, { etag }), STALE);
    }
    const entity = await read(key);
    assert.equal(entity.etag, current);
    assert.deepEqual(propertiesOf(entity), { A: 2, B: "two" });
  });

  test(`${name} of a missing entity is refused, whatever the condition`, async () => {
    for (const options of [{}, { etag: "*" }, { etag: OTHER_ETAG }]) {
      await assertRefused(run({ partitionKey: newPartition(), rowKey: "r" }, options), NOT_FOUND);
    }
  });

  test(`${name} under a condition that is not a weak ETag is refused`, async () => {
    const { key } = await existing();
    for (const etag of [`"strong"`, "unquoted"]) {
      await assertRefused(run(key, { etag }), {
        status: 400,
        code: "InvalidInput",
        message:
          `The etag value '${etag}' specified in one of the request headers is not valid. ` +
          "Please make sure only one etag value is specified and is valid.",
      });
    }
    assert.deepEqual(await readProperties(key), { A: 1, B: "two" });
  });
}

test("a deleted entity is gone and can be inserted again under a new ETag", async () => {
  const { key, etag } = await existing();
  const { status, headers } = await rawAnswer((options) => table.deleteEntity(key.partitionKey, key.rowKey, options));
  assert.equal(status, 204);
  assert.equal(headers.get("etag"), undefined);
  await assertRefused(read(key), NOT_FOUND);
  const again = await table.createEntity({ ...key, C: 1 });
  assert.notEqual(again.etag, etag);
  assert.deepEqual(await readProperties(key), { C: 1 });
});

test("reading a missing entity is refused", async () => {
  const { key } = await existing();
  await assertRefused(table.getEntity(key.partitionKey, "other"), NOT_FOUND);
  await assertRefused(table.getEntity(newPartition(), key.rowKey), NOT_FOUND);
});

test("every write yields a new ETag and a later Timestamp, even one that changes nothing", async () => {
  const { key, etag } = await existing({ A: 1 });
  const etags = [etag];
  const timestamps = [(await read(key)).timestamp];
  for (let turn = 0; turn < 5; turn += 1) {
    for (const [, write] of writes) {
      etags.push((await write({ ...key, A: 1 })).etag);
      timestamps.push((await read(key)).timestamp);
    }
  }
  assert.equal(new Set(etags).size, etags.length);
  // Trailing zeros are trimmed from the fraction, so pad it before comparing the strings.
  const comparable = timestamps.map((text) => {
    const [seconds, fraction = ""] = text.slice(0, -1).split(".");
    return `${seconds}.${fraction.padEnd(7, "0")}`;
  });
  assert.deepEqual(comparable, [...new Set(comparable)].sort());
});

test("exactly one of several simultaneous inserts succeeds", async () => {
  const key = { partitionKey: newPartition(), rowKey: "r" };
  const attempts = Array.from({ length: 10 }, (_, index) => table.createEntity({ ...key, Winner: index }));
  const outcomes = await Promise.allSettled(attempts);
  const winner = outcomes.findIndex(({ status }) => status === "fulfilled");
  assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
  for (const { reason } of outcomes.filter(({ status }) => status === "rejected")) {
    assertIsRefusal(reason, EXISTS);
  }
  assert.deepEqual(await readProperties(key), { Winner: winner });
});

test("exactly one of several simultaneous writes under one ETag succeeds", async () => {
  const { key, etag } = await existing({ Count: 0 });
  const attempts = Array.from({ length: 10 }, (_, index) =>
    table.updateEntity({ ...key, Winner: index }, index % 2 ? "Merge" : "Replace", { etag }),
  );
  const outcomes = await Promise.allSettled(attempts);
  assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
  for (const { reason } of outcomes.filter(({ status }) => status === "rejected")) {
    assertIsRefusal(reason, STALE);
  }
  const winner = outcomes.findIndex(({ status }) => status === "fulfilled");
  assert.equal((await read(key)).Winner, winner);
});

test("a counter under optimistic concurrency loses no increment", async () => {
  const { key } = await existing({ Count: 0 });
  const increments = 5;
  const writer = async () => {
    for (let done = 0; done < increments; ) {
      const { Count, etag } = await read(key);
      try {
        await table.updateEntity({ ...key, Count: Count + 1 }, "Merge", { etag });
        done += 1;
      } catch (error) {
        assertIsRefusal(error, STALE);
      }
    }
  };
  await Promise.all([writer(), writer(), writer()]);
  assert.deepEqual(await readProperties(key), { Count: 3 * increments });
});

test("properties are sorted by name after an entity was updated", async () => {
  const { key } = await existing({ z: 1, a: 2, m: 3 });
  await table.updateEntity({ ...key, b: 4 }, "Merge");
  const { bodyAsText } = await rawAnswer((options) => table.getEntity(key.partitionKey, key.rowKey, options));
  const names = Object.keys(JSON.parse(bodyAsText)).filter((name) => !name.startsWith("odata."));
  assert.deepEqual(names, ["PartitionKey", "RowKey", "Timestamp", "a", "b", "m", "z"]);
});
