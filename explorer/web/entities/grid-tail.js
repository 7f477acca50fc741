// The end of the grid: shows that more entities are loading, why they are not, or what to do with an empty table.

import { ValueError, describe } from "../core/errors.js";
import { button, div, p, problemLine, replaceChildren } from "../ui/dom.js";
import { loadedText } from "./status-text.js";

/** @import { EntityLoader } from "./loader.js" */
/**
 * @typedef {object} TailActions
 * @property {() => void} again  continues loading
 * @property {() => void} edit  moves the focus to the filter
 * @property {() => void} everything  runs the query without its filter
 * @property {(() => unknown) | null} add  null if the credential does not allow it
 * @property {(() => unknown) | null} importFiles
 */

const WHAT_ENTITIES_ARE =
  "An entity is a set of named values with types. Its PartitionKey and RowKey identify it: entities with the same " +
  "PartitionKey are kept together, in the order of the RowKey, and can be written in one transaction.";
const NOTHING_MATCHES =
  "Comparisons distinguish capital letters, and every value has a type: Total gt 5 finds only numbers. " +
  "An entity without the property never matches.";

/**
 * @param {HTMLElement} tail
 * @param {EntityLoader} loader
 * @param {TailActions} actions
 */
export function showTail(tail, loader, actions) {
  const { state, error } = loader;
  const isEmpty = loader.entities.length === 0;
  const hasFilter = loader.query.filter !== "";
  const text = loadedText(loader);
  const { again, edit, everything, add, importFiles } = actions;
  const what = state === "complete" && isEmpty ? text : state;
  if (tail.dataset["shown"] === what) return;
  tail.dataset["shown"] = what;
  if (state === "failed") {
    const isMistake = error instanceof ValueError;
    const problem = problemLine();
    problem.append(describe(error));
    replaceChildren(
      tail,
      problem,
      isMistake ? button("Correct the filter", edit) : button("Try again", again));
  } else if (state === "paused") {
    replaceChildren(tail, p(null, "There may be more entities."), button("Load more", again));
  } else if (state === "complete" && isEmpty) {
    replaceChildren(
      tail,
      p(null, `${text}.`),
      p(null, hasFilter ? NOTHING_MATCHES : WHAT_ENTITIES_ARE),
      div("toolbar",
        hasFilter && button("Show all entities", everything),
        !hasFilter && add && button("Add an entity", add),
        !hasFilter && importFiles && button("Import a file", importFiles)));
  } else replaceChildren(tail, state === "loading" ? "Loading\u2026" : "");
}
