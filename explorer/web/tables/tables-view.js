// The view of all tables of the account: search, count, create and delete.

import { describe, isAborted } from "../core/errors.js";
import { countText, numberText } from "../core/words.js";
import { confirmText, openDialog } from "../ui/dialog.js";
import { button, div, dropDown, field, h, p, replaceChildren, textInput } from "../ui/dom.js";
import { acceptFiles } from "../ui/files.js";
import { announce, notify } from "../ui/notify.js";
import { progressDialog } from "../ui/progress.js";

/** @import { TableService } from "../core/client.js" */
/** @import { Continuation } from "../core/responses.js" */
/** @import { Session } from "../session.js" */
/** @import { Progress } from "../ui/progress.js" */

/** The maximum number of tables shown before the user requests all. */
const SHOWN_MAX = 500;
/** @type {[string, string][]} */
const ORDERS = [
  ["name", "A to Z"],
  ["descending", "Z to A"],
  ["entities", "Most entities counted"],
];

const WHAT_TABLES_ARE =
  "A table holds entities. Each entity has a PartitionKey and a RowKey, which together identify it, and up to 252 further " +
  "properties. Entities of the same table can have different properties, so a table needs only a name.";

export class TablesView extends HTMLElement {
  /** @param {Session} session */
  constructor(session) {
    super();
    this.session = session;
    /** @type {string[]} */
    this.tables = [];
    /** @type {Map<string, {number: number, text: string}>} the counts by table */
    this.counts = new Map();
    this.controller = new AbortController();
    this.loading = new AbortController();
    const oninput = () => this.#showTables();
    this.search = h("input", { type: "search", "aria-label": "Search tables", placeholder: "Search", oninput });
    this.order = dropDown(ORDERS, { "aria-label": "Order", onchange: oninput });
    this.status = h("p", { class: "status", role: "status" });
    this.next = div("next");
    this.list = h("ul", { class: "tables", "aria-label": "Tables" });
  }

