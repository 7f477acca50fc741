// The columns of the grid: the keys, Timestamp and the union of the properties in order of appearance, with what the user
// chose (order, hidden, width). Knows neither the grid nor where the layout is kept.

/** @typedef {import("../core/edm.js").Entity} Entity */
/** @typedef {import("../core/edm.js").EdmType} EdmType */
/** @typedef {{order: string[], hidden: string[], widths: [string, number][], local: boolean}} Layout */
/**
 * @typedef {object} Column
 * @property {string} name
 * @property {"partitionKey" | "rowKey" | "timestamp" | "property"} kind
 * @property {Set<EdmType>} types  the types that its values have among what is loaded
 * @property {number} width
 * @property {boolean} hidden
 */

export const WIDTH_MIN = 56;
export const WIDTH_MAX = 1200;
const WIDTH_NEW = 170;
const KEY_WIDTH_NEW = 150;
const TIMESTAMP_WIDTH_NEW = 250;
const PINNED = 2;

/** @returns {Layout} */
export function emptyLayout() {
  return { order: [], hidden: [], widths: [], local: false };
}

/** A layout from text that may be anything: what is not as expected is left out. @param {string | null} text @returns {Layout} */
export function readLayout(text) {
  const layout = emptyLayout();
  /** @type {any} */
  let raw = null;
  try { raw = JSON.parse(text ?? "null"); } catch { return layout; }
  if (typeof raw !== "object" || raw === null) return layout;
  /** @param {unknown} list @returns {string[]} */
  const names = (list) => Array.isArray(list) ? list.filter((name) => typeof name === "string") : [];
  layout.order = names(raw.order);
  layout.hidden = names(raw.hidden);
  if (Array.isArray(raw.widths)) {
    layout.widths = raw.widths.filter((/** @type {any} */ pair) =>
      Array.isArray(pair) && typeof pair[0] === "string" && Number.isFinite(pair[1]));
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
  /** Names of the saved order that no loaded entity has yet; they keep their place. @type {string[]} */
  #savedOrder;

  /** @param {Layout} [layout] */
  constructor(layout = emptyLayout()) {
    this.#savedOrder = layout.order;
    this.#hidden = new Set(layout.hidden);
    this.#widths = new Map(layout.widths);
    this.local = layout.local;
    layout.order.forEach((name, place) => this.#rank.set(name, place));
    this.#create("PartitionKey", "partitionKey", KEY_WIDTH_NEW);
    this.#create("RowKey", "rowKey", KEY_WIDTH_NEW);
    this.#create("Timestamp", "timestamp", TIMESTAMP_WIDTH_NEW);
    this.#sort();
  }

  /** @param {string} name @param {Column["kind"]} kind @param {number} width */
  #create(name, kind, width) {
    const column = {
      name, kind, types: new Set(),
      width: Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, this.#widths.get(name) ?? width)),
      hidden: this.#hidden.has(name),
    };
    this.#byName.set(name, column);
    this.#ordered.push(column);
    return column;
  }

  /** Names without a saved place follow the others in order of appearance (the sort is stable). */
  #sort() {
    const place = (/** @type {Column} */ column) =>
      column.kind === "partitionKey" ? -2 : column.kind === "rowKey" ? -1
        : this.#rank.get(column.name) ?? (column.kind === "timestamp" ? -0.5 : Number.MAX_SAFE_INTEGER);
    this.#ordered.sort((a, b) => place(a) - place(b));
  }

  /**
   * Takes in what a page brought; the work is proportional to the page, never to what is loaded.
   * @param {Iterable<Entity>} entities
   * @returns {boolean} whether a column, or a type of a column, is new
   */
  add(entities) {
    let changed = false;
    let created = false;
    for (const entity of entities) {
      for (const [name, value] of entity.properties) {
        let column = this.#byName.get(name);
        if (!column) {
          column = this.#create(name, "property", WIDTH_NEW);
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

  /** All columns in order. */
  get all() { return this.#ordered; }

  /** The columns that are shown, in order. */
  get shown() { return this.#ordered.filter((column) => !column.hidden); }

  /** The number of leading shown columns that stay in place: the keys. @param {Column[]} shown */
  static pinned(shown) {
    return shown.filter((column) => column.kind === "partitionKey" || column.kind === "rowKey").length;
  }

  /** Names and types of the properties, for completion. @returns {Map<string, EdmType>} */
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
  get(name) { return this.#byName.get(name); }

  /** @param {string} name @param {boolean} hidden */
  hide(name, hidden) {
    const column = this.#byName.get(name);
    if (column) column.hidden = hidden;
  }

  /** @param {string} name @param {number} width */
  resize(name, width) {
    const column = this.#byName.get(name);
    if (column) column.width = Math.round(Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, width)));
  }

  /**
   * Moves a column to the place of another one. The keys stay first, so they neither move nor give way.
   * @param {string} name
   * @param {string} target
   * @returns {boolean} whether it moved
   */
  moveTo(name, target) {
    const from = this.#ordered.findIndex((column) => column.name === name);
    const to = this.#ordered.findIndex((column) => column.name === target);
    if (from < PINNED || to < PINNED || from === to) return false;
    const moved = this.#ordered.splice(from, 1);
    this.#ordered.splice(to, 0, ...moved);
    this.#rank = new Map(this.#ordered.slice(PINNED).map((column, place) => [column.name, place]));
    const known = new Set(this.#rank.keys());
    for (const saved of this.#savedOrder) if (!known.has(saved)) this.#rank.set(saved, this.#rank.size);
    return true;
  }

  /** Moves a column past its shown neighbour. @param {string} name @param {-1 | 1} direction */
  move(name, direction) {
    const shown = this.shown;
    const neighbour = shown[shown.findIndex((column) => column.name === name) + direction];
    return neighbour ? this.moveTo(name, neighbour.name) : false;
  }

  /** What to remember: the choices, also for names that nothing loaded has. @returns {Layout} */
  get layout() {
    const hidden = new Set(this.#hidden);
    const widths = new Map(this.#widths);
    for (const column of this.#ordered) {
      if (column.hidden) hidden.add(column.name); else hidden.delete(column.name);
      const preset = column.kind === "timestamp" ? TIMESTAMP_WIDTH_NEW : column.kind === "property" ? WIDTH_NEW : KEY_WIDTH_NEW;
      if (column.width !== preset) widths.set(column.name, column.width); else widths.delete(column.name);
    }
    const order = [...this.#rank].sort((a, b) => a[1] - b[1]).map(([name]) => name);
    return { order, hidden: [...hidden], widths: [...widths], local: this.local };
  }
}
