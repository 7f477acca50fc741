// Queries that were run, and those that were saved under a name: kept in this browser, by account and table.
// Queries only: this module must not know credentials.

import { asQuery, sameQuery } from "./query.js";

/** @import { Query } from "./query.js" */

/** @typedef {{name: string, query: Query}} SavedQuery */

const HISTORY_MAX = 50;
const SAVED_MAX = 200;

export class History {
  /**
   * @param {Storage} storage
   * @param {string} account
   * @param {string} table
   */
  constructor(storage, account, table) {
    this.storage = storage;
    this.place = `${account}/${table}`;
  }

  /** Newest first. @returns {Query[]} */
  get queries() {
    return this.#read("history")
      .map(asQuery)
      .filter((query) => query !== null);
  }

  /** Puts a query first. @param {Query} query */
  add(query) {
    const others = this.queries.filter((other) => !sameQuery(other, query));
    this.#write("history", [query, ...others].slice(0, HISTORY_MAX));
  }

  clear() {
    this.#write("history", []);
  }

  /** By name. @returns {SavedQuery[]} */
  get saved() {
    return this.#read("saved").flatMap((value) => {
      const query = asQuery(value?.query);
      return query && typeof value.name === "string" ? [{ name: value.name, query }] : [];
    });
  }

  /** Saves a query, in place of one of the same name. @param {string} name @param {Query} query */
  save(name, query) {
    const others = this.saved.filter((saved) => saved.name !== name);
    const all = [...others, { name, query }].sort((a, b) => a.name.localeCompare(b.name));
    this.#write("saved", all.slice(0, SAVED_MAX));
  }

  /** @param {string} name */
  remove(name) {
    this.#write(
      "saved",
      this.saved.filter((saved) => saved.name !== name),
    );
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

  /** A browser that stores nothing for pages has no history. @param {"history" | "saved"} kind @param {unknown[]} values */
  #write(kind, values) {
    try {
      const name = `rowhouse-${kind}:${this.place}`;
      if (values.length) this.storage.setItem(name, JSON.stringify(values));
      else this.storage.removeItem(name);
    } catch {
      // There is nothing that the user could do about it, and nothing is lost that was asked for.
    }
  }
}