  connectedCallback() {
    const { service } = this.session;
    if (!service.may("list")) {
      this.#showWithoutList();
      return;
    }
    acceptFiles(this, (files) => this.#import(files));
    replaceChildren(this,
      div("heading", h("h1", null, "Tables"),
        div("toolbar",
          this.search,
          this.order,
          button("Refresh", () => this.#load(), { icon: "refresh" }),
          service.may("add") && button("Import", () => this.#import([]), { icon: "importing" }),
          service.may("create") && button("Create table", () => this.#create(), { icon: "add", class: "primary" }))),
      this.status, this.next, this.list);
    service.addEventListener("reachable", () => this.#load(), { signal: this.controller.signal });
    void this.#load();
  }

  disconnectedCallback() {
    this.controller.abort();
  }

  /** Shows a form that opens a table by name, because a signature for one table cannot list tables. */
  #showWithoutList() {
    const { service, navigate } = this.session;
    const own = "table" in service.credential ? service.credential.table : null;
    const name = textInput({ value: own ?? "", required: true });
    const open = (/** @type {Event} */ event) => {
      event.preventDefault();
      navigate(`#/t/${encodeURIComponent(name.value)}`);
    };
    replaceChildren(this,
      h("h1", null, "Tables"),
      p(null, "This credential does not allow listing tables. Open a table by its name."),
      h("form", { class: "card", onsubmit: open }, field("Table", name), h("button", { class: "primary" }, "Open")));
  }

  async #load() {
    // An older response must not replace a newer one.
    this.loading.abort();
    this.loading = new AbortController();
    const signal = AbortSignal.any([this.controller.signal, this.loading.signal]);
    /** @type {string[]} */
    const tables = [];
    /** @type {string | null} */
    let next = null;
    try {
      do {
        /** @type {{tables: string[], next: string | null}} */
        const page = await this.session.service.listTables({ next, signal });
        tables.push(...page.tables);
        next = page.next;
        this.tables = tables;
        this.session.tables = tables;
        this.#showTables(next !== null);
      } while (next !== null);
    } catch (error) {
      if (!isAborted(error)) {
        const retry = button("Try again", () => this.#load());
        replaceChildren(this.status, h("span", { class: "problem" }, describe(error)), " ", retry);
      }
    }
  }

  #showTables(isLoading = false, most = SHOWN_MAX) {
    const wanted = this.search.value.trim().toLowerCase();
    const shown = this.tables.filter((name) => name.toLowerCase().includes(wanted));
    const total = this.tables.length;
    const all = countText(total, "table", "tables");
    const count = wanted ? `${numberText(shown.length)} of ${numberText(total)} tables` : all;
    const { service } = this.session;
    const isEmpty = total === 0 && !isLoading;
    this.status.textContent = isEmpty ? "There are no tables yet." : `${count}${isLoading ? ", loading…" : ""}`;
    const clear = () => {
      this.search.value = "";
      this.#showTables();
      this.search.focus();
    };
    replaceChildren(this.next,
      isEmpty && p("hint", WHAT_TABLES_ARE),
      div("toolbar",
        isEmpty && service.may("create") && button("Create the first table", () => this.#create()),
        isEmpty && service.may("add") && button("Import files", () => this.#import([])),
        total > 0 && shown.length === 0 && button("Show all tables", clear)));
    const more = button(`Show all ${numberText(shown.length)}`, () => this.#showTables(false, Infinity));
    const items = this.#ordered(shown).slice(0, most).map((name) => this.#item(name));
    replaceChildren(this.list, items, shown.length > most ? h("li", null, more) : null);
  }

  /** @param {string[]} names */
  #ordered(names) {
    const number = (/** @type {string} */ name) => this.counts.get(name)?.number ?? -1;
    if (this.order.value === "descending") return names.toReversed();
    return this.order.value === "entities" ? names.toSorted((one, other) => number(other) - number(one)) : names;
  }

  /** @param {string} name */
  #item(name) {
    const { service } = this.session;
    const address = `#/t/${encodeURIComponent(name)}`;
    const counted = h("span", { class: "count" }, this.counts.get(name)?.text ?? null);
    const quiet = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ run) =>
      button(text, run, { class: "quiet", "aria-label": label });
    const count = quiet("Count", `Count the entities of ${name}`, () => this.#count(name, counted));
    const drop = quiet("Delete", `Delete ${name}`, () => this.#delete(name));
    return h("li", null,
      h("a", { href: address }, name),
      counted,
      service.may("query", name) ? count : null,
      service.may("policies", name) ? h("a", { href: `${address}/access`, "aria-label": `Access to ${name}` }, "Access") : null,
      service.may("drop", name) && !name.startsWith("$") ? drop : null);
  }

  /** @param {File[]} files  imported into tables named after them; if there are none, the user chooses files */
  async #import(files) {
    const { openImport } = await import("../moving/import.js");
    const written = await openImport(this.session, null, files);
    if (written.length > 0) {
      written.forEach((name) => this.counts.delete(name));
      await this.#load();
    }
  }

  #create() {
    const name = textInput({ required: true });
    const run = async () => {
      try {
        await this.session.service.createTable(name.value);
      } catch (error) {
        throw new Error(describe(error));
      }
      notify(`The table ${name.value} was created.`, { kind: "success" });
      await this.#load();
    };
    openDialog({
      title: "Create table",
      body: field("Name", name, "3 to 63 letters and digits, starting with a letter."),
      actions: [{ label: "Create", kind: "primary", run }],
    });
    name.focus();
  }

  /** @param {string} name */
  async #delete(name) {
    const run = async () => {
      try {
        await this.session.service.deleteTable(name);
      } catch (error) {
        throw new Error(describe(error));
      }
    };
    const text = `The table ${name}, all its entities and its access policies will be deleted. This cannot be undone.`;
    if (await confirmText({ title: "Delete table", text, expected: name, label: "Delete the table", run })) {
      this.counts.delete(name);
      notify(`The table ${name} was deleted.`, { kind: "success" });
      await this.#load();
      this.search.focus();
    }
  }

  /**
   * @param {string} name
   * @param {Element | null} item the element that shows the result
   */
  async #count(name, item) {
    try {
      const title = `Counting the entities of ${name}`;
      const count = await progressDialog({ title, run: (progress) => countEntities(this.session.service, name, progress) });
      if (count) {
        this.counts.set(name, count);
        item?.replaceChildren(count.text);
        announce(`${name}: ${count.text}`);
      }
    } catch (error) {
      notify(describe(error), { kind: "error" });
    }
  }
}

customElements.define("tables-view", TablesView);

/**
 * Counts the entities of a table. If the server does not report their number, all of them are read, but only their keys.
 * @param {TableService} service
 * @param {string} table
 * @param {Progress} progress
 */
async function countEntities(service, table, { report, signal }) {
  const progress = (/** @type {number} */ number) => report(number, null, `${countText(number)} so far`);
  if (service.extensions) {
    const number = await service.countEntities(table, { filter: "", signal, progress });
    return { number, text: countText(number) };
  }
  let [entities, partitions] = [0, 0];
  /** @type {string | null} */
  let partition = null;
  /** @type {Continuation | null} */
  let next = null;
  do {
    /** @type {Awaited<ReturnType<TableService["queryEntities"]>>} */
    const page = await service.queryEntities(table, { select: [], next, signal });
    for (const { partitionKey } of page.entities) {
      if (partitionKey !== partition) {
        partition = partitionKey;
        partitions += 1;
      }
    }
    entities += page.entities.length;
    next = page.next;
    progress(entities);
  } while (next !== null);
  return { number: entities, text: `${countText(entities)} in ${countText(partitions, "partition", "partitions")}` };
}
