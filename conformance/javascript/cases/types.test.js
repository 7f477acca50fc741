// Every EDM type through the client, with and without its conversion to native values.

import assert from "node:assert/strict";
import { test } from "node:test";
import { assertRefused, propertiesOf, rawAnswer } from "../support/answers.js";
import { newPartition, tableForFile } from "../support/target.js";

const table = tableForFile("types");

const guid = "0b0c0d0e-1111-4222-8333-444455556666";
const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
const typed = (type, value) => ({ type, value });

// Each line contains the value written, the value read by a converting client, and the value read by a client without
// conversion. If the client hides the form on the wire, this form follows.
const cases = [
  ["Int32 zero", 0, 0, typed("Int32", "0")],
  ["Int32 maximum", 2147483647, 2147483647, typed("Int32", "2147483647")],
  ["Int32 minimum", -2147483648, -2147483648, typed("Int32", "-2147483648")],
  ["Int32 by name", typed("Int32", 42), 42, typed("Int32", "42")],
  ["Int64 maximum", typed("Int64", "9223372036854775807"), 9223372036854775807n, typed("Int64", "9223372036854775807")],
  ["Int64 minimum", typed("Int64", "-9223372036854775808"), -9223372036854775808n, typed("Int64", "-9223372036854775808")],
  ["Int64 small", typed("Int64", "5"), 5n, typed("Int64", "5")],
  ["Int64 from a bigint", 9007199254740993n, 9007199254740993n, typed("Int64", "9007199254740993")],
  ["Double fraction", 981.5, 981.5, typed("Double", "981.5")],
  ["Double negative", typed("Double", -0.25), -0.25, typed("Double", "-0.25")],
  // The client cannot distinguish 5.0 from 5 after parsing, so only the wire shows the type.
  ["Double integral", typed("Double", 5), 5, typed("Int32", "5"), '"V":5.0'],
  ["Double integral negative", typed("Double", -3), -3, typed("Int32", "-3"), '"V":-3.0'],
  ["Double zero", typed("Double", 0), 0, typed("Int32", "0"), '"V":0.0'],
  ["Double large", typed("Double", 1e300), 1e300, typed("Double", "1e+300")],
  ["Double near the maximum", typed("Double", 1.797693134862315e308), 1.797693134862315e308, typed("Double", "1.797693134862315e+308")],
  ["Double least", typed("Double", 5e-324), 5e-324, typed("Double", "5e-324")],
  ["Double 17 digits", typed("Double", 0.1 + 0.2), 0.30000000000000004, typed("Double", "0.30000000000000004")],
  ["Double from an exponent", 1e21, 1e21, typed("Double", "1e+21")],
  ["Double NaN", typed("Double", "NaN"), "NaN", typed("Double", "NaN"), '"V@odata.type":"Edm.Double"'],
  ["Double Infinity", typed("Double", "Infinity"), "Infinity", typed("Double", "Infinity"), '"V@odata.type":"Edm.Double"'],
  ["Double -Infinity", typed("Double", "-Infinity"), "-Infinity", typed("Double", "-Infinity"), '"V@odata.type":"Edm.Double"'],
  ["Boolean true", true, true, typed("Boolean", "true")],
  ["Boolean false", typed("Boolean", false), false, typed("Boolean", "false")],
  ["Guid", typed("Guid", guid), typed("Guid", guid), typed("Guid", guid)],
  ["Guid in upper case", typed("Guid", guid.toUpperCase()), typed("Guid", guid), typed("Guid", guid)],
  ["Guid of zeros", typed("Guid", guid.replace(/\w/g, "0")), typed("Guid", guid.replace(/\w/g, "0")), typed("Guid", guid.replace(/\w/g, "0"))],
  ["Binary of every byte", everyByte, everyByte, typed("Binary", everyByte.toString("base64"))],
  ["Binary empty", Buffer.alloc(0), Buffer.alloc(0), typed("Binary", "")],
  ["Binary by name", typed("Binary", "AQIDBA=="), Buffer.from([1, 2, 3, 4]), typed("Binary", "AQIDBA==")],
  ["Binary maximum", Buffer.alloc(65536, 7), Buffer.alloc(65536, 7), typed("Binary", Buffer.alloc(65536, 7).toString("base64"))],
  ["DateTime from a Date", new Date("2023-11-05T06:30:00.120Z"), new Date("2023-11-05T06:30:00.120Z"), typed("DateTime", "2023-11-05T06:30:00.12Z")],
  // Each line contains the value sent, the value read natively, and the value read as a string. The service stores
  // ticks and trims trailing zeros.
  ...[
    ["of 7 digits", "2023-11-05T06:30:00.1234567Z", "2023-11-05T06:30:00.123Z", "2023-11-05T06:30:00.1234567Z"],
    ["with zeros at the end", "2023-11-05T06:30:00.8613240Z", "2023-11-05T06:30:00.861Z", "2023-11-05T06:30:00.861324Z"],
    ["with a zero fraction", "2023-11-05T06:30:12.000000Z", "2023-11-05T06:30:12Z", "2023-11-05T06:30:12Z"],
    ["with an offset", "2023-11-05T06:30:00+01:00", "2023-11-05T05:30:00Z", "2023-11-05T05:30:00Z"],
    ["minimum", "1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z"],
    ["maximum", "9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.9999999Z"],
  ].map(([what, sent, native, text]) => [`DateTime ${what}`, typed("DateTime", sent), new Date(native), typed("DateTime", text)]),
  ...[
    ["empty", ""],
    ["one blank", " "],
    ["blanks at both ends", "  lead and trail  "],
    ["quotes", `it's "quoted" and \\ escaped`],
    ["line breaks", "tab\t line\n return\r"],
    ["markup", "<a href='#'>&amp;</a>"],
    ["non-ASCII", "naïve café Ωμέγα 日本語"],
    ["astral", "😀 👩‍👩‍👧 𝒳"],
    ["combining marks that must not be normalised", "e\u0301 \u00e9"],
    ["a line separator and a byte order mark", "\u2028 \ufeff"],
    ["text like a DateTime", "2023-11-05T06:30:00Z"],
    ["text like a Guid", guid],
    ["text like a number", "5.0"],
    ["text like a Boolean", "true"],
    ["the longest", "x".repeat(32768)],
    ["the longest in astral characters", "😀".repeat(16384)],
  ].map(([what, text]) => [`String: ${what}`, text, text, typed("String", text)]),
  ["String by name", typed("String", "named"), "named", typed("String", "named")],
];

