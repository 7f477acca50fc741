// The view of a table's entities. Connects its parts; each knows its own work.

import { describe } from "../core/errors.js";
import { countText, numberText } from "../core/words.js";
import { openExport } from "../moving/export.js";
import { openImport } from "../moving/import.js";
import { ExplainPanel } from "../query/explain-panel.js";
import { QueryBar } from "../query/query-bar.js";
import { queryHash } from "../query/query.js";
import { h, replaceChildren } from "../ui/dom.js";
import { acceptFiles } from "../ui/files.js";
import { announce, notify } from "../ui/notify.js";
import { progressDialog } from "../ui/progress.js";
import { browserStore } from "../ui/storage.js";
import { applyPairs } from "./changes.js";
import { openColumnMenu, openColumns } from "./columns-dialog.js";
import { Columns, LayoutStore, emptyLayout } from "./columns.js";
import { EntityActions } from "./entity-actions.js";
import { EntityGrid } from "./grid.js";
import { Selection } from "./grid-keys.js";
import { EntityLoader } from "./loader.js";

/** @import { Session } from "../session.js" */
/** @import { Entity } from "../core/edm.js" */
/** @import { Query } from "../query/query.js" */
/** @import { Pair } from "./changes.js" */

export class EntitiesView extends HTMLElement {
  #session;
  #table;
  /** @type {EntityLoader} */
  #loader;
  #layouts;
  #columns;
  /** @type {Selection<Entity>} */
  #selection = new Selection();
  #actions;
  #grid = new EntityGrid();
  #query;
  #explain = new ExplainPanel();
  #status = h("p", { class: "status", role: "status", "aria-live": "off" });
  #buttons;
  #onKey = (/** @type {KeyboardEvent} */ event) => this.#keydown(event);
  #onReachable = () => {
    if (this.#loader.state === "failed") void this.#loader.more();
    // The credential may be another one, with other permissions.
    this.#showState();
  };

  /** @param {Session} session @param {{table: string, query: Query}} params */
  constructor(session, { table, query }) {
    super();
    this.#session = session;
    this.#table = table;
    this.#layouts = new LayoutStore(browserStore, session.service.account, table);
    this.#columns = new Columns(this.#layouts.read());
    this.#loader = this.#newLoader(query);
    this.#actions = new EntityActions(session.service, table, {
      loader: () => this.#loader,
      names: () => [...this.#columns.properties.keys()],
      apply: (pairs, loader) => this.#apply(pairs, loader),
      undoChanged: () => this.#showState(),
      refocus: () => {
        const focused = document.activeElement;
        if (focused === document.body || this.#grid.contains(focused)) this.#grid.focus();
      },
    });
    this.#grid.label = `Entities of ${table}`;
    this.#query = new QueryBar(session);
    this.#query.table = table;
    this.#query.query = query;
    this.#buttons = this.#makeButtons();
    this.#listen();
  }

