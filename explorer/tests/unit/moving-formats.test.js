// The file formats: written entities are read back, in pieces of any size, and malformed records are reported with
// their lines.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CsvWriter, entityOfFields, parseFields, readHeader, readLine, writeLine } from "../../web/moving/formats.js";
import { EntitySource, RecordSplitter, detectFormat } from "../../web/moving/source.js";

const HOSTILE = 'a,"b"\r\n\u{1F600} é \u202Eתו <img onerror=x>\u0000\u007f\\';
const PROPERTIES = {
  Empty: ["Edm.String", ""],
  Text: ["Edm.String", HOSTILE],
  Formula: ["Edm.String", "=1+1"],
  Space: ["Edm.String", " x "],
  Yes: ["Edm.Boolean", "true"],
  Small: ["Edm.Int32", "-5"],
  Big: ["Edm.Int64", "9007199254740993"],
  Whole: ["Edm.Double", "5.0"],
  Nothing: ["Edm.Double", "-0.0"],
  Not: ["Edm.Double", "NaN"],
  Less: ["Edm.Double", "-Infinity"],
  When: ["Edm.DateTime", "2031-04-01T06:30:00.1234567Z"],
  Id: ["Edm.Guid", "a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5"],
  Bytes: ["Edm.Binary", "AP8="],
  NoBytes: ["Edm.Binary", ""],
};

function entity(partitionKey, rowKey, properties) {
  const values = Object.entries(properties).map(([name, [type, text]]) => [name, { type, text }]);
  return { partitionKey, rowKey, timestamp: "2031-04-01T06:30:00.1Z", etag: `W/"x"`, properties: new Map(values) };
}

// The values -0 and 0 are different.
function shown({ partitionKey, rowKey, properties }) {
  const values = [...properties].map(([name, { type, text }]) => {
    const isNumber = type === "Edm.Double" && Number.isFinite(Number(text));
    return [name, type, isNumber ? (Object.is(Number(text), -0) ? "-0" : String(Number(text))) : text];
  });
  return [partitionKey, rowKey, values];
}

function split(format, text, size) {
  const splitter = new RecordSplitter(format);
  const records = [];
  for (let at = 0; at < text.length; at += size) {
    records.push(...splitter.push(text.slice(at, at + size)));
  }
  return [...records, ...splitter.end()].map(({ text, line, problem }) => (problem ? [line, problem] : [line, text]));
}

async function readAll(name, content, types = new Map()) {
  const file = new File([content], name);
  const source = new EntitySource(file, await EntitySource.formatOf(file), types);
  const records = [];
  for await (const some of source.read()) {
    records.push(...some);
  }
  return records;
}

test("a line is restored exactly, and is in ASCII with the annotations that docs/export.md specifies", () => {
  const whole = entity(HOSTILE, "", PROPERTIES);
  for (const withTimestamps of [false, true]) {
    const line = writeLine(whole, { names: null, withTimestamps });
    assert.match(line, /^[ -~]+\n$/);
    assert.equal(line.includes("odata.etag"), withTimestamps);
    assert.deepEqual(shown(readLine(line)), shown(whole));
  }
  const example =
    '{"PartitionKey":"kestrel","RowKey":"0007","Doors":4,"Weight@odata.type":"Edm.Double","Weight":981.5,' +
    '"Serial@odata.type":"Edm.Int64","Serial":"9007199254740993"}\n';
  assert.equal(writeLine(readLine(example), { names: null, withTimestamps: false }), example);
  assert.equal(
    writeLine(whole, { names: ["Small", "Missing", "Yes"], withTimestamps: false })
      .split(",")
      .slice(-2)
      .join(),
    '"Small":-5,"Yes":true}\n',
  );
});

test("lines that are not entities are refused with a reason", () => {
  const line = (members) => `{"PartitionKey":"p","RowKey":"r"${members}}`;
  for (const [text, reason] of [
    ["[1]", "expected a JSON object"],
    ["{}", "the PartitionKey is missing"],
    ['{"PartitionKey":"p"}', "the RowKey is missing"],
    ['{"PartitionKey":"p","RowKey":null}', "the RowKey is missing"],
    ['{"PartitionKey":"p","RowKey":5}', "the RowKey is not a string"],
    ['{"PartitionKey":"p",}', "this is not JSON: "],
    ['{"PartitionKey":"p"', "this is not JSON: "],
    [line("") + "x", "this is not JSON: "],
    [line("") + line(""), "this is not JSON: "],
    [line(',"a":"\\x"'), "this is not JSON: "],
    [line(',"a":01'), "this is not JSON: "],
    [line(',"a":"\n"'), "this is not JSON: "],
    [line(',"N":[1]'), "the value of a property is an array or an object"],
    [line(',"N":1,"\\u004e":1'), "'N' occurs twice"],
    [line(',"N":2147483648'), "the value of 'N' is not Edm.Int32: "],
    [line(',"N@odata.type":"Edm.Int64","N":"x"'), "the value of 'N' is not Edm.Int64: "],
    [line(',"N":"x","N@odata.type":"Edm.Guid"'), "the value of 'N' is not Edm.Guid: "],
    [line(',"N":5,"N@odata.type":"Edm.String"'), "the value of 'N' is not Edm.String"],
    [line(',"N":5,"N@odata.type":"Edm.Decimal"'), "'Edm.Decimal' is not a type such as Edm.Int32"],
  ]) {
    assert.throws(
      () => readLine(text),
      (error) => error.message.startsWith(reason) || assert.fail(`${text}: ${error.message}`),
    );
  }
});

