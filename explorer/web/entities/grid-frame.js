// What one frame of the grid draws: which lines and columns are in view, and where their cells are. Knows no entity.

/** @import { Column } from "./columns.js" */
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

/**
 * The column of the cell at a place among the drawn ones; place 0 is the cell that selects.
 * @param {Frame} frame
 * @param {number} place
 */
export function columnAt(frame, place) {
  return place <= frame.pinned ? place : frame.from + place - frame.pinned;
}

/** @param {Frame} frame */
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

export const LINE_HEIGHT = 30;
/** Browsers stop placing elements somewhere above this height; a longer list scrolls in proportion. */
export const BODY_PIXELS_MAX = 12_000_000;
/** Columns are drawn only where they are in view if there are more of them than this; then in steps, to redraw seldom. */
const ALL_COLUMNS_MAX = 40;
const COLUMN_STEP = 8;

/**
 * The part of a list that is in view: `top` is where it begins in the list, of which `body` pixels can be scrolled.
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
 * The columns to draw beside the pinned ones: all, unless they are many.
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
