// One line of the grid: an element that shows whichever entity it is bound to, so that scrolling makes no elements; and what its
// cells show, as text and as tooltips. Knows not which lines are in view.

import { TITLE_CHARACTERS_MAX, shortType, showValue, timeText, valueTitle, visibleText } from "./display.js";
import { cellCount, columnAt, layOut } from "./grid-frame.js";

/** @import { Entity } from "../core/edm.js" */
/** @import { Column } from "./columns.js" */
/** @import { Frame } from "./grid-frame.js" */

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

/**
 * Fits the number of cells in a line.
 * @param {HTMLElement} line
 * @param {HTMLElement[]} cells
 * @param {number} count
 * @param {() => HTMLElement} make
 */
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

/**
 * Marks a cell with the type of its value, "" where there is none; most stay as they are.
 * @param {HTMLElement} cell
 * @param {string} type
 */
function kind(cell, type) {
  if (cell.dataset["type"] !== type) cell.dataset["type"] = type;
}

/** @param {HTMLElement} cell @param {Entity} entity @param {Column} column @param {boolean} local */
export function writeCell(cell, entity, column, local) {
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

/** The whole text of a cell, as it is stored. @param {Entity} entity @param {Column} column */
export function cellText(entity, column) {
  switch (column.kind) {
    case "partitionKey":
      return entity.partitionKey;
    case "rowKey":
      return entity.rowKey;
    case "timestamp":
      return entity.timestamp;
    case "property":
      return entity.properties.get(column.name)?.text ?? "";
  }
}

/** The tooltip of a cell. @param {Entity} entity @param {Column} column @param {boolean} local */
export function cellTitle(entity, column, local) {
  if (column.kind === "property") {
    const value = entity.properties.get(column.name);
    return value ? valueTitle(value, local) : "This entity has no such property";
  }
  if (column.kind === "timestamp") return entity.timestamp && timeText(entity.timestamp, !local);
  return visibleText(cellText(entity, column), TITLE_CHARACTERS_MAX) || "empty";
}
