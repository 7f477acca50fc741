// The filter language in the page: the grammar and its errors, fields, and completion.

import assert from "node:assert/strict";
import { test } from "node:test";
import { complete } from "../../web/query/completion.js";
import { addCondition, readConditions, successor, writeConditions, writeLiteral } from "../../web/query/filter-fields.js";
import { isFilterName, parseFilter } from "../../web/query/filter-text.js";

const compare = (property, operator, type, text) => ({ kind: "compare", property, operator, literal: { type: `Edm.${type}`, text } });

test("filters from the specification are parsed into trees", () => {
  const a = compare("A", "eq", "Int32", "3");
  const cases = [
    ["A eq 3", a],
    ["  A  eq\t3  ", a],
    ["3 lt A", compare("A", "gt", "Int32", "3")],
    ["not (A eq 3)", { kind: "not", operand: a }],
    ["not A eq 3", { kind: "not", operand: a }],
    ["A eq 3 or B and C", { kind: "or", operands: [a, { kind: "and", operands: [prop("B"), prop("C")] }] }],
    ["(A eq 3)and(B)", { kind: "and", operands: [a, prop("B")] }],
    ["true", { kind: "constant", value: true }],
    ["A eq 'O''Neil'", compare("A", "eq", "String", "O'Neil")],
    ["A eq ''", compare("A", "eq", "String", "")],
    ["A eq X'0aFf'", compare("A", "eq", "Binary", "0aFf")],
    ["A eq binary''", compare("A", "eq", "Binary", "")],
    ["A eq 42L", compare("A", "eq", "Int64", "42")],
    ["A eq -1.5e3", compare("A", "eq", "Double", "-1.5e3")],
    ["A eq 3D", compare("A", "eq", "Double", "3")],
    ["A eq -INF", compare("A", "eq", "Double", "-Infinity")],
    ["A eq True", compare("A", "eq", "Boolean", "true")],
    ["A ge datetime'2024-01-02T00:00'", compare("A", "ge", "DateTime", "2024-01-02T00:00")],
    ["eq eq 1", compare("eq", "eq", "Int32", "1")],
    ["Größe gt 1", compare("Größe", "gt", "Int32", "1")],
  ];
  for (const [text, tree] of cases) {
    const { filter, errors } = parseFilter(text);
    assert.deepEqual(errors, [], text);
    assert.deepEqual(withoutGroups(filter), tree, text);
  }
  assert.deepEqual(parseFilter("   ").filter, null);
  assert.deepEqual(parseFilter("   ").errors, []);
});

test("functions are parsed if the server has extensions", () => {
  const call = (called, property, text) => ({ kind: "call", called, property, text });
  const a = call("contains", "A", "it's");
  const cases = [
    ["startswith(A,'x')", call("startswith", "A", "x")],
    [" endswith ( RowKey , '' ) ", call("endswith", "RowKey", "")],
    ["contains(A,'it''s')", a],
    ["substringof('it''s',A)", a],
    ["contains((A),('it''s')) eq true", a],
    ["true eq contains(A,'it''s')", a],
    ["contains(A,'it''s') ne True", { kind: "not", operand: a }],
    ["not contains(A,'it''s') and B", { kind: "and", operands: [{ kind: "not", operand: a }, prop("B")] }],
    ["contains eq 1 or contains(contains,'x')",
      { kind: "or", operands: [compare("contains", "eq", "Int32", "1"), call("contains", "contains", "x")] }],
  ];
  for (const [text, tree] of cases) {
    const { filter, errors } = parseFilter(text, true);
    assert.deepEqual(errors, [], text);
    assert.deepEqual(withoutGroups(filter), tree, text);
    assert.notDeepEqual(parseFilter(text, false).errors, [], text);
  }
});

