// @azure/eventhubs-checkpointstore-table records which Event Hubs consumer owns a partition, and how far the consumer
// has read. Several consumers, each with its own store, compete for the entities of one table.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TableCheckpointStore } from "@azure/eventhubs-checkpointstore-table";
import { entitiesOf, newTable, tableClient } from "../support/target.js";

const GROUP = ["hub.example.com", "it's an event hub", "$Default"];
const [fullyQualifiedNamespace, eventHubName, consumerGroup] = GROUP;

async function newStores(context, count) {
  const table = newTable(context);
  await table.createTable();
  return [table, Array.from({ length: count }, () => new TableCheckpointStore(tableClient(table.tableName)))];
}

function ownership(partitionId, ownerId, more = {}) {
  return { fullyQualifiedNamespace, eventHubName, consumerGroup, partitionId, ownerId, ...more };
}

// Returns the one successful claim.
async function compete(stores, partitionId, more) {
  const claims = await Promise.all(stores.map((store, index) => store.claimOwnership([ownership(partitionId, `owner-${index}`, more)])));
  const succeeded = claims.flat();
  assert.equal(succeeded.length, 1, "exactly one owner");
  return succeeded[0];
}

test("exactly one of several competing consumers owns a partition", async (context) => {
  const [table, stores] = await newStores(context, 8);
  assert.deepEqual(await stores[0].listOwnership(...GROUP), []);
  let owned;
  for (let round = 0; round < 5; round += 1) {
    const before = owned;
    owned = await compete(stores, "0", { etag: owned?.etag });
    assert.notEqual(owned.etag, before?.etag);
    assert.ok(owned.lastModifiedTimeInMs >= (before?.lastModifiedTimeInMs ?? 0));
    // Every store reads what the claim returned.
    for (const store of stores.slice(0, 2)) {
      assert.deepEqual(await store.listOwnership(...GROUP), [owned]);
    }
  }
  assert.equal((await entitiesOf(table)).length, 1);
});

test("a claim with an old ETag does not affect the other claims of the same call", async (context) => {
  const [, [one, two]] = await newStores(context, 2);
  const mine = await one.claimOwnership(["0", "1", "2"].map((partitionId) => ownership(partitionId, "one")));
  assert.equal(mine.length, 3);
  const [taken] = await two.claimOwnership([{ ...mine[1], ownerId: "two" }]);
  const renewed = await one.claimOwnership(mine);
  assert.deepEqual(renewed.map(({ partitionId }) => partitionId), ["0", "2"]);
  const listed = await two.listOwnership(...GROUP);
  assert.deepEqual(listed, [renewed[0], taken, renewed[1]]);
  assert.deepEqual(listed.map(({ ownerId }) => ownerId), ["one", "two", "one"]);
  assert.deepEqual(await one.listOwnership(fullyQualifiedNamespace, eventHubName, "another group"), []);
});

test("checkpoints are replaced, and belong to one consumer group", async (context) => {
  const [, [one, two]] = await newStores(context, 2);
  const checkpoint = (partitionId, sequenceNumber) => ({
    fullyQualifiedNamespace,
    eventHubName,
    consumerGroup,
    partitionId,
    sequenceNumber,
    offset: String(sequenceNumber * 100),
  });
  for (const [partitionId, sequenceNumber] of [["0", 1], ["10", 5], ["2", 7], ["0", 3]]) {
    await one.updateCheckpoint(checkpoint(partitionId, sequenceNumber));
  }
  await one.updateCheckpoint({ ...checkpoint("0", 9), consumerGroup: "another group" });
  assert.deepEqual(await two.listCheckpoints(...GROUP), [checkpoint("0", 3), checkpoint("10", 5), checkpoint("2", 7)]);
});
