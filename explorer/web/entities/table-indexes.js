// The indexes of the table in the entities view, as far as they are known. Must not depend on the DOM.

import { INDEXES_MAX, changeIndexes, orderedTable, watchIndexes } from "../core/indexes.js";

/** @import { TableService } from "../core/client.js" */
/** @import { TableIndex } from "../core/xml.js" */
/** @import { Sort } from "./columns.js" */

export class TableIndexes {
  /** Null if the server has no indexes, or if the credential does not allow reading them. @type {TableIndex[] | null} */
  list = null;
  #watching = new AbortController();

  /**
   * @param {TableService} service
   * @param {string} table
   * @param {(built: string[]) => void} changed  receives the properties whose index has become ready
   */
  constructor(service, table, changed) {
    this.service = service;
    this.table = table;
    this.changed = changed;
  }

  /** Reads the indexes, and follows those that are being built. */
  async read() {
    const { service, table } = this;
    // Tables whose name begins with a dollar sign cannot have indexes.
    if (!service.extensions || !service.may("policies", table) || table.startsWith("$")) return;
    this.stop();
    this.#watching = new AbortController();
    const { signal } = this.#watching;
    try {
      for await (const list of watchIndexes(service, table, signal)) {
        const building = this.list?.filter(({ isReady }) => !isReady).map(({ property }) => property) ?? [];
        this.list = list;
        this.changed(building.filter((name) => this.canSort(name)));
      }
    } catch {
      // The view of the table reports what is wrong with the server or the credential.
    }
  }

  stop() {
    this.#watching.abort();
  }

  /** Returns true if the server can sort the whole table by a property. @param {string} name */
  canSort(name) {
    return this.list?.some(({ property, isReady }) => property === name && isReady) ?? false;
  }

  /** Returns the table that lists the entities in the given order. @param {Sort | null} sort */
  sourceOf(sort) {
    return sort && this.canSort(sort.name) ? orderedTable(this.table, sort) : this.table;
  }

  /** @param {string} property */
  async add(property) {
    this.list = await changeIndexes(this.service, this.table, (names) => [...new Set([...names, property])]);
    void this.read();
  }

  /** The properties with an index; null if no index can be added. */
  get names() {
    return this.list && this.list.length < INDEXES_MAX ? this.list.map(({ property }) => property) : null;
  }
}
