// Writes entities to a table: grouped by partition into transactions, several of them in parallel. The entities of a
// transaction that the service refuses are written one by one, to determine which entity fails and why.
//
// The writer holds a window of entities. If two have the same keys, the second is written after the first. This module
// must not depend on files or the page.

import { OPERATIONS_MAX } from "../core/batch.js";
import { wait } from "../core/wait.js";
import { ServiceError, Unreachable, describe, isAborted } from "../core/errors.js";
import { writeString } from "../query/filter-fields.js";

/** @import { TableService } from "../core/client.js" */
/** @import { Entity } from "../core/edm.js" */
/** @import { SourceRecord } from "./source.js" */
/** @typedef {"insert" | "insertOrReplace" | "insertOrMerge"} ImportKind */
/** @typedef {SourceRecord & {entity: Entity}} Item */
/**
 * @typedef {{line: number, text: string, partitionKey: string, rowKey: string, code: string, message: string}} Failure
 */
/**
 * The result so far. `waiting` contains the entities that were neither written nor refused yet. `last` is the record
 * added last.
 * @typedef {{written: number, unchanged: number, failures: Failure[], failedLength: number, waiting: Set<Item>,
 *   last: SourceRecord | null}} Outcome
 */

/** Large enough to fill transactions even if the lines of a partition are far apart. */
const WINDOW_ENTITIES = 20_000;
const WINDOW_LENGTH = 8 * 1024 * 1024;
const TRANSACTION_LENGTH = 1024 * 1024;
const PARALLEL = 4;
/** The maximum number of characters in failed lines, which are kept for the report. */
const FAILED_LENGTH_MAX = 64 * 1024 * 1024;
const PAUSES_MS = [500, 1000, 2000, 4000, 8000];
/** Error codes that the next entity would get, too. */
const FINAL_CODES = [
  "TableNotFound",
  "AuthorizationPermissionMismatch",
  "AuthorizationSourceIPMismatch",
  "AuthorizationProtocolMismatch",
];

export class EntityWriter {
  /** @type {Outcome} */
  outcome = { written: 0, unchanged: 0, failures: [], failedLength: 0, waiting: new Set(), last: null };
  #waitingLength = 0;

  /**
   * @param {TableService} service
   * @param {string} table
   * @param {ImportKind} kind
   * @param {{signal: AbortSignal, onProgress: (outcome: Outcome) => void}} options
   */
  constructor(service, table, kind, { signal, onProgress }) {
    this.service = service;
    this.table = table;
    this.kind = kind;
    this.signal = signal;
    this.onProgress = onProgress;
  }

  /**
   * Adds records. Returns when there is room for more.
   * @param {SourceRecord[]} records
   */
  async add(records) {
    const { outcome } = this;
    for (const record of records) {
      outcome.last = record;
      if (!record.entity) {
        this.#fail(record, "", record.problem);
        continue;
      }
      outcome.waiting.add({ ...record, entity: record.entity });
      this.#waitingLength += record.text.length;
      if (outcome.waiting.size >= WINDOW_ENTITIES || this.#waitingLength >= WINDOW_LENGTH) {
        await this.flush();
      }
    }
  }

  /** Writes the entities that are waiting. */
  async flush() {
    const tasks = tasksOf([...this.outcome.waiting]);
    this.#waitingLength = 0;
    const work = async () => {
      for (let task = tasks.shift(); task; task = tasks.shift()) {
        for (const items of task) {
          await this.#write(items);
          this.onProgress(this.outcome);
        }
      }
    };
    const workers = await Promise.allSettled(
      Array.from({ length: PARALLEL }, async () => {
        try {
          await work();
        } catch (error) {
          // Stops the other workers, too.
          tasks.length = 0;
          throw error;
        }
      }));
    const failed = workers.find((worker) => worker.status === "rejected");
    if (failed) {
      throw failed.reason;
    }
  }

