// A file as entities: reads it piece by piece, so that a file of any size takes little memory.
//
// What is no entity is given with the reason. Knows no service and no page.

import { guessType } from "../core/edm.js";
import { ValueError } from "../core/errors.js";
import { entityOfFields, parseFields, readHeader, readLine } from "./formats.js";
import { RecordSplitter, detectFormat } from "./records.js";

/** @typedef {import("../core/edm.js").EdmType} EdmType */
/** @typedef {import("../core/edm.js").Entity} Entity */
/** @typedef {import("./formats.js").Header} Header */
/** @typedef {import("./records.js").FileFormat} FileFormat */
/** @typedef {import("./records.js").FileRecord} FileRecord */
/**
 * A record and the entity that it is, or the reason why it is none.
 * @typedef {{line: number, text: string, entity: Entity | null, problem: string}} SourceRecord
 */
/** @typedef {{name: string, types: EdmType[], typeAt: number, guess: EdmType}} PropertyPreview */

const BEGINNING_BYTES = 4096;
/** How many records decide which properties a preview shows. */
const PREVIEW_RECORDS = 200;

export class EntitySource {
  /** The first record of CSV, as it stands in the file. */
  headerText = "";
  /** @type {Header | null} */
  header = null;
  /** How many bytes have been read. */
  bytesRead = 0;

  /**
   * @param {File} file
   * @param {FileFormat} format
   * @param {Map<string, EdmType>} types the types that were chosen for columns of CSV
   */
  constructor(file, format, types) {
    this.file = file;
    this.format = format;
    this.types = types;
  }

  /** @param {File} file */
  static async formatOf(file) {
    return detectFormat(await file.slice(0, BEGINNING_BYTES).text());
  }

  /**
   * The records, as many at a time as a piece of the file has.
   * @returns {AsyncGenerator<SourceRecord[], void, void>}
   * @throws {ValueError} if nothing after that can be read
   */
  async *read() {
    this.header = null;
    this.bytesRead = 0;
    const splitter = new RecordSplitter(this.format);
    const reader = this.file.stream().getReader();
    const decoder = new TextDecoder("utf-8", { fatal: true });
    let line = 1;
    try {
      for (let isOver = false; !isOver;) {
        const { value, done } = await reader.read();
        isOver = done;
        this.bytesRead += value?.length ?? 0;
        const text = decode(decoder, value, line);
        const records = splitter.push(text);
        const read = (done ? [...records, ...splitter.end()] : records).flatMap((record) => this.#entityOf(record));
        line = records.at(-1)?.line ?? line;
        yield read;
      }
    } finally {
      await reader.cancel();
    }
  }

  /**
   * @param {FileRecord} record
   * @returns {SourceRecord[]} none for the header of CSV
   */
  #entityOf({ text, line, problem }) {
    if (problem) {
      return [{ line, text, entity: null, problem }];
    }
    try {
      if (this.format !== "csv") {
        return [{ line, text, entity: readLine(text), problem: "" }];
      }
      if (this.header) {
        return [{ line, text, entity: entityOfFields(this.header, parseFields(text), this.types), problem: "" }];
      }
      this.header = readHeader(parseFields(text));
      this.headerText = text;
      return [];
    } catch (error) {
      if (!(error instanceof ValueError)) {
        throw error;
      }
      if (this.format === "csv" && !this.header) {
        throw new ValueError(`line ${line}: ${error.message}`);
      }
      return [{ line, text, entity: null, problem: error.message }];
    }
  }

  /**
   * The first records, and the properties that the beginning of the file has.
   * @param {number} count
   * @returns {Promise<{records: SourceRecord[], properties: PropertyPreview[]}>}
   */
  async preview(count) {
    /** @type {SourceRecord[]} */
    const records = [];
    for await (const some of this.read()) {
      records.push(...some);
      if (records.length >= PREVIEW_RECORDS) {
        break;
      }
    }
    return { records: records.slice(0, count), properties: this.#properties(records.slice(0, PREVIEW_RECORDS)) };
  }

  /**
   * @param {SourceRecord[]} records
   * @returns {PropertyPreview[]}
   */
  #properties(records) {
    /** @type {Map<string, {types: Set<EdmType>, guesses: Set<EdmType>, typeAt: number}>} */
    const found = new Map();
    for (const { name, typeAt } of this.header?.columns ?? []) {
      found.set(name, { types: new Set(), guesses: new Set(), typeAt });
    }
    for (const { entity } of records) {
      for (const [name, { type, text }] of entity?.properties ?? []) {
        const property = found.get(name) ?? { types: new Set(), guesses: new Set(), typeAt: -1 };
        found.set(name, property);
        property.types.add(type);
        property.guesses.add(guessType(text));
      }
    }
    return [...found].map(([name, { types, guesses, typeAt }]) => ({
      name,
      types: [...types],
      typeAt,
      guess: commonType(guesses),
    }));
  }
}

/**
 * @param {TextDecoder} decoder
 * @param {Uint8Array | undefined} bytes
 * @param {number} line
 */
function decode(decoder, bytes, line) {
  try {
    return bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode();
  } catch {
    throw new ValueError(`the file is not UTF-8, somewhere after line ${line}`);
  }
}

/**
 * The type that has room for values of all these types.
 * @param {Set<EdmType>} types
 * @returns {EdmType}
 */
export function commonType(types) {
  const [only] = types;
  if (types.size === 1 && only) {
    return only;
  }
  /** @type {EdmType[]} */
  const numbers = ["Edm.Int32", "Edm.Int64", "Edm.Double"];
  const isNumeric = types.size > 0 && [...types].every((type) => numbers.includes(type));
  return !isNumeric ? "Edm.String" : types.has("Edm.Double") ? "Edm.Double" : "Edm.Int64";
}
