// Writing entities, and taking that back: pairs (before, after) are written the other way round with the ETags they got, which
// overwrites nothing of somebody else. Knows no document.

import { OPERATIONS_MAX } from "../core/batch.js";
import { ServiceError, Unreachable, describe } from "../core/errors.js";
import { timestampOfEtag } from "./display.js";

/** @import { Entity } from "../core/edm.js" */
/** @import { TableService } from "../core/client.js" */
/** @typedef {{kind: "insert" | "replace" | "merge" | "delete", entity: Entity, etag?: string}} Operation */
/** Null before an insert and after a delete. @typedef {{before: Entity | null, after: Entity | null}} Pair */
/** @typedef {{operation: Operation, pair: Pair}} Step */
/** `theirs` is the entity as it is, if that was read. @typedef {{step: Step, error: unknown, theirs?: Entity | null}} Failure */
/** @typedef {{pairs: Pair[], failed: Failure[], left: number}} Outcome */
/** @typedef {{verb: "add" | "edit" | "delete", pairs: Pair[], projected: boolean}} Change */

/** Well below the service's 4 MiB, since encoding makes texts longer. */
const TRANSACTION_CHARACTERS_MAX = 1_000_000;
/** A browser keeps six connections to a host, and pages are loaded meanwhile. */
const REQUESTS_AT_ONCE = 4;

/** @param {Entity} entity */
function characters(entity) {
  let sum = entity.partitionKey.length + entity.rowKey.length + 400;
  for (const [name, value] of entity.properties) sum += name.length + value.text.length + 20;
  return sum;
}

/** Transactions, in order. @param {Step[]} steps @returns {Step[][]} */
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

/** The pair with the ETag that the operation got. @param {Step} step @param {string | null} etag @returns {Pair} */
export function finished({ pair: { before, after } }, etag) {
  return { before, after: after && { ...after, etag: etag ?? "", timestamp: timestampOfEtag(etag ?? "") } };
}

/** The answer to a write was lost. */
export class Lost extends Unreachable {
  /** @param {unknown} error */
  constructor(error) {
    super();
    this.message = `${describe(error)} It is not known whether it was written.`;
  }
}

/** @param {unknown} error */
const isLost = (error) => !(error instanceof ServiceError) || error.status >= 500;

/** Whether the next one would be refused, too. @param {unknown} error */
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
 * Carries out one step. If an answer to it may be lost, since requests are repeated, the entity tells whether it is done.
 * @param {TableService} service
 * @param {string} table
 * @param {Step} step
 * @param {number} [began]  when an insertion was tried first: an equal entity that is older is somebody else's
 * @param {unknown} [failed]  why it failed already
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
 * Writes entities in transactions, and one by one where one is refused. What every entity would be refused for ends it, and so
 * does the signal; requests under way are waited for.
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
 * The steps that take a change back. Null with a projection if an entity was deleted, which is not known as a whole, or a
 * property added, which a merge does not remove.
 * @param {Change} change
 * @returns {Step[] | null}
 */
export function undoSteps(change) {
  const known = (/** @type {Pair} */ { before, after }) =>
    !before || (after && [...after.properties.keys()].every((name) => before.properties.has(name)));
  if (change.projected && !change.pairs.every(known)) return null;
  return change.pairs.map(({ before, after }) => stepFor({ before: after, after: before }, change.projected));
}

/** What happened meanwhile, if the key or ETag was refused. @param {unknown} error @returns {string | null} */
export function refusalReason(error) {
  return error instanceof ServiceError && error.code !== "TableNotFound" ? (REASONS.get(error.status) ?? null) : null;
}

const REASONS = new Map([
  [404, "somebody deleted it meanwhile"],
  [409, "somebody inserted it again meanwhile"],
  [412, "somebody changed it since"],
]);

/** @param {{partitionKey: string, rowKey: string}} entity */
const keyOf = (entity) => JSON.stringify([entity.partitionKey, entity.rowKey]);

/** @param {Entity} a @param {Entity} b */
export function order(a, b) {
  if (a.partitionKey !== b.partitionKey) return a.partitionKey < b.partitionKey ? -1 : 1;
  return a.rowKey === b.rowKey ? 0 : a.rowKey < b.rowKey ? -1 : 1;
}

/**
 * The list after a change. A new entity is put where its keys belong, unless its page is yet to be loaded.
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
  // The same number can be written in several ways.
  const isNumber = a.type === "Edm.Double" && Object.is(Number(a.text), Number(b.text));
  return a.type === b.type && (a.text === b.text || isNumber);
}

/**
 * What both sides did to each property since it was loaded. With a projection, only what was loaded or written counts.
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
