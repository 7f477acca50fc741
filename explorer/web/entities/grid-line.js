// The frames and lines of the grid. Lines are elements that are bound to different entities, so that scrolling creates
// no elements. Must not depend on the service.

import { h, replaceChildren } from "../ui/dom.js";
import { shortType, showValue, valueTitle } from "./display.js";

/** @import { Entity, Value } from "../core/edm.js" */
/** @import { Column, Sort } from "./columns.js" */
/**
 * @typedef {object} Frame
 * @property {Column[]} columns  the shown columns: the first `pinned` columns and those in `from`..`to` are drawn
 * @property {number} pinned
 * @property {number} from
 * @property {number} to
 * @property {number[]} offsets  the start of each column, and the end of the last one
 * @property {boolean} local
 * @property {Sort | null} sort
 * @property {number} structure  changes whenever the cells must be laid out again
 * @property {number} version  changes whenever the content of cells may have changed
 */

/** The width of the selection cell. */
export const SELECT_WIDTH = 40;

/** @type {Frame} */
export const EMPTY_FRAME = {
  columns: [],
  pinned: 0,
  from: 0,
  to: 0,
  offsets: [SELECT_WIDTH],
  local: false,
  sort: null,
  structure: 0,
  version: 0,
};

/** Returns the column of a drawn cell. The first cell selects the line. @param {Frame} frame @param {number} place */
export function columnAt(frame, place) {
  return place <= frame.pinned ? place : frame.from + place - frame.pinned;
}

/** @param {Frame} frame */
export function cellCount(frame) {
  return 1 + frame.pinned + frame.to - frame.from;
}

/** @param {HTMLElement} cell @param {Frame} frame @param {number} place */
export function layOut(cell, frame, place) {
  const column = columnAt(frame, place);
  cell.setAttribute("aria-colindex", String(column + 1));
  const pinned = place <= frame.pinned;
  cell.classList.toggle("pinned", pinned);
  const start = column === 0 ? 0 : /** @type {number} */ (frame.offsets[column - 1]);
  const width = column === 0 ? SELECT_WIDTH : /** @type {Column} */ (frame.columns[column - 1]).width;
  cell.style.width = `${width}px`;
  cell.style.left = pinned ? `${start}px` : "";
  const before = /** @type {number} */ (frame.offsets[frame.pinned]);
  cell.style.marginLeft = place === frame.pinned + 1 ? `${start - before}px` : "";
}

export const LINE_HEIGHT = 30;
/** Browsers cannot position elements far beyond this height. A longer list is scrolled proportionally. */
const BODY_PIXELS_MAX = 12_000_000;
/** If there are more columns, only those in view are drawn, rounded to steps so that redrawing is rare. */
const ALL_COLUMNS_MAX = 40;
const COLUMN_STEP = 8;

/**
 * Returns which part of the list is in view. `body` is the scrollable height in pixels.
 * @param {number} count
 * @param {number} available
 * @param {number} scrollTop
 */
export function linesInView(count, available, scrollTop) {
  const height = Math.max(LINE_HEIGHT, available);
  const full = count * LINE_HEIGHT;
  const body = Math.min(full, BODY_PIXELS_MAX);
  const scale = full > body ? (full - height) / (body - height) : 1;
  const top = Math.min(scrollTop, Math.max(0, body - height)) * scale;
  return { height, body, scale, top, lines: Math.ceil(height / LINE_HEIGHT) };
}

/**
 * Returns the columns to draw besides the pinned ones.
 * @param {Frame} frame
 * @param {number} left
 * @param {number} width
 */
export function columnsInView({ columns, pinned, offsets }, left, width) {
  const count = columns.length;
  if (count <= ALL_COLUMNS_MAX) return { from: pinned, to: count };
  const offset = (/** @type {number} */ column) => offsets[column] ?? Infinity;
  let from = pinned;
  while (from < count && offset(from + 1) < left) from += 1;
  let to = from;
  while (to < count && offset(to) < left + width) to += 1;
  return {
    from: Math.max(pinned, (Math.floor(from / COLUMN_STEP) - 1) * COLUMN_STEP),
    to: Math.min(count, (Math.ceil(to / COLUMN_STEP) + 1) * COLUMN_STEP),
  };
}

/**
 * Returns how far to scroll to the right for a column to be in view.
 * @param {Frame} frame
 * @param {number} column
 * @param {number} left  how far the grid is scrolled
 * @param {number} width
 * @param {boolean} isSticky  whether the pinned columns cover the start of the others
 */
