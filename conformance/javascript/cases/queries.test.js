// Filters and projections: literals of every type, logic, comparison rules and refusals.

import assert from "node:assert/strict";
import { test } from "node:test";
import { odata } from "@azure/data-tables";
import { NO_TABLE, assertRefused, collect, propertiesOf, rawAnswer, rowKeysOf } from "../support/answers.js";
import { newPartition, tableClient, tableForFile, uniqueName } from "../support/target.js";

const P = newPartition();
const guid = "0b0c0d0e-1111-4222-8333-444455556666";
const when = new Date("2024-05-06T07:08:09.123Z");

const entities = {
  e1: { I: 5, L: 5n, D: { type: "Double", value: 5 }, S: "apple", B: true, G: { type: "Guid", value: guid } },
  e2: { I: -7, L: 9007199254740993n, D: 2.5, S: "O'Neil", B: false, T: when, X: Buffer.from([1, 255]) },
  e3: { I: 100, S: "a/b\\c?d#e%20f+g&h=i", T: { type: "DateTime", value: "2024-05-06T07:08:09.1234567Z" } },
  e4: { S: "日本 😀", D: -0.25, X: Buffer.from([1]), G: { type: "Guid", value: guid.replace("0b", "ff") } },
  e5: { S: "", B: true, X: Buffer.alloc(0), L: -5n },
  e6: { S: "Apple" },
};

const table = tableForFile("queries", async (table) => {
  for (const [rowKey, properties] of Object.entries(entities)) {
    await table.createEntity({ partitionKey: P, rowKey, ...properties });
  }
});

// The row keys are joined for readable tables.
async function matches(filter, partitionKey = P) {
  const whole = `PartitionKey eq '${partitionKey}' and (${filter})`;
  return (await rowKeysOf(table.listEntities({ queryOptions: { filter: whole } }))).join(" ");
}

const apple = "apple";
const filters = [
  // Literals of every type.
  [odata`S eq ${apple}`, "e1"],
  [odata`S eq ${"O'Neil"}`, "e2"],
  ["S eq 'O''Neil'", "e2"],
  [odata`S eq ${"a/b\\c?d#e%20f+g&h=i"}`, "e3"],
  [odata`S eq ${"日本 😀"}`, "e4"],
  ["S eq ''", "e5"],
  [odata`I eq ${5}`, "e1"],
  [odata`I eq ${-7}`, "e2"],
  [odata`L eq ${9007199254740993n}L`, "e2"],
  ["L eq -5L", "e5"],
  ["D eq 2.5", "e2"],
  ["D eq -0.25", "e4"],
  ["D eq 25e-1", "e2"],
  ["D eq 5.0", "e1"],
  [odata`B eq ${true}`, "e1 e5"],
  [odata`B eq ${false}`, "e2"],
  [odata`T eq ${when}`, "e2"],
  ["T eq datetime'2024-05-06T07:08:09.1234567Z'", "e3"],
  ["T ge datetime'2024-05-06T07:08:09Z'", "e2 e3"],
  [odata`G eq guid'${guid}'`, "e1"],
  [`G eq guid'${guid.toUpperCase()}'`, "e1"],
  [`G ne guid'${guid}'`, "e4"],
  ["X eq X'01ff'", "e2"],
  ["X eq x'01FF'", "e2"],
  ["X eq binary'01'", "e4"],
  ["X eq X''", "e5"],
  // The order within each type.
  ["S gt 'Apple'", "e1 e2 e3 e4"],
  ["S lt 'a'", "e2 e5 e6"],
  ["S ge 'app' and S lt 'apq'", "e1"],
  ["I gt 5", "e3"],
  ["I ge 5", "e1 e3"],
  ["I lt 5", "e2"],
  ["I le 5", "e1 e2"],
  ["I ne 5", "e2 e3"],
  ["D gt 0.0", "e1 e2"],
  ["B gt false", "e1 e5"],
  ["B le false", "e2"],
  ["X gt X'01'", "e2"],
  ["X lt X'01ff'", "e4 e5"],
  ["L gt 5L", "e2"],
  // A literal is widened to the type of the property; a property is never widened.
  ["L eq 5", "e1"],
  ["D eq 5", "e1"],
  ["I eq 5L", ""],
  ["I eq 5.0", ""],
  ["L eq 5.0", ""],
  // Logic.
  ["I eq 5 or I eq 100", "e1 e3"],
  ["I gt 0 and I lt 50", "e1"],
  ["S eq 'Apple' or S eq 'apple' and I eq 6", "e6"],
  ["(S eq 'Apple' or S eq 'apple') and I eq 6", ""],
  ["not (I eq 5)", "e2 e3 e4 e5 e6"],
  ["not(I eq 5)", "e2 e3 e4 e5 e6"],
  ["not (I eq 5) and B", "e5"],
  ["not (I eq 5 or S eq 'Apple')", "e2 e3 e4 e5"],
  ["(I eq 5)and(S eq 'apple')", "e1"],
  ["((((I eq 5))))", "e1"],
  ["  I   eq   5  ", "e1"],
  ["B", "e1 e5"],
  ["B and I gt 3", "e1"],
  ["B eq true and not (S eq '')", "e1"],
  // A comparison with a missing property is false, and only `not` inverts that.
  ["Missing eq 1", ""],
  ["Missing ne 1", ""],
  ["Missing lt 'z'", ""],
  ["not (Missing eq 1)", "e1 e2 e3 e4 e5 e6"],
  ["s eq 'apple'", ""],
  // Keys and the Timestamp.
  ["RowKey ge 'e2' and RowKey lt 'e4'", "e2 e3"],
  ["RowKey gt 'e4' or RowKey eq 'e1'", "e1 e5 e6"],
  ["RowKey ne 'e1' and RowKey le 'e2'", "e2"],
  ["Timestamp gt datetime'2020-01-01T00:00:00Z'", "e1 e2 e3 e4 e5 e6"],
  ["Timestamp lt datetime'2020-01-01T00:00:00Z'", ""],
  ["partitionkey eq 'x' or RowKey eq 'e3'", "e3"],
];

