// The buttons of the entities view, and which of them the user can press. Must not depend on the service.

import { h } from "../ui/dom.js";

/** @import { Action } from "../core/credential.js" */
/** @import { LoaderState } from "./loader.js" */

/** The buttons that belong to the list of entities. The others are elsewhere in the view. */
const TOOLS = {
  add: "Add",
  edit: "Edit",
  duplicate: "Duplicate",
  remove: "Delete",
  removeAll: "Delete all matching\u2026",
  property: "Edit property",
  json: "JSON",
  columns: "Columns",
  refresh: "Refresh",
  undo: "Undo",
};
const LABELS = { ...TOOLS, importing: "Import", loadAll: "Load all", countAll: "Count all", stop: "Stop" };
const QUIET = ["loadAll", "countAll"];

/** @typedef {keyof typeof LABELS} ButtonName */
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
  const buttons = Object.entries(LABELS).map(([name, label]) => {
    const attributes = { type: "button", class: QUIET.includes(name) ? "quiet" : null };
    return [name, h("button", { ...attributes, onclick: () => press(/** @type {ButtonName} */ (name)) }, label)];
  });
  return Object.fromEntries(buttons);
}

/** @param {Buttons} buttons */
export function toolsOf(buttons) {
  return Object.keys(TOOLS).map((name) => buttons[/** @type {ButtonName} */ (name)]);
}

/** @param {Buttons} buttons @param {Shown} shown */
export function showButtons(buttons, { may, extensions, state, loaded, targets, undoLabel }) {
  const isWhole = state === "complete" || loaded === 0;
  for (const name of /** @type {const} */ (["add", "duplicate", "importing"])) buttons[name].hidden = !may("add");
  buttons.remove.hidden = !may("delete");
  buttons.removeAll.hidden = !extensions || !may("delete");
  buttons.property.hidden = !may("update");
  buttons.edit.textContent = may("update") ? "Edit" : "View";
  buttons.loadAll.hidden = isWhole;
  buttons.countAll.hidden = isWhole || !extensions;
  buttons.stop.hidden = state !== "loading";
  for (const name of /** @type {const} */ (["edit", "duplicate", "json"])) buttons[name].disabled = targets !== 1;
  for (const name of /** @type {const} */ (["remove", "property"])) buttons[name].disabled = targets === 0;
  buttons.removeAll.disabled = state === "failed" || (state === "complete" && loaded === 0);
  buttons.undo.hidden = undoLabel === null;
  buttons.undo.textContent = undoLabel ?? "";
}
