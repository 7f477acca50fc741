// Formats values, keys and JSON so that they can be displayed safely, and converts values to other types without
// changing their meaning. Must not depend on the DOM.

import { fromBytes, readValue, toBytes } from "../core/edm.js";
import { ValueError, describe } from "../core/errors.js";
import { sizeText } from "../core/words.js";

/** @import { EdmType, Value } from "../core/edm.js" */

const LOCAL = new Intl.DateTimeFormat("sv", {
  ...Object.fromEntries(["year", "month", "day", "hour", "minute", "second"].map((part) => [part, "2-digit"])),
  year: "numeric",
  timeZoneName: "longOffset",
});

/**
 * Control characters, line separators, lone surrogates, and characters that are invisible or change the text direction.
 */
const UNSAFE = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]" +
    "|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]",
  "g");

/** @param {string} character */
function picture(character) {
  if (character === "\n") return "\u21b5";
  if (character === "\t") return "\u21e5";
  return `\u2039U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u203a`;
}

/** Emoji that joiners combine into one picture, such as a family. These joiners are not unsafe. */
const JOINED_EMOJI = /(?:\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?\u200d)+\p{Extended_Pictographic}/gu;

/** Replaces unsafe characters in JSON by escape sequences. Line breaks stay. @param {string} json */
export function escapeUnsafe(json) {
  return replaceUnsafe(json, (character) =>
    character === "\n" ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** @param {string} text @param {(character: string) => string} write */
function replaceUnsafe(text, write) {
  if (!text.includes("\u200d")) return text.replace(UNSAFE, write);
  const emoji = text.match(JOINED_EMOJI) ?? [];
  return text
    .split(JOINED_EMOJI)
    .map((part, at) => part.replace(UNSAFE, write) + (emoji[at] ?? ""))
    .join("");
}

/**
 * Returns a text with its invisible characters, and spaces at its ends, made visible.
 * @param {string} text
 * @param {number} [max]
 */
export function visibleText(text, max = 240) {
  const cut = text.length > max;
  // The cut must not leave half of a character or emoji sequence.
  const shown = replaceUnsafe(cut ? text.slice(0, max).replace(/[\ud800-\udbff\u200d]+$/, "") : text, picture);
  const start = shown.length - shown.trimStart().length;
  const end = cut ? shown.length : shown.trimEnd().length;
  if (start === 0 && end === shown.length) return cut ? `${shown}\u2026` : shown;
  if (start === shown.length) return "\u2423".repeat(start);
  return "\u2423".repeat(start) + shown.slice(start, end) + "\u2423".repeat(shown.length - end) + (cut ? "\u2026" : "");
}

const JSON_TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Returns true if a string is a JSON object or array. @param {string} text */
export function isJson(text) {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Returns JSON with line breaks and indentation. Its numbers keep their digits. @param {string} json */
export function prettyJson(json) {
  let out = "";
  let indent = "\n";
  let before = "";
  for (const [token] of json.matchAll(JSON_TOKEN)) {
    const opens = before === "{" || before === "[";
    if (token === "}" || token === "]") {
      indent = indent.slice(0, -2);
      if (!opens) out += indent;
    } else if (opens || before === ",") out += indent;
    out += token === ":" ? ": " : token;
    if (token === "{" || token === "[") indent += "  ";
    before = token;
  }
  return out;
}

/** @param {string} base64 */
export function binarySize(base64) {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return Math.max(0, Math.floor(base64.length / 4) * 3 - padding);
}

/** @param {string} base64 @param {number} [bytes] */
export function hexPreview(base64, bytes = 16) {
  const head = atob(base64.slice(0, Math.ceil(bytes / 3) * 4)).slice(0, bytes);
  const hex = Array.from(head, (c) => c.charCodeAt(0).toString(16).padStart(2, "0")).join(" ");
  return binarySize(base64) > bytes ? `${hex} \u2026` : hex;
}

/** Formats a time in the local time zone, with all digits of its fraction. @param {string} text */
export function localTime(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return text;
  // The Swedish locale uses the ISO 8601 format.
  const [day, time, zone = ""] = LOCAL.format(date).split(" ");
  return `${day} ${time}${/\.\d+/.exec(text)?.[0] ?? ""} ${zone.slice(3) || "+00:00"}`;
}

/** @param {string} text @param {boolean} local */
export function timeText(text, local) {
  return local ? localTime(text) : text;
}

/** Returns the text of a cell, and a mark that is not part of the value. @param {Value} value @param {boolean} local */
export function showValue(value, local) {
  switch (value.type) {
    case "Edm.Binary":
      return { text: hexPreview(value.text), mark: sizeText(binarySize(value.text)) };
    case "Edm.DateTime":
      return { text: timeText(value.text, local), mark: "" };
    case "Edm.String":
      return value.text === "" ? { text: "", mark: "empty" } : { text: visibleText(value.text), mark: "" };
    default:
      return { text: value.text, mark: "" };
  }
}

/** Returns the tooltip of a value. @param {Value} value @param {boolean} local */
export function valueTitle(value, local) {
  const type = shortType(value.type);
  if (value.type === "Edm.DateTime") return `${timeText(value.text, !local)} (${local ? "UTC" : "local"})`;
  if (value.type === "Edm.Binary") return `${type}, ${binarySize(value.text)} bytes: ${hexPreview(value.text, 64)}`;
  if (value.type === "Edm.String" && value.text === "") return `${type}, empty`;
  return `${type}: ${visibleText(value.text, 1000)}`;
}

/** Returns "Int32" for "Edm.Int32". @param {string} type */
export function shortType(type) {
  return type.slice(4);
}

/** Returns both keys, for use in sentences. @param {{partitionKey: string, rowKey: string}} entity */
export function entityName(entity) {
  return `\u201c${visibleText(entity.partitionKey, 40)}\u201d / \u201c${visibleText(entity.rowKey, 40)}\u201d`;
}

/** Returns the time in an ETag of the service, or "" if the ETag has a different form. @param {string} etag */
export function timestampOfEtag(etag) {
  const inside = /^W\/"datetime'(.+)'"$/.exec(etag)?.[1];
  return inside ? inside.replaceAll("%3A", ":") : "";
}

/**
 * Converts a value to a type. Returns null if the value is empty and the type has no empty value.
 * @param {Value} value
 * @param {EdmType} type
 * @returns {Value | null}
 */
export function convert(value, type) {
  if (value.type === type) return value;
  if (value.text === "") return type === "Edm.String" || type === "Edm.Binary" ? { type, text: "" } : null;
  try {
    return readValue(type, textFor(value, type));
  } catch (error) {
    const reason = describe(error);
    throw new ValueError(`\u201c${visibleText(value.text, 40)}\u201d cannot be converted to ${shortType(type)}: ${reason}`);
  }
}

/** @param {Value} value @param {EdmType} type */
function textFor({ type: from, text }, type) {
  if (type === "Edm.Binary") return fromBytes(new TextEncoder().encode(text));
  if (from === "Edm.Binary") return decodeText(text);
  if (from === "Edm.Double" && (type === "Edm.Int32" || type === "Edm.Int64")) return wholeNumber(text);
  if (type === "Edm.Double" && rounds(text)) throw new ValueError("a Double would round it.");
  return text;
}

/** @param {string} text */
function rounds(text) {
  const number = Number(text);
  if (/^\s*[+-]?\d+\s*$/.test(text)) return Number.isFinite(number) && BigInt(number) !== BigInt(text);
  // A Double has at most 17 significant digits.
  return text.replace(/e.*/i, "").replace(/\D/g, "").replace(/^0+|0+$/g, "").length > 17;
}

/** @param {string} text */
function wholeNumber(text) {
  const number = Number(text);
  return Number.isSafeInteger(number) ? String(number) : text;
}

/** @param {string} base64 */
function decodeText(base64) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(toBytes(base64));
  } catch {
    throw new ValueError("the bytes are not UTF-8 text.");
  }
}

/**
 * Restores the original line endings in the text of a text area, because browsers normalize them.
 * @param {string} shown
 * @param {string} original
 */
export function restoreLineEndings(shown, original) {
  if (shown === original.replace(/\r\n?/g, "\n")) return original;
  return original.includes("\r\n") && !/(^|[^\r])\n/.test(original) ? shown.replaceAll("\n", "\r\n") : shown;
}