test("errors in functions are found at their positions", () => {
  const signature = /^The arguments of contains are a property and a string: contains\(Name,'text'\)\.$/;
  const cases = [
    ["contains()", "contains()", signature],
    ["A and contains(A)", "contains(A)", signature],
    ["contains(A,'x','y')", "contains(A,'x','y')", signature],
    ["contains('x',A)", "contains('x',A)", signature],
    ["contains(A,B)", "contains(A,B)", signature],
    ["contains(A,5)", "contains(A,5)", signature],
    ["contains(contains(A,'x'),'y')", "contains(contains(A,'x'),'y')", signature],
    ["contains(A eq 1,'y')", "contains(A eq 1,'y')", signature],
    ["substringof(A,'x')", "substringof(A,'x')", /substringof\('text',Name\)/],
    ["startswith(Timestamp,'2026')", "startswith(Timestamp,'2026')", /Timestamp is a time/],
    ["contains(tolower(A),'y')", "tolower", /does not support tolower/],
    ["contains(A,)", ")", /missing before this/],
    ["contains(,'x')", ",", /missing before this/],
    ["contains(A,'x'", "(", /closing parenthesis/],
    ["contains(A 'x')", "'x'", /operator is missing/],
    ["contains(A,'x') eq 1", "contains(A,'x') eq 1", /only with true or false/],
    ["contains(A,'x') gt false", "contains(A,'x') gt false", /only with true or false/],
    ["(contains(A,'x') eq true) eq true", "(contains(A,'x') eq true) eq true", /only with true or false/],
    ["contains(A,'x') eq null", "contains(A,'x') eq null", /null/],
    ["Contains(A,'x')", "Contains", /lower case: contains/],
    ["tolower(A) eq 'x'", "tolower", /It supports startswith, endswith and contains/],
    ["A contains 'x'", "contains", /Write contains\(Name,'text'\)/],
  ];
  for (const [text, piece, message] of cases) {
    const { filter, errors } = parseFilter(text, true);
    assert.equal(filter, null, text);
    assert.deepEqual(errors.map(({ start, end }) => text.slice(start, end)), [piece], text);
    assert.match(errors[0].message, message, text);
  }
  const [{ message }] = parseFilter("contains(A,'x')", false).errors;
  assert.match(message, /^The service does not support functions.*--extensions/);
});

function prop(property) {
  return { kind: "property", property };
}

function withoutGroups(node) {
  if (typeof node !== "object" || node === null) return node;
  if (Array.isArray(node)) return node.map(withoutGroups);
  return Object.fromEntries(Object.entries(node).filter(([name]) => name !== "group").map(([name, value]) => [name, withoutGroups(value)]));
}

// Each case lists the invalid parts of the text; ^ stands for the end.
test("errors are found at their positions", () => {
  const cases = [
    ["A EQ 1", ["EQ"], /lower case: eq/],
    ["A = 1 AND B == 2", ["=", "AND", "=="], /Use eq instead of =/],
    ['A eq "x"', ['"x"'], /single quotes/],
    ["A eq ‘x y’", ["‘x y’"], /single quotes/],
    ["A eq 'x", ["'x"], /closing quote/],
    ["A eq 5454161346626", ["5454161346626"], /5454161346626L/],
    ["A eq 99999999999999999999L", ["99999999999999999999L"], /Int64/],
    ["A eq 1e999", ["1e999"], /Double/],
    ["A eq guid'12'", ["guid'12'"], /Guid/],
    ["A eq X'0'", ["X'0'"], /hex/],
    ["A eq datetime'2024-02-30T00:00:00Z'", ["datetime'2024-02-30T00:00:00Z'"], /time/],
    ["A eq datetime'1500-01-01T00:00:00Z'", ["datetime'1500-01-01T00:00:00Z'"], /time/],
    ["A eq 3m", ["3m"], /suffix/],
    ["A eq null", ["A eq null"], /null is not supported/],
    ["A eq B", ["B"], /quotes: 'B'/],
    ["1 eq 2", ["1 eq 2"], /property on one side/],
    ["PartitionKey eq 12", ["12"], /string/],
    ["Timestamp gt '2024'", ["'2024'"], /datetime/],
    ["PartitionKey and A", ["PartitionKey"], /alone/],
    ["startswith(A, 'x') and B eq 'y", ["startswith", "'y"], /not support functions.*Name ge/],
    ["A/B eq 1", ["A/B"], /paths/],
    ["A eq 1 B", ["B"], /operator is missing/],
    ["A eq 1)", [")"], /no opening parenthesis/],
    ["(A eq 1", ["("], /closing parenthesis/],
    ["A eq", ["^"], /too early/],
    ["A and", ["^"], /too early/],
    ["and eq 1 and", ["^"], /too early/],
    ["A eq not B", ["not"], /value here/],
    ["A eq 1 eq 2", ["eq"], /chained/],
    ["$A eq 1", ["$"], /not valid here/],
    ["A eq - 1", ["-"], /minus/],
    ["1", ["1"], /alone/],
  ];
  for (const [text, pieces, message] of cases) {
    const { filter, errors } = parseFilter(text, false);
    assert.equal(filter, null, text);
    const found = errors.map(({ start, end }) => text.slice(start, end) || "^");
    for (const piece of pieces) assert.ok(found.includes(piece), `${text}: ${JSON.stringify(found)}`);
    assert.match(errors.find(({ start, end }) => (text.slice(start, end) || "^") === pieces[0]).message, message, text);
  }
});

test("only errors that further typing may resolve are incomplete", () => {
  for (const text of ["A eq", "A eq 'x", "(A eq 1", "A and ", "PartitionKey"]) {
    assert.ok(parseFilter(text).errors.every((error) => error.incomplete), text);
  }
  for (const text of ["A EQ 1", "A eq 1)", "PartitionKey eq 1", "A eq B"]) {
    assert.ok(parseFilter(text).errors.some((error) => !error.incomplete), text);
  }
});

