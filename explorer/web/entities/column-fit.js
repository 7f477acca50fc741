// Determines how wide a column must be for its content. Must not depend on the grid.

import { isKey } from "./columns.js";
import { shortType, showValue, visibleText } from "./display.js";
import { valueIn } from "./grid-line.js";

/** @import { Entity } from "../core/edm.js" */
/** @import { Column, Columns } from "./columns.js" */
/** @typedef {"text" | "bold" | "small"} Font */
/** Returns the width of a text in pixels. @typedef {(text: string, font: Font) => number} Measure */

/** Only this many entities affect the width, so that columns do not move while more entities load. */
const ENTITIES_MAX = 200;
const PIXELS_MAX = 360;
/** The width of the padding and border of a cell. */
const CELL_PIXELS = 20;
/** The width of the margin, padding and border of a tag. */
const TAG_PIXELS = 18;

/**
 * Chooses the width of columns once they have content.
 * @param {Columns} columns @param {Entity[]} entities @param {HTMLElement} grid
 */
export function fitColumns(columns, entities, grid) {
  if (entities.length === 0 || columns.shown.every(({ isFitted }) => isFitted)) return;
  const measure = textMeasure(grid);
  columns.fit((column) => fittingWidth(column, entities, columns.local, measure));
}

/** @param {Column} column @param {Entity[]} entities @param {boolean} local @param {Measure} measure */
export function fittingWidth(column, entities, local, measure) {
  const tag = headerTag(column);
  let widest = measure(visibleText(column.name), "bold") + tagWidth(tag, measure);
  for (const entity of entities.slice(0, ENTITIES_MAX)) {
    const value = valueIn(entity, column);
    if (!value) continue;
    const { text, mark } = showValue(value, local);
    const width =
      measure(text, "text") +
      tagWidth(column.types.size > 1 ? shortType(value.type) : "", measure) +
      tagWidth(mark, measure);
    if (width > widest) widest = width;
  }
  return Math.min(PIXELS_MAX, Math.ceil(widest) + CELL_PIXELS);
}

/** @param {string} tag @param {Measure} measure */
function tagWidth(tag, measure) {
  return tag ? measure(tag, "small") + TAG_PIXELS : 0;
}

/** Returns the type to show in the header of a column. @param {Column} column */
export function headerTag({ kind, types }) {
  const [type] = types;
  if (kind === "timestamp") return "DateTime";
  // Keys are always strings.
  if (isKey(kind)) return "";
  return types.size === 1 && type ? shortType(type) : "several types";
}

/**
 * Returns a function that measures text in the fonts of the given element.
 * @param {HTMLElement} element
 * @returns {Measure}
 */
function textMeasure(element) {
  const { fontFamily, fontSize } = getComputedStyle(element);
  const size = parseFloat(fontSize);
  /** @type {Record<Font, string>} */
  const fonts = {
    text: `${size}px ${fontFamily}`,
    bold: `600 ${size}px ${fontFamily}`,
    small: `italic ${size * 0.8}px ${fontFamily}`,
  };
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (new OffscreenCanvas(1, 1).getContext("2d"));
  return (text, font) => {
    context.font = fonts[font];
    return context.measureText(text).width;
  };
}
