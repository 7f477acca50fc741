// Comma-separated values: the fields of a record, and the columns that its first record names. The convention is that of
// docs/export.md: the column of a property is followed by one for its type, NAME@type.
//
// Strings are written as they are, also those that a spreadsheet takes for a formula: a file gives back exactly what it was
// written from. Knows no files and no service.

import { EDM_TYPES, readValue } from "../core/edm.js";
import { ValueError } from "../core/errors.js";

/** @typedef {import("../core/edm.js").EdmType} EdmType */
/** @typedef {import("../core/edm.js").Entity} Entity */
/** @typedef {{text: string, isQuoted: boolean}} Field */
/** @typedef {{name: string, at: number, typeAt: number}} Column a property; `typeAt` is -1 if nothing tells the type */
/** @typedef {{partitionAt: number, rowAt: number, width: number, columns: Column[]}} Header */

const TYPE = "@type";
const NEEDS_QUOTES = /^[ \uFEFF\u00C0-\u00FF]|[",\r\n]| $/;

/** @param {string} text */
export function writeField(text) {
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * Writes entities as records. Columns are added as properties appear, unless they are given.
 */
export class CsvWriter {
  /** @param {{names: string[] | null, withTimestamps: boolean}} options */
  constructor({ names, withTimestamps }) {
    this.isFixed = names !== null;
    this.withTimestamps = withTimestamps;
    this.names = [...(names ?? [])];
    this.known = new Set(this.names);
    /**
     * Records without their end, and how many columns of properties each of them has.
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

  /** The file, in parts. A record that was written before a column was known is filled up. */
  finish() {
    const header = ["PartitionKey", "RowKey", ...(this.withTimestamps ? ["Timestamp"] : [])];
    header.push(...this.names.flatMap((name) => [name, name + TYPE]));
    const fill = (/** @type {number} */ columns) => ",,".repeat(this.names.length - columns);
    return [`${header.join(",")}\r\n`, ...this.records.map(({ text, columns }) => `${text}${fill(columns)}\r\n`)];
  }
}

/**
 * The fields of a record, which is given without its end.
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
        throw new ValueError("a quote is inside of a field that does not begin with one");
      }
      fields.push({ text, isQuoted: false });
      at = end;
    } else {
      const end = endOfQuoted(record, at + 1);
      fields.push({ text: record.slice(at + 1, end).replaceAll('""', '"'), isQuoted: true });
      at = end + 1;
      if (at < record.length && record[at] !== ",") {
        throw new ValueError("a comma is missing after the quote that ends a field");
      }
    }
  }
  return fields;
}

/**
 * The index of the quote that ends a field.
 * @param {string} record
 * @param {number} from
 */
function endOfQuoted(record, from) {
  for (let at = record.indexOf('"', from); at >= 0; at = record.indexOf('"', at + 2)) {
    if (record[at + 1] !== '"') {
      return at;
    }
  }
  throw new ValueError("a quote that begins in this record has no end");
}

/**
 * The first record of a file.
 * @param {Field[]} fields
 * @returns {Header}
 */
export function readHeader(fields) {
  const names = fields.map((field) => field.text);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) {
    throw new ValueError(`the column '${twice}' is there twice`);
  }
  for (const key of ["PartitionKey", "RowKey"]) {
    if (!names.includes(key)) {
      throw new ValueError(`there is no column '${key}': the first line names the columns`);
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
 * The entity of a record. `types` has the types that were chosen for columns; they count more than those in the file.
 * @param {Header} header
 * @param {Field[]} fields
 * @param {Map<string, EdmType>} types
 * @returns {Entity}
 */
export function entityOfFields(header, fields, types) {
  if (fields.length !== header.width) {
    throw new ValueError(`the record has ${fields.length} fields, and the first one has ${header.width}`);
  }
  /** @type {Entity} */
  const entity = { partitionKey: "", rowKey: "", timestamp: "", etag: "", properties: new Map() };
  entity.partitionKey = fields[header.partitionAt]?.text ?? "";
  entity.rowKey = fields[header.rowAt]?.text ?? "";
  for (const { name, at, typeAt } of header.columns) {
    const { text, isQuoted } = fields[at] ?? { text: "", isQuoted: false };
    const declared = fields[typeAt]?.text ?? "";
    // Without a column of types, quotes tell an empty string from a missing property.
    if (declared === "" && text === "" && (typeAt >= 0 || !isQuoted)) {
      continue;
    }
    const type = types.get(name) ?? (declared === "" ? "Edm.String" : typeOfName(declared));
    entity.properties.set(name, valueOf(name, type, text));
  }
  return entity;
}

/**
 * A type as a file names it; some tools leave the prefix out.
 * @param {string} name
 * @returns {EdmType}
 */
export function typeOfName(name) {
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
export function valueOf(name, type, text) {
  try {
    return readValue(type, text);
  } catch (error) {
    const reason = error instanceof ValueError ? error.message : String(error);
    throw new ValueError(`the value of '${name}' is not ${type}: ${reason}`);
  }
}
