// Tables: create, list and delete, the rules for names, and pages of a listing.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { NOT_FOUND, NO_TABLE, assertRefused, collect, detailsOfBody, firstLine, rawAnswer } from "../support/answers.js";
import { serviceClient, tableClient, uniqueName } from "../support/target.js";

const service = serviceClient();
const created = [];

after(async () => {
  for (const name of created) {
    await service.deleteTable(name);
  }
});

async function create(name) {
  const answer = await rawAnswer((options) => service.createTable(name, options));
  if (answer.status < 300) {
    created.push(name);
  }
  return answer;
}

async function names(filter) {
  return (await collect(service.listTables({ queryOptions: { filter } }))).map((table) => table.name);
}

function assertAnswered(answer, status, code, message) {
  assert.equal(answer.status, status, answer.bodyAsText);
  const details = detailsOfBody(answer.bodyAsText);
  assert.equal(details.code, code);
  assert.equal(firstLine(details.message), message);
}

test("a table is created, listed and deleted", async () => {
  const name = uniqueName("life");
  assert.equal((await create(name)).status, 201);
  assert.deepEqual(await names(`TableName eq '${name}'`), [name]);

  const answer = await rawAnswer((options) => service.deleteTable(name, options));
  assert.equal(answer.status, 204);
  assert.deepEqual(await names(`TableName eq '${name}'`), []);
});

test("a table client creates and deletes its own table", async () => {
  const client = tableClient(uniqueName("own"));
  await client.createTable();
  assert.deepEqual(await names(`TableName eq '${client.tableName}'`), [client.tableName]);
  await client.deleteTable();
  assert.deepEqual(await names(`TableName eq '${client.tableName}'`), []);
});

test("creating a table that exists is refused, in any letter case", async () => {
  const name = uniqueName("twice");
  await create(name);
  for (const again of [name, name.toUpperCase(), `J${name.slice(1)}`]) {
    assertAnswered(await create(again), 409, "TableAlreadyExists", "The table specified already exists.");
  }
});

test("a name keeps the spelling of its creation and is found in any letter case", async () => {
  const name = uniqueName("MixedCase");
  await create(name);
  assert.deepEqual(await names(`TableName eq '${name}'`), [name]);

  await tableClient(name.toLowerCase()).createEntity({ partitionKey: "p", rowKey: "r", A: 1 });
  const entity = await tableClient(name.toUpperCase()).getEntity("p", "r");
  assert.equal(entity.A, 1);

  const answer = await rawAnswer((options) => service.deleteTable(name.toUpperCase(), options));
  assert.equal(answer.status, 204);
  assert.deepEqual(await names(`TableName eq '${name}'`), []);
});

test("deleting a missing table returns 404", async () => {
  for (const name of [uniqueName("none"), "tables", "no"]) {
    const answer = await rawAnswer((options) => service.deleteTable(name, options));
    assertAnswered(answer, 404, NOT_FOUND.code, NOT_FOUND.message);
  }
});

test("a deleted table can be created again immediately or is still being deleted", async () => {
  // Both responses are correct: the service deletes in the background, but a local server does not have to.
  const name = uniqueName("again");
  await create(name);
  await service.deleteTable(name);
  const status = await create(name).then(
    (answer) => answer.status,
    (error) => {
      assert.equal(detailsOfBody(error.response.bodyAsText).code, "TableBeingDeleted");
      return error.statusCode;
    },
  );
  assert.ok([201, 409].includes(status));
});

test("a table that was created again is empty", async (t) => {
  const name = uniqueName("empty");
  await create(name);
  await tableClient(name).createEntity({ partitionKey: "p", rowKey: "r" });
  await service.deleteTable(name);
  try {
    await create(name);
  } catch (error) {
    assert.equal(error.statusCode, 409);
    t.skip("This server deletes tables in the background.");
    return;
  }
  assert.deepEqual(await collect(tableClient(name).listEntities()), []);
});

const wrongLength = { code: "OutOfRangeInput", message: "The specified resource name length is not within the permissible limits." };
const wrongCharacters = { code: "InvalidResourceName", message: "The specifed resource name contains invalid characters." };
const reserved = { code: "InvalidInput", message: "One of the request inputs is not valid." };

const badNames = [
  ["a", wrongLength],
  ["ab", wrongLength],
  ["a".repeat(64), wrongLength],
  ["a".repeat(300), wrongLength],
  ["with-hyphen", wrongCharacters],
  ["under_score", wrongCharacters],
  ["1leadingdigit", wrongCharacters],
  ["with space", wrongCharacters],
  ["naïve", wrongCharacters],
  ["tables", reserved],
  ["Tables", reserved],
];

