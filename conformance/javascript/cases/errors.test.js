// Errors that do not depend on stored entities: sizes, counts, names, ranges and missing keys.

import assert from "node:assert/strict";
import { test } from "node:test";
import { VALUE_TOO_LARGE, NOT_FOUND, assertRefused, detailsOfBody, propertiesOf, tailOf } from "../support/answers.js";
import { newPartition, tableForFile } from "../support/target.js";

const table = tableForFile("errors");

const ENTITY_TOO_LARGE = {
  status: 400,
  code: "EntityTooLarge",
  message: "The entity is larger than the maximum allowed size (1MB).",
};
const TOO_MANY_PROPERTIES = {
  status: 400,
  code: "TooManyProperties",
  message:
    "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. " +
    "Each entity also has 3 system properties.",
};
const NAME_TOO_LONG = {
  status: 400,
  code: "PropertyNameTooLong",
  message: "The property name exceeds the maximum allowed length (255).",
};
const NEED_VALUE = {
  status: 400,
  code: "PropertiesNeedValue",
  message: "The values are not specified for all properties in the entity.",
};

const newKey = () => ({ partitionKey: newPartition(), rowKey: "r" });
const read = ({ partitionKey, rowKey }) => table.getEntity(partitionKey, rowKey);
const numbered = (count, value, from = 0) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`P${from + index}`, value]));

const KIB_64 = Buffer.alloc(65536, 1);

// Every operation that could store one of these entities must refuse it.
const refusedEntities = [
  ["a String of 32,769 characters", { V: "x".repeat(32769) }, VALUE_TOO_LARGE],
  ["a String of 16,385 astral characters", { V: "😀".repeat(16385) }, VALUE_TOO_LARGE],
  ["a Binary of 65,537 bytes", { V: Buffer.alloc(65537, 1) }, VALUE_TOO_LARGE],
  ["one Binary of 1 MiB", { V: Buffer.alloc(1048576, 1) }, ENTITY_TOO_LARGE],
  ["1 MiB in values of 64 KiB", numbered(16, KIB_64), ENTITY_TOO_LARGE],
  ["1 MiB in Strings", numbered(16, "x".repeat(32768)), ENTITY_TOO_LARGE],
  ["253 properties", numbered(253, 1), TOO_MANY_PROPERTIES],
  ["a property name of 256 characters", { ["n".repeat(256)]: 1 }, NAME_TOO_LONG],
  ["a DateTime before 1601", { When: { type: "DateTime", value: "1600-01-01T00:00:00Z" } }, {
    status: 400,
    code: "OutOfRangeInput",
    message: "The 'When' parameter of value '01/01/1600 00:00:00' is out of range.",
  }],
];

for (const [name, properties, expected] of refusedEntities) {
  test(`${name} cannot be inserted or upserted`, async () => {
    const key = newKey();
    await assertRefused(table.createEntity({ ...key, ...properties }), expected);
    await assertRefused(table.upsertEntity({ ...key, ...properties }, "Replace"), expected);
    await assertRefused(table.upsertEntity({ ...key, ...properties }, "Merge"), expected);
    await assertRefused(read(key), NOT_FOUND);
  });

  test(`${name} cannot replace or be merged`, async () => {
    const key = newKey();
    const { etag } = await table.createEntity({ ...key, Old: 1 });
    await assertRefused(table.updateEntity({ ...key, ...properties }, "Replace"), expected);
    await assertRefused(table.updateEntity({ ...key, ...properties }, "Merge"), expected);
    const entity = await read(key);
    assert.equal(entity.etag, etag);
    assert.deepEqual(propertiesOf(entity), { Old: 1 });
  });
}

test("an entity just below 1 MiB is stored", async () => {
  const key = newKey();
  const properties = numbered(15, KIB_64);
  await table.createEntity({ ...key, ...properties });
  assert.deepEqual(propertiesOf(await read(key)), properties);
});

test("the limits apply to the result of a merge", async () => {
  const many = newKey();
  await table.createEntity({ ...many, ...numbered(200, 1) });
  await table.updateEntity({ ...many, ...numbered(52, 2, 200) }, "Merge");
  await assertRefused(table.updateEntity({ ...many, OneMore: 1 }, "Merge"), TOO_MANY_PROPERTIES);
  await assertRefused(table.upsertEntity({ ...many, OneMore: 1 }, "Merge"), TOO_MANY_PROPERTIES);
  await table.updateEntity({ ...many, P0: 3 }, "Merge");

  const large = newKey();
  await table.createEntity({ ...large, ...numbered(10, KIB_64) });
  await assertRefused(table.updateEntity({ ...large, ...numbered(10, KIB_64, 10) }, "Merge"), ENTITY_TOO_LARGE);
  assert.deepEqual(propertiesOf(await read(large)), numbered(10, KIB_64));
});

for (const name of ["with-hyphen", "1digit", "with space", "a.b"]) {
  test(`a property cannot have the name '${name}'`, async () => {
    await assertRefused(table.createEntity({ ...newKey(), [name]: 1 }), { status: 400, code: "PropertyNameInvalid" });
  });
}

test("an insert needs both keys", async () => {
  await assertRefused(table.createEntity({ rowKey: "r", A: 1 }), NEED_VALUE);
  await assertRefused(table.createEntity({ partitionKey: newPartition(), A: 1 }), NEED_VALUE);
  await assertRefused(table.createEntity({ A: 1 }), NEED_VALUE);
});

test("a property cannot be an object or a list", async () => {
  // The client refuses such values unless they are typed.
  for (const value of [{ a: 1 }, [1, 2]]) {
    const entity = { ...newKey(), V: { type: "String", value } };
    await assertRefused(table.createEntity(entity), { status: 400, code: "InvalidInput" });
  }
});

test("an entity larger than 4 MiB is refused", async () => {
  const key = newKey();
  const error = await table.createEntity({ ...key, V: "x".repeat(5 * 1024 * 1024) }).then(
    () => assert.fail("An entity of 5 MiB was accepted."),
    (reason) => reason,
  );
  // The service may close the connection before the client has sent everything. The client then sees a broken
  // connection instead of the response.
  if (error.statusCode !== undefined) {
    assert.equal(error.statusCode, 413);
    assert.equal(detailsOfBody(error.response.bodyAsText).code, "RequestBodyTooLarge");
  }
  await assertRefused(read(key), NOT_FOUND);
});

test("an error contains the request ID and the time with seven fractional digits", async () => {
  const error = await assertRefused(read(newKey()), NOT_FOUND);
  const { headers, bodyAsText } = error.response;
  assert.equal(headers.get("content-type"), "application/json;odata=minimalmetadata;streaming=true;charset=utf-8");
  const { requestId, time } = tailOf(detailsOfBody(bodyAsText).message);
  assert.equal(requestId, headers.get("x-ms-request-id"));
  assert.match(time, /\.\d{7}Z$/);
  assert.equal(headers.get("x-ms-version"), "2019-02-02");
});
