// The view of a table's entities. Connects the grid, the query bar, the loader and the actions.

import { describe } from "../core/errors.js";
import { countText } from "../core/words.js";
import { openExport } from "../moving/export.js";
import { openImport } from "../moving/import.js";
import { ExplainPanel } from "../query/explain-panel.js";
import { QueryBar } from "../query/query-bar.js";
import { queryHash } from "../query/query.js";
import { div, h } from "../ui/dom.js";
import { acceptFiles } from "../ui/files.js";
import { announce, dismissErrors, notify } from "../ui/notify.js";
import { browserStore } from "../ui/storage.js";
import { applyPairs } from "./changes.js";
import { openCellMenu } from "./cell-menu.js";
import { openColumnMenu, openColumns } from "./columns-dialog.js";
import { Columns, LayoutStore, emptyLayout } from "./columns.js";
import { visibleText } from "./display.js";
import { openComparison } from "./dialogs.js";
import { EntityActions } from "./entity-actions.js";
import { makeButtons, showButtons, toolsOf } from "./entity-tools.js";
import { EntityGrid } from "./grid.js";
import { Selection } from "./grid-keys.js";
import { showTail } from "./grid-tail.js";
import { EntityLoader } from "./loader.js";
import { countMatching, deleteMatching, loadAll } from "./matching.js";
import { sorted } from "./sorting.js";
import { loadedText, statusText } from "./status-text.js";
import { TableIndexes } from "./table-indexes.js";

/** @import { Session } from "../session.js" */
/** @import { Entity } from "../core/edm.js" */
/** @import { Query } from "../query/query.js" */
/** @import { Pair } from "./changes.js" */
/** @import { Sort } from "./columns.js" */
/** @import { ButtonName } from "./entity-tools.js" */

export class EntitiesView extends HTMLElement {
  #session;
  #table;
  /** @type {EntityLoader} */
  #loader;
  /** The entities in the grid. @type {Entity[]} */
  #list = [];
  /** The number of entities that match the query, if the user had them counted. @type {number | null} */
  #total = null;
  #layouts;
  #columns;
  /** @type {Selection<Entity>} */
  #selection = new Selection();
  #actions;
  #grid = new EntityGrid();
  #query;
  #explain = new ExplainPanel();
  #indexes;
  #status = h("p", { class: "status", role: "status", "aria-live": "off" });
  #buttons;
  #onKey = (/** @type {KeyboardEvent} */ event) => this.#keydown(event);
  #onReachable = () => {
    if (this.#loader.state === "failed") void this.#loader.more();
    // There may be a new credential, with different permissions.
    this.#showState();
  };