for (const [name, written, converted, unconverted, wire] of cases) {
  test(`round trip of ${name}`, async () => {
    const partitionKey = newPartition();
    await table.createEntity({ partitionKey, rowKey: "r", V: written });
    assert.deepEqual((await table.getEntity(partitionKey, "r")).V, converted);

    let entity;
    const answer = await rawAnswer(async (options) => {
      entity = await table.getEntity(partitionKey, "r", { ...options, disableTypeConversion: true });
    });
    assert.deepEqual(entity.V, unconverted);
    assert.ok(!wire || answer.bodyAsText.includes(wire), answer.bodyAsText.slice(0, 500));
  });
}

test("a listing keeps every type too", async () => {
  const partitionKey = newPartition();
  const written = {};
  const expected = {};
  for (const [index, [, value, , unconverted]] of cases.filter(([name]) => !/maximum|longest/.test(name)).entries()) {
    written[`V${index}`] = value;
    expected[`V${index}`] = unconverted;
  }
  await table.createEntity({ partitionKey, rowKey: "r", ...written });
  const queryOptions = { filter: `PartitionKey eq '${partitionKey}'` };
  const page = await table.listEntities({ queryOptions, disableTypeConversion: true }).next();
  assert.deepEqual(propertiesOf(page.value), expected);
});

test("the type annotations match minimal metadata", async () => {
  const partitionKey = newPartition();
  await table.createEntity({
    partitionKey, rowKey: "r", S: "s", B: true, I: 1, D: 1.5, L: 1n, G: typed("Guid", guid), T: new Date(), X: Buffer.from([1]),
  });
  const { bodyAsText, headers } = await rawAnswer((options) => table.getEntity(partitionKey, "r", options));
  assert.equal(headers.get("content-type"), "application/json;odata=minimalmetadata;streaming=true;charset=utf-8");
  const annotated = Object.entries(JSON.parse(bodyAsText)).filter(([name]) => name.endsWith("@odata.type"));
  assert.deepEqual(Object.fromEntries(annotated), {
    "L@odata.type": "Edm.Int64", "G@odata.type": "Edm.Guid", "T@odata.type": "Edm.DateTime", "X@odata.type": "Edm.Binary",
  });
});

