// How values and keys are shown in a line of the grid: as text that can be read safely, cut for display only.
// Knows nothing of the document: it returns text, and whoever shows it sets it as text.

/** @import { Value } from "../core/edm.js" */

/** Characters of a cell; the editor shows all of them. */
const CELL_CHARACTERS_MAX = 240;
const TITLE_CHARACTERS_MAX = 1000;
/** Bytes of a binary value that a cell shows in hexadecimal. */
const PREVIEW_BYTES = 16;

const LOCAL = new Intl.DateTimeFormat("sv", {
  ...Object.fromEntries(["year", "month", "day", "hour", "minute", "second"].map((part) => [part, "2-digit"])),
  year: "numeric",
  timeZoneName: "longOffset",
});

/** Control characters, line separators, and the characters that change the direction of what follows or are invisible. */
const UNSAFE = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]" +
    "|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]",
  "g",
);

/** A sign for the end of a line and for a tab, or the number of the character. @param {string} character */
function picture(character) {
  if (character === "\n") return "\u21b5";
  if (character === "\t") return "\u21e5";
  return `\u2039U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u203a`;
}

/**
 * The text with every invisible or direction-changing character made visible, and spaces at either end marked.
 * @param {string} text
 * @param {number} [max]
 */
export function visibleText(text, max = CELL_CHARACTERS_MAX) {
  const cut = text.length > max;
  const shown = (cut ? text.slice(0, max) : text).replace(UNSAFE, picture);
  const start = shown.length - shown.trimStart().length;
  const end = cut ? shown.length : shown.trimEnd().length;
  if (start === 0 && end === shown.length) return cut ? `${shown}\u2026` : shown;
  if (start === shown.length) return "\u2423".repeat(start);
  return "\u2423".repeat(start) + shown.slice(start, end) + "\u2423".repeat(shown.length - end) + (cut ? "\u2026" : "");
}

/** Bytes that a Base64 text stands for. @param {string} base64 */
export function binarySize(base64) {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return Math.max(0, Math.floor(base64.length / 4) * 3 - padding);
}

/** @param {number} bytes */
export function sizeText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** The first bytes of a Base64 text in hexadecimal. @param {string} base64 @param {number} [bytes] */
export function hexPreview(base64, bytes = PREVIEW_BYTES) {
  const head = atob(base64.slice(0, Math.ceil(bytes / 3) * 4)).slice(0, bytes);
  const hex = Array.from(head, (c) => c.charCodeAt(0).toString(16).padStart(2, "0")).join(" ");
  return binarySize(base64) > bytes ? `${hex} \u2026` : hex;
}

/**
 * A time in the zone of this computer with its offset; the fraction is kept as it is in the text, to 100 nanoseconds.
 * @param {string} text
 */
export function localTime(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return text;
  // The Swedish form is that of ISO 8601.
  const [day, time, zone = ""] = LOCAL.format(date).split(" ");
  return `${day} ${time}${/\.\d+/.exec(text)?.[0] ?? ""} ${zone.slice(3) || "+00:00"}`;
}

/** @param {string} text @param {boolean} local */
export function timeText(text, local) {
  return local ? localTime(text) : text;
}

/**
 * What a cell shows: the text, and a mark beside it that is no part of the value.
 * @param {Value} value
 * @param {boolean} local  times in the zone of this computer
 * @returns {{text: string, mark: string}}
 */
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

/** The tooltip of a value: the other zone of a time, more of a long text. @param {Value} value @param {boolean} local */
export function valueTitle(value, local) {
  const type = shortType(value.type);
  if (value.type === "Edm.DateTime") return `${timeText(value.text, !local)} (${local ? "UTC" : "local"})`;
  if (value.type === "Edm.Binary") return `${type}, ${binarySize(value.text)} bytes: ${hexPreview(value.text, 64)}`;
  if (value.type === "Edm.String" && value.text === "") return `${type}, empty`;
  return `${type}: ${visibleText(value.text, TITLE_CHARACTERS_MAX)}`;
}

/** "Edm.Int32" → "Int32". @param {string} type */
export function shortType(type) {
  return type.startsWith("Edm.") ? type.slice(4) : type;
}

/** The name of an entity for sentences: both keys, quoted and cut. @param {{partitionKey: string, rowKey: string}} entity */
export function entityName(entity) {
  return `\u201c${visibleText(entity.partitionKey, 40)}\u201d / \u201c${visibleText(entity.rowKey, 40)}\u201d`;
}

/** The time that the service's ETag holds, or "" if it is of another form. @param {string} etag */
export function timestampOfEtag(etag) {
  const inside = /^W\/"datetime'(.+)'"$/.exec(etag)?.[1];
  return inside ? inside.replaceAll("%3A", ":") : "";
}

/** "1 entity", "12,000 entities". @param {number} count */
export function countText(count) {
  return count === 1 ? "1 entity" : `${count.toLocaleString("en")} entities`;
}
