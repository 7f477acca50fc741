// Writes entities, and undoes changes by writing the pairs (before, after) in reverse, with the ETags that the change
// produced, so that no one else's change is overwritten. Must not depend on the DOM.

import { OPERATIONS_MAX } from "../core/batch.js";
import { ServiceError, Unreachable, describe } from "../core/errors.js";
import { timestampOfEtag } from "./display.js";

/** @import { Entity } from "../core/edm.js" */
/** @import { TableService } from "../core/client.js" */
/** @typedef {{kind: "insert" | "replace" | "merge" | "delete", entity: Entity, etag?: string}} Operation */
/** Null before an insert and after a delete. @typedef {{before: Entity | null, after: Entity | null}} Pair */
/** @typedef {{operation: Operation, pair: Pair}} Step */
/**
 * A failed step. `theirs` is the current entity, if it was read.
 * @typedef {{step: Step, error: unknown, theirs?: Entity | null}} Failure
 */
/** @typedef {{pairs: Pair[], failed: Failure[], left: number}} Outcome */
/** @typedef {{verb: "add" | "edit" | "delete", pairs: Pair[], projected: boolean}} Change */

/** Well below the service's limit of 4 MiB, because encoding makes text longer. */
const TRANSACTION_CHARACTERS_MAX = 1_000_000;
/** Browsers use up to six connections per host, and pages may be loading at the same time. */
const REQUESTS_AT_ONCE = 4;

/** @param {Entity} entity */
function characters(entity) {
  let sum = entity.partitionKey.length + entity.rowKey.length + 400;
  for (const [name, value] of entity.properties) sum += name.length + value.text.length + 20;
  return sum;
}

/** Groups steps into transactions, in order. @param {Step[]} steps @returns {Step[][]} */
export function groupByPartition(steps) {
  /** @type {Map<string, {steps: Step[], size: number}>} */
  const open = new Map();
  /** @type {Step[][]} */
  const groups = [];
  for (const step of steps) {
    const key = step.operation.entity.partitionKey;
    const size = step.operation.kind === "delete" ? 0 : characters(step.operation.entity);
    let group = open.get(key);
    if (!group || group.steps.length >= OPERATIONS_MAX || group.size + size > TRANSACTION_CHARACTERS_MAX) {
      group = { steps: [], size: 0 };
      open.set(key, group);
      groups.push(group.steps);
    }
    group.steps.push(step);
    group.size += size;
  }
  return groups;
}

/**
 * Returns the pair of a step, with the ETag that the operation returned.
 * @param {Step} step
 * @param {string | null} etag
 * @returns {Pair}
 */
export function finished({ pair: { before, after } }, etag) {
  return { before, after: after && { ...after, etag: etag ?? "", timestamp: timestampOfEtag(etag ?? "") } };
}

/** The response to a write was lost. */
export class Lost extends Unreachable {
  /** @param {unknown} error */
  constructor(error) {
    super();
    this.message = `${describe(error)} It is not known whether the change was made.`;
  }
}

/** @param {unknown} error */
const isLost = (error) => !(error instanceof ServiceError) || error.status >= 500;

/** Returns true if the next operation would fail with the same error. @param {unknown} error */
const isFinal = (error) =>
  !(error instanceof ServiceError) ||
  error.isOfCredential ||
  error.code === "TableNotFound" ||
  ![400, 404, 409, 412, 413].includes(error.status);

/** @param {Operation} operation @param {Entity | null} theirs */
function isAsSent({ kind, entity: { properties } }, theirs) {
  if (!theirs || kind === "delete") return !theirs && kind === "delete";
  if (kind !== "merge" && theirs.properties.size !== properties.size) return false;
  return [...properties].every(([name, value]) => sameValue(value, theirs.properties.get(name) ?? null));
}

/**
 * Carries out one step. If its response may have been lost, for example before a retry, reads the entity to determine
 * whether the change was made.
 * @param {TableService} service
 * @param {string} table
 * @param {Step} step
 * @param {number} [began]  when the insertion was first attempted: an older equal entity was inserted by someone else
 * @param {unknown} [failed]  the error if the step was already attempted and failed
 * @returns {Promise<{pair: Pair} | Failure>}
 */
