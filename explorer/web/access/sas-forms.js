// The forms for shared access signatures, of a table and of the account. They are signed in this page, with the account key.

import { KeyCredential } from "../core/credential.js";
import { describe } from "../core/errors.js";
import { makeAccountSas, makeTableSas } from "../core/sas.js";
import { field, h, replaceChildren } from "../ui/dom.js";
import { inFuture, letterField, originFields, signatureResult, timeField } from "./fields.js";
import { ENTITY_PERMISSIONS, accountSasInWords, problemOfAccountSas, problemOfTableSas, tableSasInWords } from "./words.js";

/** @typedef {import("../core/client.js").TableService} TableService */
/** @typedef {import("../core/sas.js").TableSas} TableSas */
/** @typedef {import("../core/xml.js").StoredPolicy} StoredPolicy */

const HOUR_MS = 3_600_000;
/** Those of accounts, in the order in which the protocol writes them. */
const ACCOUNT_PERMISSIONS = [
  { letter: "r", label: "Read" },
  { letter: "w", label: "Write" },
  { letter: "d", label: "Delete" },
  { letter: "l", label: "List" },
  { letter: "a", label: "Add" },
  { letter: "c", label: "Create" },
  { letter: "u", label: "Update" },
];
const RESOURCE_TYPES = [
  { letter: "s", label: "Service: its properties and statistics" },
  { letter: "c", label: "Container: tables, to list, create and delete" },
  { letter: "o", label: "Object: entities" },
];

/** The form for a signature of a table. */
export class TableSasForm extends HTMLElement {
  /** @type {StoredPolicy[]} */
  #policies = [];

