// Analyzes the conditions on keys in a filter, to explain why a query reads certain ranges.
// The server decides what is read; this module must not depend on its reports.

/** @import { Node, Operator } from "./filter-text.js" */

/**
 * How far a filter narrows a key: to single keys, to a range, to all keys except one, or not at all.
 * @typedef {0 | 1 | 2 | 3} Reach
 */
/**
 * @typedef {object} KeyUse
 * @property {Reach} partition
 * @property {Reach} row
 * @property {string[]} properties  the compared properties other than keys
 * @property {string[]} scanningOr  the properties on a side of an "or" that allows all keys while another narrows them
 * @property {string[]} negatedKeys  the keys for which all values except one are allowed
 * @property {string[]} lookalikes  names that differ from the names of keys only in letter case
 */

/** @type {Reach} */
export const POINT = 0;
/** @type {Reach} */
export const RANGE = 1;
/** @type {Reach} */
const BUT_ONE = 2;
/** @type {Reach} */
export const ALL = 3;

/** @type {Record<Operator, Operator>} */
const NEGATED = { eq: "ne", ne: "eq", gt: "le", le: "gt", ge: "lt", lt: "ge" };
const KEYS = ["PartitionKey", "RowKey"];

/**
 * @param {Node} filter
 * @returns {KeyUse}
 */
export function keyUse(filter) {
  /** @type {KeyUse} */
  const use = { partition: ALL, row: ALL, properties: [], scanningOr: [], negatedKeys: [], lookalikes: [] };
  const reach = visit(filter, true, use);
  return { ...use, ...reach };
}

/** @typedef {{partition: Reach, row: Reach}} Reaches */

/**
 * Returns the properties whose index would narrow a query: all matching entities have one value, or values in a range.
 * Properties that need a single value come first.
 * @param {Node} filter
 * @param {boolean} inPartition  whether the query reads one partition. Then the server uses an index only for single values
 */
export function indexCandidates(filter, inPartition) {
  /** @type {[string[], string[]]} */
  const [values, ranges] = [[], []];
  for (const node of filter.kind === "and" ? filter.operands : [filter]) {
    if (!("property" in node) || isSystemName(node.property)) continue;
    const operator = node.kind === "compare" ? node.operator : node.kind === "property" ? "eq" : "";
    if (operator === "eq") note(values, node.property);
    else if (operator === "ne" || (node.kind === "call" && node.called !== "startswith")) continue;
    else note(ranges, node.property);
  }
  return [...new Set(inPartition ? values : [...values, ...ranges])];
}

/** @param {string} name */
function isSystemName(name) {
  return name === "Timestamp" || KEYS.some((key) => key.toLowerCase() === name.toLowerCase());
}

/**
 * Determines how far a filter narrows the keys of the entities for which its value is `wanted`.
 * @param {Node} node
 * @param {boolean} wanted
 * @param {KeyUse} use  collects the findings
 * @returns {Reaches}
 */
function visit(node, wanted, use) {
  switch (node.kind) {
    case "not":
      return visit(node.operand, !wanted, use);
    case "and":
    case "or": {
      const reaches = node.operands.map((operand) => visit(operand, wanted, use));
      const isAnd = (node.kind === "and") === wanted;
      if (!isAnd) noteOr(node.operands, reaches, use);
      const pick = isAnd ? Math.min : Math.max;
      return {
        partition: /** @type {Reach} */ (pick(...reaches.map((reach) => reach.partition))),
        row: /** @type {Reach} */ (pick(...reaches.map((reach) => reach.row))),
      };
    }
    case "compare":
      return compare(node.property, wanted ? node.operator : NEGATED[node.operator], use);
    case "call":
      // Only a prefix is a range of values.
      return node.called === "startswith" && wanted ? compare(node.property, "ge", use) : { partition: ALL, row: ALL };
    case "property":
      note(use.properties, node.property);
      return { partition: ALL, row: ALL };
    default:
      return { partition: ALL, row: ALL };
  }
}

/** @param {string} property @param {Operator} operator @param {KeyUse} use @returns {Reaches} */
function compare(property, operator, use) {
  const reach = operator === "eq" ? POINT : operator === "ne" ? BUT_ONE : RANGE;
  if (!KEYS.includes(property)) {
    note(use.properties, property);
    if (KEYS.some((key) => key.toLowerCase() === property.toLowerCase())) note(use.lookalikes, property);
    return { partition: ALL, row: ALL };
  }
  if (reach === BUT_ONE) note(use.negatedKeys, property);
  return property === "PartitionKey" ? { partition: reach, row: ALL } : { partition: ALL, row: reach };
}

/**
 * Records the sides of an "or" that make it read everything.
 * @param {Node[]} operands
 * @param {Reaches[]} reaches
 * @param {KeyUse} use
 */
function noteOr(operands, reaches, use) {
  const isOpen = (/** @type {Reaches | undefined} */ reach) => reach?.partition === ALL && reach.row === ALL;
  if (reaches.every(isOpen)) return;
  operands
    .filter((_, at) => isOpen(reaches[at]))
    .forEach((operand) => names(operand).forEach((name) => note(use.scanningOr, name)));
}

/** Returns the properties in a filter. @param {Node} node @returns {string[]} */
function names(node) {
  if ("operands" in node) return node.operands.flatMap(names);
  if ("operand" in node) return names(node.operand);
  return "property" in node ? [node.property] : [];
}

/** @param {string[]} list @param {string} name */
function note(list, name) {
  if (!list.includes(name)) list.push(name);
}
