// Converts a filter to a list of conditions joined by "and", and such a list to a filter.
// This module must not depend on how the conditions are displayed.

import { parseFilter } from "./filter-text.js";

/** @import { EdmType } from "../core/edm.js" */
/** @import { StringFunction } from "./filter-functions.js" */
/** @import { Literal, Node, Operator } from "./filter-text.js" */

/** @typedef {Operator | "startsWith" | "endsWith" | "contains"} FieldOperator */
/**
 * `text` is the content of the literal: the string, the hexadecimal digits, or the text inside the quotes.
 * @typedef {{property: string, operator: FieldOperator, type: EdmType, text: string}} Condition
 */

/** @type {Record<StringFunction, FieldOperator>} */
const CALLED = { startswith: "startsWith", endswith: "endsWith", contains: "contains" };

/**
 * Returns the conditions of a filter, or the reason why it is not a list of conditions.
 * @param {string} text
 * @param {boolean} [extensions]
 * @returns {{conditions: Condition[]} | {reason: string}}
 */
export function readConditions(text, extensions) {
  const { filter, errors } = parseFilter(text, extensions);
  const error = errors[0];
  if (error) return { reason: `Correct this error first: ${error.message}` };
  if (!filter) return { conditions: [] };
  /** @type {Condition[]} */
  const conditions = [];
  const reason = collect(filter, conditions);
  return reason ? { reason } : { conditions: joinPrefixes(conditions) };
}

/**
 * Adds the conditions of a filter to the list. Returns why that is not possible, or "".
 * @param {Node} node
 * @param {Condition[]} conditions
 * @returns {string}
 */
function collect(node, conditions) {
  switch (node.kind) {
    case "and":
      return node.operands.map((operand) => collect(operand, conditions)).find((reason) => reason) ?? "";
    case "compare":
      conditions.push({ property: node.property, operator: node.operator, ...node.literal });
      return "";
    case "call":
      conditions.push({ property: node.property, operator: CALLED[node.called], type: "Edm.String", text: node.text });
      return "";
    case "property":
      conditions.push({ property: node.property, operator: "eq", type: "Edm.Boolean", text: "true" });
      return "";
    case "constant":
      return `A field cannot show the constant ${node.value}.`;
    default:
      return `Fields can be joined only by “and”, but this filter contains “${node.kind}”.`;
  }
}

/** Merges `ge 'ab'` and a following `lt 'ac'` into "begins with ab". @param {Condition[]} conditions */
function joinPrefixes(conditions) {
  /** @type {Condition[]} */
  const joined = [];
  for (const condition of conditions) {
    const last = joined.at(-1);
    const isEnd =
      last?.operator === "ge" &&
      condition.operator === "lt" &&
      last.property === condition.property &&
      last.type === "Edm.String" &&
      condition.type === "Edm.String" &&
      successor(last.text) === condition.text;
    if (isEnd) joined[joined.length - 1] = { ...last, operator: "startsWith" };
    else joined.push(condition);
  }
  return joined;
}

/** @param {Condition[]} conditions */
export function writeConditions(conditions) {
  return conditions.map(writeCondition).join(" and ");
}

/**
 * Returns a filter that also requires the given condition.
 * @param {string} filter
 * @param {Condition} condition
 */
export function addCondition(filter, condition) {
  const { filter: tree } = parseFilter(filter);
  const added = writeCondition(condition);
  if (!tree) return added;
  const text = filter.trim();
  return tree.kind === "or" && !tree.group ? `(${text}) and ${added}` : `${text} and ${added}`;
}

/** @param {Condition} condition */
function writeCondition({ property, operator, type, text }) {
  if (operator === "endsWith" || operator === "contains") return `${operator.toLowerCase()}(${property},${writeString(text)})`;
  if (operator !== "startsWith") return `${property} ${operator} ${writeLiteral({ type, text })}`;
  const end = successor(text);
  const from = `${property} ge ${writeString(text)}`;
  return end === null ? from : `${from} and ${property} lt ${writeString(end)}`;
}

/** @param {string} text */
export function writeString(text) {
  return `'${text.replaceAll("'", "''")}'`;
}

/** @param {Literal} literal */
export function writeLiteral({ type, text }) {
  switch (type) {
    case "Edm.String":
      return writeString(text);
    case "Edm.DateTime":
      return `datetime'${text}'`;
    case "Edm.Guid":
      return `guid'${text}'`;
    case "Edm.Binary":
      return `X'${text}'`;
    case "Edm.Int64":
      return `${text}L`;
    case "Edm.Double":
      return writeDouble(text);
    default:
      return text;
  }
}

/** A Double without a fraction needs one, or it would be an Int32. @param {string} text */
function writeDouble(text) {
  if (text.endsWith("Infinity")) return text.replace("Infinity", "INF");
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}

/**
 * Returns the smallest string that follows all strings with the given prefix, in UTF-16 code unit order; null if there
 * is none.
 * @param {string} prefix
 */
export function successor(prefix) {
  const characters = [...prefix];
  for (let last = characters.pop(); last !== undefined; last = characters.pop()) {
    const next = nextCharacter(last.codePointAt(0) ?? 0);
    if (next !== null) return characters.join("") + String.fromCodePoint(next);
  }
  return null;
}

/** In code unit order, characters above U+FFFF sort between U+D7FF and U+E000. @param {number} code */
function nextCharacter(code) {
  if (code === 0xffff) return null;
  if (code === 0x10ffff) return 0xe000;
  return code === 0xd7ff ? 0x10000 : code + 1;
}
