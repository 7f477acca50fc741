// Loads, counts and deletes all entities that match a query. Counts and deletions are extensions of the server
// (docs/extensions.md). Must not depend on the grid.

import { describe } from "../core/errors.js";
import { countText } from "../core/words.js";
import { checkFilter } from "../query/filter-text.js";
import { confirmText } from "../ui/dialog.js";
import { notify } from "../ui/notify.js";
import { progressDialog } from "../ui/progress.js";
import { visibleText } from "./display.js";
import { loadedText } from "./status-text.js";

/** @import { TableService } from "../core/client.js" */
/** @import { Query } from "../query/query.js" */
/** @import { EntityLoader } from "./loader.js" */

const FILTER_CHARACTERS_MAX = 300;

/** @param {EntityLoader} loader */
export function loadAll(loader) {
  return progressDialog({
    title: "Loading all entities",
    run: async ({ report, signal }) => {
      report(0, null, loadedText(loader));
      await loader.all(signal, (loaded) => report(0, null, `${countText(loaded)} loaded`));
    },
  });
}

/**
 * Returns the number of matching entities; undefined if the user stops.
 * @param {TableService} service
 * @param {string} table
 * @param {Query} query
 */
export async function countMatching(service, table, { filter }) {
  checkFilter(filter, service.extensions);
  return progressDialog({
    title: "Counting all matching entities",
    run: ({ report, signal }) => {
      const progress = (/** @type {number} */ number) => report(0, null, `${countText(number)} so far`);
      return service.countEntities(table, { filter, signal, progress });
    },
  });
}

/**
 * Deletes the matching entities, if the user confirms their number. Returns true if some may have been deleted.
 * @param {TableService} service
 * @param {string} table
 * @param {Query} query
 */
export async function deleteMatching(service, table, query) {
  const number = await countMatching(service, table, query);
  if (number === undefined) return false;
  if (number === 0) {
    notify("No entities match.");
    return false;
  }
  const filter = query.filter.trim();
  const which = `${filter ? "" : "All "}${countText(number)} of the table ${table}`;
  const matching = filter && ` that match ${visibleText(filter, FILTER_CHARACTERS_MAX)}`;
  const text =
    `${which}${matching} will be deleted, and so will those that others add until then.` +
    `${query.top === null ? "" : " The limit of the query does not apply."} This cannot be undone.`;
  const run = async () => {};
  const question = { title: `Delete ${countText(number)}?`, text, expected: table, label: `Delete ${countText(number)}`, run };
  if (!(await confirmText(question))) return false;
  let deleted = 0;
  try {
    const whole = await progressDialog({
      title: `Deleting ${countText(number)}`,
      run: ({ report, signal }) => {
        const progress = (/** @type {number} */ done) => {
          deleted = done;
          report(done, Math.max(done, number), `${countText(done)} deleted`);
        };
        progress(0);
        return service.deleteEntities(table, { filter: filter || "true", signal, progress });
      },
    });
    if (whole !== undefined) notify(`Deleted ${countText(whole)} of ${table}.`, { kind: "success" });
    else notify(`Stopped. ${countText(deleted)} were deleted, and perhaps more by the last request.`);
  } catch (error) {
    notify(`${describe(error)} ${countText(deleted)} were deleted before.`, { kind: "error" });
  }
  return true;
}