  /**
   * @param {TableService} service
   * @param {string} table
   */
  constructor(service, table) {
    super();
    this.service = service;
    this.table = table;
    this.policy = h("select", { onchange: () => this.#showNeeded() });
    this.permissions = letterField("Permissions", ENTITY_PERMISSIONS, "r");
    this.start = timeField("Start");
    this.expiry = timeField("Expiry", { text: inFuture(HOUR_MS), hasDurations: true });
    this.origin = originFields();
    const key = () => h("input", { type: "text", placeholder: "no limit", spellcheck: "false", autocomplete: "off" });
    this.keys = { startPk: key(), startRk: key(), endPk: key(), endRk: key() };
    this.byPolicy = h("p", { class: "hint", role: "status" });
    this.problem = h("p", { class: "problem", role: "alert" });
    this.result = h("div", null);
  }

  connectedCallback() {
    const onSubmit = (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.#make();
    };
    const { startPk, startRk, endPk, endRk } = this.keys;
    this.policyField = field("Stored access policy", this.policy);
    replaceChildren(
      this,
      h(
        "form",
        { onsubmit: onSubmit, oninput: () => this.result.replaceChildren() },
        this.policyField,
        this.byPolicy,
        this.permissions.element,
        h("p", { class: "hint" }, "Insert or replace and insert or merge need both Add and Update."),
        h("div", { class: "pair" }, this.start.element, this.expiry.element),
        h(
          "fieldset",
          null,
          h("legend", null, "Key range"),
          h("div", { class: "pair" }, field("From PartitionKey", startPk), field("From RowKey", startRk)),
          h("div", { class: "pair" }, field("To PartitionKey", endPk), field("To RowKey", endRk)),
          h(
            "p",
            { class: "hint" },
            "Both ends are part of the range, which follows the order of keys: a RowKey limits the partition beside it only.",
          ),
        ),
        this.origin.element,
        this.problem,
        h("button", { type: "submit", class: "primary" }, "Make signature"),
      ),
      this.result,
    );
    this.#showPolicies();
  }

  /** @param {StoredPolicy[]} policies those of the table */
  setPolicies(policies) {
    this.#policies = policies;
    this.result.replaceChildren();
    this.#showPolicies();
  }

  #showPolicies() {
    const chosen = this.policy.value;
    const options = this.#policies.map(({ id }, at) => h("option", { value: at }, id));
    replaceChildren(this.policy, h("option", { value: "" }, "none"), options);
    this.policy.value = this.#policies[Number(chosen)] ? chosen : "";
    this.policyField?.toggleAttribute("hidden", this.#policies.length === 0);
    this.#showNeeded();
  }

  /** The policy that the signature names. */
  get chosenPolicy() {
    return this.policy.value === "" ? null : (this.#policies[Number(this.policy.value)] ?? null);
  }

  /** Offers only what the policy lacks: the service refuses a signature that has what its policy has. */
  #showNeeded() {
    const policy = this.chosenPolicy;
    const has = { permissions: Boolean(policy?.permissions), start: Boolean(policy?.start), expiry: Boolean(policy?.expiry) };
    this.permissions.element.hidden = has.permissions;
    this.start.element.hidden = has.start;
    this.expiry.element.hidden = has.expiry;
    const given = Object.entries(has)
      .filter(([, isGiven]) => isGiven)
      .map(([name]) => name);
    this.byPolicy.textContent = policy ? `The policy gives ${given.length > 0 ? given.join(", ") : "nothing yet"}.` : "";
  }

  /** @returns {TableSas} */
  #read() {
    const policy = this.chosenPolicy;
    const { startPk, startRk, endPk, endRk } = this.keys;
    return {
      table: this.table,
      permissions: policy?.permissions ? "" : this.permissions.value(),
      start: policy?.start ? "" : this.start.value(),
      expiry: policy?.expiry ? "" : this.expiry.value(),
      policy: policy?.id ?? "",
      startPk: startPk.value,
      startRk: startRk.value,
      endPk: endPk.value,
      endRk: endRk.value,
      ...this.origin.value(),
    };
  }

  async #make() {
    const { service, table } = this;
    const [sas, policy] = [this.#read(), this.chosenPolicy];
    this.result.replaceChildren();
    this.problem.textContent = problemOfTableSas(sas, policy);
    if (this.problem.textContent !== "" || !(service.credential instanceof KeyCredential)) {
      return;
    }
    try {
      const token = await makeTableSas(service.credential, sas);
      const words = tableSasInWords(sas, policy, new Date());
      const url = `${service.endpoint}/${encodeURIComponent(table)}?${token}`;
      replaceChildren(this.result, signatureResult({ words, url, token, endpoint: service.endpoint }));
    } catch (error) {
      this.problem.textContent = describe(error);
    }
  }
}

customElements.define("table-sas-form", TableSasForm);

/**
 * The form for a signature of the account.
 * @param {TableService} service
 * @returns {HTMLElement}
 */
export function accountSasForm(service) {
  const resourceTypes = letterField("Resource types", RESOURCE_TYPES, "o");
  const permissions = letterField("Permissions", ACCOUNT_PERMISSIONS, "r");
  const start = timeField("Start");
  const expiry = timeField("Expiry", { text: inFuture(HOUR_MS), hasDurations: true });
  const origin = originFields();
  const problem = h("p", { class: "problem", role: "alert" });
  const result = h("div", null);
  const make = async (/** @type {Event} */ event) => {
    event.preventDefault();
    result.replaceChildren();
    const sas = {
      permissions: permissions.value(),
      resourceTypes: resourceTypes.value(),
      start: start.value(),
      expiry: expiry.value(),
      ...origin.value(),
    };
    problem.textContent = problemOfAccountSas(sas);
    if (problem.textContent !== "" || !(service.credential instanceof KeyCredential)) {
      return;
    }
    try {
      const token = await makeAccountSas(service.credential, sas);
      const words = accountSasInWords(sas, service.account, new Date());
      replaceChildren(
        result,
        signatureResult({ words, url: `${service.endpoint}/?${token}`, token, endpoint: service.endpoint }),
      );
    } catch (error) {
      problem.textContent = describe(error);
    }
  };
  return h(
    "div",
    null,
    h(
      "form",
      { onsubmit: make, oninput: () => result.replaceChildren() },
      resourceTypes.element,
      permissions.element,
      h("div", { class: "pair" }, start.element, expiry.element),
      origin.element,
      problem,
      h("button", { type: "submit", class: "primary" }, "Make signature"),
    ),
    result,
  );
}
