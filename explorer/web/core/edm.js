// Property values: a type of the Entity Data Model with the text form of the protocol, so that no value is rounded.

import { ValueError } from "./errors.js";

/**
 * @typedef {"Edm.String" | "Edm.Boolean" | "Edm.Int32" | "Edm.Int64" | "Edm.Double" | "Edm.DateTime" | "Edm.Guid"
 *   | "Edm.Binary"} EdmType
 */
/** @typedef {{readonly type: EdmType, readonly text: string}} Value */
/**
 * An entity. `timestamp` and `etag` are empty if it was not read from the service.
 * @typedef {{partitionKey: string, rowKey: string, timestamp: string, etag: string, properties: Map<string, Value>}} Entity
 */

/** @type {readonly EdmType[]} */
export const EDM_TYPES = [
  "Edm.String",
  "Edm.Boolean",
  "Edm.Int32",
  "Edm.Int64",
  "Edm.Double",
  "Edm.DateTime",
  "Edm.Guid",
  "Edm.Binary",
];

const INTEGER = /^[+-]?\d{1,25}$/;
const DOUBLE = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const GUID = /^\{?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\}?$/i;
const DATE_TIME =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,7})\d*)?)?)?\s*(Z|[+-]\d\d:\d\d)?$/i;

/**
 * Parses a value that a user or a file provides, and returns it in the text form of the protocol.
 * @param {EdmType} type
 * @param {string} text
 * @returns {Value}
 * @throws {ValueError}
 */
export function readValue(type, text) {
  return { type, text: READERS[type](text) };
}

/** @type {Record<EdmType, (text: string) => string>} */
const READERS = {
  "Edm.String": (text) => text,
  "Edm.Boolean": readBoolean,
  "Edm.Int32": (text) => readInteger(text, 32),
  "Edm.Int64": (text) => readInteger(text, 64),
  "Edm.Double": readDouble,
  "Edm.DateTime": readDateTime,
  "Edm.Guid": readGuid,
  "Edm.Binary": (text) => fromBytes(toBytes(text)),
};

/** @param {string} text */
function readBoolean(text) {
  const word = text.trim().toLowerCase();
  if (word !== "true" && word !== "false") {
    throw new ValueError("A Boolean must be true or false.");
  }
  return word;
}

/**
 * @param {string} text
 * @param {number} bits
 */
function readInteger(text, bits) {
  const digits = text.trim();
  if (!INTEGER.test(digits)) {
    throw new ValueError("An integer must consist of digits only, with an optional sign.");
  }
  const number = BigInt(digits.replace("+", ""));
  if (BigInt.asIntN(bits, number) !== number) {
    const most = (1n << BigInt(bits - 1)) - 1n;
    throw new ValueError(`A ${bits}-bit integer must be between ${-most - 1n} and ${most}.`);
  }
  return String(number);
}

/** @param {string} text */
function readDouble(text) {
  const digits = text.trim();
  const special = ["NaN", "Infinity", "-Infinity"].find((name) => name.toLowerCase() === digits.toLowerCase());
  if (special) {
    return special;
  }
  const number = Number(digits);
  if (!DOUBLE.test(digits)) {
    throw new ValueError("A Double must be a number such as 1.5 or 6.02e23, or NaN, Infinity or -Infinity.");
  }
  if (!Number.isFinite(number)) {
    throw new ValueError("The number is too large for a Double.");
  }
  return Object.is(number, -0) ? "-0.0" : String(number);
}

/** @param {string} text */
function readGuid(text) {
  const found = GUID.exec(text.trim())?.[1];
  if (!found) {
    throw new ValueError("A Guid must look like 0b0c0d0e-1111-4222-8333-444455556666.");
  }
  return found.toLowerCase();
}

/** @param {string} text */
function readDateTime(text) {
  const parts = DATE_TIME.exec(text.trim());
  const refusal = new ValueError("A DateTime must look like 2026-01-31T12:00:00Z, with up to seven fractional digits.");
  if (!parts) {
    throw refusal;
  }
  const [, year, month, day, hour = "00", minute = "00", second = "00", fraction = "", zone = "Z"] = parts;
  const local = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  const time = new Date(`${local}Z`);
  // A date such as February 31 becomes a different date.
  if (Number.isNaN(time.getTime()) || time.toISOString().slice(0, 19) !== local) {
    throw refusal;
  }
  const [hours = 0, minutes = 0] = zone.slice(1).split(":").map(Number);
  const offset = zone.startsWith("-") ? -(hours * 60 + minutes) : hours * 60 + minutes;
  const utc = new Date(time.getTime() - (zone.toUpperCase() === "Z" ? 0 : offset * 60_000));
  // The conversion to UTC may move the year before 0000 or after 9999.
  if (utc.toISOString().length > 24) {
    throw refusal;
  }
  const digits = fraction.replace(/0+$/, "");
  return `${utc.toISOString().slice(0, 19)}${digits && `.${digits}`}Z`;
}

/**
 * Decodes Base64.
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function toBytes(text) {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    throw new ValueError("This is not valid Base64.");
  }
}

/**
 * Encodes bytes in Base64.
 * @param {Uint8Array} bytes
 */
export function fromBytes(bytes) {
  const parts = [];
  for (let at = 0; at < bytes.length; at += 8192) {
    parts.push(String.fromCharCode(...bytes.subarray(at, at + 8192)));
  }
  return btoa(parts.join(""));
}

/** @param {Uint8Array} bytes */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Decodes hexadecimal digits. Whitespace between them is ignored.
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function fromHex(text) {
  const digits = text.replace(/\s+/g, "");
  if (digits.length % 2 !== 0 || /[^0-9a-f]/i.test(digits)) {
    throw new ValueError("Each byte must be written as two hexadecimal digits (0 to 9, a to f).");
  }
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/**
 * Returns the most likely type of a value whose type is not given. The program guesses in the same way
 * (`tools/src/formats/guess.rs`).
 * @param {string} text
 * @returns {EdmType}
 */
export function guessType(text) {
  if (/^-?(0|[1-9]\d*)$/.test(text)) {
    return ["Edm.Int32", "Edm.Int64"].map(asType).find((type) => isOfType(type, text)) ?? "Edm.String";
  }
  if (/^(true|false)$/i.test(text)) {
    return "Edm.Boolean";
  }
  // A number with leading zeros is a code, and a Double would round numbers with more digits.
  const isExact = text.replace(/e.*/i, "").replace(/\D/g, "").length <= 15;
  if (/^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) && !/^-?0\d/.test(text) && isExact && isOfType("Edm.Double", text)) {
    return "Edm.Double";
  }
  if (text.length >= 20 && text.endsWith("Z") && isOfType("Edm.DateTime", text)) {
    return "Edm.DateTime";
  }
  return GUID.test(text) && !text.startsWith("{") ? "Edm.Guid" : "Edm.String";
}

/**
 * @param {EdmType} type
 * @param {string} text
 */
export function isOfType(type, text) {
  try {
    readValue(type, text);
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {string} name
 * @returns {EdmType}
 */
export function asType(name) {
  const type = EDM_TYPES.find((type) => type === name);
  if (!type) {
    throw new ValueError(`Unknown type: ${name}.`);
  }
  return type;
}