for (const [filter, expected] of filters) {
  test(`filter: ${filter}`, async () => {
    assert.equal(await matches(filter), expected);
  });
}

test("a literal may stand on the left", async () => {
  assert.equal(await matches("5 eq I"), "e1");
  assert.equal(await matches("'apple' eq S"), "e1");
});

test("one name with several types: the comparison rules for a type mismatch", async () => {
  // A value whose type differs from the type of the literal behaves as if it were smaller.
  const partitionKey = newPartition();
  const values = [3, "3", undefined, 3n, 2.5, true];
  for (const [index, A] of values.entries()) {
    await table.createEntity({ partitionKey, rowKey: `k${index + 1}`, A });
  }
  const expected = [
    ["A eq 3", "k1 k4"],
    ["A eq '3'", "k2"],
    ["A eq true", "k6"],
    ["A gt 2", "k1 k4 k5"],
    ["A gt 2.0", "k5"],
    ["A", "k6"],
    ["not (A eq 3)", "k2 k3 k5 k6"],
    ["A ne 3", "k2 k5 k6"],
    ["A lt 3", "k2 k5 k6"],
    ["A le 3L", "k1 k2 k4 k5 k6"],
    ["A ge true", "k6"],
    ["A ge false", "k6"],
  ];
  for (const [filter, rowKeys] of expected) {
    assert.equal(await matches(filter, partitionKey), rowKeys, filter);
  }
});

test("a filter may hold 80 comparisons", async () => {
  // The documentation specifies a limit of 15, which the service does not enforce.
  const terms = Array.from({ length: 80 }, (_, index) => `RowKey eq 'none${index}'`);
  assert.equal(await matches([...terms, "RowKey eq 'e4'"].join(" or ")), "e4");
});

test("an empty filter and an empty projection behave as if absent", async () => {
  const all = await collect(table.listEntities({ queryOptions: { filter: "", select: [] } }));
  assert.equal(all.filter((entity) => entity.partitionKey === P).length, 6);
  assert.equal(all.find((entity) => entity.rowKey === "e6").S, "Apple");
});

test("key equality yields a listing of zero or one entities, never an error", async () => {
  assert.equal(await matches("RowKey eq 'e1'"), "e1");
  assert.equal(await matches("RowKey eq 'none'"), "");
});

test("keys with special characters in a filter", async () => {
  const partitionKey = `${newPartition()} %27'+&\`😀`;
  await table.createEntity({ partitionKey, rowKey: "`ä'" });
  const filter = odata`PartitionKey eq ${partitionKey} and RowKey ge ${"`"} and RowKey lt ${"a"}`;
  assert.deepEqual(await rowKeysOf(table.listEntities({ queryOptions: { filter } })), ["`ä'"]);
});

