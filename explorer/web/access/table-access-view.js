// The view of the access to a table: its stored access policies and signatures for it. All policies are saved together,
// because the service replaces the whole list.

import { describe } from "../core/errors.js";
import { button, div, field, h, p, problemLine, replaceChildren, textInput } from "../ui/dom.js";
import { notify } from "../ui/notify.js";
import { card, letterField, listEditor, loaded, timeField } from "./fields.js";
import { noKey, tableSasForm } from "./sas-forms.js";
import { ENTITY_PERMISSIONS } from "./words.js";

/** @import { TableService } from "../core/client.js" */
/** @import { StoredPolicy } from "../core/xml.js" */
/** @import { Session } from "../session.js" */

const POLICIES_MAX = 5;
const ID_LENGTH_MAX = 64;
const NEEDS_KEY = "Managing a table's policies requires the account key. Sign in with the key to manage them.";

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
    const form = service.may("sign", table) ? tableSasForm(service, table) : null;
    const editor = service.may("policies", table)
      ? policiesEditor(service, table, (policies) => form?.setPolicies(policies))
      : null;
    replaceChildren(
      this,
      div("cards",
        card("Shared access signature", form?.element ?? noKey()),
        card("Stored access policies", editor ?? p(null, NEEDS_KEY))));
  }
}

customElements.define("table-access-view", TableAccessView);

/**
 * @param {TableService} service
 * @param {string} table
 * @param {(policies: StoredPolicy[]) => void} onPolicies receives the policies after they were read or saved
 * @returns {HTMLElement}
 */
function policiesEditor(service, table, onPolicies) {
  const { empty, list, add, show, focus, items } = listEditor({
    create: policyFields,
    blank: { id: "", start: "", expiry: "", permissions: "r" },
    label: "Add policy",
    none: "The table has no stored access policies.",
    itemsMax: POLICIES_MAX,
  });
  list.className = "policies";
  const problem = problemLine();
  const read = async () => {
    const policies = await service.getPolicies(table);
    show(policies);
    onPolicies(policies);
  };
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const policies = items();
    const ids = policies.map(({ id }) => id);
    const wrong = ids.findIndex((id, at) => id === "" || ids.indexOf(id) !== at);
    problem.textContent = wrong >= 0 ? "Each policy needs a unique ID." : "";
    if (wrong >= 0) {
      focus(wrong);
      return;
    }
    submit.disabled = true;
    try {
      await service.setPolicies(table, policies);
      await read();
      notify(`The policies of ${table} were saved.`, { kind: "success" });
    } catch (error) {
      problem.textContent = describe(error);
    } finally {
      submit.disabled = false;
    }
  };
  const submit = h("button", { type: "submit", class: "primary" }, "Save policies");
  const form = h("form", { onsubmit: save }, empty, list, problem, div("toolbar", add, submit));
  const hint =
    "A signature that names a policy takes from it whatever the signature itself does not specify. Removing the policy " +
    "revokes the signature. Changes take effect immediately. In Azure, they can take up to 30 seconds.";
  // The form is shown only after the policies were read. Saving it earlier would remove all of them.
  const place = loaded(service, async () => {
    await read();
    return form;
  });
  return div(null, place, p("hint", hint));
}

/**
 * @param {StoredPolicy} policy
 * @param {() => void} onRemove
 */
function policyFields(policy, onRemove) {
  const id = textInput({ value: policy.id, maxlength: ID_LENGTH_MAX });
  const permissions = letterField("Permissions", ENTITY_PERMISSIONS, policy.permissions);
  const start = timeField("Start", { text: policy.start });
  const expiry = timeField("Expiry", { text: policy.expiry, hasDurations: true });
  const name = h("legend", null, policy.id || "New policy");
  id.addEventListener("input", () => (name.textContent = id.value || "New policy"));
  const times = div("pair", start.element, expiry.element);
  const remove = button("Remove", onRemove, { class: "quiet" });
  const element = h("fieldset", { class: "policy" }, name, field("ID", id), permissions.element, times, remove);
  const value = () => ({ id: id.value, start: start.value(), expiry: expiry.value(), permissions: permissions.value() });
  return { element, first: id, value };
}
