// The grid: widths of columns, sorting and JSON.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fittingWidth } from "../../web/entities/column-fit.js";
import { Columns } from "../../web/entities/columns.js";
import { escapeUnsafe, isJson, prettyJson } from "../../web/entities/display.js";
import { sorted } from "../../web/entities/sorting.js";

const value = (type, text) => ({ type: `Edm.${type}`, text });
const entity = (rowKey, properties) => ({
  partitionKey: "p", rowKey, timestamp: "2026-01-01T00:00:00Z", etag: "", properties: new Map(Object.entries(properties)),
});
const PIXELS = { text: 7, mono: 8, bold: 9, small: 5 };
const measure = (text, font) => text.length * PIXELS[font];

test("a column is as wide as its content, up to a limit", () => {
  const entities = [
    entity("1", { Built: value("DateTime", "2026-01-01T00:00:00.1234567Z"), N: value("Int32", "5"), Long: value("String", "x".repeat(500)) }),
    entity("2", { N: value("Int32", "70"), Empty: value("String", ""), Mixed: value("Int32", "1") }),
    entity("3", { Mixed: value("String", "ab") }),
  ];
  const columns = new Columns();
  columns.add(entities);
  const widthOf = (name) => fittingWidth(columns.get(name), entities, false, measure);
  assert.equal(widthOf("Built"), 28 * PIXELS.text + 20);
  // The header is wider than the values.
  assert.equal(widthOf("N"), PIXELS.bold + 5 * PIXELS.small + 18 + 20);
  assert.equal(widthOf("Long"), 360);
  assert.equal(widthOf("Empty"), 5 * PIXELS.bold + 6 * PIXELS.small + 18 + 20);
  assert.equal(widthOf("Mixed"), 5 * PIXELS.bold + 13 * PIXELS.small + 18 + 20);
  assert.ok(widthOf("Timestamp") >= 20 * PIXELS.text + 20);
});

test("a width is chosen once, and the user's width is kept", () => {
  const columns = new Columns();
  columns.add([entity("1", { A: value("Int32", "1"), B: value("Int32", "1") })]);
  columns.resize("B", 300);
  columns.fit(() => 100);
  columns.fit(() => 200);
  assert.deepEqual(["RowKey", "A", "B"].map((name) => columns.get(name).width), [100, 100, 300]);
  assert.deepEqual(columns.layout.widths, [["B", 300]], "only the user's widths must be remembered");
  const again = new Columns(columns.layout);
  again.add([entity("1", { B: value("Int32", "1"), C: value("Int32", "1") })]);
  again.fit(() => 100);
  assert.equal(again.get("B").width, 300);
  assert.equal(again.get("C").width, 100);
});

test("loaded entities are sorted by the values of a column, missing values last", () => {
  const order = (values, descending = false) => {
    const entities = values.map((one, at) => entity(String(at), one ? { A: one } : {}));
    return sorted(entities, { kind: "property", name: "A" }, descending).map(({ rowKey }) => Number(rowKey));
  };
  const numbers = [
    value("Int32", "10"), value("Int32", "9"), null, value("Double", "9.5"), value("Int64", "9007199254740993"),
    value("Int64", "9007199254740992"), value("Double", "NaN"), value("Double", "-Infinity"),
  ];
  assert.deepEqual(order(numbers), [7, 1, 3, 0, 5, 4, 6, 2]);
  assert.deepEqual(order(numbers, true), [6, 4, 5, 0, 3, 1, 7, 2]);
  const times = ["2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z", "1601-01-01T00:00:00Z"].map((text) => value("DateTime", text));
  assert.deepEqual(order(times), [2, 1, 0]);
  assert.deepEqual(order([value("String", "b"), value("Boolean", "true"), value("String", "B"), value("Boolean", "false")]), [3, 1, 2, 0]);
  // Equal values stay in the order of the service.
  assert.deepEqual(order([value("Int32", "1"), value("Double", "1.0"), value("Int32", "1")], true), [0, 1, 2]);
  const keys = sorted([entity("a", {}), entity("b", {})], { kind: "rowKey", name: "RowKey" }, true);
  assert.deepEqual(keys.map(({ rowKey }) => rowKey), ["b", "a"]);
});

test("JSON is indented, and its numbers and strings stay unchanged", () => {
  for (const [json, pretty] of [
    ["[]", "[]"],
    ['{"a":[],"b":{}}', '{\n  "a": [],\n  "b": {}\n}'],
    ['{"n":1.0,"big":9007199254740993,"s":"a, {b}: \\"c\\""}', '{\n  "n": 1.0,\n  "big": 9007199254740993,\n  "s": "a, {b}: \\"c\\""\n}'],
    ['[1,\n [true , null]]', "[\n  1,\n  [\n    true,\n    null\n  ]\n]"],
  ]) {
    assert.equal(prettyJson(json), pretty);
    assert.deepEqual(JSON.parse(pretty), JSON.parse(json));
  }
  for (const [text, expected] of [['{"a":1}', true], [" [1]", true], ['"a"', false], ["1", false], ["{a}", false], ["", false]]) {
    assert.equal(isJson(text), expected, text);
  }
  assert.equal(escapeUnsafe('{\n  "a": "\u202e"\n}'), '{\n  "a": "\\u202e"\n}');
});
