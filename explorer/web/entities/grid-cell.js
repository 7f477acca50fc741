// What a cell of the grid shows of an entity: the text, the type where it differs, the tooltip, and what is copied.
// Knows one cell and one entity, not where they are.

import { TITLE_CHARACTERS_MAX, shortType, showValue, timeText, valueTitle, visibleText } from "./display.js";

/** @typedef {import("../core/edm.js").Entity} Entity */
/** @typedef {import("./columns.js").Column} Column */

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
