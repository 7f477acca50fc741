// The dialog in which columns are shown, hidden and moved. Knows columns, not the grid.

import { openDialog } from "../ui/dialog.js";
import { checkbox, h, replaceChildren } from "../ui/dom.js";
import { announce } from "../ui/notify.js";
import { visibleText } from "./display.js";

/** @typedef {import("./columns.js").Columns} Columns */
/** @typedef {import("./columns.js").Column} Column */

/**
 * @param {Columns} columns
 * @param {{changed: () => void, reset: () => void}} actions
 */
export function openColumns(columns, { changed, reset }) {
  const list = h("ul", { class: "column-list" });
  const name = (/** @type {Column} */ column) => visibleText(column.name, 120);
  /** @param {Column} column @param {-1 | 1} by */
  const moveButton = (column, by) => h("button", {
    type: "button", class: "quiet", "aria-label": `Move ${name(column)} ${by < 0 ? "up" : "down"}`, "data-column": column.name, "data-by": by,
    disabled: column.kind === "partitionKey" || column.kind === "rowKey",
    onclick: () => move(column, by),
  }, by < 0 ? "\u2191" : "\u2193");
  const draw = () => replaceChildren(list, columns.all.map((column) => {
    const toggle = () => { columns.hide(column.name, !column.hidden); changed(); };
    return h("li", null, checkbox(name(column), { checked: !column.hidden, onchange: toggle }), moveButton(column, -1), moveButton(column, 1));
  }));
  /** @param {Column} column @param {-1 | 1} by */
  const move = (column, by) => {
    const target = columns.all[columns.all.indexOf(column) + by];
    if (!target || !columns.moveTo(column.name, target.name)) return;
    changed();
    draw();
    const again = [...list.querySelectorAll("button")].find(({ dataset }) => dataset["column"] === column.name && dataset["by"] === String(by));
    again?.focus();
    announce(`${name(column)} is number ${columns.all.indexOf(column) + 1} now`);
  };
  const all = (/** @type {boolean} */ hidden) => {
    for (const column of columns.all) columns.hide(column.name, hidden && column.kind === "property");
    changed();
    draw();
  };
  const local = checkbox("Show times in the zone of this computer, not in UTC",
    { checked: columns.local, onchange: () => { columns.local = local.input.checked; changed(); } });
  draw();
  const again = () => { reset(); return true; };
  const body = h("div", null, local, h("div", { class: "toolbar" },
    h("button", { type: "button", onclick: () => all(false) }, "Show all"),
    h("button", { type: "button", onclick: () => all(true) }, "Hide all properties")), list);
  openDialog({ title: "Columns", body, cancel: "Close", actions: [{ label: "Reset", kind: "danger", run: again }] });
}
