// The buttons of the entities view, and which of them the user can press. Must not depend on the service.

import { button } from "../ui/dom.js";
import { toolbar } from "../ui/toolbar.js";

/** @import { Action } from "../core/credential.js" */
/** @import { IconName } from "../ui/icons.js" */
/** @import { LoaderState } from "./loader.js" */

/**
 * The labels of all buttons, with the icons of those in the toolbar.
 * @type {Record<ButtonName, [label: string, icon?: IconName]>}
 */
const BUTTONS = {
  add: ["Add", "add"],
  edit: ["Edit", "edit"],
  duplicate: ["Duplicate", "duplicate"],
  json: ["JSON", "json"],
  property: ["Edit property", "property"],
  remove: ["Delete", "remove"],
  undo: ["Undo", "undo"],
  columns: ["Columns", "columns"],
  refresh: ["Refresh", "refresh"],
  exporting: ["Export", "exporting"],
  importing: ["Import", "importing"],
  compare: ["Compare two entities"],
  removeAll: ["Delete all matching\u2026"],
  keys: ["Keyboard shortcuts"],
  loadAll: ["Load all"],
  countAll: ["Count all"],
  stop: ["Stop"],
};
/** A narrow toolbar has these only in its menu. */
const SELDOM = ["duplicate", "json", "property", "exporting", "importing"];

/**
 * @typedef {"add" | "edit" | "duplicate" | "json" | "property" | "remove" | "undo" | "columns" | "refresh" | "exporting"
 *   | "importing" | "compare" | "removeAll" | "keys" | "loadAll" | "countAll" | "stop"} ButtonName
 */
/** @typedef {Record<ButtonName, HTMLButtonElement>} Buttons */
/**
 * @typedef {object} Shown
 * @property {(action: Action) => boolean} may
 * @property {boolean} extensions  whether the server counts and deletes entities by a filter
 * @property {LoaderState} state
 * @property {number} loaded  the number of loaded entities
 * @property {number} targets  the number of entities that an action applies to
 * @property {string | null} undoLabel
 */

/** @param {(name: ButtonName) => unknown} press @returns {Buttons} */
export function makeButtons(press) {
  const make = (/** @type {string} */ name) => {
    const [label, icon] = BUTTONS[/** @type {ButtonName} */ (name)];
    const attributes = { class: SELDOM.includes(name) ? "seldom" : null, ...(icon && { icon }) };
    return [name, button(label, () => press(/** @type {ButtonName} */ (name)), attributes)];
  };
  return Object.fromEntries(Object.keys(BUTTONS).map(make));
}

/** @param {Buttons} buttons */
export function toolsOf({ add, edit, duplicate, json, property, remove, undo, columns, refresh, ...others }) {
  const { exporting, importing, compare, removeAll, keys } = others;
  const groups = [[add], [edit, duplicate, json, property, remove], [undo], [columns, refresh], [exporting, importing]];
  return toolbar("Entities", groups, [compare, removeAll, keys]);
}

/** @param {Buttons} buttons @param {Shown} shown */
export function showButtons(buttons, { may, extensions, state, loaded, targets, undoLabel }) {
  const isWhole = state === "complete" || loaded === 0;
  for (const name of /** @type {const} */ (["add", "duplicate", "importing"])) buttons[name].hidden = !may("add");
  buttons.remove.hidden = !may("delete");
  buttons.removeAll.hidden = !extensions || !may("delete");
  buttons.property.hidden = !may("update");
  relabel(buttons.edit, may("update") ? "Edit" : "View");
  buttons.loadAll.hidden = isWhole;
  buttons.countAll.hidden = isWhole || !extensions;
  buttons.stop.hidden = state !== "loading";
  for (const name of /** @type {const} */ (["edit", "duplicate", "json"])) buttons[name].disabled = targets !== 1;
  buttons.compare.disabled = targets !== 2;
  for (const name of /** @type {const} */ (["remove", "property"])) buttons[name].disabled = targets === 0;
  buttons.removeAll.disabled = state === "failed" || (state === "complete" && loaded === 0);
  buttons.undo.hidden = undoLabel === null;
  relabel(buttons.undo, undoLabel ?? "");
}

/** @param {HTMLButtonElement} tool @param {string} label */
function relabel(tool, label) {
  tool.title = label;
  tool.lastElementChild?.replaceChildren(label);
}
