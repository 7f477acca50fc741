// The indexes of a table (docs/extensions.md): changes of the list, the state of indexes that are being built, and the
// tables that list entities in the order of an index.

import { Unreachable } from "./errors.js";
import { wait } from "./wait.js";

/** @import { TableService } from "./client.js" */
/** @import { TableIndex } from "./xml.js" */

export const INDEXES_MAX = 8;
const POLL_MS = 2000;

/**
 * Changes the list of indexed properties, and returns the indexes.
 * @param {TableService} service
 * @param {string} table
 * @param {(properties: string[]) => string[]} change
 */
export async function changeIndexes(service, table, change) {
  // Someone else may have changed the list, and a request replaces all of it.
  const current = await service.getIndexes(table);
  await service.setIndexes(table, change(current.map(({ property }) => property)));
  return service.getIndexes(table);
}

/**
 * Yields the indexes of a table, and again while one of them is being built, even if the server is unreachable for a while.
 * @param {TableService} service
 * @param {string} table
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<TableIndex[], void, void>}
 */
export async function* watchIndexes(service, table, signal) {
  let isFirst = true;
  for (;;) {
    const indexes = await service.getIndexes(table, signal).catch((error) => {
      if (isFirst || !(error instanceof Unreachable)) throw error;
    });
    if (indexes) yield indexes;
    if (indexes?.every(({ isReady }) => isReady)) return;
    isFirst = false;
    await wait(POLL_MS, signal);
  }
}

/**
 * Returns the name of the table that lists the entities of a table in the order of an index.
 * @param {string} table
 * @param {{name: string, descending: boolean}} sort
 */
export function orderedTable(table, { name, descending }) {
  return `$By${name}${descending ? "Descending" : ""}Of${table}`;
}

/** @param {string} table */
export function isOrderedTable(table) {
  return /^\$By.+Of/.test(table);
}
