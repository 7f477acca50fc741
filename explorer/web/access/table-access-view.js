// Who may do what with a table: its stored access policies, and signatures for it.

import { h, replaceChildren } from "../ui/dom.js";
import { PoliciesEditor } from "./policies-editor.js";
import { TableSasForm } from "./sas-forms.js";

/** @typedef {import("../session.js").Session} Session */

export class TableAccessView extends HTMLElement {
  /**
   * @param {Session} session
   * @param {{table: string}} params
   */
  constructor(session, { table }) {
    super();
    this.session = session;
    this.table = table;
  }

  connectedCallback() {
    const { service } = this.session;
    const { table } = this;
    const form = service.may("sign", table) ? new TableSasForm(service, table) : null;
    const editor = service.may("policies", table) ? new PoliciesEditor(service, table) : null;
    editor?.addEventListener("policies", (event) => form?.setPolicies(/** @type {CustomEvent} */ (event).detail));
    const link = h("a", { href: `#/t/${encodeURIComponent(table)}` }, "Entities");
    replaceChildren(
      this,
      h("div", { class: "heading" }, h("h1", null, `Access to ${table}`), link),
      h(
        "section",
        { class: "card", "aria-label": "Stored access policies" },
        h("h2", null, "Stored access policies"),
        editor ?? h("p", null, "Only the account key can read and change the policies of a table, and this sign-in has none."),
      ),
      h(
        "section",
        { class: "card", "aria-label": "Shared access signature" },
        h("h2", null, "Shared access signature"),
        form ?? h("p", null, "Signatures are made with the account key, and this sign-in has none."),
      ),
    );
  }
}

customElements.define("table-access-view", TableAccessView);