export async function writeStep(service, table, step, began = NaN, failed) {
  const { operation } = step;
  let error = failed;
  try {
    if (!failed) return { pair: finished(step, await service.change(table, operation)) };
  } catch (reason) {
    error = reason;
  }
  const lost = isLost(error);
  if (!lost && !refusalReason(error)) return { step, error };
  if (lost) error = new Lost(error);
  const { partitionKey, rowKey } = operation.entity;
  /** @type {Entity | null} */
  let theirs = null;
  try {
    theirs = await service.getEntity(table, partitionKey, rowKey);
  } catch (reason) {
    if (!refusalReason(reason)) return { step, error };
  }
  const etag = theirs && theirs.etag;
  const mine = lost || operation.kind !== "insert" || Date.parse(timestampOfEtag(etag ?? "")) >= began;
  return mine && isAsSent(operation, theirs) ? { pair: finished(step, etag) } : { step, error, theirs };
}

/**
 * Writes entities in transactions, and one by one if a transaction is refused. Stops at an error that every entity
 * would get, or when the signal aborts; requests in flight are completed first.
 * @param {TableService} service
 * @param {string} table
 * @param {Step[]} steps
 * @param {{signal: AbortSignal, progress: (done: number) => void, began?: number}} control
 * @returns {Promise<Outcome>}
 */
export async function writeMany(service, table, steps, { signal, progress, began }) {
  /** @type {Outcome} */
  const outcome = { pairs: [], failed: [], left: 0 };
  const groups = groupByPartition(steps);
  let ended = false;
  /** @param {{pair: Pair} | Failure} result */
  const note = (result) => {
    if ("pair" in result) outcome.pairs.push(result.pair);
    else {
      outcome.failed.push(result);
      ended ||= isFinal(result.error);
    }
    progress(outcome.pairs.length + outcome.failed.length);
  };
  /** @param {Step[]} group */
  const write = async (group) => {
    /** @type {unknown} */
    let failed;
    if (group.length > 1) {
      try {
        const operations = group.map((step) => step.operation);
        const etags = await service.transaction(table, operations);
        return group.forEach((step, place) => note({ pair: finished(step, etags[place] ?? null) }));
      } catch (error) {
        if (isFinal(error)) failed = error;
      }
    }
    let readable = failed === undefined || isLost(failed);
    for (const step of group) {
      if (!failed && (signal.aborted || ended)) break;
      const result = readable
        ? await writeStep(service, table, step, began, failed)
        : { step, error: isLost(failed) ? new Lost(failed) : failed };
      readable &&= !failed || "pair" in result || result.theirs !== undefined;
      note(result);
    }
    ended ||= failed !== undefined;
  };
  const worker = async () => {
    for (let group = groups.shift(); group && !signal.aborted && !ended; group = groups.shift()) await write(group);
  };
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, worker));
  outcome.left = steps.length - outcome.pairs.length - outcome.failed.length;
  return outcome;
}

/** @param {Pair} pair @param {boolean} merge @returns {Step} */
export function stepFor(pair, merge) {
  const { before, after } = pair;
  if (after === null) {
    const entity = /** @type {Entity} */ (before);
    return { operation: { kind: "delete", entity, etag: entity.etag }, pair };
  }
  if (before === null) return { operation: { kind: "insert", entity: after }, pair };
  return { operation: { kind: merge ? "merge" : "replace", entity: after, etag: before.etag }, pair };
}

/**
 * Returns the steps that undo a change. With a projection, returns null if an entity was deleted, because only some of
 * its properties are known, or if a property was added, because a merge cannot remove it.
 * @param {Change} change
 * @returns {Step[] | null}
 */
export function undoSteps(change) {
  const known = (/** @type {Pair} */ { before, after }) =>
    !before || (after && [...after.properties.keys()].every((name) => before.properties.has(name)));
  if (change.projected && !change.pairs.every(known)) return null;
  return change.pairs.map(({ before, after }) => stepFor({ before: after, after: before }, change.projected));
}

