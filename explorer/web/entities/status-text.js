// Describes in words how much of a result is loaded. Must not depend on the DOM.

import { countText, numberText } from "../core/words.js";
import { visibleText } from "./display.js";

/** @import { Sort } from "./columns.js" */
/** @import { EntityLoader } from "./loader.js" */

/** @param {EntityLoader} loader */
export function loadedText({ entities, state, query, isOrdered }) {
  const count = entities.length;
  if (state === "failed") return count === 0 ? "No entities loaded" : `${countText(count)} loaded; loading the rest failed`;
  if (state !== "complete")
    return state === "loading" && count === 0 ? "Loading\u2026" : `${countText(count)} loaded, more available`;
  if (count === 0) return query.filter || isOrdered ? "No matching entities" : "The table has no entities";
  return count === 1 ? "1 entity" : `All ${countText(count)}`;
}

/**
 * @param {EntityLoader} loader
 * @param {{total: number | null, chosen: number, sort: Sort | null}} more  `total` is the number of matching entities, if
 *   they were counted
 */
export function statusText(loader, { total, chosen, sort }) {
  return (
    loadedText(loader) +
    (total === null ? "" : `, ${countText(total)} in total`) +
    (chosen > 0 ? `, ${numberText(chosen)} selected` : "") +
    (loader.projected ? ", selected properties only" : "") +
    (sort ? `, sorted by ${visibleText(sort.name, 60)}` : "") +
    (loader.isOrdered ? "; entities without it are not listed" : "")
  );
}