export function leftToShow({ offsets, pinned }, column, left, width, isSticky) {
  const offset = (/** @type {number} */ place) => /** @type {number} */ (offsets[place]);
  if (column <= pinned) return left;
  const shown = Math.max(left, offset(column) - width);
  return Math.min(shown, offset(column - 1) - (isSticky ? offset(pinned) : 0));
}

export class Line {
  /** @type {HTMLElement[]} */
  cells = [];
  index = -1;
  #version = -1;
  #structure = -1;
  #top = "";
  #selected = false;

  element = h("div", { class: "grid-line", role: "row" });

  /** Returns true if binding to the given entity would change nothing. @param {number} index @param {Frame} frame */
  fresh(index, frame) {
    return this.index === index && this.#version === frame.version && this.#structure === frame.structure;
  }

  /** @param {number} index @param {Entity} entity @param {Frame} frame @param {boolean} selected */
  bind(index, entity, frame, selected) {
    if (this.#structure !== frame.structure) this.#arrange(frame);
    if (this.index !== index) this.element.setAttribute("aria-rowindex", String(index + 2));
    this.index = index;
    this.#version = frame.version;
    this.element.hidden = false;
    if (selected !== this.#selected || !this.element.hasAttribute("aria-selected")) {
      this.#selected = selected;
      this.element.setAttribute("aria-selected", String(selected));
      this.cells[0]?.setAttribute("aria-label", selected ? "Selected" : "Not selected");
    }
    for (let place = 1; place < this.cells.length; place += 1) {
      const column = frame.columns[columnAt(frame, place) - 1];
      const cell = this.cells[place];
      if (column && cell) writeCell(cell, entity, column, frame.local);
    }
  }

  /** @param {Frame} frame */
  #arrange(frame) {
    this.#structure = frame.structure;
    fitCells(this.element, this.cells, cellCount(frame), () =>
      h("div", { class: "grid-cell", role: "gridcell", tabindex: "-1" }));
    this.cells.forEach((cell, place) => layOut(cell, frame, place));
    this.cells[0]?.classList.add("select-cell");
    this.cells[0]?.setAttribute("aria-label", this.#selected ? "Selected" : "Not selected");
  }

  /** @param {number} pixels */
  moveTo(pixels) {
    const top = `translateY(${pixels}px)`;
    if (top !== this.#top) this.element.style.transform = this.#top = top;
  }

  hide() {
    this.index = -1;
    this.element.hidden = true;
  }
}

/** @param {HTMLElement} line @param {HTMLElement[]} cells @param {number} count @param {() => HTMLElement} make */
export function fitCells(line, cells, count, make) {
  while (cells.length < count) {
    const cell = make();
    cells.push(cell);
    line.append(cell);
  }
  while (cells.length > count) cells.pop()?.remove();
}

/** @param {HTMLElement} cell @param {string} text @param {string} [tag] @param {string} [mark] */
function write(cell, text, tag, mark) {
  if (!tag && !mark) {
    const only = cell.childNodes.length === 1 ? cell.firstChild : null;
    if (!(only instanceof Text)) cell.textContent = text;
    else if (only.data !== text) only.data = text;
    return;
  }
  replaceChildren(
    cell,
    tag && [h("span", { class: "type-tag" }, tag), " "],
    text,
    mark && [text && " ", h("span", { class: "value-mark" }, mark)]);
}

/** @param {HTMLElement} cell @param {Entity} entity @param {Column} column @param {boolean} local */
function writeCell(cell, entity, column, local) {
  const value = valueIn(entity, column);
  const type = value ? shortType(value.type) : "";
  // An existing tooltip describes the previous value.
  if (cell.title) cell.title = "";
  if (cell.dataset["type"] !== type) cell.dataset["type"] = type;
  const shown = value ? showValue(value, local) : { text: "", mark: "" };
  write(cell, shown.text, column.types.size > 1 ? type : "", shown.mark);
}

/** @param {Entity} entity @param {Pick<Column, "kind" | "name">} column @returns {Value | undefined} */
export function valueIn(entity, { kind, name }) {
  if (kind === "property") return entity.properties.get(name);
  if (kind === "timestamp") return entity.timestamp ? { type: "Edm.DateTime", text: entity.timestamp } : undefined;
  return { type: "Edm.String", text: kind === "rowKey" ? entity.rowKey : entity.partitionKey };
}

/** @param {Entity} entity @param {Column} column */
export function cellText(entity, column) {
  return valueIn(entity, column)?.text ?? "";
}

/** @param {Entity} entity @param {Column} column @param {boolean} local */
export function cellTitle(entity, column, local) {
  const value = valueIn(entity, column);
  return value ? valueTitle(value, local) : "This entity has no such property";
}
