// The list of the account's tables, shown beside the view of a table. Must not depend on entities.

import { h, replaceChildren } from "../ui/dom.js";

/** @import { Session } from "../session.js" */

/** The maximum number of tables in the list. The view of all tables has a search. */
const SHOWN_MAX = 500;
/** Must match base.css. A narrower page has no room for the list, so the tables are not read. */
const WIDE = "(min-width: 1000px)";

export class TableList extends HTMLElement {
  /** @param {Session} session @param {string} current */
  constructor(session, current) {
    super();
    this.session = session;
    this.current = current;
    /** @type {HTMLInputElement | null} */
    this.search = null;
    this.list = h("ul", { class: "plain" });
  }

  connectedCallback() {
    if (this.session.tables) {
      this.#show();
    } else if (this.session.service.may("list") && matchMedia(WIDE).matches) {
      void this.#load();
    }
  }

  async #load() {
    try {
      const { tables } = await this.session.service.listTables();
      this.session.tables = tables;
      this.#show();
    } catch {
      // The view of the table reports what is wrong with the server or the credential.
    }
  }

  #show() {
    const oninput = () => this.#list();
    this.search = h("input", { type: "search", "aria-label": "Search the list", placeholder: "Search", oninput });
    replaceChildren(this, h("nav", { "aria-label": "Tables of the account" }, this.search, this.list));
    this.#list();
    this.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  #list() {
    const wanted = this.search?.value.trim().toLowerCase() ?? "";
    const tables = (this.session.tables ?? []).filter((name) => name.toLowerCase().includes(wanted));
    const isCurrent = (/** @type {string} */ name) => name.toLowerCase() === this.current.toLowerCase();
    const link = (/** @type {string} */ name) =>
      h("a", { href: `#/t/${encodeURIComponent(name)}`, "aria-current": isCurrent(name) ? "page" : null, title: name }, name);
    const items = tables.slice(0, SHOWN_MAX).map((name) => h("li", null, link(name)));
    replaceChildren(this.list, items);
  }
}

customElements.define("table-list", TableList);
