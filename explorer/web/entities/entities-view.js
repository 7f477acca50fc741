// The view of a table's entities: heading, query, toolbar, grid and status. Connects these parts; each knows its own work.

import { describe, isAborted } from "../core/errors.js";
import { openExport } from "../moving/export.js";
import { openImport } from "../moving/import.js";
import { ExplainPanel } from "../query/explain-panel.js";
import { QueryBar } from "../query/query-bar.js";
import { h, replaceChildren } from "../ui/dom.js";
import { openMenu } from "../ui/menu.js";
import { announce, notify } from "../ui/notify.js";
import { progressDialog } from "../ui/progress.js";
import { applyPairs } from "./changes.js";
import { openColumns } from "./columns-dialog.js";
import { Columns, emptyLayout, readLayout } from "./columns.js";
import { countText } from "./display.js";
import { EntityActions } from "./entity-actions.js";
import { EntityGrid } from "./grid.js";
import { EntityLoader } from "./loader.js";
import { Selection } from "./selection.js";

/** @typedef {import("../session.js").Session} Session */
/** @typedef {import("../core/edm.js").Entity} Entity */
/** @typedef {import("./loader.js").Query} Query */
/** @typedef {import("./changes.js").Pair} Pair */

const LAYOUT_DELAY_MS = 200;

export class EntitiesView extends HTMLElement {
  #session;
  #table;
  /** @type {EntityLoader} */
  #loader;
  #columns;
  /** @type {Selection<Entity>} */
  #selection = new Selection();
  #actions;
  #grid = new EntityGrid();
  #query = new QueryBar();
  #explain = new ExplainPanel();
  #status = h("p", { class: "status", role: "status", "aria-live": "off" });
  #buttons;
  #layoutTimer = 0;
  #onKey = (/** @type {KeyboardEvent} */ event) => this.#keydown(event);
  #onReachable = () => { if (this.#loader.state === "failed") void this.#loader.more(); };

  /** @param {Session} session @param {{table: string, query: Query}} params */
  constructor(session, { table, query }) {
    super();
    this.#session = session;
    this.#table = table;
    this.#columns = new Columns(readLayout(localStorage.getItem(this.#layoutKey)));
    this.#loader = this.#newLoader(query);
    this.#actions = new EntityActions(session.service, table, {
      projected: () => this.#loader.projected,
      names: () => [...this.#columns.properties.keys()],
      apply: (pairs) => this.#apply(pairs),
      undoChanged: () => this.#showState(),
      refocus: () => { if (!document.querySelector("dialog[open]")) this.#grid.focus(); },
    });
    this.#grid.label = `Entities of ${table}`;
    this.#query.session = session;
    this.#query.table = table;
    this.#query.query = query;
    this.#buttons = this.#makeButtons();
    this.#listen();
  }

