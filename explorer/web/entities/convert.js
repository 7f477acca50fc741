// Changing the type of a value: the text is kept if it means the same in the other type, else the refusal says why.
// Knows types and texts only.

import { fromBytes, readValue, toBytes } from "../core/edm.js";
import { ValueError, describe } from "../core/errors.js";
import { shortType, visibleText } from "./display.js";

/** @import { EdmType, Value } from "../core/edm.js" */

/**
 * The value in another type, or null if it is empty and the other type has no empty value: then it is to be filled in.
 * @param {Value} value
 * @param {EdmType} type
 * @returns {Value | null}
 * @throws {ValueError}
 */
export function convert(value, type) {
  if (value.type === type) return value;
  if (value.text === "") return type === "Edm.String" || type === "Edm.Binary" ? { type, text: "" } : null;
  try {
    return readValue(type, textFor(value, type));
  } catch (error) {
    const reason = describe(error);
    throw new ValueError(`\u201c${visibleText(value.text, 40)}\u201d does not become ${shortType(type)}: ${reason}`);
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
  // No Double has more than 17 digits that count.
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
    throw new ValueError("the bytes are not text in UTF-8.");
  }
}

/**
 * What a text area holds, as it is stored. The browser writes every line ending as a line feed, which must not change a
 * text that nobody edited, nor the kind of line ending of one that was.
 * @param {string} shown
 * @param {string} original
 */
export function restoreLineEndings(shown, original) {
  if (shown === original.replace(/\r\n?/g, "\n")) return original;
  return original.includes("\r\n") && !/(^|[^\r])\n/.test(original) ? shown.replaceAll("\n", "\r\n") : shown;
}