test("no text makes the parser crash or take long", () => {
  const pieces = ["(", ")", "'", "not ", "A", " eq ", "1", "-", "and ", ",", "/", "\u0000", "😀", "\ud800", '"', "datetime'", "X'", " or ", "null", "."];
  let seed = 7;
  const next = (count) => (seed = (seed * 48271) % 2147483647) % count;
  for (let round = 0; round < 3000; round++) {
    const text = Array.from({ length: next(12) }, () => pieces[next(pieces.length)]).join("");
    const { filter, errors, tokens } = parseFilter(text);
    assert.ok(filter !== null || errors.length > 0 || tokens.length === 1, text);
    for (const { start, end } of errors) assert.ok(0 <= start && start <= end && end <= text.length, text);
  }
  assert.match(parseFilter("(".repeat(20_000)).errors[0].message, /nested/);
  assert.equal(parseFilter(`${"not ".repeat(255)}A`).errors.length, 0);
});

test("written literals are parsed to the same value", () => {
  const values = [
    ["String", "O'Neil ' "], ["Int32", "-7"], ["Int64", "9007199254740993"], ["Double", "5"], ["Double", "1e+21"], ["Double", "NaN"],
    ["Double", "-Infinity"], ["Boolean", "false"], ["DateTime", "2026-01-02T03:04:05.1234567Z"],
    ["Guid", "00000000-0000-0000-0000-000000000001"], ["Binary", "00ff"],
  ];
  for (const [type, text] of values) {
    const { filter, errors } = parseFilter(`A eq ${writeLiteral({ type: `Edm.${type}`, text })}`);
    assert.deepEqual(errors, [], text);
    assert.equal(filter.literal.type, `Edm.${type}`);
    assert.equal(filter.literal.text.replace(/\.0$/, ""), text);
  }
});

test("names that a filter can contain", () => {
  for (const name of ["A", "_a1", "Größe", "и", "and", "eq"]) assert.ok(isFilterName(name), name);
  for (const name of ["", "not", "null", "true", "a b", "a-b", "1a", "<img onerror=alert(1)>", "a'b", " a"]) assert.ok(!isFilterName(name), name);
});

test("a filter of conditions is converted to fields and back", () => {
  const text = "PartitionKey eq 'it''s' and RowKey ge 'ab' and RowKey lt 'ac' and N ge 3L and B eq X'00ff'";
  const { conditions } = readConditions(text);
  assert.deepEqual(conditions.map(({ property, operator, text }) => [property, operator, text]), [
    ["PartitionKey", "eq", "it's"], ["RowKey", "startsWith", "ab"], ["N", "ge", "3"], ["B", "eq", "00ff"],
  ]);
  assert.equal(writeConditions(conditions), text);
  assert.equal(writeConditions(readConditions("Ready and (3 lt Age)").conditions), "Ready eq true and Age gt 3");
  // This is not the end of "ab".
  const condition = { property: "B", operator: "eq", type: "Edm.String", text: "it's" };
  for (const [filter, expected] of [
    ["", "B eq 'it''s'"],
    [" A eq 1 ", "A eq 1 and B eq 'it''s'"],
    ["A eq 1 or C", "(A eq 1 or C) and B eq 'it''s'"],
    ["(A eq 1 or C)", "(A eq 1 or C) and B eq 'it''s'"],
    ["A eq 1 and (C or D)", "A eq 1 and (C or D) and B eq 'it''s'"],
    ["not A", "not A and B eq 'it''s'"],
  ]) {
    assert.equal(addCondition(filter, condition), expected);
    assert.deepEqual(parseFilter(expected).errors, []);
  }
  assert.equal(readConditions("A ge 'ab' and A lt 'ad'").conditions.length, 2);
  assert.deepEqual(readConditions(" "), { conditions: [] });
});

test("functions are converted to fields and back", () => {
  const text = "contains(A,'it''s') and endswith(B,'x') and RowKey ge 'ab' and RowKey lt 'ac'";
  const { conditions } = readConditions(text, true);
  assert.deepEqual(conditions.map(({ property, operator, text }) => [property, operator, text]),
    [["A", "contains", "it's"], ["B", "endsWith", "x"], ["RowKey", "startsWith", "ab"]]);
  assert.equal(writeConditions(conditions), text);
  // A range needs no extension.
  assert.equal(writeConditions(readConditions("startswith(RowKey,'ab')", true).conditions), "RowKey ge 'ab' and RowKey lt 'ac'");
  assert.match(readConditions(text, false).reason, /^Correct this error first: /);
});

