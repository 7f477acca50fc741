// Keeps the columns of each table for the next visit, by account and table: names, order and widths, and nothing that an entity
// holds. Knows where layouts are kept, not what they do.

import { readLayout } from "./columns.js";

/** @typedef {import("./columns.js").Layout} Layout */

/** A drag changes a width with every movement; only where it ends is written. */
const DELAY_MS = 200;

export class LayoutStore {
  #timer = 0;
  /** @type {Layout | null} */
  #waiting = null;

  /** @param {Storage} storage @param {string} account @param {string} table */
  constructor(storage, account, table) {
    this.storage = storage;
    this.key = `rowhouse-layout:${account}/${table.toLowerCase()}`;
  }

  read() {
    return readLayout(this.storage.getItem(this.key));
  }

  /** @param {Layout} layout */
  write(layout) {
    this.#waiting = layout;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.flush(), DELAY_MS);
  }

  /** Writes what is waiting. */
  flush() {
    clearTimeout(this.#timer);
    if (!this.#waiting) return;
    try {
      this.storage.setItem(this.key, JSON.stringify(this.#waiting));
    } catch {
      // A full or forbidden store costs only what would have been remembered.
    }
    this.#waiting = null;
  }
}
