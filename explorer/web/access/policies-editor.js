// The stored access policies of a table, to look at and to change. They are saved together, as the service replaces them all.

import { describe } from "../core/errors.js";
import { field, h, replaceChildren } from "../ui/dom.js";
import { notify } from "../ui/notify.js";
import { letterField, timeField } from "./fields.js";
import { ENTITY_PERMISSIONS } from "./words.js";

/** @typedef {import("../core/client.js").TableService} TableService */
/** @typedef {import("../core/xml.js").StoredPolicy} StoredPolicy */

const POLICIES_MAX = 5;
const ID_LENGTH_MAX = 64;

/** Dispatches "policies" with what the table has, when that was read or saved. */
export class PoliciesEditor extends HTMLElement {
  /** @type {{element: HTMLElement, id: HTMLInputElement, value: () => StoredPolicy}[]} */
  #rows = [];

  /**
   * @param {TableService} service
   * @param {string} table
   */
  constructor(service, table) {
    super();
    this.service = service;
    this.table = table;
    this.list = h("div", { class: "policies" });
    this.problem = h("p", { class: "problem", role: "alert" });
    this.empty = h("p", null, "The table has no stored access policy.");
    this.addButton = h("button", { type: "button", onclick: () => this.#add() }, "Add policy");
    this.saveButton = h("button", { type: "submit", class: "primary" }, "Save policies");
  }

  connectedCallback() {
    const onSubmit = (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.#save();
    };
    replaceChildren(
      this,
      h(
        "form",
        { onsubmit: onSubmit },
        this.empty,
        this.list,
        this.problem,
        h("div", { class: "toolbar" }, this.addButton, this.saveButton),
      ),
      h(
        "p",
        { class: "hint" },
        "A signature that names a policy has from it what it lacks itself, and is withdrawn by removing the policy. " +
          "Changes are in effect at once; in the cloud they take up to 30 seconds.",
      ),
    );
    void this.load();
  }

  async load() {
    try {
      this.#show(await this.service.getPolicies(this.table));
      this.problem.textContent = "";
    } catch (error) {
      this.problem.textContent = describe(error);
      this.saveButton.disabled = true;
      this.addButton.disabled = true;
    }
  }

  /** @param {StoredPolicy[]} policies */
  #show(policies) {
    this.#rows = policies.map((policy) => this.#row(policy));
    this.#update();
    this.dispatchEvent(new CustomEvent("policies", { detail: policies }));
  }

  #update() {
    replaceChildren(
      this.list,
      this.#rows.map(({ element }) => element),
    );
    this.empty.hidden = this.#rows.length > 0;
    this.addButton.disabled = this.#rows.length >= POLICIES_MAX;
    this.saveButton.disabled = false;
  }

  #add() {
    const row = this.#row({ id: "", start: "", expiry: "", permissions: "r" });
    this.#rows.push(row);
    this.#update();
    row.id.focus();
  }

  /** @param {StoredPolicy} policy */
  #row(policy) {
    const id = h("input", { type: "text", value: policy.id, maxlength: ID_LENGTH_MAX, spellcheck: "false", autocomplete: "off" });
    const permissions = letterField("Permissions", ENTITY_PERMISSIONS, policy.permissions);
    const [start, expiry] = [
      timeField("Start", { text: policy.start }),
      timeField("Expiry", { text: policy.expiry, hasDurations: true }),
    ];
    const remove = () => {
      this.#rows = this.#rows.filter((other) => other !== row);
      this.#update();
      this.addButton.focus();
    };
    const button = h("button", { type: "button", class: "quiet", onclick: remove }, "Remove");
    const name = h("legend", null, policy.id || "New policy");
    id.addEventListener("input", () => (name.textContent = id.value || "New policy"));
    const element = h(
      "fieldset",
      { class: "policy" },
      name,
      field("Id", id),
      permissions.element,
      h("div", { class: "pair" }, start.element, expiry.element),
      button,
    );
    const row = {
      element,
      id,
      value: () => ({ id: id.value, start: start.value(), expiry: expiry.value(), permissions: permissions.value() }),
    };
    return row;
  }

  async #save() {
    const ids = this.#rows.map(({ id }) => id.value);
    const wrong = this.#rows.find(({ id }, at) => id.value === "" || ids.indexOf(id.value) !== at);
    if (wrong) {
      this.problem.textContent = "Each policy needs an id that no other policy of the table has.";
      wrong.id.focus();
      return;
    }
    this.problem.textContent = "";
    this.saveButton.disabled = true;
    try {
      await this.service.setPolicies(
        this.table,
        this.#rows.map((row) => row.value()),
      );
      this.#show(await this.service.getPolicies(this.table));
      notify(`The policies of ${this.table} were saved.`, { kind: "success" });
    } catch (error) {
      this.problem.textContent = describe(error);
    } finally {
      this.saveButton.disabled = false;
    }
  }
}

customElements.define("policies-editor", PoliciesEditor);
