// The account: signatures, the properties of the service, its replication, and its requests in the last hours.

import { ServiceError, describe } from "../core/errors.js";
import { h, replaceChildren } from "../ui/dom.js";
import { accountSasForm } from "./sas-forms.js";
import { propertiesForm } from "./properties-form.js";
import { METRICS_TABLE, usageFilter, usageOf } from "./usage.js";

/** @typedef {import("../session.js").Session} Session */
/** @typedef {import("../core/client.js").TableService} TableService */

export class AccountView extends HTMLElement {
  /** @param {Session} session */
  constructor(session) {
    super();
    this.session = session;
  }

  connectedCallback() {
    const { service, settings } = this.session;
    const section = (/** @type {string} */ title, /** @type {HTMLElement} */ content) =>
      h("section", { class: "card", "aria-label": title }, h("h2", null, title), content);
    replaceChildren(
      this,
      h("div", { class: "heading" }, h("h1", null, `Account ${service.account}`)),
      section(
        "Shared access signature",
        service.may("sign")
          ? accountSasForm(service)
          : h("p", null, "Signatures are made with the account key, and this sign-in has none."),
      ),
      service.may("properties") ? section("Service properties", propertiesForm(service)) : null,
      // In host style the second endpoint has another origin, which this page must not ask.
      service.may("properties") && settings.hostAccount === null
        ? section(
            "Replication",
            onDemand("Show the replication", () => replication(service)),
          )
        : null,
      service.may("query", METRICS_TABLE)
        ? section(
            "Requests in the last 24 hours",
            onDemand("Show the requests", () => usage(service)),
          )
        : null,
    );
  }
}

customElements.define("account-view", AccountView);

/**
 * A button that is replaced by what it loads, so that an account without it is not asked each time.
 * @param {string} label
 * @param {() => Promise<HTMLElement>} load
 */
function onDemand(label, load) {
  const place = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      replaceChildren(place, await load());
    } catch (error) {
      replaceChildren(place, h("p", { class: "problem" }, describe(error)));
    } finally {
      button.disabled = false;
      button.textContent = "Refresh";
    }
  });
  return h("div", null, place, button);
}

/** @param {TableService} service */
async function replication(service) {
  const { status, lastSyncTime } = await service.getStatistics();
  return h(
    "dl",
    { class: "replication" },
    h("dt", null, "Status"),
    h("dd", null, status),
    h("dt", null, "Last synchronization"),
    h("dd", null, lastSyncTime || "unknown"),
  );
}

/** @param {TableService} service */
async function usage(service) {
  /** @type {import("../core/edm.js").Entity[]} */
  const rows = [];
  /** @type {import("../core/client.js").Continuation | null} */
  let next = null;
  try {
    do {
      /** @type {Awaited<ReturnType<TableService["queryEntities"]>>} */
      const page = await service.queryEntities(METRICS_TABLE, { filter: usageFilter(new Date()), next });
      rows.push(...page.entities);
      next = page.next;
    } while (next);
  } catch (error) {
    if (error instanceof ServiceError && error.status === 404) {
      return h("p", null, "The server does not count requests. It does when it is started with --analytics.");
    }
    throw error;
  }
  const used = usageOf(rows);
  if (used.length === 0) {
    return h("p", null, "There is no hour with requests yet. The rows of an hour are written when it is over.");
  }
  const heads = ["Operation", "Requests", "Failed", "Milliseconds", "Bytes in", "Bytes out"].map((name) =>
    h("th", { scope: "col" }, name),
  );
  const lines = used.map(({ operation, requests, failed, milliseconds, ingress, egress }) => {
    const numbers = [requests, failed, Math.round(milliseconds * 10) / 10, ingress, egress];
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, operation),
      numbers.map((number) => h("td", null, number.toLocaleString("en"))),
    );
  });
  return h(
    "div",
    { class: "preview", tabindex: "0", role: "region", "aria-label": "Requests" },
    h("table", null, h("thead", null, h("tr", null, heads)), h("tbody", null, lines)),
  );
}