for (const [name, expected] of badNames) {
  test(`a table cannot have the name '${name.slice(0, 70)}'`, async () => {
    await assertRefused(service.createTable(name), { status: 400, ...expected });
  });
}

test("a table name may have 63 characters", async () => {
  const name = uniqueName("long").padEnd(63, "x");
  assert.equal((await create(name)).status, 201);
  await tableClient(name).createEntity({ partitionKey: "p", rowKey: "r" });
});

test("a table name may have 3 characters", async () => {
  // On a shared account, short names may be in use, so try several.
  let status;
  for (let attempt = 0; attempt < 5 && status !== 201; attempt += 1) {
    status = (await create(`j${uniqueName("").slice(-2)}`)).status;
  }
  assert.equal(status, 201);
});

const operationsOnMissingTable = {
  get: (table) => table.getEntity("p", "r"),
  list: (table) => collect(table.listEntities()),
  insert: (table) => table.createEntity({ partitionKey: "p", rowKey: "r" }),
  replace: (table) => table.updateEntity({ partitionKey: "p", rowKey: "r" }, "Replace"),
  merge: (table) => table.updateEntity({ partitionKey: "p", rowKey: "r" }, "Merge"),
  "insert or replace": (table) => table.upsertEntity({ partitionKey: "p", rowKey: "r" }, "Replace"),
  "insert or merge": (table) => table.upsertEntity({ partitionKey: "p", rowKey: "r" }, "Merge"),
  delete: (table) => table.deleteEntity("p", "r"),
};

for (const [operation, run] of Object.entries(operationsOnMissingTable)) {
  test(`${operation} on a missing table returns TableNotFound`, async () => {
    await assertRefused(run(tableClient(uniqueName("missing"))), NO_TABLE);
  });
}

test("tables are listed by name, ignoring letter case", async () => {
  const prefix = uniqueName("sort");
  for (const end of ["c", "B", "a", "D"]) {
    await create(`${prefix}${end}`);
  }
  // List the whole account, because it is not known whether filters are case-sensitive.
  const found = (await names()).filter((name) => name.startsWith(prefix));
  assert.deepEqual(found, ["a", "B", "c", "D"].map((end) => `${prefix}${end}`));
});

test("filters on TableName", async () => {
  const prefix = uniqueName("filter");
  const all = ["a", "b", "c", "d"].map((end) => `${prefix}${end}`);
  for (const name of all) {
    await create(name);
  }
  const inside = `TableName ge '${prefix}' and TableName lt '${prefix}{'`;
  const filters = [
    [inside, all],
    [`TableName eq '${all[1]}'`, [all[1]]],
    [`TableName eq '${all[1]}' or TableName eq '${all[3]}'`, [all[1], all[3]]],
    [`${inside} and TableName ne '${all[0]}'`, all.slice(1)],
    [`${inside} and TableName gt '${all[1]}'`, all.slice(2)],
    [`${inside} and TableName le '${all[1]}'`, all.slice(0, 2)],
    [`${inside} and not (TableName eq '${all[2]}')`, [all[0], all[1], all[3]]],
  ];
  for (const [filter, expected] of filters) {
    assert.deepEqual(await names(filter), expected, filter);
  }
});

test("the filter that health checks send is accepted", async () => {
  await names("false");
});

test("a listing is read in pages and continued from a token", async () => {
  const prefix = uniqueName("page");
  const all = ["1", "2", "3", "4", "5"].map((end) => `${prefix}${end}`);
  for (const name of all) {
    await create(name);
  }
  const queryOptions = { filter: `TableName ge '${prefix}' and TableName lt '${prefix}{'` };
  const pages = await collect(service.listTables({ queryOptions }).byPage({ maxPageSize: 2 }));
  assert.deepEqual(pages.flat().map((table) => table.name), all);
  assert.ok(pages.length >= 3);
  assert.ok(pages.every((page) => page.length <= 2));
  assert.ok(pages.slice(0, -1).every((page) => page.continuationToken));
  assert.equal(pages.at(-1).continuationToken, undefined);

  const rest = service.listTables({ queryOptions }).byPage({ maxPageSize: 2, continuationToken: pages[0].continuationToken });
  const expected = all.slice(pages[0].length);
  assert.deepEqual((await collect(rest)).flat().map((table) => table.name), expected);
});

for (const maxPageSize of [-1, 1001]) {
  test(`a page of ${maxPageSize} tables is refused`, async () => {
    await assertRefused(collect(service.listTables().byPage({ maxPageSize })), { status: 400, ...reserved });
  });
}