test("a projection returns only the selected properties, and null for a missing one", async () => {
  const queryOptions = { filter: `PartitionKey eq '${P}' and RowKey eq 'e2'`, select: ["Missing", "L", "S"] };
  const [entity] = await collect(table.listEntities({ queryOptions }));
  assert.deepEqual({ ...entity, etag: "" }, { etag: "", L: 9007199254740993n, S: "O'Neil", Missing: null });
  assert.match(entity.etag, /^W\/"datetime'/);
});

test("a projection keeps the order of the entity", async () => {
  const { bodyAsText } = await rawAnswer((options) =>
    table.listEntities({ ...options, queryOptions: { filter: `PartitionKey eq '${P}' and RowKey eq 'e1'`, select: ["S", "I", "rowKey"] } }).next(),
  );
  const { "odata.metadata": metadata, value } = JSON.parse(bodyAsText);
  assert.deepEqual(Object.keys(value[0]), ["odata.etag", "RowKey", "I", "S"]);
  assert.ok(metadata.endsWith(`/$metadata#${table.tableName}&$select=S,I,RowKey`), metadata);
});

test("a projection of keys and Timestamp", async () => {
  const queryOptions = { filter: `PartitionKey eq '${P}'`, select: ["partitionKey", "rowKey", "timestamp"] };
  for (const entity of await collect(table.listEntities({ queryOptions }))) {
    assert.deepEqual(Object.keys(entity).sort(), ["etag", "partitionKey", "rowKey", "timestamp"]);
  }
});

test("an entity without any selected property is still listed", async () => {
  const queryOptions = { filter: `PartitionKey eq '${P}'`, select: ["I"] };
  const found = await collect(table.listEntities({ queryOptions }));
  assert.deepEqual(found.map((entity) => entity.I), [5, -7, 100, null, null, null]);
});

test("the filter sees properties that the projection leaves out", async () => {
  const queryOptions = { filter: `PartitionKey eq '${P}' and S eq 'Apple'`, select: ["rowKey"] };
  assert.deepEqual(await rowKeysOf(table.listEntities({ queryOptions })), ["e6"]);
});

test("a projection of a single entity", async () => {
  const entity = await table.getEntity(P, "e1", { queryOptions: { select: ["I", "Missing"] } });
  assert.deepEqual(propertiesOf(entity), { I: 5, Missing: null });
  assert.equal(entity.rowKey, undefined);
  assert.match(entity.etag, /^W\/"datetime'/);
});

const invalid = (message) => ({ status: 400, code: "InvalidInput", message });
const notImplemented = {
  status: 501,
  code: "NotImplemented",
  message: "The requested operation is not implemented on the specified resource.",
};
const noOrder = (operator) =>
  invalid(`The operator '${operator}' is not supported for the 'null' literal; only equality checks are supported.`);

const badFilters = [
  ["S eq null", invalid("One of the request inputs is not valid.")],
  ["S ne null", invalid("One of the request inputs is not valid.")],
  ["I lt null", noOrder("LessThan")],
  ["I le null", noOrder("LessThanOrEqual")],
  ["I gt null", noOrder("GreaterThan")],
  ["I ge null", noOrder("GreaterThanOrEqual")],
  ["I eq 5454161346626", invalid("Unrecognized 'Edm.Int32' literal '5454161346626' at '5' in 'I eq 5454161346626'.")],
  ["aaa bbb ccc", invalid("Syntax error at position 7 in 'aaa bbb ccc'.")],
  ["property1 eq 1'invalid'", invalid("Syntax error at position 23 in 'property1 eq 1'invalid''.")],
  ["PartitionKey and (RowKey ge 'x')", invalid(
    "A binary operator with incompatible types was detected. " +
    "Found operand types 'Edm.String' and 'Edm.Boolean' for operator kind 'And'.",
  )],
  ["startswith(S, 'a')", notImplemented],
  ["substringof('a', S)", notImplemented],
  ["length(S) gt 3", notImplemented],
  ["I eq L", notImplemented],
  ["1 eq 2", notImplemented],
];

for (const [filter, expected] of badFilters) {
  test(`refused filter: ${filter}`, async () => {
    await assertRefused(collect(table.listEntities({ queryOptions: { filter } })), expected);
  });
}

for (const filter of ["I EQ 5", "I eq 5 Or I eq 6", "I eq 5 AND B", "(I eq 5", "I eq 'open", "I eq", "S eq datetime'soon'", "G eq guid'short'"]) {
  test(`malformed filter: ${filter}`, async () => {
    const error = await collect(table.listEntities({ queryOptions: { filter } })).then(
      () => assert.fail("The filter was accepted."),
      (reason) => reason,
    );
    assert.ok([400, 501].includes(error.statusCode), `${error.statusCode} ${error.message}`);
  });
}

test("a query of a missing table is refused", async () => {
  const queryOptions = { filter: "I eq 5" };
  await assertRefused(collect(tableClient(uniqueName("none")).listEntities({ queryOptions })), NO_TABLE);
});
