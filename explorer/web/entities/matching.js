// Counts all entities that match a query, with extensions of the server (docs/extensions.md). Must not depend on the grid.

import { countText } from "../core/words.js";
import { checkFilter } from "../query/filter-text.js";
import { progressDialog } from "../ui/progress.js";

/** @import { TableService } from "../core/client.js" */
/** @import { Query } from "../query/query.js" */

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
