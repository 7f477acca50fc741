// The forms for shared access signatures, for a table and for the account. Signatures are created in the browser with
// the account key.

import { KeyCredential } from "../core/credential.js";
import { describe } from "../core/errors.js";
import { makeAccountSas, makeTableSas } from "../core/sas.js";
import { copyText } from "../query/clipboard.js";
import { button, div, dropDown, field, h, p, problemLine, replaceChildren, textInput } from "../ui/dom.js";
import { inFuture, letterField, timeField } from "./fields.js";
import { ENTITY_PERMISSIONS, accountSasInWords, problemOfAccountSas, problemOfTableSas, tableSasInWords } from "./words.js";

/** @import { TableService } from "../core/client.js" */
/** @import { StoredPolicy } from "../core/xml.js" */
/**
 * The values of the fields in both forms.
 * @typedef {{start: string, expiry: string, protocol: string, ipRange: string}} Circumstances
 */

/** The permissions of account signatures, in the order in which the protocol writes them. */
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
  { letter: "s", label: "Service: properties and statistics" },
  { letter: "c", label: "Container: listing, creating and deleting tables" },
  { letter: "o", label: "Object: entities" },
];

/** Returns the note that replaces a form if there is no account key. */
export function noKey() {
  return p(null, "Creating signatures requires the account key. Sign in with the key to create them.");
}

/**
 * Creates a form with the fields that both forms have. It shows the created signature below the form until a field
 * changes.
 * @param {TableService} service
 * @param {string} path the path that the signature is for, below the endpoint
 * @param {{before: HTMLElement[], after?: HTMLElement}} fields the other fields, before and after the times
 * @param {(key: KeyCredential, given: Circumstances) => Promise<{token: string, words: string}>} sign
 */
function sasForm(service, path, { before, after }, sign) {
  const start = timeField("Start");
  const expiry = timeField("Expiry", { text: inFuture(1), hasDurations: true });
  const protocol = dropDown([["", "HTTPS and HTTP"], ["https", "HTTPS only"]]);
  const ipRange = textInput({ placeholder: "any" });
  const problem = problemLine();
  const result = div(null);
  const { endpoint } = service;
  const make = async (/** @type {Event} */ event) => {
    event.preventDefault();
    replaceChildren(result);
    problem.textContent = "";
    if (!(service.credential instanceof KeyCredential)) {
      return;
    }
    try {
      const { token, words } = await sign(service.credential, {
        start: start.value(),
        expiry: expiry.value(),
        protocol: protocol.value,
        ipRange: ipRange.value.trim(),
      });
      replaceChildren(result, h("section", { class: "signature", "aria-label": "Signature" },
        h("p", { class: "words", role: "status" }, words),
        copyField("URL", `${endpoint}/${path}?${token}`),
        copyField("Token", token),
        copyField("Connection string", `TableEndpoint=${endpoint};SharedAccessSignature=${token}`)));
    } catch (error) {
      problem.textContent = describe(error);
    }
  };
  const clear = () => replaceChildren(result);
  const ipField = field("IP addresses", ipRange, "For example 10.0.0.1 or 10.0.0.1-10.0.0.255.");
  const form = h("form", { onsubmit: make, oninput: clear },
    before,
    div("pair", start.element, expiry.element),
    after,
    div("pair", field("Protocol", protocol), ipField),
    problem,
    h("button", { type: "submit", class: "primary" }, "Create signature"));
  return { element: div(null, form, result), start, expiry, clear };
}

/**
 * Creates a read-only field with a button that copies its text.
 * @param {string} label
 * @param {string} text
 */
function copyField(label, text) {
  const input = h("input", { type: "text", readonly: true, value: text, spellcheck: "false" });
  return div("copyable", field(label, input), button("Copy", () => copyText(text, label), { "aria-label": `Copy ${label}` }));
}

