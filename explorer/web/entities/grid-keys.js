// Which key does what in the grid. Knows keys only.

/**
 * @typedef {{kind: "go", lines: number, pages: number, columns: number, extend: boolean}
 *   | {kind: "toggle" | "all" | "toggleAll" | "clear" | "open" | "delete" | "menu"}
 *   | {kind: "move", by: -1 | 1} | {kind: "widen", by: number}} Command
 */

/** Further than any list or line. */
const FAR = 1e9;

/** @param {number} lines @param {number} columns @param {boolean} extend @param {number} [pages] @returns {Command} */
function go(lines, columns, extend, pages = 0) {
  return { kind: "go", lines, columns, pages, extend };
}

/** @param {KeyboardEvent} event @returns {Command | null} */
function headerCommand({ key, altKey, shiftKey }) {
  const right = key === "ArrowRight";
  if (!right && key !== "ArrowLeft") return key === "Enter" || key === " " ? { kind: "menu" } : null;
  if (altKey) return { kind: "move", by: right ? 1 : -1 };
  if (shiftKey) return { kind: "widen", by: right ? 20 : -20 };
  return null;
}

/** @param {KeyboardEvent} event @param {boolean} header  whether a header has the focus @returns {Command | null} */
export function command(event, header) {
  const { key, shiftKey: shift } = event;
  const control = event.ctrlKey || event.metaKey;
  const special = header ? headerCommand(event) : null;
  if (special) return special;
  if (event.altKey) return null;
  switch (key) {
    case "ArrowDown":
      return go(control ? FAR : 1, 0, shift);
    case "ArrowUp":
      return go(control ? -FAR : -1, 0, shift);
    case "ArrowRight":
      return go(0, control ? FAR : 1, false);
    case "ArrowLeft":
      return go(0, control ? -FAR : -1, false);
    case "PageDown":
      return go(0, 0, shift, 1);
    case "PageUp":
      return go(0, 0, shift, -1);
    case "Home":
      return go(control ? -FAR : 0, -FAR, control && shift);
    case "End":
      return go(control ? FAR : 0, FAR, control && shift);
    case " ":
      return { kind: "toggle" };
    case "Enter":
    case "F2":
      return control ? null : { kind: "open" };
    case "Delete":
      return { kind: "delete" };
    case "Escape":
      return { kind: "clear" };
    case "a":
    case "A":
      return control ? { kind: "all" } : null;
    default:
      return null;
  }
}

/**
 * The line to go to; only one line at a time leads into the header, -1.
 * @param {Command & {kind: "go"}} to @param {number} from @param {number} page
 */
export function lineAfter({ lines, pages, extend }, from, page) {
  const line = pages === 0 ? from + lines : from + pages * Math.max(1, page);
  return Math.max(extend || pages !== 0 || lines < -1 ? 0 : -1, line);
}
