// Entities as JSON. Numbers keep the digits that were sent: 1.0 is a Double and 1 an Int32, and no value is rounded.

import { asType } from "./edm.js";

/** @import { Entity, EdmType, Value } from "./edm.js" */

const ANNOTATION = "@odata.type";
/** Written as JSON numbers; an Int32 alone has no annotation. */
const NUMBERS = new Set(["Edm.Int32", "Edm.Double"]);

/** A string, which is left as it is, or a number. */
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

/**
 * JSON whose numbers are objects with their digits; no property has an object as its value.
 * @param {string} text
 * @returns {any}
 */
function parse(text) {
  return JSON.parse(text.replace(STRING_OR_NUMBER, (token) => (token.startsWith('"') ? token : `{"digits":"${token}"}`)));
}

/**
 * The entities of a page, or the one that a text is.
 * @param {string} text
 * @returns {Entity[]}
 */
export function parseEntities(text) {
  const content = parse(text);
  return (Array.isArray(content.value) ? content.value : [content]).map(entityOf);
}

/**
 * The entity that an object of JSON is.
 * @param {Record<string, unknown>} object
 * @returns {Entity}
 */
function entityOf(object) {
  /** @type {Entity} */
  const entity = { partitionKey: "", rowKey: "", timestamp: "", etag: "", properties: new Map() };
  for (const [name, content] of Object.entries(object)) {
    if (name === "PartitionKey") {
      entity.partitionKey = String(content);
    } else if (name === "RowKey") {
      entity.rowKey = String(content);
    } else if (name === "Timestamp") {
      entity.timestamp = String(content);
    } else if (name === "odata.etag") {
      entity.etag = String(content);
    } else if (content !== null && !name.startsWith("odata.") && !name.includes("@")) {
      const annotation = Object.hasOwn(object, name + ANNOTATION) ? String(object[name + ANNOTATION]) : "";
      entity.properties.set(name, valueOf(content, annotation));
    }
  }
  return entity;
}

/**
 * @param {unknown} content
 * @param {string} annotation
 * @returns {Value}
 */
function valueOf(content, annotation) {
  if (typeof content === "object" && content !== null && "digits" in content) {
    const text = String(content.digits);
    return { type: annotation ? asType(annotation) : /[.e]/i.test(text) ? "Edm.Double" : "Edm.Int32", text };
  }
  if (typeof content === "boolean") {
    return { type: "Edm.Boolean", text: String(content) };
  }
  return { type: annotation ? asType(annotation) : "Edm.String", text: String(content) };
}

/**
 * An entity as the body of a request.
 * @param {Pick<Entity, "partitionKey" | "rowKey" | "properties">} entity
 */
export function writeEntity({ partitionKey, rowKey, properties }) {
  const members = [`"PartitionKey":${JSON.stringify(partitionKey)}`, `"RowKey":${JSON.stringify(rowKey)}`];
  for (const [name, value] of properties) {
    members.push(...writeProperty(name, value));
  }
  return `{${members.join(",")}}`;
}

/**
 * The members of a property: its type, unless the value shows it, and the value.
 * @param {string} name
 * @param {Value} value
 */
export function writeProperty(name, { type, text }) {
  const isPlain = NUMBERS.has(type) && /\d/.test(text);
  const content = isPlain || type === "Edm.Boolean" ? text : JSON.stringify(text);
  const member = `${JSON.stringify(name)}:${content}`;
  const isShown = ["Edm.String", "Edm.Boolean", "Edm.Int32"].includes(type);
  return isShown ? [member] : [`${JSON.stringify(name + ANNOTATION)}:"${type}"`, member];
}
