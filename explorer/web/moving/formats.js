// Writes and parses entities in the file formats CSV and JSON Lines, as docs/export.md specifies them.
//
// In CSV, the column of a property is followed by a column for its type, NAME@type. Strings are written unchanged, even
// if a spreadsheet would interpret them as formulas, so that a file restores exactly what was written. This module must
// not depend on files or the service.

import { EDM_TYPES, readValue } from "../core/edm.js";
import { ValueError } from "../core/errors.js";
import { writeProperty } from "../core/json.js";

/** @import { EdmType, Entity } from "../core/edm.js" */
/** @typedef {{text: string, isQuoted: boolean}} Field */
/**
 * The column of a property. `typeAt` is -1 if there is no column for its type.
 * @typedef {{name: string, at: number, typeAt: number}} Column
 */
/** @typedef {{partitionAt: number, rowAt: number, width: number, columns: Column[]}} Header */

const TYPE = "@type";
const NEEDS_QUOTES = /^[ \uFEFF\u00C0-\u00FF]|[",\r\n]| $/;

/** @param {string} text */
export function writeField(text) {
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * Writes entities as records. Unless the columns are given, they are added as properties appear.
 */
export class CsvWriter {
  /** @param {{names: string[] | null, withTimestamps: boolean}} options */
  constructor({ names, withTimestamps }) {
    this.isFixed = names !== null;
    this.withTimestamps = withTimestamps;
    this.names = [...(names ?? [])];
    this.known = new Set(this.names);
    /**
     * The records without their line breaks, and the number of property columns in each.
     * @type {{text: string, columns: number}[]}
     */
    this.records = [];
  }

  /** @param {Entity} entity */
  add(entity) {
    if (!this.isFixed) {
      for (const name of entity.properties.keys()) {
        if (!this.known.has(name)) {
          this.known.add(name);
          this.names.push(name);
        }
      }
    }
    const fields = [writeField(entity.partitionKey), writeField(entity.rowKey)];
    if (this.withTimestamps) {
      fields.push(entity.timestamp);
    }
    for (const name of this.names) {
      const value = entity.properties.get(name);
      fields.push(value ? writeField(value.text) : "", value?.type ?? "");
    }
    this.records.push({ text: fields.join(","), columns: this.names.length });
  }

  /** Returns the file, in parts. Records that were written before a column was added are padded with empty fields. */
  finish() {
    const header = ["PartitionKey", "RowKey", ...(this.withTimestamps ? ["Timestamp"] : [])];
    header.push(...this.names.flatMap((name) => [name, name + TYPE]));
    const fill = (/** @type {number} */ columns) => ",,".repeat(this.names.length - columns);
    return [`${header.join(",")}\r\n`, ...this.records.map(({ text, columns }) => `${text}${fill(columns)}\r\n`)];
  }
}

/**
 * Parses the fields of a record without its final line break.
 * @param {string} record
 * @returns {Field[]}
 */
export function parseFields(record) {
  /** @type {Field[]} */
  const fields = [];
  for (let at = 0; at <= record.length; at += 1) {
    if (record[at] !== '"') {
      const comma = record.indexOf(",", at);
      const end = comma < 0 ? record.length : comma;
      const text = record.slice(at, end);
      if (text.includes('"')) {
        throw new ValueError("a quote inside a field that does not begin with one");
      }
      fields.push({ text, isQuoted: false });
      at = end;
    } else {
      const end = endOfQuoted(record, at + 1);
      fields.push({ text: record.slice(at + 1, end).replaceAll('""', '"'), isQuoted: true });
      at = end + 1;
      if (at < record.length && record[at] !== ",") {
        throw new ValueError("a comma is missing after the closing quote of a field");
      }
    }
  }
  return fields;
}

/**
 * Returns the index of the closing quote of a field.
 * @param {string} record
 * @param {number} from
 */
function endOfQuoted(record, from) {
  for (let at = record.indexOf('"', from); at >= 0; at = record.indexOf('"', at + 2)) {
    if (record[at + 1] !== '"') {
      return at;
    }
  }
  throw new ValueError("a quote that begins in this record is not closed");
}

/**
 * Parses the header of a file: its first record.
 * @param {Field[]} fields
 * @returns {Header}
 */
export function readHeader(fields) {
  const names = fields.map((field) => field.text);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) {
    throw new ValueError(`the column '${twice}' occurs twice`);
  }
  for (const key of ["PartitionKey", "RowKey"]) {
    if (!names.includes(key)) {
      throw new ValueError(`there is no column '${key}': the first line must name the columns`);
    }
  }
  const isProperty = (/** @type {string} */ name) =>
    !["PartitionKey", "RowKey", "Timestamp"].includes(name) && !name.endsWith(TYPE) && !name.startsWith("odata.");
  const columns = names
    .map((name, at) => ({ name, at, typeAt: names.indexOf(name + TYPE) }))
    .filter(({ name }) => isProperty(name));
  return { partitionAt: names.indexOf("PartitionKey"), rowAt: names.indexOf("RowKey"), width: names.length, columns };
}

/**
 * Converts a record to an entity. `types` contains the types chosen for columns, which take precedence over types in
 * the file.
 * @param {Header} header
 * @param {Field[]} fields
 * @param {Map<string, EdmType>} types
 * @returns {Entity}
 */
export function entityOfFields(header, fields, types) {
  if (fields.length !== header.width) {
    throw new ValueError(`the record has ${fields.length} fields, but the header has ${header.width}`);
  }
  /** @type {Entity} */
  const entity = { partitionKey: "", rowKey: "", timestamp: "", etag: "", properties: new Map() };
  entity.partitionKey = fields[header.partitionAt]?.text ?? "";
  entity.rowKey = fields[header.rowAt]?.text ?? "";
  for (const { name, at, typeAt } of header.columns) {
    const { text, isQuoted } = fields[at] ?? { text: "", isQuoted: false };
    const declared = fields[typeAt]?.text ?? "";
    // Without a type column, quotes distinguish an empty string from a missing property.
    if (declared === "" && text === "" && (typeAt >= 0 || !isQuoted)) {
      continue;
    }
    const type = types.get(name) ?? (declared === "" ? "Edm.String" : typeOfName(declared));
    entity.properties.set(name, valueOf(name, type, text));
  }
  return entity;
}

/**
 * Returns the type that a file names. Some tools omit the prefix `Edm.`.
 * @param {string} name
 * @returns {EdmType}
 */
function typeOfName(name) {
  const type = EDM_TYPES.find((type) => type === name || type === `Edm.${name}`);
  if (!type) {
    throw new ValueError(`'${name}' is not a type such as Edm.Int32`);
  }
  return type;
}

/**
 * @param {string} name
 * @param {EdmType} type
 * @param {string} text
 */
function valueOf(name, type, text) {
  try {
    return readValue(type, text);
  } catch (error) {
    const reason = error instanceof ValueError ? error.message : String(error);
    throw new ValueError(`the value of '${name}' is not ${type}: ${reason}`);
  }
}

const ANNOTATION = "@odata.type";
/** A member of an object and the character after it. The value is a string, a number or a keyword. */
const MEMBER = new RegExp(
  String.raw`\s*"([^"\\\0-\x1f]*(?:\\.[^"\\\0-\x1f]*)*)"\s*:\s*(?:"([^"\\\0-\x1f]*(?:\\.[^"\\\0-\x1f]*)*)"` +
    String.raw`|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null))\s*([,}])`,
  "y");

/**
 * Writes an entity as a line, including the line break. `names` are the properties to write, in order; null means all.
 * @param {Entity} entity
 * @param {{names: string[] | null, withTimestamps: boolean}} options
 */
export function writeLine(entity, { names, withTimestamps }) {
  const members = [`"PartitionKey":${quote(entity.partitionKey)}`, `"RowKey":${quote(entity.rowKey)}`];
  if (withTimestamps && entity.timestamp) {
    members.unshift(`"odata.etag":${quote(entity.etag)}`);
    members.push(`"Timestamp@odata.type":"Edm.DateTime","Timestamp":${quote(entity.timestamp)}`);
  }
  for (const name of names ?? entity.properties.keys()) {
    const value = entity.properties.get(name);
    if (value) {
      members.push(...writeProperty(name, value, quote));
    }
  }
  return `{${members.join(",")}}\n`;
}

/**
 * Writes a JSON string in ASCII.
 * @param {string} text
 */
function quote(text) {
  return JSON.stringify(text).replace(/[^ -~]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * Parses an entity from a line or from an element of an array.
 * @param {string} line
 * @returns {Entity}
 */
export function readLine(line) {
  const members = membersOf(line);
  /** @type {Entity} */
  const entity = { partitionKey: "", rowKey: "", timestamp: "", etag: "", properties: new Map() };
  for (const key of /** @type {const} */ (["PartitionKey", "RowKey"])) {
    const member = members.get(key);
    if (!member || member.content === "null") {
      throw new ValueError(`the ${key} is missing`);
    }
    if (!member.isQuoted) {
      throw new ValueError(`the ${key} is not a string`);
    }
    entity[key === "RowKey" ? "rowKey" : "partitionKey"] = member.content;
  }
  for (const [name, member] of members) {
    const isProperty = !["PartitionKey", "RowKey", "Timestamp"].includes(name) && !/^odata\.|@odata\./.test(name);
    if (isProperty && (member.isQuoted || member.content !== "null")) {
      entity.properties.set(name, propertyOf(name, member, members.get(name + ANNOTATION)?.content));
    }
  }
  return entity;
}

/** @typedef {{content: string, isQuoted: boolean}} Member */

/**
 * @param {string} line
 * @returns {Map<string, Member>}
 */
function membersOf(line) {
  /** @type {Map<string, Member>} */
  const members = new Map();
  const start = /^\s*\{/.exec(line)?.[0].length;
  if (start === undefined) {
    throw malformed(line, "expected a JSON object");
  }
  let at = start;
  for (let mark = /^\s*\}/.test(line.slice(start, start + 99)) ? "}" : ","; mark === ",";) {
    MEMBER.lastIndex = at;
    const found = MEMBER.exec(line);
    if (!found) {
      throw malformed(line, "the value of a property is an array or an object");
    }
    const [, name = "", text, number, word] = found;
    if (members.has(unescape(name))) {
      throw new ValueError(`'${unescape(name)}' occurs twice`);
    }
    members.set(unescape(name), {
      content: text === undefined ? (number ?? word ?? "") : unescape(text),
      isQuoted: text !== undefined,
    });
    at = MEMBER.lastIndex;
    mark = found[5] ?? "";
  }
  if (members.size > 0 && line.slice(at).trim() !== "") {
    throw malformed(line, "unexpected text after the object");
  }
  return members;
}

/**
 * Returns an error with the browser's message if a text is not JSON, and otherwise with the given reason.
 * @param {string} line
 * @param {string} reason
 */
function malformed(line, reason) {
  try {
    JSON.parse(line);
  } catch (error) {
    return new ValueError(`this is not JSON: ${error instanceof Error ? error.message.slice(0, 200) : error}`);
  }
  return new ValueError(reason);
}

/**
 * Returns the text of a JSON string.
 * @param {string} raw
 * @returns {string}
 */
function unescape(raw) {
  if (!raw.includes("\\")) {
    return raw;
  }
  try {
    return JSON.parse(`"${raw}"`);
  } catch {
    throw new ValueError("this is not JSON: a string contains an invalid escape sequence");
  }
}

/**
 * @param {string} name
 * @param {Member} member
 * @param {string | undefined} declared
 */
function propertyOf(name, { content, isQuoted }, declared) {
  if (declared === undefined) {
    const type = isQuoted
      ? "Edm.String"
      : /^[tf]/.test(content)
        ? "Edm.Boolean"
        : /[.e]/i.test(content)
          ? "Edm.Double"
          : "Edm.Int32";
    return valueOf(name, type, content);
  }
  const type = EDM_TYPES.find((type) => type === declared);
  if (!type) {
    throw new ValueError(`'${declared.slice(0, 50)}' is not a type such as Edm.Int32`);
  }
  const needsQuotes = type === "Edm.String" || type === "Edm.Binary" || type === "Edm.DateTime" || type === "Edm.Guid";
  if (needsQuotes && !isQuoted) {
    throw new ValueError(`the value of '${name}' is not ${type}`);
  }
  return valueOf(name, type, content);
}
