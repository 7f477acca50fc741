// Loads the pages of one query, one at a time. Must not depend on the DOM.

import { PAGE_ENTITIES_MAX } from "../core/batch.js";
import { isAborted } from "../core/errors.js";
import { isOrderedTable } from "../core/indexes.js";
import { checkFilter } from "../query/filter-text.js";
import { order } from "./changes.js";

/** @import { Entity } from "../core/edm.js" */
/** @import { TableService } from "../core/client.js" */
/** @import { Continuation, PageReport } from "../core/responses.js" */
/** @import { Query } from "../query/query.js" */
/** @typedef {"idle" | "loading" | "paused" | "failed" | "complete"} LoaderState */
/** @typedef {{page: (entities: Entity[], report: PageReport) => void, state: () => void}} LoaderListener */

/** The number of pages and the time after which loading pauses until the user requests more. */
const PAGES_UNASKED_MAX = 10;
const UNASKED_MS_MAX = 5000;

export class EntityLoader {
  /** @type {Entity[]} */
  entities = [];
  /** @type {LoaderState} */
  state = "idle";
  /** @type {unknown} */
  error = null;
  #returned = 0;
  /** @type {Continuation | null} */
  #next = null;
  /** @type {Entity | undefined} */
  #last;
  #started = false;
  #abort = new AbortController();
  #pause = new AbortController();
  #unasked = { pages: 0, milliseconds: 0 };
  /** @type {Promise<void> | null} */
  #running = null;

  /** @param {TableService} service @param {string} table @param {Query} query @param {LoaderListener} listener */
  constructor(service, table, query, listener) {
    this.service = service;
    this.table = table;
    this.query = query;
    this.listener = listener;
  }

  /** True if the entities are not in the order of their keys. */
  get isOrdered() {
    return isOrderedTable(this.table);
  }

  get projected() {
    return this.query.select !== null;
  }

  /** Returns true if the page that contains the entity is loaded. @param {Entity} entity */
  covers(entity) {
    if (this.state === "complete") return true;
    return !this.isOrdered && this.#last !== undefined && order(entity, this.#last) <= 0;
  }

  /** Loads the next page that contains entities, or waits for the one that is loading. @returns {Promise<void>} */
  more() {
    if (this.#running) return this.#running;
    if (this.state === "complete" || this.#abort.signal.aborted) return Promise.resolve();
    this.#running = this.#load().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #load() {
    this.#enter("loading");
    try {
      let received = 0;
      while (received === 0 && !this.#ended() && !this.#tired()) received = await this.#page();
      this.#enter(this.#ended() ? "complete" : this.#tired() ? "paused" : "idle");
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      if (isAborted(error)) return this.#enter("paused");
      this.error = error;
      this.#enter("failed");
    }
  }

  #tired() {
    const { pages, milliseconds } = this.#unasked;
    return this.#pause.signal.aborted || pages >= PAGES_UNASKED_MAX || (pages > 1 && milliseconds >= UNASKED_MS_MAX);
  }

  /** Records that the user wants more entities, so that loading may continue. */
  ask() {
    this.#unasked = { pages: 0, milliseconds: 0 };
    if (this.#pause.signal.aborted) this.#pause = new AbortController();
  }

  /** Cancels the request in flight. Loading resumes when the user requests more. */
  pause() {
    this.#pause.abort();
  }

  #ended() {
    const { top } = this.query;
    return (this.#started && this.#next === null) || (top !== null && this.#returned >= top);
  }

  async #page() {
    const { filter, select, top } = this.query;
    checkFilter(filter, this.service.extensions);
    const signal = AbortSignal.any([this.#abort.signal, this.#pause.signal]);
    const began = performance.now();
    const left = top === null ? null : Math.min(PAGE_ENTITIES_MAX, top - this.#returned);
    const page = await this.service.queryEntities(this.table, {
      filter,
      select,
      top: left,
      next: this.#next,
      explain: true,
      signal,
    });
    if (signal.aborted) throw signal.reason;
    this.#started = true;
    this.#unasked.pages += 1;
    this.#unasked.milliseconds += performance.now() - began;
    this.#next = page.next;
    this.#returned += page.entities.length;
    for (const entity of page.entities) this.entities.push(entity);
    this.#last = page.entities.at(-1) ?? this.#last;
    this.listener.page(page.entities, page.report);
    return page.entities.length;
  }

  /** @param {AbortSignal} signal @param {(loaded: number) => void} progress */
  async all(signal, progress) {
    while (!signal.aborted && this.state !== "complete") {
      this.ask();
      await this.more();
      if (this.state === "failed") throw this.error;
      if (this.#abort.signal.aborted) return;
      progress(this.entities.length);
    }
  }

  /** @param {LoaderState} state */
  #enter(state) {
    if (this.#abort.signal.aborted) return;
    if (state !== "failed") this.error = null;
    this.state = state;
    this.listener.state();
  }

  /** Cancels the request in flight. The listener is not called any more. */
  stop() {
    this.#abort.abort(new DOMException("The query changed", "AbortError"));
  }
}
