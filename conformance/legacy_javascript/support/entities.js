// Converts entities of the Atom client to a comparable form, and checks errors that both clients report.

import assert from "node:assert/strict";

export const STALE = `W/"datetime'2001-02-03T04%3A05%3A06.0000007Z'"`;

const SYSTEM = new Set(["_", "PartitionKey", "RowKey", "Timestamp"]);

// Returns the custom properties of an entity that the Atom client read.
export function propertiesOf(entity) {
  return Object.fromEntries(Object.entries(entity).filter(([name]) => !SYSTEM.has(name)));
}

export const etagOf = (entity) => entity._.etag;

// Returns the entity with the given ETag, which makes the client use a condition.
export function underCondition(entity, etag) {
  return { ...entity, _: { etag } };
}

export async function assertRefused(promise, statusCode, code, message = /./) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.statusCode, statusCode);
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  });
}
