// The form for a query of a table: the filter as text or fields, the projection, the limit, and earlier queries.
// This module must not depend on results: it dispatches "run", and its owner sends the query.

import { openDialog } from "../ui/dialog.js";
import { button, div, field, h, p, replaceChildren } from "../ui/dom.js";
import { openMenu } from "../ui/menu.js";
import { announce, notify } from "../ui/notify.js";
import { browserStore } from "../ui/storage.js";
import { copyText } from "./clipboard.js";
import { openCopyAs } from "./copy-as.js";
import { FieldsEditor } from "./fields-editor.js";
import { readConditions, writeConditions } from "./filter-fields.js";
import { FilterInput } from "./filter-input.js";
import { History, queryHash, queryLabel } from "./query.js";
import { SelectField } from "./select-field.js";

/** @import { EdmType } from "../core/edm.js" */
/** @import { Session } from "../session.js" */
/** @import { IconName } from "../ui/icons.js" */
/** @import { Query } from "./query.js" */

const LABEL_CHARACTERS_MAX = 80;

/** Dispatches "run" with the query as its detail. `session`, `table` and `properties` can be set at any time. */
export class QueryBar extends HTMLElement {
  /** @type {Session | null} */
  #session = null;
  #table = "";
  /** Shows why the filter cannot be shown as fields. */
  #reason = h("p", { class: "problem", role: "status" });