/**
 * Describes the concurrent change that made the service refuse a key or ETag; null for other errors.
 * @param {unknown} error
 * @returns {string | null}
 */
export function refusalReason(error) {
  return error instanceof ServiceError && error.code !== "TableNotFound" ? (REASONS.get(error.status) ?? null) : null;
}

const REASONS = new Map([
  [404, "it was deleted in the meantime"],
  [409, "it was inserted again in the meantime"],
  [412, "it was changed in the meantime"],
]);

/** @param {{partitionKey: string, rowKey: string}} entity */
const keyOf = (entity) => JSON.stringify([entity.partitionKey, entity.rowKey]);

/** @param {Entity} a @param {Entity} b */
export function order(a, b) {
  if (a.partitionKey !== b.partitionKey) return a.partitionKey < b.partitionKey ? -1 : 1;
  return a.rowKey === b.rowKey ? 0 : a.rowKey < b.rowKey ? -1 : 1;
}

/**
 * Returns the list after a change. A new entity is inserted in key order, unless its page is not loaded yet.
 * @param {Entity[]} list
 * @param {Pair[]} pairs
 * @param {(entity: Entity) => boolean} isLoaded  whether the page of an entity is loaded
 * @returns {{list: Entity[], replaced: Map<Entity, Entity | null>, later: number}}
 */
export function applyPairs(list, pairs, isLoaded) {
  const changes = new Map(pairs.map(({ before, after }) => [keyOf(/** @type {Entity} */ (after ?? before)), after]));
  /** @type {Map<Entity, Entity | null>} */
  const replaced = new Map();
  /** @type {Entity[]} */
  const next = [];
  for (const entity of list) {
    const key = keyOf(entity);
    const after = changes.get(key);
    if (after !== undefined) {
      replaced.set(entity, after);
      changes.delete(key);
    }
    const now = after === undefined ? entity : after;
    if (now) next.push(now);
  }
  const added = [...changes.values()].filter((entity) => entity !== null);
  const shown = added.filter(isLoaded).sort(order);
  return { list: shown.length > 0 ? inserted(next, shown) : next, replaced, later: added.length - shown.length };
}

/** @param {Entity[]} list @param {Entity[]} added  in order @returns {Entity[]} */
function inserted(list, added) {
  /** @type {Entity[]} */
  const result = [];
  let place = 0;
  for (const entity of list) {
    for (; place < added.length; place += 1) {
      const candidate = /** @type {Entity} */ (added[place]);
      if (order(candidate, entity) >= 0) break;
      result.push(candidate);
    }
    result.push(entity);
  }
  return result.concat(added.slice(place));
}

/**
 * @typedef {import("../core/edm.js").Value | null} Side
 * @typedef {{name: string, loaded: Side, mine: Side, theirs: Side, mineChanged: boolean, theirsChanged: boolean}} Difference
 */

/** @param {Side} a @param {Side} b */
export function sameValue(a, b) {
  if (a === b || a === null || b === null) return a === b;
  // The same number can be written in different ways.
  const isNumber = a.type === "Edm.Double" && Object.is(Number(a.text), Number(b.text));
  return a.type === b.type && (a.text === b.text || isNumber);
}

/**
 * Returns what both sides changed in each property since it was loaded. With a projection, includes only properties
 * that were loaded or written.
 * @param {Entity} loaded
 * @param {Entity} mine
 * @param {Entity} theirs
 * @param {boolean} projected
 * @returns {Difference[]}
 */
export function differences(loaded, mine, theirs, projected) {
  const names = new Set([
    ...loaded.properties.keys(),
    ...mine.properties.keys(),
    ...(projected ? [] : theirs.properties.keys()),
  ]);
  const valueIn = (/** @type {Entity} */ entity, /** @type {string} */ name) => entity.properties.get(name) ?? null;
  return [...names].map((name) => {
    const sides = { loaded: valueIn(loaded, name), mine: valueIn(mine, name), theirs: valueIn(theirs, name) };
    const [mineChanged, theirsChanged] = [!sameValue(sides.loaded, sides.mine), !sameValue(sides.loaded, sides.theirs)];
    return { name, ...sides, mineChanged, theirsChanged };
  });
}
