// The end of the grid: shows that more entities are loading, why they are not, or what to do with an empty table.

import { ValueError, describe } from "../core/errors.js";
import { h, replaceChildren } from "../ui/dom.js";
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

/** @param {string} label @param {() => unknown} onclick */
const button = (label, onclick) => h("button", { type: "button", onclick }, label);

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
    replaceChildren(
      tail,
      h("p", { class: "problem", role: "alert" }, describe(error)),
      isMistake ? button("Correct the filter", edit) : button("Try again", again),
    );
  } else if (state === "paused") {
    replaceChildren(tail, h("p", null, "There may be more entities."), button("Load more", again));
  } else if (state === "complete" && isEmpty) {
    replaceChildren(
      tail,
      h("p", null, `${text}.`),
      h(
        "div",
        { class: "toolbar" },
        hasFilter ? button("Show all entities", everything) : null,
        !hasFilter && add ? button("Add an entity", add) : null,
        !hasFilter && importFiles ? button("Import a file", importFiles) : null,
      ),
    );
  } else replaceChildren(tail, state === "loading" ? "Loading\u2026" : "");
}
