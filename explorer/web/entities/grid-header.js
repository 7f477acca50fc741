// The header of the grid, in which the user resizes and moves columns by dragging. Must not depend on entities.

import { h, replaceChildren } from "../ui/dom.js";
import { headerTag } from "./column-fit.js";
import { visibleText } from "./display.js";
import { cellCount, columnAt, fitCells, layOut } from "./grid-line.js";

/** @import { Column, Sort } from "./columns.js" */
/** @import { Frame } from "./grid-line.js" */
/**
 * @typedef {object} HeaderActions
 * @property {(name: string, width: number) => void} resize
 * @property {(name: string, target: string) => void} moveTo
 * @property {(name: string, opener: HTMLElement) => void} menu
 * @property {() => void} selectAll
 */

/** The pointer movement that turns a press on a header from a click into a drag. */
const DRAG_PIXELS = 6;

export class Header {
  /** @type {HTMLElement[]} */
  cells = [];
  #structure = -1;
  #types = "";
  /** @type {Frame | null} */
  #frame = null;
  #dragged = false;

  /** @param {HeaderActions} actions */
  constructor(actions) {
    this.actions = actions;
    this.element = h("div", {
      class: "grid-header-line",
      role: "row",
      "aria-rowindex": "1",
      onpointerdown: (/** @type {PointerEvent} */ event) => this.#press(event),
      onclick: (/** @type {MouseEvent} */ event) => this.#click(event),
    });
  }

  /** @param {Frame} frame */
  bind(frame) {
    this.#frame = frame;
    const types = frame.columns.map((column) => (column.types.size === 1 ? [...column.types][0] : column.types.size)).join();
    if (this.#structure === frame.structure && this.#types === types) return;
    this.#structure = frame.structure;
    this.#types = types;
    fitCells(this.element, this.cells, cellCount(frame), () =>
      h("div", { class: "grid-cell header-cell", role: "columnheader", tabindex: "-1" }));
    this.cells.forEach((cell, place) => {
      layOut(cell, frame, place);
      const column = frame.columns[columnAt(frame, place) - 1];
      if (column) writeHeader(cell, column, frame.sort);
      else writeSelectAll(cell);
    });
  }

  /** @param {EventTarget | null} target @returns {{cell: HTMLElement, column: Column} | null} */
  #at(target) {
    const cell = target instanceof Element ? target.closest(".header-cell") : null;
    if (!(cell instanceof HTMLElement) || !this.#frame) return null;
    const column = this.#frame.columns[Number(cell.getAttribute("aria-colindex")) - 2];
    return column ? { cell, column } : null;
  }

  /** @param {MouseEvent} event */
  #click(event) {
    if (this.#dragged) return;
    const hit = this.#at(event.target);
    if (hit && !(event.target instanceof Element && event.target.closest(".resizer"))) {
      this.actions.menu(hit.column.name, hit.cell);
    } else if (!hit) this.actions.selectAll();
  }

  /** @param {PointerEvent} event */
  #press(event) {
    this.#dragged = false;
    const hit = this.#at(event.target);
    if (!hit || event.button !== 0) return;
    const widen = event.target instanceof Element && event.target.closest(".resizer") !== null;
    if (widen) event.preventDefault();
    const { name, width } = hit.column;
    const start = event.clientX;
    const over = (/** @type {PointerEvent} */ move) => this.#at(document.elementFromPoint(move.clientX, move.clientY))?.cell;
    /** @type {HTMLElement | undefined} */
    let marked;
    const move = (/** @type {PointerEvent} */ now) => {
      if (widen) return this.actions.resize(name, width + now.clientX - start);
      if (Math.abs(now.clientX - start) > DRAG_PIXELS) this.#dragged = true;
      marked?.classList.remove("drop-target");
      marked = this.#dragged ? over(now) : undefined;
      marked?.classList.add("drop-target");
    };
    const end = (/** @type {PointerEvent} */ now) => {
      for (const kind of /** @type {const} */ (["pointerup", "pointercancel"])) removeEventListener(kind, end);
      removeEventListener("pointermove", move);
      marked?.classList.remove("drop-target");
      const target = now.type === "pointerup" && this.#dragged ? this.#at(marked ?? null) : null;
      if (target) this.actions.moveTo(name, target.column.name);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }
}

/** @param {HTMLElement} cell @param {Column} column @param {Sort | null} sort */
function writeHeader(cell, column, sort) {
  const { name } = column;
  const tag = headerTag(column);
  const direction = sort?.name === name ? (sort.descending ? "descending" : "ascending") : "none";
  cell.setAttribute("aria-sort", direction);
  cell.title = `${visibleText(name)}. Enter: open the menu; Alt+arrow: move; Shift+arrow: resize.`;
  cell.classList.remove("select-cell");
  replaceChildren(
    cell,
    h("span", { class: "header-name", dir: "auto" }, visibleText(name)),
    " ",
    tag && h("span", { class: "type-tag" }, tag),
    direction !== "none" && h("span", { "aria-hidden": "true" }, direction === "ascending" ? "\u2191" : "\u2193"),
    h("span", { class: "resizer" }));
}

/** @param {HTMLElement} cell */
function writeSelectAll(cell) {
  cell.classList.add("select-cell");
  cell.removeAttribute("aria-sort");
  cell.title = "";
  cell.replaceChildren(h("span", { class: "visually-hidden" }, "Select all loaded entities"));
}
