// Reads entities from a file piece by piece, so that a file of any size takes little memory.
//
// A record that is not an entity is returned with the reason. If a record is longer than any entity, only its beginning
// is kept. This module must not depend on the service or the page.

import { guessType } from "../core/edm.js";
import { ValueError } from "../core/errors.js";
import { entityOfFields, parseFields, readHeader, readLine } from "./formats.js";

/** @import { EdmType, Entity } from "../core/edm.js" */
/** @import { Header } from "./formats.js" */
/** @typedef {"jsonl" | "csv" | "json"} FileFormat */
/**
 * @typedef {{text: string, line: number, problem: string}} FileRecord `line` is the number of its first line, starting
 *   at 1
 */
/**
 * A record with its entity, or with the reason why it is not an entity.
 * @typedef {{line: number, text: string, entity: Entity | null, problem: string}} SourceRecord
 */
/** @typedef {{name: string, types: EdmType[], typeAt: number, guess: EdmType}} PropertyPreview */

const BEGINNING_BYTES = 4096;
/** The number of records that determine which properties a preview shows. */
const PREVIEW_RECORDS = 200;
/** The maximum length of a line in an export. */
const RECORD_LENGTH_MAX = 8 * 1024 * 1024;
const TOO_LONG = "a quote that begins in this record is not closed, or the record is longer than any entity";
/** The number of characters kept of a longer record. */
const LONG_RECORD_LENGTH = 200;

export class EntitySource {
  /** The first record of a CSV file, unchanged. */
  headerText = "";
  /** @type {Header | null} */
  header = null;
  /** The number of bytes read so far. */
  bytesRead = 0;
  /** @type {Promise<void> | null} */
  #guess = null;

  /**
   * @param {File} file
   * @param {FileFormat} format
   * @param {Map<string, EdmType>} types the types chosen for CSV columns
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
   * Reads the records, piece by piece. Each source can be read only once.
   * @returns {AsyncGenerator<SourceRecord[], void, void>}
   * @throws {ValueError} if the rest of the file cannot be read
   */
  async *read() {
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
   * @returns {SourceRecord[]} empty for the header of a CSV file
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

  /** @param {FileFormat} format */
  useFormat(format) {
    this.format = format;
    this.types.clear();
    this.#guess = null;
  }

  /** Guesses the types of CSV columns without a type column, from the beginning of the file. Does so only once. */
  guessTypes() {
    return (this.#guess ??= this.#chooseTypes());
  }

  async #chooseTypes() {
    if (this.format !== "csv") return;
    // If the file cannot be read, the next reader reports the error.
    const { properties } = await this.preview(0).catch(() => ({ properties: [] }));
    for (const { name, typeAt, guess } of properties) {
      if (typeAt < 0) this.types.set(name, guess);
    }
  }

  /**
   * Returns the first records, and the properties at the beginning of the file.
   * @param {number} count
   * @returns {Promise<{records: SourceRecord[], properties: PropertyPreview[]}>}
   */
  async preview(count) {
    /** @type {SourceRecord[]} */
    const records = [];
    // A separate source lets a preview and an import read at the same time.
    const source = new EntitySource(this.file, this.format, new Map(this.types));
    for await (const some of source.read()) {
      records.push(...some);
      if (records.length >= PREVIEW_RECORDS) {
        break;
      }
    }
    return { records: records.slice(0, count), properties: source.#properties(records.slice(0, PREVIEW_RECORDS)) };
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
    throw new ValueError(`the file is not UTF-8: there is an invalid byte at or after line ${line}`);
  }
}

/**
 * Returns the narrowest type that can represent values of all the given types.
 * @param {Set<EdmType>} types
 * @returns {EdmType}
 */
function commonType(types) {
  const [only] = types;
  if (types.size === 1 && only) {
    return only;
  }
  // An Int64 cannot become a Double, which would round it.
  const wider = [...types].filter((type) => type !== "Edm.Int32");
  return types.size === 2 && (wider[0] === "Edm.Int64" || wider[0] === "Edm.Double") && wider.length === 1
    ? wider[0]
    : "Edm.String";
}

/**
 * Detects the format of a file from its beginning.
 * @param {string} beginning
 * @returns {FileFormat}
 */
export function detectFormat(beginning) {
  const first = beginning.trimStart()[0];
  return first === "{" ? "jsonl" : first === "[" ? "json" : "csv";
}

/** Splits a file, received in pieces, into records. */
export class RecordSplitter {
  /** The beginning of a record that is not complete yet. @type {string[]} */
  #pieces = [];
  #length = 0;
  /** The line on which that record begins, followed by the current line. */
  #first = 1;
  #line = 1;
  #scanner;

  /** @param {FileFormat} format */
  constructor(format) {
    this.#scanner = format === "jsonl" ? new LineScanner() : format === "csv" ? new CsvScanner() : new ArrayScanner();
  }

  /**
   * Returns the records that end in the given piece.
   * @param {string} piece
   * @returns {FileRecord[]}
   */
  push(piece) {
    /** @type {FileRecord[]} */
    const records = [];
    let from = 0;
    while (from < piece.length) {
      const end = this.#scanner.findEnd(piece, from, this.#length > RECORD_LENGTH_MAX);
      this.#keep(piece.slice(from, end < 0 ? undefined : end));
      if (end < 0) {
        break;
      }
      this.#line += piece[end] === "\n" ? 1 : 0;
      from = end + 1;
      records.push(...this.#close());
    }
    return records;
  }

  /** Returns the record that the end of the file completes, if there is one. */
  end() {
    return this.#close(this.#scanner.problemAtEnd(this.#pieces.join("")));
  }

  /** @param {string} piece */
  #keep(piece) {
    this.#line += piece.split("\n").length - 1;
    this.#length += piece.length;
    this.#pieces.push(piece);
    if (this.#length > RECORD_LENGTH_MAX) {
      this.#pieces = [this.#pieces.join("").slice(0, LONG_RECORD_LENGTH)];
    }
  }

  /**
   * @param {string} [problem]
   * @returns {FileRecord[]}
   */
  #close(problem = "") {
    const text = this.#pieces.join("").replace(/\r$/, "");
    const isTooLong = this.#length > RECORD_LENGTH_MAX;
    const line = this.#first + (/^\s*/.exec(text)?.[0].split("\n").length ?? 1) - 1;
    this.#first = this.#line;
    this.#pieces = [];
    this.#length = 0;
    if (text.trim() === "" && problem === "") {
      return [];
    }
    return [{ text, line, problem: isTooLong ? TOO_LONG : problem }];
  }
}

/** Finds the ends of JSON Lines records: every line break ends a record. */
class LineScanner {
  /**
   * @param {string} piece
   * @param {number} from
   */
  findEnd(piece, from) {
    return piece.indexOf("\n", from);
  }

