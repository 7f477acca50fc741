// Sorts loaded entities by a column. Must not depend on the grid or the service, which returns entities in key order.

import { valueIn } from "./grid-line.js";

/** @import { Entity, EdmType, Value } from "../core/edm.js" */
/** @import { Column } from "./columns.js" */

/**
 * The order of values of different types, which is also the order of an index. Numeric types are compared by value
 * instead.
 * @type {EdmType[]}
 */
const TYPES = [
  "Edm.Boolean",
  "Edm.Int32",
  "Edm.Int64",
  "Edm.Double",
  "Edm.DateTime",
  "Edm.Guid",
  "Edm.Binary",
  "Edm.String",
];
const NUMBERS = new Set(["Edm.Int32", "Edm.Int64", "Edm.Double"]);

/**
 * Returns the entities sorted by a column. Entities without a value come last in either direction.
 * @param {Entity[]} entities
 * @param {Pick<Column, "kind" | "name">} column
 * @param {boolean} descending
 */
export function sorted(entities, column, descending) {
  const values = entities.map((entity) => ({ entity, value: valueIn(entity, column) }));
  values.sort((a, b) => {
    if (!a.value || !b.value) return Number(!a.value) - Number(!b.value);
    return descending ? compare(b.value, a.value) : compare(a.value, b.value);
  });
  return values.map(({ entity }) => entity);
}

/** @param {Value} a @param {Value} b */
function compare(a, b) {
  if (NUMBERS.has(a.type) && NUMBERS.has(b.type)) return compareNumbers(a, b);
  if (a.type !== b.type) return TYPES.indexOf(a.type) - TYPES.indexOf(b.type);
  // Without the final Z, a time with fewer digits sorts before a time with more digits.
  const [left, right] = a.type === "Edm.DateTime" ? [a.text.slice(0, -1), b.text.slice(0, -1)] : [a.text, b.text];
  return left < right ? -1 : left > right ? 1 : 0;
}

/**
 * Compares numbers. Int64 values are compared exactly, because a Double would round them.
 * @param {Value} a
 * @param {Value} b
 */
function compareNumbers(a, b) {
  const [left, right] = [Number(a.text), Number(b.text)];
  if (left !== right) return Number.isNaN(left) ? Number(!Number.isNaN(right)) : Number.isNaN(right) ? -1 : left - right;
  if (a.type === "Edm.Double" || b.type === "Edm.Double") return 0;
  const difference = BigInt(a.text) - BigInt(b.text);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}
