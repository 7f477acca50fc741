// Finds the records of a file while it is read: lines, records of CSV, or the elements of a JSON array.
//
// Holds one record at a time, and of one that is longer than any entity only its beginning. Must not know what a record means.

/** @typedef {"jsonl" | "csv" | "json"} FileFormat */
/** @typedef {{text: string, line: number, problem: string}} FileRecord `line` is its first one, counted from one */

/** The longest line that an export may have. */
export const RECORD_LENGTH_MAX = 8 * 1024 * 1024;
/** How much is kept of a record that is longer. */
const BEGINNING_LENGTH = 200;

/**
 * The format of a file, by its beginning.
 * @param {string} beginning
 * @returns {FileFormat}
 */
export function detectFormat(beginning) {
  const first = beginning.trimStart()[0];
  return first === "{" ? "jsonl" : first === "[" ? "json" : "csv";
}

/** Takes a file in pieces, and gives its records. */
export class RecordSplitter {
  /** The beginning of a record that has not ended yet. @type {string[]} */
  #pieces = [];
  #length = 0;
  /** The line where that record begins, and the one that was reached. */
  #first = 1;
  #line = 1;
  #scanner;

  /** @param {FileFormat} format */
  constructor(format) {
    this.#scanner = format === "jsonl" ? new LineScanner() : format === "csv" ? new CsvScanner() : new ArrayScanner();
  }

  /**
   * The records that end in this piece.
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

  /** What is left at the end of the file. */
  end() {
    return this.#close(this.#scanner.problemAtEnd(this.#pieces.join("")));
  }

  /** @param {string} piece */
  #keep(piece) {
    this.#line += piece.split("\n").length - 1;
    this.#length += piece.length;
    this.#pieces.push(piece);
    if (this.#length > RECORD_LENGTH_MAX) {
      this.#pieces = [this.#pieces.join("").slice(0, BEGINNING_LENGTH)];
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
    return [{ text, line, problem: isTooLong ? "this is longer than any entity, or a quote has no end" : problem }];
  }
}

/** Every line break ends a record. */
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

/** A line break outside of quotes ends a record. A quote opens a field only at its beginning. */
class CsvScanner {
  /** @type {"start" | "plain" | "quoted" | "after quote"} */
  #state = "start";

  /**
   * @param {string} piece
   * @param {number} from
   * @param {boolean} isTooLong whether the record is longer than any entity: a quote without an end must not hide the rest
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

/** The commas between the elements of an array, and its brackets, end records. */
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
    return this.#isOver ? (rest.trim() === "" ? "" : "something follows the array") : "the array has no end";
  }
}
