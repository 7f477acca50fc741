// How many entities a table has: the service does not know, so they are read, with their keys alone.

/** @typedef {import("../core/client.js").TableService} TableService */
/** @typedef {import("../core/client.js").Continuation} Continuation */
/** @typedef {import("../ui/progress.js").Progress} Progress */

/**
 * @param {TableService} service
 * @param {string} table
 * @param {Progress} progress
 */
export async function countEntities(service, table, { report, signal }) {
  let [entities, partitions] = [0, 0];
  /** @type {string | null} */
  let partition = null;
  /** @type {Continuation | null} */
  let next = null;
  do {
    /** @type {Awaited<ReturnType<TableService["queryEntities"]>>} */
    const page = await service.queryEntities(table, { select: [], next, signal });
    for (const { partitionKey } of page.entities) {
      if (partitionKey !== partition) {
        partition = partitionKey;
        partitions += 1;
      }
    }
    entities += page.entities.length;
    next = page.next;
    report(entities, null, `${entities.toLocaleString("en")} entities so far`);
  } while (next !== null);
  return { entities, partitions };
}