  problemAtEnd() {
    return "";
  }
}

const [COMMA, QUOTE, LINE_FEED] = [44, 34, 10];

/**
 * Finds the ends of CSV records: a line break outside quotes ends a record. A quote is special only at the start of a
 * field.
 */
class CsvScanner {
  /** @type {"start" | "plain" | "quoted" | "after quote"} */
  #state = "start";

  /**
   * @param {string} piece
   * @param {number} from
   * @param {boolean} isTooLong whether the record is longer than any entity. Then every line break ends the record, so
   *   that an unclosed quote does not hide the rest of the file.
   */
  findEnd(piece, from, isTooLong) {
    for (let at = from; at < piece.length; at += 1) {
      const code = piece.charCodeAt(at);
      if (code === LINE_FEED && (this.#state !== "quoted" || isTooLong)) {
        this.#state = "start";
        return at;
      }
      if (this.#state === "quoted") {
        this.#state = code === QUOTE ? "after quote" : "quoted";
      } else if (code === QUOTE) {
        this.#state = this.#state === "plain" ? "plain" : "quoted";
      } else {
        this.#state = code === COMMA ? "start" : "plain";
      }
    }
    return -1;
  }

  problemAtEnd() {
    return "";
  }
}

/** Finds the ends of the elements of a JSON array: the commas between them and the brackets of the array. */
class ArrayScanner {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isOver = false;

  /**
   * @param {string} piece
   * @param {number} from
   */
  findEnd(piece, from) {
    for (let at = from; at < piece.length && !this.#isOver; at += 1) {
      const character = piece[at] ?? "";
      if (this.#isInString) {
        this.#isInString = this.#isEscaped || character !== '"';
        this.#isEscaped = character === "\\" && !this.#isEscaped;
      } else if (character === '"') {
        this.#isInString = true;
      } else if (character === "[" || character === "{") {
        this.#depth += 1;
        if (this.#depth === 1) {
          return at;
        }
      } else if (character === "]" || character === "}") {
        this.#depth -= 1;
        this.#isOver = this.#depth === 0;
        if (this.#isOver) {
          return at;
        }
      } else if (character === "," && this.#depth === 1) {
        return at;
      }
    }
    return -1;
  }

  /** @param {string} rest */
  problemAtEnd(rest) {
    return this.#isOver ? (rest.trim() === "" ? "" : "unexpected text after the array") : "the array is not closed";
  }
}
