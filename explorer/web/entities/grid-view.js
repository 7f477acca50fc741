// Which lines and columns of the grid are in view. Arithmetic only.

/** @typedef {import("./grid-line.js").Frame} Frame */

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
