// The selection of properties to return: all properties, or some known ones and others by name.
// This module must not depend on the filter.

import { button, checkbox, div, field, h, replaceChildren, textInput } from "../ui/dom.js";
import { readNames } from "./query.js";

/** The explorer always selects the keys and the Timestamp. */
const SYSTEM = ["PartitionKey", "RowKey", "Timestamp"];

/** Dispatches "change" when the selection changes. */
export class SelectField extends HTMLElement {
  /** @type {string[]} */
  #known = [];
  /** @type {string[]} */
  #selected = [];

  constructor() {
    super();
    this.summary = h("summary", null, "");
    this.choices = h("fieldset", { class: "select-choices" });
    this.others = textInput({ autocapitalize: "off", oninput: () => this.#collect() });
    const all = button("All properties", () => this.#all());
    const others = field("Other properties, separated by commas", this.others);
    const panel = div("select-panel", this.choices, others, all);
    const onkeydown = (/** @type {KeyboardEvent} */ event) => this.#key(event);
    this.details = h("details", { class: "select", ontoggle: () => this.#toggled(), onkeydown }, this.summary, panel);
    this.#label();
  }

  connectedCallback() {
    this.append(this.details);
  }

  /** @param {string[]} names */
  set known(names) {
    this.#known = names.filter((name) => !SYSTEM.includes(name)).sort();
    if (!this.details.open) this.#build();
  }

  /** The selected names; null for all properties. @returns {string[] | null} */
  get value() {
    return this.#selected.length ? this.#selected : null;
  }

  set value(names) {
    this.#selected = names ?? [];
    this.#build();
    this.#label();
  }

  #toggled() {
    this.#build();
    const change = this.details.open ? "addEventListener" : "removeEventListener";
    document[change]("pointerdown", this.#onPointer);
  }

  disconnectedCallback() {
    document.removeEventListener("pointerdown", this.#onPointer);
  }

  #onPointer = (/** @type {Event} */ event) => {
    if (event.target instanceof Node && !this.contains(event.target)) this.details.open = false;
  };

  #build() {
    // A name that contains a comma would be read as several names.
    const known = this.#known.filter((name) => !name.includes(","));
    const boxes = known.map((name) =>
      checkbox(name, { value: name, checked: this.#selected.includes(name), onchange: () => this.#collect() }));
    replaceChildren(
      this.choices,
      h("legend", null, "Properties"),
      boxes.length ? boxes : h("small", null, "No properties are known before a query has run."));
    this.others.value = this.#selected.filter((name) => !known.includes(name)).join(", ");
  }

  #collect() {
    const boxes = [...this.choices.querySelectorAll("input")].filter((box) => box.checked);
    this.#selected = [...new Set([...boxes.map((box) => box.value), ...readNames(this.others.value)])];
    this.#changed();
  }

  #all() {
    this.value = null;
    this.#changed();
  }

  #changed() {
    this.#label();
    this.dispatchEvent(new Event("change"));
  }

  #label() {
    const names = this.#selected;
    const text = names.length === 0 ? "all properties" : names.length <= 2 ? names.join(", ") : `${names.length} properties`;
    this.summary.textContent = `Select: ${text}`;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === "Escape" && this.details.open) {
      event.stopPropagation();
      this.details.open = false;
      this.summary.focus();
    } else if (event.key === "Enter" && event.target === this.others) {
      // Enter must only close the panel, not run the query.
      event.preventDefault();
      this.details.open = false;
      this.summary.focus();
    }
  }
}

customElements.define("select-field", SelectField);