test("annotations of a service, nulls and names with a meaning in JavaScript are read as docs/export.md specifies", () => {
  const text =
    ' { "odata.etag":"x", "odata.metadata" : "y","RowKey":"r","Timestamp@odata.type":"Edm.DateTime","Timestamp":"z",' +
    '"PartitionKey":"p","PartitionKey@odata.type":"Edm.String","a":null,"b@odata.type":"Edm.Guid","__proto__":1,"c":5e0,"d":"null"} \r';
  assert.deepEqual(shown(readLine(text)), [
    "p",
    "r",
    [
      ["__proto__", "Edm.Int32", "1"],
      ["c", "Edm.Double", "5"],
      ["d", "Edm.String", "null"],
    ],
  ]);
});

test("CSV is restored exactly, including columns that appear late", () => {
  const entities = [entity("a", "1", { Text: ["Edm.String", ""] }), entity(HOSTILE, "", PROPERTIES), entity("b", " ", {})];
  const writer = new CsvWriter({ names: null, withTimestamps: false });
  entities.forEach((entity) => writer.add(entity));
  const splitter = new RecordSplitter("csv");
  const [first, ...records] = splitter.push(writer.finish().join(""));
  const header = readHeader(parseFields(first.text));
  const read = records.map(({ text }) => entityOfFields(header, parseFields(text), new Map()));
  const byName = (entity) => shown({ ...entity, properties: new Map([...entity.properties].sort()) });
  assert.deepEqual(read.map(byName), entities.map(byName));

  const example = new CsvWriter({ names: ["Doors", "Model"], withTimestamps: true });
  example.add(
    entity("kestrel", "0007", { Doors: ["Edm.Int32", "4"], Model: ["Edm.String", "Kestrel, the old"], Left: ["Edm.Int32", "1"] }),
  );
  example.add(entity("kestrel", "0008", { Model: ["Edm.String", ""] }));
  assert.equal(
    example.finish().join(""),
    "PartitionKey,RowKey,Timestamp,Doors,Doors@type,Model,Model@type\r\n" +
      'kestrel,0007,2031-04-01T06:30:00.1Z,4,Edm.Int32,"Kestrel, the old",Edm.String\r\n' +
      "kestrel,0008,2031-04-01T06:30:00.1Z,,,,Edm.String\r\n",
  );
});

test("CSV from other tools: missing types, types without a prefix, and chosen types", () => {
  const header = readHeader(parseFields("PartitionKey,RowKey,Timestamp,Age,Age@type,Name,Born"));
  const read = (record, types = []) => {
    const entity = entityOfFields(header, parseFields(record), new Map(types));
    return [...entity.properties].map(([name, { type, text }]) => `${name}=${type.slice(4)}(${text})`).join(" ");
  };
  assert.equal(
    read("p,r,x,5,Edm.Int32,Ann,2001-01-01T00:00:00Z", [["Born", "Edm.DateTime"]]),
    "Age=Int32(5) Name=String(Ann) Born=DateTime(2001-01-01T00:00:00Z)",
  );
  assert.equal(read("p,r,x,5,Int64,,"), "Age=Int64(5)");
  assert.equal(read('p,r,x,,,"",'), "Name=String()");
  assert.equal(read("p,r,x,5,,,"), "Age=String(5)");
  assert.equal(
    read("p,r,x,5,Edm.Int32,TRUE,", [
      ["Age", "Edm.Double"],
      ["Name", "Edm.Boolean"],
    ]),
    "Age=Double(5) Name=Boolean(true)",
  );
  for (const [record, reason] of [
    ["p,r,x,5,Edm.Int32,Ann", "the record has 6 fields, but the header has 7"],
    ["p,r,x,5,Edm.Int5,,", "'Edm.Int5' is not a type such as Edm.Int32"],
    ["p,r,x,five,Edm.Int32,,", "the value of 'Age' is not Edm.Int32: "],
    ['p,r,x,a"b,,,', "a quote inside a field that does not begin with one"],
    ['p,r,x,"a"b,,,', "a comma is missing after the closing quote of a field"],
    ['p,r,x,"a', "a quote that begins in this record is not closed"],
  ]) {
    assert.throws(
      () => read(record),
      (error) => error.message.startsWith(reason),
      record,
    );
  }
  for (const [record, reason] of [
    ["PartitionKey,Name", "there is no column 'RowKey'"],
    ["PartitionKey,RowKey,a,a", "the column 'a' occurs twice"],
  ]) {
    assert.throws(
      () => readHeader(parseFields(record)),
      (error) => error.message.startsWith(reason),
      record,
    );
  }
});

