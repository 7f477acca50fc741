// Entities as JSON. Numbers keep the digits that were sent: 1.0 is a Double, 1 is an Int32, and no value is rounded.

import { asType } from "./edm.js";

/** @import { Entity, EdmType, Value } from "./edm.js" */

const ANNOTATION = "@odata.type";
/** The types that are written as JSON numbers. Of these, only Int32 has no annotation. */
const NUMBERS = new Set(["Edm.Int32", "Edm.Double"]);

/** A string, which stays unchanged, or a number. */
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

/**
 * Parses JSON, with each number as an object that holds its digits. This is unambiguous, because no property has an
 * object as its value.
 * @param {string} text
 * @returns {any}
 */
function parse(text) {
  return JSON.parse(text.replace(STRING_OR_NUMBER, (token) => (token.startsWith('"') ? token : `{"digits":"${token}"}`)));
}

/**
 * Parses a page of entities, or a single entity.
 * @param {string} text
 * @returns {Entity[]}
 */
export function parseEntities(text) {
  const content = parse(text);
  return (Array.isArray(content.value) ? content.value : [content]).map(entityOf);
}

/**
 * Converts a JSON object to an entity.
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
 * Writes an entity as the body of a request.
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
 * Returns the JSON members of a property: its value, preceded by its type unless the value implies it.
 * @param {string} name
 * @param {Value} value
 * @param {(text: string) => string} [quote] writes a JSON string
 */
export function writeProperty(name, { type, text }, quote = JSON.stringify) {
  const isPlain = NUMBERS.has(type) && /\d/.test(text);
  const content = isPlain || type === "Edm.Boolean" ? text : quote(text);
  const member = `${quote(name)}:${content}`;
  const isShown = ["Edm.String", "Edm.Boolean", "Edm.Int32"].includes(type);
  return isShown ? [member] : [`${quote(name + ANNOTATION)}:"${type}"`, member];
}
