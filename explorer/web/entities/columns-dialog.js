// The dialog that shows, hides and moves columns, and the menu of a column. Must not depend on entities.

import { openDialog } from "../ui/dialog.js";
import { button, checkbox, div, h, replaceChildren } from "../ui/dom.js";
import { openMenu } from "../ui/menu.js";
import { announce } from "../ui/notify.js";
import { isKey } from "./columns.js";
import { visibleText } from "./display.js";

/** @import { Column, Columns, Sort } from "./columns.js" */
/** @import { EntityGrid } from "./grid.js" */

/** @param {Columns} columns @param {{changed: () => void, reset: () => void}} actions */
export function openColumns(columns, { changed, reset }) {
  const list = h("ul", { class: "column-list" });
  const name = (/** @type {Column} */ column) => visibleText(column.name, 120);
  /** @param {Column} column @param {-1 | 1} by */
  const moveButton = (column, by) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": `Move ${name(column)} ${by < 0 ? "up" : "down"}`,
        "data-column": column.name,
        "data-by": by,
        disabled: isKey(column.kind),
        onclick: () => move(column, by),
      },
      by < 0 ? "\u2191" : "\u2193");
  const draw = () =>
    replaceChildren(
      list,
      columns.all.map((column) => {
        const toggle = () => {
          columns.hide(column.name, !column.hidden);
          changed();
        };
        return h("li", null,
          checkbox(name(column), { checked: !column.hidden, onchange: toggle }),
          moveButton(column, -1),
          moveButton(column, 1));
      }));
  /** @param {Column} column @param {-1 | 1} by */
  const move = (column, by) => {
    const target = columns.all[columns.all.indexOf(column) + by];
    if (!target || !columns.moveTo(column.name, target.name)) return;
    changed();
    draw();
    const again = [...list.querySelectorAll("button")].find(
      ({ dataset }) => dataset["column"] === column.name && dataset["by"] === String(by));
    again?.focus();
    announce(`${name(column)} is now column ${columns.all.indexOf(column) + 1}`);
  };
  const all = (/** @type {boolean} */ hidden) => {
    for (const column of columns.all) columns.hide(column.name, hidden && column.kind === "property");
    changed();
    draw();
  };
  const local = checkbox("Show times in local time instead of UTC", {
    checked: columns.local,
    onchange: () => {
      columns.local = local.input.checked;
      changed();
    },
  });
  draw();
  const body = div(null,
    local,
    div("toolbar",
      button("Show all", () => all(false)),
      button("Hide all properties", () => all(true))),
    list);
  openDialog({ title: "Columns", body, cancel: "Close", actions: [{ label: "Reset", run: reset }] });
}

/**
 * @param {EntityGrid} grid
 * @param {Columns} columns
 * @param {string} name
 * @param {HTMLElement} opener
 * @param {{changed: () => void, all: () => void, sort: (sort: Sort | null) => void, isIndexed: boolean}} actions
 *   `isIndexed` is true if the server can sort the whole table by this column
 */
export function openColumnMenu(grid, columns, name, opener, { changed, all, sort, isIndexed }) {
  const column = columns.get(name);
  if (!column) return;
  const pinned = isKey(column.kind);
  const hide = () => {
    columns.hide(name, true);
    changed();
    grid.focus();
  };
  const changeZone = () => {
    columns.local = !columns.local;
    changed();
  };
  /** @param {boolean} descending */
  const sortItem = (descending) => {
    const checked = columns.sort?.name === name && columns.sort.descending === descending;
    return {
      label: `Sort ${isIndexed ? "the whole table " : ""}${descending ? "descending" : "ascending"}`,
      checked,
      run: () => sort(checked ? null : { name, descending }),
    };
  };
  const isTime = column.kind === "timestamp" || column.types.has("Edm.DateTime");
  openMenu(opener, [
    sortItem(false),
    sortItem(true),
    { label: "Hide", run: hide },
    { label: "Move left", disabled: pinned, run: () => grid.moveColumn(name, -1) },
    { label: "Move right", disabled: pinned, run: () => grid.moveColumn(name, 1) },
    { label: "Widen", run: () => grid.widenColumn(name, 60) },
    { label: "Narrow", run: () => grid.widenColumn(name, -60) },
    ...(isTime ? [{ label: "Show local time", checked: columns.local, run: changeZone }] : []),
    { label: "All columns\u2026", run: all },
  ]);
}