  connectedCallback() {
    const { stop, importing, ...tools } = this.#buttons;
    this.append(
      this.#heading(),
      this.#query,
      this.#explain,
      h("div", { class: "toolbar entity-tools", role: "toolbar", "aria-label": "Entities" }, Object.values(tools)),
      this.#grid,
      h(
        "div",
        { class: "entities-foot" },
        this.#status,
        h("button", { type: "button", class: "quiet load-all", onclick: () => this.#loadAll() }, "Load all"),
        stop,
      ),
    );
    addEventListener("keydown", this.#onKey);
    this.#session.service.addEventListener("reachable", this.#onReachable);
    this.#start(this.#loader);
  }

  disconnectedCallback() {
    this.#loader.stop();
    removeEventListener("keydown", this.#onKey);
    this.#session.service.removeEventListener("reachable", this.#onReachable);
  }

  /** @param {import("../core/client.js").Action} action */
  #may(action) {
    return this.#session.service.may(action, this.#table);
  }

  #heading() {
    const address = encodeURIComponent(this.#table);
    const shown = () =>
      openExport(this.#session, {
        table: this.#table,
        query: this.#loader.query,
        entities: this.#loader.entities,
        visible: this.#columns.shown.filter((column) => column.kind === "property").map((column) => column.name),
      });
    return h(
      "div",
      { class: "heading" },
      h("h1", { dir: "auto" }, this.#table),
      h(
        "nav",
        { class: "toolbar", "aria-label": "Table" },
        this.#may("policies") || this.#may("sign")
          ? h("a", { class: "button", href: `#/t/${address}/access` }, "Access")
          : null,
        h("button", { type: "button", onclick: shown }, "Export"),
        this.#buttons["importing"],
      ),
    );
  }

  /** @returns {Record<string, HTMLButtonElement>} */
  #makeButtons() {
    const actions = this.#actions;
    /** @type {[string, string, () => unknown][]} */
    const buttons = [
      ["add", "Add", () => actions.add()],
      ["edit", "Edit", () => this.#targets().forEach((entity) => actions.open(entity))],
      ["duplicate", "Duplicate", () => Promise.all(this.#targets().map((entity) => actions.duplicate(entity)))],
      ["remove", "Delete", () => this.#remove()],
      ["property", "Edit property of selected", () => actions.editProperty(this.#targets())],
      ["columns", "Columns", () => this.#openColumns()],
      ["refresh", "Refresh", () => this.#run(this.#loader.query)],
      ["undo", "Undo", () => actions.undo()],
      ["importing", "Import", () => this.#import()],
      ["stop", "Stop", () => (this.#loader.pause(), this.#grid.focus())],
    ];
    return Object.fromEntries(
      buttons.map(([name, label, run]) => [name, h("button", { type: "button", onclick: () => this.#try(run) }, label)]),
    );
  }

  #listen() {
    this.#query.addEventListener("run", () => this.#run(this.#query.query));
    /** @type {Record<string, (detail: any) => void>} */
    const handlers = {
      "near-end": () => this.#loader.state === "idle" && void this.#loader.more(),
      "entity-open": (line) => {
        const entity = this.#loader.entities[line];
        if (entity) this.#actions.open(entity);
      },
      "entities-delete": () => this.#may("delete") && this.#try(() => this.#remove()),
      "selection-change": () => {
        this.#showState();
        announce(`${countText(this.#selection.size)} selected`);
      },
      "active-change": () => this.#showState(),
      copied: () => announce("Copied"),
      "layout-change": (words) => {
        this.#layoutChanged();
        if (words) announce(words);
      },
      "column-menu": ({ name, opener }) =>
        openColumnMenu(this.#grid, this.#columns, name, opener, {
          changed: () => this.#columnsChanged(),
          all: () => this.#openColumns(),
        }),
    };
    for (const [kind, handle] of Object.entries(handlers)) {
      this.#grid.addEventListener(kind, (event) => handle(/** @type {CustomEvent} */ (event).detail));
    }
    this.#grid.addEventListener("scroll", () => this.#loader.ask());
    if (this.#may("add")) acceptFiles(this, (files) => void (this.#may("add") && this.#import(files)));
  }

  /** @param {() => unknown} run */
  async #try(run) {
    try {
      await run();
    } catch (error) {
      notify(describe(error), { kind: "error" });
    }
  }

  /** @param {Query} query */
  #newLoader(query) {
    const loader = new EntityLoader(this.#session.service, this.#table, query, {
      page: (entities, report) => {
        this.#explain.add(report);
        this.#addColumns(entities);
      },
      state: () => {
        this.#showState();
        this.#grid.grown(this.#loader.state === "complete");
        if (loader.state !== "loading") this.#explain.finish(loader.state === "complete");
        if (loader.state === "complete") announce(this.#countText());
      },
    });
    return loader;
  }

  /** @param {Entity[]} entities */
  #addColumns(entities) {
    if (!this.#columns.add(entities)) return;
    this.#grid.columnsChanged();
    this.#query.properties = this.#columns.properties;
  }

  /** Runs a query, and makes the address that of the query. @param {Query} query */
  #run(query) {
    const hash = queryHash(this.#table, query);
    if (hash !== location.hash) history.pushState(null, "", hash);
    this.#refresh(query);
  }

  #refresh(query = this.#loader.query) {
    // A result may come when the view is gone.
    if (!this.isConnected) return;
    this.#loader.stop();
    this.#columns = new Columns(this.#columns.layout);
    this.#start(this.#newLoader(query));
  }

  /** @param {EntityLoader} loader */
  #start(loader) {
    this.#loader = loader;
    this.#selection = new Selection();
    this.#explain.reset(loader.query);
    this.#grid.show(loader.entities, this.#columns, this.#selection);
    this.#showState();
    void loader.more();
  }

  /** Shows a change of what a loader brought. @param {Pair[]} pairs @param {EntityLoader} loader */
  #apply(pairs, loader) {
    const same = queryHash(this.#table, loader.query) === queryHash(this.#table, this.#loader.query);
    // Of another selection of properties, an entity would not be whole here.
    if (!same && loader.projected) return this.#refresh();
    const isLoaded = (/** @type {Entity} */ entity) => same && this.#loader.covers(entity);
    const { list, replaced, later } = applyPairs(this.#loader.entities, pairs, isLoaded);
    this.#loader.entities = list;
    this.#selection.follow(replaced);
    const changed = [...replaced.values(), ...pairs.map((pair) => pair.after)].filter((entity) => entity !== null);
    this.#addColumns(changed);
    const [first] = pairs;
    const place = pairs.length === 1 && first?.after ? list.findIndex((entity) => sameKeys(entity, first.after)) : -1;
    this.#grid.replaceList(list, place);
    if (same && later > 0) announce(`${countText(later)} added after those that are loaded`);
    this.#showState();
  }

  /** The selected entities, or the active one. */
  #targets() {
    if (this.#selection.size > 0) return this.#selection.of(this.#loader.entities);
    const entity = this.#loader.entities[this.#grid.activeLine];
    return entity ? [entity] : [];
  }

  async #remove() {
    const targets = this.#targets();
    if (targets.length > 0) await this.#actions.remove(targets);
  }

  #countText() {
    const { entities, state, query } = this.#loader;
    const count = entities.length;
    if (state !== "complete")
      return state === "loading" && count === 0 ? "Loading\u2026" : `${countText(count)} loaded, more follow`;
    if (count === 0) return query.filter ? "No entity matches" : "The table has no entities";
    return count === 1 ? "1 entity" : `all ${countText(count)}`;
  }

  #showState() {
    const { state, entities, error, projected } = this.#loader;
    const chosen = this.#selection.size;
    this.#status.textContent =
      this.#countText() +
      (chosen > 0 ? `, ${numberText(chosen)} selected` : "") +
      (projected ? ", some properties only" : "");
    const all = this.querySelector(".load-all");
    if (all instanceof HTMLElement) all.hidden = state === "complete" || entities.length === 0;
    const targets = chosen || (entities[this.#grid.activeLine] ? 1 : 0);
    const { add, edit, duplicate, remove, property, undo, importing, stop } = this.#buttons;
    for (const button of [add, duplicate, importing]) if (button) button.hidden = !this.#may("add");
    if (remove) remove.hidden = !this.#may("delete");
    if (property) property.hidden = !this.#may("update");
    if (edit) edit.textContent = this.#may("update") ? "Edit" : "View";
    if (stop) stop.hidden = state !== "loading";
    for (const button of [edit, duplicate]) if (button) button.disabled = targets !== 1;
    for (const button of [remove, property]) if (button) button.disabled = targets === 0;
    if (undo) {
      undo.hidden = this.#actions.undoLabel === null;
      undo.textContent = this.#actions.undoLabel ?? "";
    }
    this.#showTail(state, error);
  }

  /** @param {import("./loader.js").LoaderState} state @param {unknown} error */
  #showTail(state, error) {
    const { tail } = this.#grid;
    const text = state === "loading" ? "Loading\u2026" : state === "complete" ? `End: ${this.#countText()}` : state;
    if (tail.dataset["shown"] === text) return;
    tail.dataset["shown"] = text;
    const again = () => {
      this.#loader.ask();
      void this.#loader.more();
      this.#grid.focus();
    };
    if (state === "failed") {
      replaceChildren(
        tail,
        h("p", { class: "problem", role: "alert" }, describe(error)),
        h("button", { type: "button", onclick: again }, "Try again"),
      );
    } else if (state === "paused") {
      replaceChildren(tail, h("p", null, "More may follow."), h("button", { type: "button", onclick: again }, "Read on"));
    } else replaceChildren(tail, state === "idle" ? "" : text);
  }

  async #loadAll() {
    await this.#try(() =>
      progressDialog({
        title: "Loading all entities",
        run: async ({ report, signal }) => {
          report(0, null, this.#countText());
          await this.#loader.all(signal, (loaded) => report(0, null, `${countText(loaded)} loaded`));
        },
      }),
    );
  }

  /** @param {File[]} [files] */
  async #import(files = []) {
    await this.#try(async () => {
      const tables = await openImport(this.#session, this.#table, files);
      if (tables.length > 0) this.#refresh();
    });
  }

  #openColumns() {
    openColumns(this.#columns, {
      changed: () => this.#columnsChanged(),
      reset: () => {
        this.#columns = new Columns(emptyLayout());
        this.#columns.add(this.#loader.entities);
        this.#grid.useColumns(this.#columns);
        this.#layoutChanged();
      },
    });
  }

  #columnsChanged() {
    this.#grid.columnsChanged();
    this.#layoutChanged();
  }

  #layoutChanged() {
    this.#layouts.write(this.#columns.layout);
  }

  /** @param {KeyboardEvent} event */
  #keydown(event) {
    if (event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey) return;
    const { target } = event;
    const inText = target instanceof Element && target.closest("input, textarea, select, [contenteditable]");
    if (inText || document.querySelector("dialog[open]") || this.#actions.undoLabel === null) return;
    event.preventDefault();
    void this.#try(() => this.#actions.undo());
  }
}

/** @param {Entity} a @param {Entity | null} b */
function sameKeys(a, b) {
  return b !== null && a.partitionKey === b.partitionKey && a.rowKey === b.rowKey;
}

customElements.define("entities-view", EntitiesView);