  /** @param {Session} session @param {{table: string, query: Query}} params */
  constructor(session, { table, query }) {
    super();
    this.#session = session;
    this.#table = table;
    this.#layouts = new LayoutStore(browserStore, session.service.account, table);
    this.#columns = new Columns(this.#layouts.read());
    this.#indexes = new TableIndexes(session.service, table, (built) => this.#indexesChanged(built));
    this.#loader = this.#newLoader(query);
    this.#actions = new EntityActions(session.service, table, {
      loader: () => this.#loader,
      properties: () => this.#columns.properties,
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
    const { loadAll, countAll, stop } = this.#buttons;
    this.append(
      this.#query,
      toolsOf(this.#buttons),
      this.#grid,
      div("entities-end", div("entities-foot", this.#status, loadAll, countAll, stop), this.#explain));
    const onFiles = (/** @type {File[]} */ files) => void (this.#may("add") && this.#import(files));
    // The head of the table accepts files as well.
    if (this.#may("add")) acceptFiles(this.parentElement ?? this, onFiles);
    addEventListener("keydown", this.#onKey);
    this.#session.service.addEventListener("reachable", this.#onReachable);
    this.#start(this.#loader);
    void this.#indexes.read();
  }

  disconnectedCallback() {
    this.#loader.stop();
    this.#indexes.stop();
    this.#actions.stop();
    removeEventListener("keydown", this.#onKey);
    this.#session.service.removeEventListener("reachable", this.#onReachable);
  }

  /** @param {import("../core/credential.js").Action} action */
  #may(action) {
    return this.#session.service.may(action, this.#table);
  }

  #export() {
    openExport(this.#session, {
      table: this.#table,
      query: this.#loader.query,
      entities: this.#list,
      visible: this.#columns.shown.filter((column) => column.kind === "property").map((column) => column.name),
    });
  }

  #makeButtons() {
    const actions = this.#actions;
    /** @type {Record<ButtonName, () => unknown>} */
    const presses = {
      add: () => actions.add(),
      edit: () => this.#targets().forEach((entity) => actions.open(entity)),
      duplicate: () => Promise.all(this.#targets().map((entity) => actions.duplicate(entity))),
      remove: () => actions.remove(this.#targets()),
      removeAll: () => this.#removeAll(),
      property: () => actions.editProperty(this.#targets()),
      json: () => this.#targets().forEach((entity) => actions.openJson(entity)),
      compare: () => openComparison(this.#targets()),
      columns: () => this.#openColumns(),
      refresh: () => (this.#run(this.#loader.query), this.#indexes.read()),
      undo: () => actions.undo(),
      keys: async () => (await import("../ui/keys-dialog.js")).openKeysDialog(),
      exporting: () => this.#export(),
      importing: () => this.#import(),
      loadAll: () => loadAll(this.#loader),
      countAll: () => this.#countAll(),
      stop: () => (this.#loader.pause(), this.#grid.focus()),
    };
    return makeButtons((name) => this.#try(presses[name]));
  }

  #listen() {
    this.#query.addEventListener("run", () => this.#run(this.#query.query));
    this.#explain.addEventListener("add-index", (event) => {
      void this.#try(() => this.#addIndex(/** @type {CustomEvent} */ (event).detail));
    });
    /** @type {Record<string, (detail: any) => void>} */
    const handlers = {
      "near-end": () => this.#loader.state === "idle" && void this.#loader.more(),
      "entity-open": (line) => {
        const entity = this.#list[line];
        if (entity) this.#actions.open(entity);
      },
      "cell-edit": ({ line, column, cell }) => {
        const entity = this.#list[line];
        if (entity) this.#actions.openCell(entity, column, cell);
      },
      "entities-delete": () => this.#may("delete") && this.#try(() => this.#actions.remove(this.#targets())),
      "selection-change": () => {
        this.#showState();
        announce(`${countText(this.#selection.size)} selected`);
      },
      marked: () => this.#showState(),
      copied: () => announce("Copied"),
      "layout-change": (words) => {
        this.#layoutChanged();
        if (words) announce(words);
      },
      "column-menu": ({ name, opener }) => this.#openColumnMenu(name, opener),
      "cell-menu": ({ line, column, opener }) => {
        const entity = this.#list[line];
        if (!entity) return;
        openCellMenu(opener, entity, column, {
          filter: this.#loader.query.filter,
          run: (filter) => this.#runFilter(filter),
          open: () => this.#actions.open(entity),
          json: () => this.#actions.openJson(entity),
          openLabel: this.#may("update") ? "Edit" : "View",
        });
      },
    };
    for (const [kind, handle] of Object.entries(handlers)) {
      this.#grid.addEventListener(kind, (event) => handle(/** @type {CustomEvent} */ (event).detail));
    }
    this.#grid.addEventListener("scroll", () => this.#loader.ask());
  }

  /** @param {() => unknown} run */
  async #try(run) {
    dismissErrors();
    try {
      await run();
    } catch (error) {
      notify(describe(error), { kind: "error" });
    }
  }

  /** @param {Query} query */
  #newLoader(query) {
    const loader = new EntityLoader(this.#session.service, this.#indexes.sourceOf(this.#columns.sort), query, {
      page: (entities, report) => {
        this.#explain.add(report);
        this.#addColumns(entities);
        if (!this.#columns.sort || loader.isOrdered) return;
        this.#arrange();
        this.#grid.replaceList(this.#list, -1);
      },
      state: () => {
        this.#showState();
        this.#grid.grown(this.#loader.state === "complete");
        if (loader.state !== "loading") this.#explain.finish(loader.state === "complete");
        if (loader.state === "complete") announce(loadedText(this.#loader));
      },
    });
    return loader;
  }

  /** @param {Entity[]} entities */
  #addColumns(entities) {
    if (!this.#columns.add(entities) && this.#columns.all.every((column) => column.isFitted)) return;
    this.#grid.columnsChanged();
    this.#query.properties = this.#columns.properties;
  }

  /** Runs a query, and updates the URL to name it. @param {Query} query */
  #run(query) {
    const hash = queryHash(this.#table, query);
    if (hash !== location.hash) history.pushState(null, "", hash);
    this.#refresh(query);
  }

  #refresh(query = this.#loader.query) {
    // A result may arrive after the view was closed.
    if (!this.isConnected) return;
    this.#loader.stop();
    const { sort } = this.#columns;
    this.#columns = new Columns(this.#columns.layout);
    this.#columns.sort = sort;
    this.#start(this.#newLoader(query));
  }

  /** @param {EntityLoader} loader */
  #start(loader) {
    this.#loader = loader;
    this.#total = null;
    this.#selection = new Selection();
    this.#explain.reset(loader.query);
    this.#arrange();
    this.#grid.show(this.#list, this.#columns, this.#selection);
    this.#showState();
    void loader.more();
  }

  /** Shows a change of entities that a loader has loaded. @param {Pair[]} pairs @param {EntityLoader} loader */
  #apply(pairs, loader) {
    const same = queryHash(this.#table, loader.query) === queryHash(this.#table, this.#loader.query);
    // If a different set of properties was loaded, the changed entities would be incomplete here.
    if (!same && loader.projected) return this.#refresh();
    const isLoaded = (/** @type {Entity} */ entity) => same && this.#loader.covers(entity);
    this.#total = null;
    const { list, replaced, later } = applyPairs(this.#loader.entities, pairs, isLoaded);
    this.#loader.entities = this.#loader.isOrdered ? this.#sorted(list) : list;
    this.#selection.follow(replaced);
    const changed = [...replaced.values(), ...pairs.map((pair) => pair.after)].filter((entity) => entity !== null);
    this.#addColumns(changed);
    this.#arrange();
    const only = pairs.length === 1 ? (pairs[0]?.after ?? null) : null;
    this.#grid.replaceList(this.#list, this.#list.findIndex((entity) => sameKeys(entity, only)));
    if (same && later > 0) announce(`${countText(later)} added, not loaded yet`);
    this.#showState();
  }

  /** Sorts the loaded entities as the user chose, unless they already are. */
  #arrange() {
    this.#list = this.#loader.isOrdered ? this.#loader.entities : this.#sorted(this.#loader.entities);
  }

  /** @param {Entity[]} entities */
  #sorted(entities) {
    const { sort } = this.#columns;
    const column = sort && this.#columns.get(sort.name);
    return column ? sorted(entities, column, sort.descending) : entities;
  }

  /** @param {string} property */
  async #addIndex(property) {
    await this.#indexes.add(property);
    notify(`The index of ${property} was added.`, { kind: "success" });
  }

  /** @param {string[]} built */
  #indexesChanged(built) {
    this.#explain.indexed = this.#indexes.names;
    if (built.length > 0) notify(`The index of ${built.join(", ")} is ready.`, { kind: "success" });
  }

  /** @param {Sort | null} sort */
  #sort(sort) {
    this.#columns.sort = sort;
    if (this.#indexes.sourceOf(sort) === this.#loader.table) {
      this.#arrange();
      this.#grid.replaceList(this.#list, -1);
      this.#showState();
    } else {
      this.#loader.stop();
      this.#start(this.#newLoader(this.#loader.query));
    }
    this.#grid.columnsChanged();
    if (this.#loader.isOrdered) return announce(this.#status.textContent ?? "");
    const rest = this.#loader.state === "complete" ? "" : " Only the loaded entities are sorted.";
    announce(sort ? `Sorted by ${visibleText(sort.name, 60)}.${rest}` : "Sorted by key.");
  }

  /** The selected entities, or the one whose line is marked. */
  #targets() {
    if (this.#selection.size > 0) return this.#selection.of(this.#list);
    const entity = this.#list[this.#grid.markedLine];
    return entity ? [entity] : [];
  }

  async #removeAll() {
    const { query } = this.#loader;
    if (await deleteMatching(this.#session.service, this.#table, query)) this.#refresh(query);
  }

  async #countAll() {
    const loader = this.#loader;
    const total = await countMatching(this.#session.service, this.#table, loader.query);
    if (total === undefined || loader !== this.#loader) return;
    this.#total = total;
    this.#showState();
    announce(this.#status.textContent ?? "");
  }

  #showState() {
    const chosen = this.#selection.size;
    this.#status.textContent = statusText(this.#loader, { total: this.#total, chosen, sort: this.#columns.sort });
    showButtons(this.#buttons, {
      may: (action) => this.#may(action),
      extensions: this.#session.service.extensions,
      state: this.#loader.state,
      loaded: this.#list.length,
      targets: chosen || (this.#list[this.#grid.markedLine] ? 1 : 0),
      undoLabel: this.#actions.undoLabel,
    });
    this.#showTail();
  }

  #showTail() {
    const may = this.#may("add");
    showTail(this.#grid.tail, this.#loader, {
      again: () => {
        this.#loader.ask();
        void this.#loader.more();
        this.#grid.focus();
      },
      edit: () => this.#query.filter.text.focus(),
      everything: () => this.#runFilter(""),
      add: may ? () => this.#actions.add() : null,
      importFiles: may ? () => this.#import() : null,
    });
  }

  /** @param {string} filter */
  #runFilter(filter) {
    this.#query.query = { ...this.#loader.query, filter };
    this.#query.run();
  }

  /** @param {File[]} [files] */
  async #import(files = []) {
    await this.#try(async () => {
      const tables = await openImport(this.#session, this.#table, files);
      if (tables.length > 0) this.#refresh();
    });
  }

  /** @param {string} name @param {HTMLElement} opener */
  #openColumnMenu(name, opener) {
    const [changed, all] = [() => this.#columnsChanged(), () => this.#openColumns()];
    const sort = (/** @type {Sort | null} */ wanted) => this.#sort(wanted);
    openColumnMenu(this.#grid, this.#columns, name, opener, { changed, all, sort, isIndexed: this.#indexes.canSort(name) });
  }

  #openColumns() {
    openColumns(this.#columns, {
      changed: () => this.#columnsChanged(),
      reset: () => {
        this.#columns = new Columns(emptyLayout());
        this.#columns.add(this.#loader.entities);
        this.#grid.columnsChanged(this.#columns);
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
