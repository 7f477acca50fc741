// Splits the text of a filter into tokens with their positions.
// This module must not depend on the grammar, that is, on which token may follow which.

/** @import { EdmType } from "../core/edm.js" */

/**
 * An error in a filter. `start` and `end` count UTF-16 code units. If `incomplete` is true, further typing may resolve
 * it.
 * @typedef {{start: number, end: number, message: string, incomplete?: boolean}} FilterError
 */

/**
 * A token. A `literal` has a `type` and a `value`: a string without its quotes, or a binary value in hexadecimal.
 * @typedef {{kind: "(" | ")" | "," | "/" | "-" | "name" | "literal" | "null" | "wrong" | "end",
 *   text: string, start: number, end: number, type?: EdmType, value?: string}} Token
 */

const NAME = /[\p{Alphabetic}_](?:[A-Za-z0-9_]|[^\x00-\x7f\p{Cc}\s])*/uy;
const NUMBER = /-INF(?![\w\u0080-\uffff])|-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[dDlLmMfF]?)/y;
const SPACE = /\s*/y;
const SYMBOL = /[=!<>&|]+|(["`\u2018\u2019\u201c\u201d])[^"'`\u2018\u2019\u201c\u201d]*["'`\u2018\u2019\u201c\u201d]?|./suy;
/** @type {Map<string, EdmType>} */
const QUOTED = new Map([
  ["datetime", "Edm.DateTime"],
  ["guid", "Edm.Guid"],
  ["binary", "Edm.Binary"],
  ["x", "Edm.Binary"],
]);
const FOREIGN = /^(datetimeoffset|time|geography|geometry)$/i;

const INT32_MAX = 2n ** 31n - 1n;
const INT64_MAX = 2n ** 63n - 1n;
const HEX = /^(?:[0-9a-f]{2})*$/i;
const GROUPS = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
const GUID = new RegExp(`^(?:[0-9a-f]{32}|${GROUPS}|\\{${GROUPS}\\}|\\(${GROUPS}\\))$`, "i");
const DATE_TIME = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,7})?)?)?(?:Z|[+-]\d{2}:\d{2})?$/i;

/**
 * Splits a text into tokens. The last token is always `end`.
 * @param {string} text
 * @returns {{tokens: Token[], errors: FilterError[]}}
 */
export function tokenize(text) {
  /** @type {Token[]} */
  const tokens = [];
  /** @type {FilterError[]} */
  const errors = [];
  let at = 0;
  for (;;) {
    at += match(SPACE, text, at).length;
    const token =
      at < text.length ? scan(text, at, errors) : { kind: /** @type {const} */ ("end"), text: "", start: at, end: at };
    tokens.push(token);
    if (token.kind === "end") return { tokens, errors };
    at = token.end;
  }
}

/** @param {RegExp} pattern @param {string} text @param {number} at */
function match(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
}

/**
 * @param {string} text
 * @param {number} start
 * @param {FilterError[]} errors
 * @returns {Token}
 */
function scan(text, start, errors) {
  /** @type {(kind: Token["kind"], length: number) => Token} */
  const token = (kind, length) => ({ kind, text: text.slice(start, start + length), start, end: start + length });
  const first = text[start] ?? "";
  if (first === "'") return quoted(text, start, 0, "Edm.String", errors);
  if (first === "(" || first === ")" || first === "," || first === "/") return token(first, 1);
  const number = match(NUMBER, text, start);
  if (number) return numeric(token("literal", number.length), errors);
  if (first === "-") return token("-", 1);
  const word = match(NAME, text, start);
  if (!word) {
    const wrong = token("wrong", match(SYMBOL, text, start).length);
    errors.push({ start, end: wrong.end, message: symbolMessage(wrong.text) });
    return wrong;
  }
  if (text[start + word.length] === "'") {
    const type = QUOTED.get(word.toLowerCase());
    if (type) return quoted(text, start, word.length, type, errors);
    if (FOREIGN.test(word)) {
      const literal = quoted(text, start, word.length, "Edm.String", errors);
      errors.push({ start, end: literal.end, message: `${word}'…' is not supported: no property has this type.` });
      return { ...literal, kind: "wrong" };
    }
  }
  if (word === "null") return token("null", 4);
  if (/^(true|false)$/i.test(word)) return { ...token("literal", word.length), type: "Edm.Boolean", value: word.toLowerCase() };
  if (word === "NaN" || word === "INF") {
    return { ...token("literal", 3), type: "Edm.Double", value: word === "NaN" ? "NaN" : "Infinity" };
  }
  return token("name", word.length);
}

/**
 * Reads a literal in quotes, after a prefix of the given length. Only a string can contain a quote, written as two
 * quotes.
 * @param {string} text
 * @param {number} start
 * @param {number} prefix
 * @param {EdmType} type
 * @param {FilterError[]} errors
 * @returns {Token}
 */
function quoted(text, start, prefix, type, errors) {
  const open = start + prefix;
  let end = open;
  do {
    end = text.indexOf("'", end + 1);
    if (end < 0) {
      errors.push({ start, end: text.length, message: "The closing quote ' is missing.", incomplete: true });
      return { kind: "literal", text: text.slice(start), start, end: text.length, type, value: text.slice(open + 1) };
    }
  } while (prefix === 0 && text[end + 1] === "'" && end++);
  // The service ignores white space around a time and a Guid.
  const isPadded = type === "Edm.DateTime" || type === "Edm.Guid";
  const inner = isPadded ? text.slice(open + 1, end).trim() : text.slice(open + 1, end);
  const fault = quotedFault(type, inner);
  if (fault) errors.push({ start, end: end + 1, message: fault });
  const value = type === "Edm.String" ? inner.replaceAll("''", "'") : inner;
  return { kind: "literal", text: text.slice(start, end + 1), start, end: end + 1, type, value };
}

/** @param {EdmType} type @param {string} inner */
function quotedFault(type, inner) {
  if (type === "Edm.Guid" && !GUID.test(inner))
    return "Write a Guid as 32 hexadecimal digits in groups: guid'00000000-0000-0000-0000-000000000000'.";
  if (type === "Edm.Binary" && !HEX.test(inner)) return "Write a binary value as pairs of hexadecimal digits: X'00ff'.";
  if (type === "Edm.DateTime" && !(DATE_TIME.test(inner) && isDate(inner))) {
    return "Write a time as datetime'2026-01-31T12:00:00Z'. The year must be 1601 or later.";
  }
  return "";
}

/** Returns true if the date and time exist and the service supports the year. @param {string} text */
function isDate(text) {
  const [year = 0, month = 0, day = 0] = text.slice(0, 10).split("-").map(Number);
  const date = new Date(Date.UTC(year, month - 1, day));
  const [hour = 0, minute = 0, second = 0] = (/T([\d:]+)/i.exec(text)?.[1] ?? "").split(":").map(Number);
  return year >= 1601 && date.getUTCMonth() === month - 1 && hour < 24 && minute < 60 && second < 60;
}

/** @param {Token} token @param {FilterError[]} errors @returns {Token} */
function numeric(token, errors) {
  if (token.text.endsWith("INF")) return { ...token, type: "Edm.Double", value: "-Infinity" };
  const suffix = /[dlmf]$/i.exec(token.text)?.[0].toLowerCase() ?? "";
  const digits = suffix ? token.text.slice(0, -1) : token.text;
  const fail = (/** @type {string} */ message) => {
    errors.push({ start: token.start, end: token.end, message });
  };
  if (suffix === "m" || suffix === "f") {
    fail(`The suffix ${token.text.slice(-1)} is not supported: no property has this type.`);
    return { ...token, kind: "wrong" };
  }
  const isInteger = /^-?\d+$/.test(digits);
  if (suffix === "d" || (suffix === "" && !isInteger)) {
    if (!Number.isFinite(Number(digits))) fail("This number is too large for a Double.");
    return { ...token, type: "Edm.Double", value: digits };
  }
  if (!isInteger) {
    fail("An Int64 has neither a fraction nor an exponent.");
    return { ...token, kind: "wrong" };
  }
  const value = BigInt(digits);
  const [max, type] = suffix === "l" ? [INT64_MAX, "Edm.Int64"] : [INT32_MAX, "Edm.Int32"];
  if (value > max || value < -max - 1n) {
    fail(
      suffix
        ? "This number is too large for an Int64."
        : `This number is too large for an Int32. Append L for an Int64: ${digits}L.`);
  }
  return { ...token, type: /** @type {EdmType} */ (type), value: digits };
}

/** @param {string} symbol */
function symbolMessage(symbol) {
  const word = WORDS[symbol];
  if (word) return `Use ${word} instead of ${symbol}.`;
  if (/^["\u2018\u2019\u201c\u201d`]/.test(symbol)) return "Put a string in straight single quotes: 'text'.";
  return `${symbol} is not valid here.`;
}

/**
 * Operators of other languages, and the operators of the service that correspond to them.
 * @type {Record<string, string>}
 */
export const WORDS = {
  "=": "eq",
  "==": "eq",
  "===": "eq",
  "!=": "ne",
  "<>": "ne",
  "!==": "ne",
  "<": "lt",
  "<=": "le",
  ">": "gt",
  ">=": "ge",
  "&&": "and",
  "&": "and",
  "||": "or",
  "|": "or",
  "!": "not",
};
