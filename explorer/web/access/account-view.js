// The account: signatures, the properties of the service, its replication, and its requests in the last hours.

import { ServiceError } from "../core/errors.js";
import { h, replaceChildren } from "../ui/dom.js";
import { card, loaded } from "./fields.js";
import { accountSasForm, noKey } from "./sas-forms.js";
import { propertiesForm } from "./properties-form.js";

/** @import { Continuation, TableService } from "../core/client.js" */
/** @import { Entity } from "../core/edm.js" */
/** @import { Session } from "../session.js" */

/** @typedef {{operation: string, requests: number, failed: number, milliseconds: number, ingress: number, egress: number}} Usage */

const DAY_MS = 86_400_000;
/** Storage Analytics writes its entities there (docs/analytics.md). */
const METRICS_TABLE = "$MetricsHourPrimaryTransactionsTable";

export class AccountView extends HTMLElement {
  /** @param {Session} session */
  constructor(session) {
    super();
    this.session = session;
  }

  connectedCallback() {
    const { service, settings } = this.session;
    replaceChildren(
      this,
      h("div", { class: "heading" }, h("h1", null, `Account ${service.account}`)),
      card("Shared access signature", service.may("sign") ? accountSasForm(service) : noKey()),
      service.may("properties") ? card("Service properties", propertiesForm(service)) : null,
      // In host style the second endpoint has another origin, which this page must not ask.
      service.may("properties") && settings.hostAccount === null
        ? card("Replication", onDemand(service, "Show the replication", replication))
        : null,
      service.may("query", METRICS_TABLE)
        ? card("Requests in the last 24 hours", onDemand(service, "Show the requests", usage))
        : null,
    );
  }
}

customElements.define("account-view", AccountView);

/**
 * What is loaded by a button only, so that an account without it is not asked each time.
 * @param {TableService} service
 * @param {string} label
 * @param {(service: TableService) => Promise<HTMLElement>} load
 */
function onDemand(service, label, load) {
  const place = h("div", { "aria-live": "polite" });
  const show = () => {
    replaceChildren(place, loaded(service, () => load(service)));
    button.textContent = "Refresh";
  };
  const button = h("button", { type: "button", onclick: show }, label);
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
  /** @type {Entity[]} */
  const entities = [];
  /** @type {Continuation | null} */
  let next = null;
  try {
    do {
      /** @type {Awaited<ReturnType<TableService["queryEntities"]>>} */
      const page = await service.queryEntities(METRICS_TABLE, { filter: usageFilter(new Date()), next });
      entities.push(...page.entities);
      next = page.next;
    } while (next);
  } catch (error) {
    if (error instanceof ServiceError && error.status === 404) {
      return h("p", null, "The server does not count requests. It does when it is started with --analytics.");
    }
    throw error;
  }
  const used = usageOf(entities);
  if (used.length === 0) {
    return h("p", null, "There is no hour with requests yet. The entities of an hour are written when it is over.");
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

/**
 * The filter for the entities of users in the last 24 hours.
 * @param {Date} now
 */
function usageFilter(now) {
  const [hour = ""] = new Date(now.getTime() - DAY_MS).toISOString().replaceAll("-", "").split(":");
  return `PartitionKey ge '${hour}00' and RowKey ge 'user;' and RowKey lt 'user<'`;
}

/**
 * Entities added up by operation, the most frequent one first; `All` is the last.
 * @param {Entity[]} entities
 * @returns {Usage[]}
 */
function usageOf(entities) {
  /** @type {Map<string, Usage>} */
  const all = new Map();
  for (const { rowKey, properties } of entities) {
    const number = (/** @type {string} */ name) => Number(properties.get(name)?.text ?? 0);
    const operation = rowKey.replace(/^user;/, "");
    const usage = all.get(operation) ?? { operation, requests: 0, failed: 0, milliseconds: 0, ingress: 0, egress: 0 };
    const requests = number("TotalRequests");
    const succeeded = number("Success") + number("AnonymousSuccess") + number("SASSuccess");
    // Latencies are averages of the successful requests.
    usage.milliseconds += number("AverageServerLatency") * succeeded;
    usage.requests += requests;
    usage.failed += requests - succeeded;
    usage.ingress += number("TotalIngress");
    usage.egress += number("TotalEgress");
    all.set(operation, usage);
  }
  const used = [...all.values()].filter(({ requests }) => requests > 0);
  used.forEach((usage) => (usage.milliseconds /= Math.max(usage.requests - usage.failed, 1)));
  const isTotal = (/** @type {Usage} */ usage) => Number(usage.operation === "All");
  return used.sort((one, other) => isTotal(one) - isTotal(other) || other.requests - one.requests);
}
