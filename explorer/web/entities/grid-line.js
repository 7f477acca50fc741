// One line of the grid: an element that shows whichever entity it is bound to, so that scrolling makes no elements.
// Knows how a cell is written, not which lines are in view.

import { shortType, showValue, timeText, visibleText } from "./display.js";

/** @typedef {import("../core/edm.js").Entity} Entity */
/** @typedef {import("./columns.js").Column} Column */
/**
 * What all lines have in common while one frame is drawn.
 * @typedef {object} Frame
 * @property {Column[]} columns  the shown ones
 * @property {number} pinned  how many of them lead every line
 * @property {number} from  the first of the others that is drawn
 * @property {number} to  the one after the last that is drawn
 * @property {number[]} offsets  where each column begins; one more for the end
 * @property {boolean} local
 * @property {number} structure  changes whenever cells have to be laid out anew
 * @property {number} version  changes whenever what cells say may have changed
 */

/** The width of the cell that selects. */
export const SELECT_WIDTH = 40;

/** The column of the cell at a place among the drawn ones; place 0 is the cell that selects. @param {Frame} frame @param {number} place */
export function columnAt(frame, place) {
  return place <= frame.pinned ? place : frame.from + place - frame.pinned;
}

/** How many cells a line draws. @param {Frame} frame */
export function cellCount(frame) {
  return 1 + frame.pinned + frame.to - frame.from;
}

/**
 * Gives a cell its place and width; used by the lines and the header alike.
 * @param {HTMLElement} cell @param {Frame} frame @param {number} place
 */
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

/** Fits the number of cells in a line. @param {HTMLElement} line @param {HTMLElement[]} cells @param {number} count @param {() => HTMLElement} make */
export function fitCells(line, cells, count, make) {
  while (cells.length < count) {
    const cell = make();
    cells.push(cell);
    line.append(cell);
  }
  while (cells.length > count) cells.pop()?.remove();
}

/** @param {string} className @param {string} text */
function span(className, text) {
  const element = document.createElement("span");
  element.className = className;
  element.textContent = text;
  return element;
}

/** @param {HTMLElement} cell @param {string} text @param {string} [tag] @param {string} [mark] */
function write(cell, text, tag, mark) {
  if (!tag && !mark) {
    const only = cell.childNodes.length === 1 ? cell.firstChild : null;
    if (!(only instanceof Text)) cell.textContent = text;
    else if (only.data !== text) only.data = text;
    return;
  }
  const parts = [];
  if (tag) parts.push(span("type-tag", tag), " ");
  if (text) parts.push(text);
  if (mark) parts.push(text ? " " : "", span("value-mark", mark));
  cell.replaceChildren(...parts);
}

/** Marks a cell with the type of its value, "" where there is none; most stay as they are. @param {HTMLElement} cell @param {string} type */
function kind(cell, type) {
  if (cell.dataset["type"] !== type) cell.dataset["type"] = type;
}

/** @param {HTMLElement} cell @param {Entity} entity @param {Column} column @param {boolean} local */
function writeCell(cell, entity, column, local) {
  if (column.kind === "property") {
    const value = entity.properties.get(column.name);
    kind(cell, value ? shortType(value.type) : "");
    if (!value) return write(cell, "");
    const shown = showValue(value, local);
    return write(cell, shown.text, column.types.size > 1 ? shortType(value.type) : "", shown.mark);
  }
  kind(cell, column.kind === "timestamp" ? "DateTime" : "String");
  if (column.kind === "timestamp") return write(cell, entity.timestamp && timeText(entity.timestamp, local));
  const key = column.kind === "partitionKey" ? entity.partitionKey : entity.rowKey;
  write(cell, visibleText(key), "", key === "" ? "empty" : "");
}

export class Line {
  /** @type {HTMLElement[]} */
  cells = [];
  index = -1;
  #version = -1;
  #structure = -1;
  #top = "";
  #selected = false;

  constructor() {
    this.element = document.createElement("div");
    this.element.className = "grid-line";
    this.element.setAttribute("role", "row");
  }

  /** Whether binding to this line would change nothing. @param {number} index @param {Frame} frame */
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
    fitCells(this.element, this.cells, cellCount(frame), () => {
      const cell = document.createElement("div");
      cell.className = "grid-cell";
      cell.setAttribute("role", "gridcell");
      cell.tabIndex = -1;
      return cell;
    });
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
