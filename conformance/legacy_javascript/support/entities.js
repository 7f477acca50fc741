// Converts entities of the Atom client to a comparable form, and checks errors that both clients report.

import assert from "node:assert/strict";

export const STALE = `W/"datetime'2001-02-03T04%3A05%3A06.0000007Z'"`;

const SYSTEM = new Set(["_", "PartitionKey", "RowKey", "Timestamp"]);

// Omits the properties that the client or the service adds.
export function propertiesOf(entity) {
  return Object.fromEntries(Object.entries(entity).filter(([name]) => !SYSTEM.has(name)));
}

export const etagOf = (entity) => entity._.etag;

// The ETag makes the client send a condition.
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
