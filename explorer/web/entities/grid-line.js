// One line of the grid: an element that shows whichever entity it is bound to, so that scrolling makes no elements; and what its
// cells show, as text and as tooltips. Knows not which lines are in view.

import { h, replaceChildren } from "../ui/dom.js";
import { shortType, showValue, valueTitle } from "./display.js";
import { cellCount, columnAt, layOut } from "./grid-frame.js";

/** @import { Entity, Value } from "../core/edm.js" */
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

  element = h("div", { class: "grid-line", role: "row" });

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
    fitCells(this.element, this.cells, cellCount(frame), () =>
      h("div", { class: "grid-cell", role: "gridcell", tabindex: "-1" }),
    );
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
    mark && [text && " ", h("span", { class: "value-mark" }, mark)],
  );
}

/** @param {HTMLElement} cell @param {Entity} entity @param {Column} column @param {boolean} local */
function writeCell(cell, entity, column, local) {
  const value = valueIn(entity, column);
  const type = value ? shortType(value.type) : "";
  // A tooltip is of the value that was there when the pointer was.
  if (cell.title) cell.title = "";
  // Most cells keep their type while one scrolls.
  if (cell.dataset["type"] !== type) cell.dataset["type"] = type;
  const shown = value ? showValue(value, local) : { text: "", mark: "" };
  write(cell, shown.text, column.types.size > 1 ? type : "", shown.mark);
}

/** @param {Entity} entity @param {Column} column @returns {Value | undefined} */
function valueIn(entity, { kind, name }) {
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
