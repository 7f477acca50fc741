// JSON lines: an entity as a line of a file, and the entity that a line is. The format is that of docs/export.md.
//
// Knows no files and no service.

import { EDM_TYPES } from "../core/edm.js";
import { ValueError } from "../core/errors.js";
import { valueOf } from "./csv.js";

/** @typedef {import("../core/edm.js").Entity} Entity */
/** @typedef {import("../core/edm.js").EdmType} EdmType */
/** @typedef {import("../core/edm.js").Value} Value */

const ANNOTATION = "@odata.type";
/** One member of an object, and what follows it: name, then a string, a number or a word. */
const MEMBER = new RegExp(
  String.raw`\s*"([^"\\\0-\x1f]*(?:\\.[^"\\\0-\x1f]*)*)"\s*:\s*(?:"([^"\\\0-\x1f]*(?:\\.[^"\\\0-\x1f]*)*)"` +
    String.raw`|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null))\s*([,}])`,
  "y",
);
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i;

/**
 * A line with its end. `names` are the properties to write, in their order; null stands for all.
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
      members.push(memberOf(name, value));
    }
  }
  return `{${members.join(",")}}\n`;
}

/**
 * @param {string} name
 * @param {Value} value
 */
function memberOf(name, { type, text }) {
  const isPlain = type === "Edm.Boolean" || type === "Edm.Int32" || (type === "Edm.Double" && NUMBER.test(text));
  const member = `${quote(name)}:${isPlain ? text : quote(text)}`;
  const isShown = type === "Edm.String" || type === "Edm.Boolean" || type === "Edm.Int32";
  return isShown ? member : `${quote(name + ANNOTATION)}:"${type}",${member}`;
}

/**
 * A string in JSON, in ASCII.
 * @param {string} text
 */
function quote(text) {
  return JSON.stringify(text).replace(/[^ -~]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * The entity that a line, or an element of an array, is.
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
    throw malformed(line, "a JSON object is expected");
  }
  let at = start;
  for (let mark = /^\s*\}/.test(line.slice(start, start + 99)) ? "}" : ","; mark === ",";) {
    MEMBER.lastIndex = at;
    const found = MEMBER.exec(line);
    if (!found) {
      throw malformed(line, "a property has a list or an object as its value");
    }
    const [, name = "", text, number, word] = found;
    if (members.has(unescape(name))) {
      throw new ValueError(`'${unescape(name)}' is given twice`);
    }
    members.set(unescape(name), {
      content: text === undefined ? (number ?? word ?? "") : unescape(text),
      isQuoted: text !== undefined,
    });
    at = MEMBER.lastIndex;
    mark = found[5] ?? "";
  }
  if (members.size > 0 && line.slice(at).trim() !== "") {
    throw malformed(line, "something follows the object");
  }
  return members;
}

/**
 * What the browser says about a text that is not JSON, or else `reason`.
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
 * The text of a string in JSON.
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
    throw new ValueError("this is not JSON: a string has an escape that does not exist");
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