/** @param {string} problem why the signature would not work; empty if it would */
function throwIfAny(problem) {
  if (problem) {
    throw new Error(problem);
  }
}

/**
 * Creates the form for a table signature.
 * @param {TableService} service
 * @param {string} table
 */
export function tableSasForm(service, table) {
  /** @type {StoredPolicy[]} */
  let policies = [];
  const select = h("select", { onchange: () => showNeeded() });
  const policyField = field("Stored access policy", select);
  const byPolicy = h("p", { class: "hint", role: "status" });
  const permissions = letterField("Permissions", ENTITY_PERMISSIONS, "r");
  const key = () => textInput({ placeholder: "no limit" });
  const [startPk, startRk, endPk, endRk] = [key(), key(), key(), key()];
  const range = h("fieldset", null,
    h("legend", null, "Key range"),
    div("pair", field("From PartitionKey", startPk), field("From RowKey", startRk)),
    div("pair", field("To PartitionKey", endPk), field("To RowKey", endRk)),
    p("hint", "The range follows key order and includes both ends. A RowKey applies only within the partition next to it."));
  const both = p("hint", "Insert-or-replace and insert-or-merge require both Add and Update.");
  const fields = { before: [policyField, byPolicy, permissions.element, both], after: range };

  /** The policy that the signature names. */
  const chosen = () => policies.find(({ id }) => id === select.value) ?? null;

  const form = sasForm(service, encodeURIComponent(table), fields, async (credential, given) => {
    const policy = chosen();
    const sas = {
      ...given,
      table,
      permissions: policy?.permissions ? "" : permissions.value(),
      start: policy?.start ? "" : given.start,
      expiry: policy?.expiry ? "" : given.expiry,
      policy: policy?.id ?? "",
      startPk: startPk.value,
      startRk: startRk.value,
      endPk: endPk.value,
      endRk: endRk.value,
    };
    throwIfAny(problemOfTableSas(sas, policy));
    return { token: await makeTableSas(credential, sas), words: tableSasInWords(sas, policy, new Date()) };
  });

  /** Shows only fields that the policy does not specify: the service refuses a signature that specifies them again. */
  const showNeeded = () => {
    const policy = chosen();
    const elements = { permissions: permissions.element, start: form.start.element, expiry: form.expiry.element };
    const given = /** @type {const} */ (["permissions", "start", "expiry"]).filter((name) => {
      elements[name].hidden = Boolean(policy?.[name]);
      return elements[name].hidden;
    });
    byPolicy.textContent = policy ? `The policy specifies ${given.join(", ") || "nothing yet"}.` : "";
  };

  /**
   * Updates the list of policies. A selected policy stays selected if it still exists.
   * @param {StoredPolicy[]} found
   */
  const setPolicies = (found) => {
    const before = select.value;
    policies = found;
    form.clear();
    replaceChildren(select, h("option", { value: "" }, "none"), policies.map(({ id }) => h("option", { value: id }, id)));
    select.value = policies.some(({ id }) => id === before) ? before : "";
    policyField.hidden = policies.length === 0;
    showNeeded();
    if (select.value !== before) {
      byPolicy.textContent = `The stored access policy '${before}' was removed. No policy is selected now.`;
    }
  };
  setPolicies([]);
  return { element: form.element, setPolicies };
}

/**
 * Creates the form for an account signature.
 * @param {TableService} service
 */
export function accountSasForm(service) {
  const resourceTypes = letterField("Resource types", RESOURCE_TYPES, "o");
  const permissions = letterField("Permissions", ACCOUNT_PERMISSIONS, "r");
  const before = [resourceTypes.element, permissions.element];
  return sasForm(service, "", { before }, async (credential, given) => {
    const sas = { ...given, permissions: permissions.value(), resourceTypes: resourceTypes.value() };
    throwIfAny(problemOfAccountSas(sas));
    return { token: await makeAccountSas(credential, sas), words: accountSasInWords(sas, service.account, new Date()) };
  }).element;
}