test("a null property is dropped by insert and replace and ignored by merge", async () => {
  const partitionKey = newPartition();
  const key = { partitionKey, rowKey: "r" };
  const stored = async () => propertiesOf(await table.getEntity(partitionKey, "r"));
  await table.createEntity({ ...key, Keep: "kept", None: null });
  assert.deepEqual(await stored(), { Keep: "kept" });

  await table.updateEntity({ ...key, Keep: null, Other: 1 }, "Merge");
  assert.deepEqual(await stored(), { Keep: "kept", Other: 1 });
  await table.upsertEntity({ ...key, Other: null, Third: 3 }, "Merge");
  assert.deepEqual(await stored(), { Keep: "kept", Other: 1, Third: 3 });

  await table.updateEntity({ ...key, Keep: null, Other: 2 }, "Replace");
  assert.deepEqual(await stored(), { Other: 2 });
});

test("property names are case-sensitive and may hold any letter", async () => {
  const partitionKey = newPartition();
  const properties = { a: 1, A: 2, partitionkey: 3, rowkey: 4, _under: 5, Größe: 6, имя: 7, 名前: 8, ["n".repeat(255)]: 9 };
  await table.createEntity({ partitionKey, rowKey: "r", ...properties });
  assert.deepEqual(propertiesOf(await table.getEntity(partitionKey, "r")), properties);
});

test("an entity may have 252 custom properties", async () => {
  const partitionKey = newPartition();
  const properties = Object.fromEntries(Array.from({ length: 252 }, (_, index) => [`P${index}`, index]));
  await table.createEntity({ partitionKey, rowKey: "r", ...properties });
  assert.deepEqual(propertiesOf(await table.getEntity(partitionKey, "r")), properties);
});

test("a merge may change the type of a property", async () => {
  const partitionKey = newPartition();
  for (const value of [1, "one", 1n, true, 1.5, Buffer.from([1])]) {
    await table.upsertEntity({ partitionKey, rowKey: "r", V: value }, "Merge");
    assert.deepEqual((await table.getEntity(partitionKey, "r")).V, value);
  }
});

test("an entity that was read without conversion can be written back", async () => {
  // The client then sends annotated strings instead of numbers and Booleans, and annotations of annotations. The
  // service interprets the former and ignores the latter.
  const partitionKey = newPartition();
  await table.createEntity({
    partitionKey, rowKey: "r", S: "s", B: true, I: -7, D: 1.5, L: 1n,
    G: typed("Guid", guid), T: typed("DateTime", "2023-11-05T06:30:00.1234567Z"), X: Buffer.from([1]),
  });
  const options = { disableTypeConversion: true };
  const before = await table.getEntity(partitionKey, "r", options);
  await table.updateEntity(before, "Replace", { etag: before.etag });
  const after = await table.getEntity(partitionKey, "r", options);
  assert.deepEqual(propertiesOf(after), propertiesOf(before));
  assert.notEqual(after.etag, before.etag);
});

test("an untyped number outside Int32 is a Double", async () => {
  for (const value of [2147483648, -2147483649, 5454161346626]) {
    const partitionKey = newPartition();
    await table.createEntity({ partitionKey, rowKey: "r", V: value });
    // The value is not an Int64, and the client cannot distinguish a whole Double from an Int32.
    assert.equal((await table.getEntity(partitionKey, "r")).V, value);
    const filter = `PartitionKey eq '${partitionKey}' and V eq ${value}.0`;
    assert.equal((await table.listEntities({ queryOptions: { filter } }).byPage().next()).value.length, 1);
  }
});

const badValues = [
  typed("Int64", "twelve"), typed("Int64", "9223372036854775808"), typed("Int32", 2147483648), typed("Guid", "0b0c0d0e"),
  typed("DateTime", "yesterday"), typed("Binary", "***"), typed("Double", "much"), typed("Boolean", "maybe"),
];

for (const value of badValues) {
  test(`${value.type} does not accept '${value.value}'`, async () => {
    const entity = { partitionKey: newPartition(), rowKey: "r", V: value };
    await assertRefused(table.createEntity(entity), { status: 400, code: "InvalidInput" });
  });
}
