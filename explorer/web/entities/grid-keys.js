// The keyboard commands and the selection of the grid. Must not depend on the content of the lines.

/**
 * @typedef {{kind: "go", lines: number, pages: number, columns: number, extend: boolean}
 *   | {kind: "toggle" | "all" | "toggleAll" | "clear" | "open" | "delete" | "menu"}
 *   | {kind: "move", by: -1 | 1} | {kind: "widen", by: number}} Command
 */

/** Farther than the end of any list or line. */
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
 * Returns the line to go to. Only moving by a single line leads into the header, which is line -1.
 * @param {Command & {kind: "go"}} to @param {number} from @param {number} page
 */
export function lineAfter({ lines, pages, extend }, from, page) {
  const line = pages === 0 ? from + lines : from + pages * Math.max(1, page);
  return Math.max(extend || pages !== 0 || lines < -1 ? 0 : -1, line);
}

/** @template T */
export class Selection {
  /** @type {Set<T>} */
  #items = new Set();
  /** The line at which a range starts. */
  anchor = 0;

  get size() {
    return this.#items.size;
  }

  /** @param {T} item */
  has(item) {
    return this.#items.has(item);
  }

  /** @param {T} item */
  toggle(item) {
    if (!this.#items.delete(item)) this.#items.add(item);
  }

  /** @param {T[]} list @param {number} line */
  range(list, line) {
    const from = Math.max(0, Math.min(this.anchor, line));
    const to = Math.min(list.length - 1, Math.max(this.anchor, line));
    this.#items = new Set(list.slice(from, to + 1));
  }

  /** @param {T[]} list */
  all(list) {
    this.#items = new Set(list);
  }

  clear() {
    this.#items.clear();
  }

  /** Updates the selection after items were replaced or removed. @param {Map<T, T | null>} replaced */
  follow(replaced) {
    for (const [before, after] of replaced) {
      if (this.#items.delete(before) && after) this.#items.add(after);
    }
  }

  /** @param {T[]} list */
  of(list) {
    return this.#items.size === 0 ? [] : list.filter((item) => this.#items.has(item));
  }
}