test("a filter that cannot be shown as fields has a reason", () => {
  assert.match(readConditions("A eq 1 or B eq 2").reason, /“or”/);
  assert.match(readConditions("not (A eq 1)").reason, /“not”/);
  assert.match(readConditions("A eq 1 and true").reason, /true/);
  assert.match(readConditions("A eq").reason, /^Correct this error first: /);
});

test("the successor of a prefix follows every string with that prefix", () => {
  for (const [prefix, end] of [["ab", "ac"], ["a\uffff", "b"], ["\ud7ff", "\u{10000}"], ["\u{10ffff}", "\ue000"], ["😀", "😁"]]) {
    assert.equal(successor(prefix), end);
    assert.ok(`${prefix}\uffff\uffff` < end);
  }
  assert.equal(successor(""), null);
  assert.equal(successor("\uffff\uffff"), null);
  assert.equal(writeConditions([{ property: "A", operator: "startsWith", type: "Edm.String", text: "" }]), "A ge ''");
});

const PROPERTIES = new Map([["Age", "Edm.Int32"], ["Active", "Edm.Boolean"], ["At", "Edm.DateTime"], ["<img>", "Edm.String"], ["Big", "Edm.Int64"]]);

// A bar in the text marks the caret.
function labels(text, extensions = false) {
  const caret = text.indexOf("|");
  const vocabulary = { properties: PROPERTIES, extensions };
  const { options } = complete(text.replace("|", ""), caret, vocabulary, new Date("2026-05-05T05:05:05.678Z"));
  return options.map(({ label }) => label);
}

test("completion offers the options that fit at the caret", () => {
  const comparisons = ["eq", "ne", "gt", "ge", "lt", "le"];
  const names = ["PartitionKey", "RowKey", "Timestamp", "Active", "Age", "At", "Big", "not"];
  const cases = [
    ["|", names],
    ["not |", names],
    ["(|", names],
    ["Age eq 1 and |", names],
    ["ag|", ["Age"]],
    ["Partition|", ["PartitionKey"]],
    ["key|", ["PartitionKey", "RowKey"]],
    ["PartitionKey |", comparisons],
    ["PartitionKey g|", ["gt", "ge"]],
    ["Active |", ["and", "or", ...comparisons]],
    ["PartitionKey eq |", ["'…'"]],
    ["Active eq |", ["true", "false"]],
    ["Active eq f|", ["false"]],
    ["Big eq |", ["…L"]],
    ["Age eq |", []],
    ["At ge |", ["datetime'2026-05-05T00:00:00Z'", "datetime'2026-05-05T04:05:05Z'"]],
    ["Other eq g|", ["guid'…'"]],
    ["Age eq 1|", []],
    ["Age eq 1 |", ["and", "or"]],
    ["(Age eq 1) |", ["and", "or"]],
    ["PartitionKey eq 'a|", []],
    ["PartitionKey eq 'a b|'", []],
    ["PartitionKey eq 'a'|", []],
    ["Ag| eq 1", ["Age"]],
  ];
  for (const [text, expected] of cases) assert.deepEqual(labels(text), expected, text);
});

test("completion offers functions if the server has extensions", () => {
  const calls = ["startswith(Name,'text')", "endswith(Name,'text')", "contains(Name,'text')"];
  const cases = [
    ["Ag|", ["Age"]],
    ["|", ["PartitionKey", "RowKey", "Timestamp", "Active", "Age", "At", "Big", "not", ...calls]],
    ["Age eq 1 and cont|", calls.slice(2)],
    ["contains(|", ["PartitionKey", "RowKey"]],
    ["not endswith(row|,'x')", ["RowKey"]],
    ["contains(RowKey |", []],
    ["contains(RowKey, |", ["'…'"]],
    ["contains(RowKey,'x|')", []],
    ["contains(RowKey,'x') |", ["and", "or"]],
    ["(contains(RowKey,'x')) |", ["and", "or"]],
  ];
  for (const [text, expected] of cases) assert.deepEqual(labels(text, true), expected, text);
  assert.deepEqual(labels("cont|"), []);
});

test("completion replaces the word at the caret, and places the caret inside quotes", () => {
  const vocabulary = { properties: PROPERTIES, extensions: true };
  const name = complete("Agx eq 1", 2, vocabulary, new Date());
  assert.deepEqual([name.start, name.end, name.typed], [0, 3, "Ag"]);
  const value = complete("RowKey eq ", 10, vocabulary, new Date()).options[0];
  assert.deepEqual([value.insert, value.back], ["''", 1]);
  const [argument] = complete("contains(ro", 11, vocabulary, new Date()).options;
  assert.deepEqual([argument.insert, argument.back], ["RowKey,'')", 2]);
  const [other] = complete("contains(ro,'x')", 11, vocabulary, new Date()).options;
  assert.deepEqual([other.insert, other.back], ["RowKey", 0]);
});
