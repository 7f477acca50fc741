// The string functions that a filter can contain if the server has extensions (docs/extensions.md).
// This module must not depend on the grammar around a call.

/** @import { Node, Operand } from "./filter-text.js" */

/** @typedef {"startswith" | "endswith" | "contains"} StringFunction */

/** The functions by name. In substringof, the string is the first argument. @type {Map<string, StringFunction>} */
const FUNCTIONS = new Map([
  ["startswith", "startswith"],
  ["endswith", "endswith"],
  ["contains", "contains"],
  ["substringof", "contains"],
]);

/** @param {string} name */
export function isFunction(name) {
  return FUNCTIONS.has(name);
}

/** Returns an example of a call. @param {string} name */
export function exampleOf(name) {
  return name === "substringof" ? "substringof('text',Name)" : `${name}(Name,'text')`;
}

/**
 * Returns the call of a function, or a message for the user if its arguments are wrong.
 * @param {string} name
 * @param {Operand[]} given
 * @returns {Node & {kind: "call"} | string}
 */
export function callOf(name, given) {
  const [property, literal] = name === "substringof" ? given.toReversed() : given;
  if (given.length === 2 && property?.kind === "property" && literal?.kind === "literal") {
    if (property.property === "Timestamp") return `Timestamp is a time, but ${name} compares strings.`;
    const { type, text } = literal.literal;
    const called = FUNCTIONS.get(name);
    if (called && type === "Edm.String") return { kind: "call", called, property: property.property, text };
  }
  return `The arguments of ${name} are a property and a string: ${exampleOf(name)}.`;
}

/**
 * Explains why a function cannot be called.
 * @param {string} name
 * @param {boolean} extensions
 */
export function functionMessage(name, extensions) {
  const lower = name.toLowerCase();
  if (lower === "and" || lower === "or") return `A condition is missing before ${lower}.`;
  if (extensions) {
    return isFunction(lower)
      ? `Functions are written in lower case: ${lower}.`
      : `The server does not support ${name}(…). It supports startswith, endswith and contains.`;
  }
  if (lower === "startswith") {
    return "The service does not support functions. To find strings that begin with ab: Name ge 'ab' and Name lt 'ac'.";
  }
  const remedy = isFunction(lower) ? " Rowhouse supports this function if it runs with --extensions." : "";
  return `The service does not support functions such as ${name}(…).${remedy}`;
}
