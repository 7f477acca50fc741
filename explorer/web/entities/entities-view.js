// The view of a table's entities: heading, query, toolbar, grid and status. Connects these parts; each knows its own work.

import { describe } from "../core/errors.js";
import { openExport } from "../moving/export.js";
import { acceptFiles, openImport } from "../moving/import.js";
import { ExplainPanel } from "../query/explain-panel.js";
import { QueryBar } from "../query/query-bar.js";
import { queryHash } from "../query/query.js";
import { h, replaceChildren } from "../ui/dom.js";
import { announce, notify } from "../ui/notify.js";
import { progressDialog } from "../ui/progress.js";
import { applyPairs } from "./changes.js";
import { openColumnMenu, openColumns } from "./columns-dialog.js";
import { Columns, LayoutStore, emptyLayout } from "./columns.js";
import { countText } from "./display.js";
import { EntityActions } from "./entity-actions.js";
import { EntityGrid } from "./grid.js";
import { EntityLoader } from "./loader.js";
import { Selection } from "./selection.js";

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
  };

  /** @param {Session} session @param {{table: string, query: Query}} params */
  constructor(session, { table, query }) {
    super();
    this.#session = session;
    this.#table = table;
    this.#layouts = new LayoutStore(localStorage, session.service.account, table);
    this.#columns = new Columns(this.#layouts.read());
    this.#loader = this.#newLoader(query);
    this.#actions = new EntityActions(session.service, table, {
      projected: () => this.#loader.projected,
      names: () => [...this.#columns.properties.keys()],
      apply: (pairs) => this.#apply(pairs),
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
    const buttons = Object.values(this.#buttons);
    this.append(
      this.#heading(),
      this.#query,
      this.#explain,
      h("div", { class: "toolbar entity-tools", role: "toolbar", "aria-label": "Entities" }, buttons),
      this.#grid,
      h(
        "div",
        { class: "entities-foot" },
        this.#status,
        h("button", { type: "button", class: "quiet load-all", onclick: () => this.#loadAll() }, "Load all"),
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
        this.#may("add") ? h("button", { type: "button", onclick: () => this.#import() }, "Import") : null,
      ),
    );
  }

  /** The buttons that the credential allows. @returns {Record<string, HTMLButtonElement>} */
  #makeButtons() {
    const actions = this.#actions;
    const [canAdd, canUpdate, canDelete] = [this.#may("add"), this.#may("update"), this.#may("delete")];
    /** @type {[string, boolean, string, () => unknown][]} */
    const buttons = [
      ["add", canAdd, "Add", () => actions.add()],
      ["edit", true, canUpdate ? "Edit" : "View", () => this.#targets().forEach((entity) => actions.open(entity))],
      ["duplicate", canAdd, "Duplicate", () => Promise.all(this.#targets().map((entity) => actions.duplicate(entity)))],
      ["remove", canDelete, "Delete", () => this.#remove()],
      ["property", canUpdate, "Edit property of selected", () => actions.editProperty(this.#targets())],
      ["columns", true, "Columns", () => this.#openColumns()],
      ["refresh", true, "Refresh", () => this.#run(this.#loader.query)],
      ["undo", true, "Undo", () => actions.undo()],
    ];
    return Object.fromEntries(
      buttons
        .filter(([, allowed]) => allowed)
        .map(([name, , label, run]) => [name, h("button", { type: "button", onclick: () => this.#try(run) }, label)]),
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
    if (this.#may("add")) acceptFiles(this, (files) => void this.#import(files));
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
        if (this.#columns.add(entities)) {
          this.#grid.columnsChanged();
          this.#query.properties = this.#columns.properties;
        }
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

  /** Runs a query, and makes the address that of the query. @param {Query} query */
  #run(query) {
    this.#loader.stop();
    const hash = queryHash(this.#table, query);
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

  /** @param {Pair[]} pairs */
  #apply(pairs) {
    const { list, replaced, later } = applyPairs(this.#loader.entities, pairs, (entity) => this.#loader.covers(entity));
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
      (chosen > 0 ? `, ${chosen.toLocaleString("en")} selected` : "") +
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
    const text = state === "loading" ? "Loading\u2026" : state === "complete" ? `End: ${this.#countText()}` : state;
    if (tail.dataset["shown"] === text) return;
    tail.dataset["shown"] = text;
    const again = () => {
      void this.#loader.more();
      this.#grid.focus();
    };
    if (state === "failed") {
      replaceChildren(
        tail,
        h("p", { class: "problem", role: "alert" }, describe(error)),
        h("button", { type: "button", onclick: again }, "Try again"),
      );
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
      if (tables.length > 0) this.#run(this.#loader.query);
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