  connectedCallback() {
    const buttons = Object.values(this.#buttons);
    this.append(this.#heading(), this.#query, this.#explain,
      h("div", { class: "toolbar entity-tools", role: "toolbar", "aria-label": "Entities" }, buttons), this.#grid,
      h("div", { class: "entities-foot" }, this.#status, h("button", { type: "button", class: "quiet load-all", onclick: () => this.#loadAll() }, "Load all")));
    addEventListener("keydown", this.#onKey);
    this.#session.service.addEventListener("reachable", this.#onReachable);
    this.#start(this.#loader);
  }

  disconnectedCallback() {
    this.#loader.stop();
    this.#saveLayout();
    removeEventListener("keydown", this.#onKey);
    this.#session.service.removeEventListener("reachable", this.#onReachable);
  }

  get #layoutKey() { return `rowhouse-layout:${this.#session.service.account}/${this.#table.toLowerCase()}`; }

  /** @param {import("../core/client.js").Action} action */
  #may(action) { return this.#session.service.may(action, this.#table); }

  #heading() {
    const address = encodeURIComponent(this.#table);
    const shown = () => openExport(this.#session, {
      table: this.#table, query: this.#loader.query, entities: this.#loader.entities,
      visible: this.#columns.shown.filter((column) => column.kind === "property").map((column) => column.name),
    });
    return h("div", { class: "heading" }, h("h1", { dir: "auto" }, this.#table),
      h("nav", { class: "toolbar", "aria-label": "Table" },
        this.#may("policies") || this.#may("sign") ? h("a", { class: "button", href: `#/t/${address}/access` }, "Access") : null,
        h("button", { type: "button", onclick: shown }, "Export"),
        this.#may("add") ? h("button", { type: "button", onclick: () => this.#import() }, "Import") : null));
  }

  /** The buttons that the credential allows. @returns {Record<string, HTMLButtonElement>} */
  #makeButtons() {
    const button = (/** @type {string} */ label, /** @type {() => unknown} */ run) =>
      h("button", { type: "button", onclick: () => this.#try(run) }, label);
    const one = () => this.#targets()[0];
    const [canAdd, canUpdate, canDelete] = [this.#may("add"), this.#may("update"), this.#may("delete")];
    return {
      ...(canAdd ? { add: button("Add", () => this.#actions.add()) } : {}),
      edit: button(canUpdate ? "Edit" : "View", () => { const entity = one(); if (entity) this.#actions.open(entity); }),
      ...(canAdd ? { duplicate: button("Duplicate", () => { const entity = one(); return entity && this.#actions.duplicate(entity); }) } : {}),
      ...(canDelete ? { remove: button("Delete", () => this.#remove()) } : {}),
      ...(canUpdate ? { property: button("Edit property of selected", () => this.#actions.editProperty(this.#targets())) } : {}),
      columns: button("Columns", () => this.#openColumns()),
      refresh: button("Refresh", () => this.#run(this.#loader.query)),
      undo: button("Undo", () => this.#actions.undo()),
    };
  }

  #listen() {
    const { service } = this.#session;
    this.#query.addEventListener("run", () => this.#run(this.#query.query));
    this.#grid.addEventListener("near-end", () => { if (this.#loader.state === "idle") void this.#loader.more(); });
    this.#grid.addEventListener("entity-open", (event) => {
      const entity = this.#loader.entities[/** @type {CustomEvent} */ (event).detail];
      if (entity) this.#actions.open(entity);
    });
    this.#grid.addEventListener("entities-delete", () => { if (service.may("delete", this.#table)) this.#try(() => this.#remove()); });
    this.#grid.addEventListener("selection-change", () => {
      this.#showState();
      announce(`${countText(this.#selection.size)} selected`);
    });
    this.#grid.addEventListener("active-change", () => this.#showState());
    this.#grid.addEventListener("copied", () => announce("Copied"));
    this.#grid.addEventListener("layout-change", (event) => {
      this.#layoutChanged();
      const { detail } = /** @type {CustomEvent} */ (event);
      if (detail) announce(detail);
    });
    this.#grid.addEventListener("column-menu", (event) => {
      const { name, opener } = /** @type {CustomEvent} */ (event).detail;
      this.#openColumnMenu(name, opener);
    });
    this.addEventListener("dragover", (event) => { if (event.dataTransfer?.types.includes("Files")) event.preventDefault(); });
    this.addEventListener("drop", (event) => {
      const files = [...event.dataTransfer?.files ?? []];
      if (files.length === 0) return;
      event.preventDefault();
      if (this.#may("add")) this.#import(files);
    });
  }

  /** What an action throws is shown. @param {() => unknown} run */
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
        if (this.#columns.add(entities)) {
          this.#grid.columnsChanged();
          this.#query.properties = this.#columns.properties;
        }
      },
      state: () => {
        this.#showState();
        this.#grid.grown(this.#loader.state === "complete");
        if (loader.state === "complete") {
          this.#explain.finish(true);
          announce(this.#countText());
        } else if (loader.state === "failed" && !isAborted(loader.error)) announce(describe(loader.error));
      },
    });
    return loader;
  }

  /** Runs a query, and makes the address that of the query. @param {Query} query */
  #run(query) {
    this.#loader.stop();
    const { filter, select, top } = query;
    const options = new URLSearchParams();
    if (filter) options.set("filter", filter);
    if (select) options.set("select", select.join(","));
    if (top !== null) options.set("top", String(top));
    const hash = `#/t/${encodeURIComponent(this.#table)}${options.size ? `?${options}` : ""}`;
    if (hash !== location.hash) history.pushState(null, "", hash);
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

  /** Shows a change in the list that is loaded. @param {Pair[]} pairs */
  #apply(pairs) {
    const { list, replaced, later } = applyPairs(this.#loader.entities, pairs, this.#loader.state === "complete");
    this.#loader.entities = list;
    this.#selection.follow(replaced);
    const changed = [...replaced.values(), ...pairs.map((pair) => pair.after)].filter((entity) => entity !== null);
    if (this.#columns.add(changed)) {
      this.#grid.columnsChanged();
      this.#query.properties = this.#columns.properties;
    }
    const [first] = pairs;
    const place = pairs.length === 1 && first?.after ? list.findIndex((entity) => sameKeys(entity, first.after)) : -1;
    this.#grid.replaceList(list, place);
    if (later > 0) announce(`${countText(later)} added after those that are loaded`);
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
    if (state !== "complete") return state === "loading" && count === 0 ? "Loading\u2026" : `${countText(count)} loaded, more follow`;
    if (count === 0) return query.filter ? "No entity matches" : "The table has no entities";
    return count === 1 ? "1 entity" : `all ${countText(count)}`;
  }

  #showState() {
    const { state, entities, error, projected } = this.#loader;
    const chosen = this.#selection.size;
    this.#status.textContent = this.#countText() + (chosen > 0 ? `, ${chosen.toLocaleString("en")} selected` : "") +
      (projected ? ", some properties only" : "");
    const all = this.querySelector(".load-all");
    if (all instanceof HTMLElement) all.hidden = state === "complete" || entities.length === 0;
    const targets = chosen || (entities[this.#grid.activeLine] ? 1 : 0);
    const { edit, duplicate, remove, property, undo } = this.#buttons;
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
    if (tail.dataset["state"] === state && state !== "failed") return;
    tail.dataset["state"] = state;
    const again = () => { void this.#loader.more(); this.#grid.focus(); };
    if (state === "failed") {
      replaceChildren(tail, h("p", { class: "problem", role: "alert" }, describe(error)), h("button", { type: "button", onclick: again }, "Try again"));
    } else replaceChildren(tail, state === "loading" ? "Loading\u2026" : state === "complete" ? `End: ${this.#countText()}` : "");
  }

  async #loadAll() {
    await this.#try(() => progressDialog({
      title: "Loading all entities",
      run: async ({ report, signal }) => {
        report(0, null, this.#countText());
        await this.#loader.all(signal, (loaded) => report(0, null, `${countText(loaded)} loaded`));
      },
    }));
  }

  async #import(/** @type {File[]} */ files = []) {
    await this.#try(() => openImport(this.#session, this.#table, files));
  }

  #openColumns() {
    openColumns(this.#columns, {
      changed: () => { this.#grid.columnsChanged(); this.#layoutChanged(); },
      reset: () => {
        this.#columns = new Columns(emptyLayout());
        this.#columns.add(this.#loader.entities);
        this.#grid.useColumns(this.#columns);
        this.#layoutChanged();
      },
    });
  }

  /** @param {string} name @param {HTMLElement} opener */
  #openColumnMenu(name, opener) {
    const column = this.#columns.get(name);
    const pinned = column?.kind === "partitionKey" || column?.kind === "rowKey";
    const changed = () => { this.#grid.columnsChanged(); this.#layoutChanged(); };
    const time = column?.kind === "timestamp" || column?.types.has("Edm.DateTime");
    openMenu(opener, [
      { label: "Hide", run: () => { this.#columns.hide(name, true); changed(); this.#grid.focus(); } },
      { label: "Move left", disabled: pinned, run: () => this.#grid.moveColumn(name, -1) },
      { label: "Move right", disabled: pinned, run: () => this.#grid.moveColumn(name, 1) },
      { label: "Wider", run: () => this.#grid.widenColumn(name, 60) },
      { label: "Narrower", run: () => this.#grid.widenColumn(name, -60) },
      ...(time ? [{ label: "Times in local time", checked: this.#columns.local, run: () => { this.#columns.local = !this.#columns.local; changed(); } }] : []),
      { label: "All columns\u2026", run: () => this.#openColumns() },
    ]);
  }

  #layoutChanged() {
    clearTimeout(this.#layoutTimer);
    this.#layoutTimer = setTimeout(() => this.#saveLayout(), LAYOUT_DELAY_MS);
  }

  #saveLayout() {
    clearTimeout(this.#layoutTimer);
    try {
      localStorage.setItem(this.#layoutKey, JSON.stringify(this.#columns.layout));
    } catch {
      // A full or forbidden store costs only what would have been remembered.
    }
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