  /** @param {Session | null} [session] */
  constructor(session = null) {
    super();
    this.filter = new FilterInput();
    this.fields = new FieldsEditor();
    this.projection = new SelectField();
    this.take = h("input", { type: "number", min: 1, step: 1, inputmode: "numeric", placeholder: "all" });
    this.asText = button("Text", () => this.#showFields(false));
    this.asFields = button("Fields", () => this.#showFields(true));
    const only = (/** @type {IconName} */ icon, popup = "menu") => ({ icon, class: "icon-only", "aria-haspopup": popup });
    this.history = button("History", () => this.#openHistory(), only("history"));
    this.save = button("Save", () => this.#openSaved(), only("save"));
    this.copyAs = button("Copy as…", () => this.#openCopyAs(), only("code", "dialog"));
    this.filter.addEventListener("run", () => this.run());
    this.filter.addEventListener("change", () => (this.#reason.textContent = ""));
    this.fields.addEventListener("run", () => this.run());
    this.fields.addEventListener("change", () => (this.filter.value = writeConditions(this.fields.conditions)));
    this.fields.hidden = true;
    this.session = session;
  }

  connectedCallback() {
    const onsubmit = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.run();
    };
    const onkeydown = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented) {
        event.preventDefault();
        this.run();
      }
    };
    const mode = h("div", { class: "query-mode", role: "group", "aria-label": "Filter as" }, this.asText, this.asFields);
    const run = h("button", { type: "submit", class: "primary" }, "Run");
    const limit = h("label", { class: "query-take" }, h("span", null, "Limit"), this.take);
    const attributes = { class: "query", role: "search", "aria-label": "Query", novalidate: true, onsubmit, onkeydown };
    replaceChildren(this, h("form", attributes,
      div("query-line", this.filter, run),
      div("query-options", mode, this.projection, limit, div("tool-group", this.history, this.save, this.copyAs)),
      this.fields, this.#reason));
    this.#showFields(!this.fields.hidden);
  }

  /** @param {Session | null} session */
  set session(session) {
    this.#session = session;
    this.copyAs.hidden = session === null;
    this.filter.extensions = this.fields.extensions = session?.service.extensions ?? false;
  }

  /** @param {string} name */
  set table(name) {
    this.#table = name;
  }

  get table() {
    return this.#table;
  }

  /** The known properties, for completion. @param {ReadonlyMap<string, EdmType>} properties */
  set properties(properties) {
    this.filter.properties = properties;
    this.fields.properties = properties;
    this.projection.known = [...properties.keys()];
  }

  /** @returns {Query} */
  get query() {
    const top = Number(this.take.value);
    return {
      filter: this.filter.value.trim(),
      select: this.projection.value,
      top: Number.isInteger(top) && top > 0 ? top : null,
    };
  }

  set query({ filter, select, top }) {
    this.filter.value = filter;
    this.projection.value = select;
    this.take.value = top === null ? "" : String(top);
    if (!this.fields.hidden) this.#showFields(true);
  }

  /** Runs the query, unless the filter, its fields or the limit have an error. */
  run() {
    if ((!this.fields.hidden && !this.fields.check()) || !this.take.reportValidity()) return;
    const query = this.query;
    if (!this.filter.check(true)) {
      this.filter.text.focus();
      return announce(`The query was not sent. ${this.filter.problem.textContent}`);
    }
    this.#queries.add(query);
    this.dispatchEvent(new CustomEvent("run", { detail: query, bubbles: true }));
  }

  get #queries() {
    return new History(browserStore, this.#session?.service.account ?? "", this.#table);
  }

  /** @param {boolean} wanted */
  #showFields(wanted) {
    let isFields = wanted;
    this.#reason.textContent = "";
    if (wanted) {
      const read = readConditions(this.filter.value, this.filter.extensions);
      if ("reason" in read) {
        this.#reason.textContent = `This filter cannot be shown as fields. ${read.reason}`;
        isFields = false;
      } else this.fields.conditions = read.conditions;
    }
    this.fields.hidden = !isFields;
    // The text box shows the filter that the fields produce, but only one of the two can be edited at a time.
    this.filter.text.readOnly = isFields;
    this.asText.setAttribute("aria-pressed", String(!isFields));
    this.asFields.setAttribute("aria-pressed", String(isFields));
  }

  /** @param {Query} query */
  #use(query) {
    this.query = query;
    this.run();
  }

  #openHistory() {
    const { queries } = this.#queries;
    if (queries.length === 0) return openMenu(this.history, [{ label: "No queries have been run yet", disabled: true }]);
    openMenu(this.history, [
      ...queries.map((query) => ({ label: shorten(queryLabel(query)), run: () => this.#use(query) })),
      { label: "", separator: true },
      { label: "Clear history", run: () => this.#forget() },
    ]);
  }

  #forget() {
    this.#queries.clear();
    announce("The history of this table was cleared.");
  }

  #openSaved() {
    const { saved } = this.#queries;
    openMenu(this.save, [
      { label: "Copy a link to this query", run: () => void copyText(this.link, "The link") },
      { label: "Save this query as…", run: () => this.#askName() },
      ...(saved.length ? [{ label: "", separator: true }] : []),
      ...saved.map(({ name, query }) => ({ label: shorten(name), run: () => this.#use(query) })),
      ...(saved.length
        ? [
            { label: "", separator: true },
            { label: "Delete saved queries…", run: () => this.#openDelete() },
          ]
        : []),
    ]);
  }

  /** The URL of this query. It contains no credential: anyone who opens it signs in with their own. */
  get link() {
    return `${location.origin}${location.pathname}${queryHash(this.#table, this.query)}`;
  }

  #askName() {
    const input = h("input", { type: "text", required: true, maxlength: 200, autocomplete: "off" });
    const save = () => {
      const name = input.value.trim();
      if (name === "") throw new Error("Enter a name for the query.");
      this.#queries.save(name, this.query);
      notify(`The query was saved as ${name}.`, { kind: "success" });
    };
    const note = "The query is saved in this browser.";
    const body = div(null, p(null, h("code", null, shorten(queryLabel(this.query)))), field("Name", input, note));
    openDialog({ title: "Save query", body, actions: [{ label: "Save", kind: "primary", run: save }] });
    input.focus();
  }

  #openDelete() {
    const { saved } = this.#queries;
    const boxes = saved.map(({ name }) => h("input", { type: "checkbox", value: name }));
    const label = (/** @type {string} */ name, /** @type {Query} */ query) =>
      h("span", null, `${name}: `, h("code", null, shorten(queryLabel(query))));
    const lines = saved.map(({ name, query }, at) =>
      h("li", null, h("label", { class: "check" }, boxes[at], label(name, query))));
    const remove = () => boxes.filter((box) => box.checked).forEach((box) => this.#queries.remove(box.value));
    openDialog({
      title: "Delete saved queries",
      body: h("ul", { class: "plain" }, lines),
      actions: [{ label: "Delete", kind: "danger", run: remove }],
    });
  }

  #openCopyAs() {
    if (this.#session) openCopyAs(this.#session, this.#table, this.query);
  }
}

customElements.define("query-bar", QueryBar);

/** @param {string} text */
function shorten(text) {
  const characters = [...text];
  return characters.length <= LABEL_CHARACTERS_MAX ? text : `${characters.slice(0, LABEL_CHARACTERS_MAX - 1).join("")}…`;
}