  /** @param {Item[]} items  in one partition, with different keys */
  async #write(items) {
    let rest = items;
    for (let attempt = 0; attempt < 2 && rest.length > 1; attempt += 1) {
      try {
        const operations = rest.map(({ entity }) => ({ kind: this.kind, entity }));
        await this.#repeat(() => this.service.transaction(this.table, operations, this.signal));
        this.#settle("written", rest);
        return;
      } catch (error) {
        throwIfFinal(error);
        // If a file is imported again, whole groups are compared instead of single entities.
        const equal = attempt === 0 && exists(error) ? await this.#equal(rest) : [];
        if (equal.length === 0) {
          break;
        }
        this.#settle("unchanged", equal);
        rest = rest.filter((item) => this.outcome.waiting.has(item));
      }
    }
    for (const item of rest) {
      await this.#writeOne(item);
    }
  }

  /**
   * Returns the items that the table already contains with equal properties, as far as a single page shows.
   * @param {Item[]} items  in one partition
   */
  async #equal(items) {
    const rowKeys = items.map(({ entity }) => entity.rowKey).sort();
    const [partition = "", first = "", last = ""] = [items[0]?.entity.partitionKey, rowKeys[0], rowKeys.at(-1)].map((key) =>
      writeString(key ?? ""));
    const filter = `PartitionKey eq ${partition} and RowKey ge ${first} and RowKey le ${last}`;
    try {
      const { entities } = await this.service.queryEntities(this.table, { filter, signal: this.signal });
      const found = new Map(entities.map((entity) => [entity.rowKey, entity]));
      return items.filter(({ entity }) => {
        const other = found.get(entity.rowKey);
        return other && areEqual(entity, other);
      });
    } catch (error) {
      if (isAborted(error)) {
        throw error;
      }
      return [];
    }
  }

  /** @param {Item} item */
  async #writeOne(item) {
    try {
      await this.#repeat(() => this.service.change(this.table, { kind: this.kind, entity: item.entity }, this.signal));
      this.#settle("written", [item]);
    } catch (error) {
      throwIfFinal(error);
      if (exists(error) && (await this.#isThere(item.entity))) {
        this.#settle("unchanged", [item]);
      } else {
        const code = error instanceof ServiceError ? error.code : "";
        this.outcome.waiting.delete(item);
        this.#fail(item, code, describe(error));
      }
    }
  }

  /**
   * Returns true if the table contains an equal entity.
   * @param {Entity} entity
   */
  async #isThere(entity) {
    try {
      return areEqual(entity, await this.service.getEntity(this.table, entity.partitionKey, entity.rowKey));
    } catch {
      return false;
    }
  }

  /**
   * Sends a request, and retries it while the server cannot be reached. If the response to a successful insert was
   * lost, the retry fails, but the entity in the table is equal.
   * @template T
   * @param {() => Promise<T>} request
   */
  async #repeat(request) {
    for (const pause of PAUSES_MS) {
      try {
        return await request();
      } catch (error) {
        if (!(error instanceof Unreachable)) {
          throw error;
        }
        await wait(pause, this.signal);
      }
    }
    return request();
  }

  /**
   * @param {"written" | "unchanged"} what
   * @param {Item[]} items
   */
  #settle(what, items) {
    this.outcome[what] += items.length;
    items.forEach((item) => this.outcome.waiting.delete(item));
  }

  /**
   * @param {SourceRecord} record
   * @param {string} code
   * @param {string} message
   */
  #fail(record, code, message) {
    const { outcome } = this;
    const { line, text, entity } = record;
    outcome.failures.push({ line, text, partitionKey: entity?.partitionKey ?? "", rowKey: entity?.rowKey ?? "", code, message });
    outcome.failedLength += text.length;
    this.onProgress(outcome);
    if (outcome.failedLength > FAILED_LENGTH_MAX) {
      throw new Error("Too many lines failed. Correct the file and import it again.");
    }
  }
}

/**
 * Groups entities into tasks. Tasks can run in parallel; the transactions within a task must run one after the other.
 * @param {Item[]} items
 * @returns {Item[][][]}
 */
export function tasksOf(items) {
  /** @type {Map<string, Item[]>} */
  const partitions = new Map();
  for (const item of items) {
    const partition = partitions.get(item.entity.partitionKey) ?? [];
    partition.push(item);
    partitions.set(item.entity.partitionKey, partition);
  }
  return [...partitions.values()].flatMap((partition) => {
    const transactions = transactionsOf(partition);
    const hasEqualKeys = new Set(partition.map((item) => item.entity.rowKey)).size < partition.length;
    return hasEqualKeys ? [transactions] : transactions.map((transaction) => [transaction]);
  });
}

/** @param {Item[]} items  in one partition */
function transactionsOf(items) {
  /** @type {Item[][]} */
  const transactions = [];
  /** @type {Item[]} */
  let current = [];
  let length = 0;
  const keys = new Set();
  for (const item of items) {
    const isFull = current.length === OPERATIONS_MAX || length + item.text.length > TRANSACTION_LENGTH;
    if (current.length > 0 && (isFull || keys.has(item.entity.rowKey))) {
      transactions.push(current);
      current = [];
      length = 0;
      keys.clear();
    }
    current.push(item);
    length += item.text.length;
    keys.add(item.entity.rowKey);
  }
  return current.length > 0 ? [...transactions, current] : transactions;
}

/**
 * Returns true if two entities have equal properties.
 * @param {Entity} one
 * @param {Entity} other
 */
export function areEqual({ properties }, other) {
  return (
    properties.size === other.properties.size &&
    [...properties].every(([name, value]) => {
      const found = other.properties.get(name);
      // The same number can be written in different ways.
      const isSame = (/** @type {string} */ text) =>
        text === value.text || (value.type === "Edm.Double" && Number(text) === Number(value.text));
      return found !== undefined && found.type === value.type && isSame(found.text);
    })
  );
}

/** @param {unknown} error */
function exists(error) {
  return error instanceof ServiceError && error.code === "EntityAlreadyExists";
}

/** @param {unknown} error */
function throwIfFinal(error) {
  const isRefusal =
    error instanceof ServiceError && !error.isOfCredential && !FINAL_CODES.includes(error.code) && error.status < 500;
  if (isAborted(error) || !isRefusal) {
    throw error;
  }
}
