// A query of a table, with its URL and its label, and earlier queries, which the browser stores by account and table.
// This module must not depend on the page or on credentials.

/** @import { Store } from "../ui/storage.js" */

/**
 * `top` is the maximum number of entities to return on all pages together.
 * @typedef {{filter: string, select: string[] | null, top: number | null}} Query
 */

/** @type {Query} */
export const EVERYTHING = { filter: "", select: null, top: null };

/**
 * Returns the fragment of a URL that names the table and the query. It never contains a credential.
 * @param {string} table
 * @param {Query} query
 */
export function queryHash(table, { filter, select, top }) {
  const options = Object.entries({ filter, select: select?.join(",") ?? "", top: top === null ? "" : String(top) })
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return `#/t/${encodeURIComponent(table)}${options.length ? `?${options.join("&")}` : ""}`;
}

/** @param {Query} query */
export function queryLabel({ filter, select, top }) {
  const parts = [filter.trim() || "all entities"];
  if (select) parts.push(`select ${select.join(", ")}`);
  if (top !== null) parts.push(`limit ${top}`);
  return parts.join(" · ");
}

/** @param {Query} a @param {Query} b */
export function sameQuery(a, b) {
  return queryHash("", a) === queryHash("", b);
}

/** Converts a stored value to a query; null if it is not one. @param {unknown} value @returns {Query | null} */
export function asQuery(value) {
  if (typeof value !== "object" || value === null) return null;
  const { filter, select, top } = /** @type {Record<string, unknown>} */ (value);
  const isSelect = select === null || (Array.isArray(select) && select.every((name) => typeof name === "string"));
  const isTop = top === null || (typeof top === "number" && Number.isInteger(top) && top > 0);
  return typeof filter === "string" && isSelect && isTop ? { filter, select, top } : null;
}

/**
 * Returns the names in a comma-separated list, each once.
 * @param {string} text
 */
export function readNames(text) {
  return [
    ...new Set(
      text
        .split(",")
        .map((name) => name.trim())
        .filter(Boolean)),
  ];
}

/** @typedef {{name: string, query: Query}} SavedQuery */

const HISTORY_MAX = 50;
const SAVED_MAX = 200;

export class History {
  /**
   * @param {Store} storage
   * @param {string} account
   * @param {string} table
   */
  constructor(storage, account, table) {
    this.storage = storage;
    this.place = `${account}/${table}`;
  }

  /** The queries that were run, newest first. @returns {Query[]} */
  get queries() {
    return this.#read("history")
      .map(asQuery)
      .filter((query) => query !== null);
  }

  /** Adds a query at the front of the history. @param {Query} query */
  add(query) {
    const others = this.queries.filter((other) => !sameQuery(other, query));
    this.#write("history", [query, ...others].slice(0, HISTORY_MAX));
  }

  clear() {
    this.#write("history", []);
  }

  /** The saved queries, sorted by name. @returns {SavedQuery[]} */
  get saved() {
    return this.#read("saved").flatMap((value) => {
      const query = asQuery(value?.query);
      return query && typeof value.name === "string" ? [{ name: value.name, query }] : [];
    });
  }

  /** Saves a query. It replaces a saved query with the same name. @param {string} name @param {Query} query */
  save(name, query) {
    const others = this.saved.filter((saved) => saved.name !== name);
    const all = [...others, { name, query }].sort((a, b) => a.name.localeCompare(b.name));
    this.#write("saved", all.slice(0, SAVED_MAX));
  }

  /** @param {string} name */
  remove(name) {
    this.#write(
      "saved",
      this.saved.filter((saved) => saved.name !== name));
  }

  /** @param {"history" | "saved"} kind @returns {any[]} */
  #read(kind) {
    try {
      const values = JSON.parse(this.storage.getItem(`rowhouse-${kind}:${this.place}`) ?? "[]");
      return Array.isArray(values) ? values : [];
    } catch {
      return [];
    }
  }

  /** Stores the values, if the browser allows it. @param {"history" | "saved"} kind @param {unknown[]} values */
  #write(kind, values) {
    try {
      const name = `rowhouse-${kind}:${this.place}`;
      if (values.length) this.storage.setItem(name, JSON.stringify(values));
      else this.storage.removeItem(name);
    } catch {
      // The user can do nothing about it, and loses only the history.
    }
  }
}
