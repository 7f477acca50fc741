// The form for a shared access signature of the account. It is signed in this page, with the account key.

import { KeyCredential } from "../core/credential.js";
import { describe } from "../core/errors.js";
import { makeAccountSas } from "../core/sas.js";
import { h, replaceChildren } from "../ui/dom.js";
import { inFuture, letterField, originFields, signatureResult, timeField } from "./fields.js";
import { accountSasInWords, problemOfAccountSas } from "./words.js";

const HOUR_MS = 3_600_000;
/** In the order in which the protocol writes them. */
const PERMISSIONS = [
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

/**
 * @param {import("../core/client.js").TableService} service
 * @returns {HTMLElement}
 */
export function accountSasForm(service) {
  const resourceTypes = letterField("Resource types", RESOURCE_TYPES, "o");
  const permissions = letterField("Permissions", PERMISSIONS, "r");
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