test("records are found in pieces of any size, each with the number of its first line", () => {
  for (const [format, text, expected] of [
    [
      "jsonl",
      "a\r\n\nb\n c",
      [
        [1, "a"],
        [3, "b"],
        [4, " c"],
      ],
    ],
    [
      "csv",
      'a,"b\n""c,\r\n",d\r\n\n"e"\nf,g"h\ni',
      [
        [1, 'a,"b\n""c,\r\n",d'],
        [5, '"e"'],
        [6, 'f,g"h'],
        [7, "i"],
      ],
    ],
    [
      "json",
      '\n[\n {"a":"],\\"}"} ,\n\n{"b":[1,{}]\n},3]\n',
      [
        [3, '\n {"a":"],\\"}"} '],
        [5, '\n\n{"b":[1,{}]\n}'],
        [6, "3"],
      ],
    ],
    ["json", "[]", []],
    ["json", '[{"a":1}', [[1, "the array is not closed"]]],
    [
      "json",
      "[1] 2",
      [
        [1, "1"],
        [1, "unexpected text after the array"],
      ],
    ],
  ]) {
    for (const size of [1, 2, 3, 7, 1000]) {
      assert.deepEqual(split(format, text, size), expected, `${format} in pieces of ${size}`);
    }
  }
  const long = "x".repeat(9 * 1024 * 1024);
  for (const format of ["jsonl", "csv"]) {
    const [[line, problem], second] = split(format, `${format === "csv" ? '"' : ""}${long}\nb`, 1 << 20);
    assert.deepEqual([line, /longer than any entity/.test(problem), second], [1, true, [2, "b"]]);
  }
});

test("the format of a file is detected from its beginning", () => {
  for (const [text, format] of [
    ['{"a"', "jsonl"],
    ["\n\n [", "json"],
    ["PartitionKey,RowKey", "csv"],
    ['"PartitionKey"', "csv"],
    ["", "csv"],
  ]) {
    assert.equal(detectFormat(text), format);
  }
});

test("files: a byte order mark, errors with their lines, and bytes that are not UTF-8", async () => {
  const csv = await readAll("a.csv", "\uFEFFPartitionKey,RowKey,A\r\np,1,\u00e9\np,2\np,3,x");
  assert.deepEqual(
    csv.map(({ line, problem, entity }) => [line, problem, entity?.properties.get("A")?.text]),
    [
      [2, "", "\u00e9"],
      [3, "the record has 2 fields, but the header has 3", undefined],
      [4, "", "x"],
    ],
  );
  const array = await readAll("a.json", '[{"PartitionKey":"p","RowKey":"1"},\n5]');
  assert.deepEqual(
    array.map(({ line, problem }) => [line, problem]),
    [
      [1, ""],
      [2, "expected a JSON object"],
    ],
  );
  await assert.rejects(readAll("a.csv", "A,B\n1,2"), {
    message: "line 1: there is no column 'PartitionKey': the first line must name the columns",
  });
  await assert.rejects(readAll("a.jsonl", new Uint8Array([0x7b, 0xff])), {
    message: "the file is not UTF-8: there is an invalid byte at or after line 1",
  });
});

test("a preview and an import can read at the same time", async () => {
  const source = new EntitySource(new File(["PartitionKey,RowKey\np,1\np,2"], "a.csv"), "csv", new Map());
  const preview = source.preview(20);
  const read = [];
  for await (const records of source.read()) {
    read.push(...records.map(({ entity }) => entity?.rowKey));
  }
  assert.deepEqual(read, ["1", "2"]);
  assert.deepEqual((await preview).records.length, 2);
  assert.equal(source.bytesRead, source.file.size);
});

test("a preview guesses the types of columns that have none", async () => {
  const file = new File(
    [
      "PartitionKey,RowKey,A,B,C,D,E,F,G\n",
      "p,1,1,1,007,true,,9223372036854775808,1.5\n",
      "p,2,2147483648,1.5,x,FALSE,,1,9007199254740993\n",
    ],
    "a.csv",
  );
  const { properties } = await new EntitySource(file, "csv", new Map()).preview(1);
  assert.deepEqual(
    properties.map(({ name, guess }) => [name, guess]),
    [
      ["A", "Edm.Int64"],
      ["B", "Edm.Double"],
      ["C", "Edm.String"],
      ["D", "Edm.Boolean"],
      ["E", "Edm.String"],
      // A Double would round these.
      ["F", "Edm.String"],
      ["G", "Edm.String"],
    ],
  );
  const source = new EntitySource(file, "csv", new Map());
  await source.guessTypes();
  assert.deepEqual(
    [...source.types],
    properties.map(({ name, guess }) => [name, guess]),
  );
  const typed = new EntitySource(new File(["PartitionKey,RowKey,A,A@type\np,1,1,Edm.Int64\n"], "b.csv"), "csv", new Map());
  await typed.guessTypes();
  assert.deepEqual([...typed.types], [], "the file specifies the types");
});
