// The columns of the grid: keys, Timestamp and all properties, in the user's arrangement. Must not depend on the grid.

/** @import { EdmType, Entity } from "../core/edm.js" */
/** @import { Store } from "../ui/storage.js" */
/** @typedef {{order: string[], hidden: string[], widths: [string, number][], local: boolean}} Layout */
/**
 * @typedef {object} Column
 * @property {string} name
 * @property {"partitionKey" | "rowKey" | "timestamp" | "property"} kind
 * @property {Set<EdmType>} types  the types of its values in the loaded entities
 * @property {number} width
 * @property {boolean} hidden
 * @property {boolean} isFitted  whether the width was already chosen, by the user or to fit the content
 */
/** The column by which the loaded entities are sorted. @typedef {{name: string, descending: boolean}} Sort */

/** @type {Record<Column["kind"], number>} */
const WIDTHS_NEW = { partitionKey: 150, rowKey: 150, timestamp: 250, property: 170 };
const PINNED = 2;

/** @returns {Layout} */
export function emptyLayout() {
  return { order: [], hidden: [], widths: [], local: false };
}

/** Parses a layout from arbitrary text. @param {string | null} text @returns {Layout} */
export function readLayout(text) {
  const layout = emptyLayout();
  /** @type {any} */
  let raw = null;
  try {
    raw = JSON.parse(text ?? "null");
  } catch {
    return layout;
  }
  if (typeof raw !== "object" || raw === null) return layout;
  /** @param {unknown} list @returns {string[]} */
  const names = (list) => (Array.isArray(list) ? list.filter((name) => typeof name === "string") : []);
  layout.order = names(raw.order);
  layout.hidden = names(raw.hidden);
  if (Array.isArray(raw.widths)) {
    layout.widths = raw.widths.filter(
      (/** @type {any} */ pair) => Array.isArray(pair) && typeof pair[0] === "string" && Number.isFinite(pair[1]));
  }
  layout.local = raw.local === true;
  return layout;
}

export class Columns {
  /** @type {Map<string, Column>} */
  #byName = new Map();
  /** @type {Column[]} */
  #ordered = [];
  /** @type {Map<string, number>} */
  #rank = new Map();
  /** @type {Set<string>} */
  #hidden;
  /** @type {Map<string, number>} */
  #widths;
  /** @type {Sort | null} */
  sort = null;

  /** @param {Layout} [layout] */
  constructor(layout = emptyLayout()) {
    this.#hidden = new Set(layout.hidden);
    this.#widths = new Map(layout.widths);
    this.local = layout.local;
    layout.order.forEach((name, place) => this.#rank.set(name, place));
    this.#create("PartitionKey", "partitionKey");
    this.#create("RowKey", "rowKey");
    this.#create("Timestamp", "timestamp");
    this.#sort();
  }

  /** @param {string} name @param {Column["kind"]} kind */
  #create(name, kind) {
    const saved = this.#widths.get(name);
    const width = limited(saved ?? WIDTHS_NEW[kind]);
    /** @type {Column} */
    const column = { name, kind, types: new Set(), width, hidden: this.#hidden.has(name), isFitted: saved !== undefined };
    this.#byName.set(name, column);
    this.#ordered.push(column);
    return column;
  }

  /** Sorts the columns. Properties without a saved position follow the others, in order of appearance. */
  #sort() {
    const others = { partitionKey: -3, rowKey: -2, timestamp: -1, property: Infinity };
    const place = (/** @type {Column} */ { name, kind }) =>
      isKey(kind) ? others[kind] : (this.#rank.get(name) ?? others[kind]);
    this.#ordered.sort((a, b) => place(a) - place(b) || 0);
  }

  /** Adds the properties of entities. Returns true if a column or a type is new. @param {Iterable<Entity>} entities */
  add(entities) {
    let changed = false;
    let created = false;
    for (const entity of entities) {
      for (const [name, value] of entity.properties) {
        let column = this.#byName.get(name);
        if (!column) {
          column = this.#create(name, "property");
          created = true;
        }
        if (!column.types.has(value.type)) {
          column.types.add(value.type);
          changed = true;
        }
      }
    }
    if (created) this.#sort();
    return changed || created;
  }

  get all() {
    return this.#ordered;
  }

  get shown() {
    return this.#ordered.filter((column) => !column.hidden);
  }

  /** @param {Column[]} shown */
  static pinned(shown) {
    return shown.filter(({ kind }) => isKey(kind)).length;
  }

  /** @returns {Map<string, EdmType>} */
  get properties() {
    /** @type {Map<string, EdmType>} */
    const names = new Map();
    for (const column of this.#ordered) {
      const [type] = column.types;
      if (column.kind === "property" && type) names.set(column.name, type);
    }
    return names;
  }

  /** @param {string} name */
  get(name) {
    return this.#byName.get(name);
  }

  /** @param {string} name @param {boolean} hidden */
  hide(name, hidden) {
    const column = this.#byName.get(name);
    if (column) column.hidden = hidden;
    if (hidden) this.#hidden.add(name);
    else this.#hidden.delete(name);
  }

  /** @param {string} name @param {number} width */
  resize(name, width) {
    const column = this.#byName.get(name);
    if (!column) return;
    column.width = limited(width);
    column.isFitted = true;
    this.#widths.set(name, column.width);
  }

  /** Sets the width of columns whose width was not chosen yet. @param {(column: Column) => number} widthOf */
  fit(widthOf) {
    for (const column of this.shown) {
      if (column.isFitted) continue;
      column.width = limited(widthOf(column));
      column.isFitted = true;
    }
  }

  /**
   * Moves a column to the position of another one. Returns false if that is impossible, because keys stay first.
   * @param {string} name
   * @param {string} target
   */
  moveTo(name, target) {
    const from = this.#ordered.findIndex((column) => column.name === name);
    const to = this.#ordered.findIndex((column) => column.name === target);
    if (from < PINNED || to < PINNED || from === to) return false;
    const moved = this.#ordered.splice(from, 1);
    this.#ordered.splice(to, 0, ...moved);
    // Properties that no loaded entity has keep their order, after the properties that some entity has.
    const names = this.#ordered.slice(PINNED).map((column) => column.name);
    this.#rank = new Map([...new Set([...names, ...this.#saved])].map((saved, place) => [saved, place]));
    return true;
  }

  /** @param {string} name @param {-1 | 1} direction */
  move(name, direction) {
    const shown = this.shown;
    const neighbour = shown[shown.findIndex((column) => column.name === name) + direction];
    return neighbour ? this.moveTo(name, neighbour.name) : false;
  }

  /** @returns {Layout} */
  get layout() {
    return { order: this.#saved, hidden: [...this.#hidden], widths: [...this.#widths], local: this.local };
  }

  get #saved() {
    return [...this.#rank].sort((a, b) => a[1] - b[1]).map(([name]) => name);
  }
}

/** @param {Column["kind"]} kind */
export function isKey(kind) {
  return kind === "partitionKey" || kind === "rowKey";
}

/** @param {number} width */
function limited(width) {
  return Math.round(Math.min(1200, Math.max(56, width)));
}

export class LayoutStore {
  /** @param {Store} storage @param {string} account @param {string} table */
  constructor(storage, account, table) {
    this.storage = storage;
    this.key = `rowhouse-layout:${account}/${table.toLowerCase()}`;
  }

  read() {
    return readLayout(this.storage.getItem(this.key));
  }

  /** @param {Layout} layout */
  write(layout) {
    try {
      this.storage.setItem(this.key, JSON.stringify(layout));
    } catch {
      // If the storage is full or denied, only the layout is lost.
    }
  }
}
