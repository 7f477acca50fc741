// The view of the account: signatures, service properties, replication, the requests in the last 24 hours, and the load
// of the cluster.

import { SasCredential } from "../core/credential.js";
import { ServiceError, describe } from "../core/errors.js";
import { numberText } from "../core/words.js";
import { button, checkbox, div, field, h, p, problemLine, replaceChildren, scrollableTable, textInput } from "../ui/dom.js";
import { notify } from "../ui/notify.js";
import { clusterLoad } from "./cluster-load.js";
import { card, listEditor, loaded } from "./fields.js";
import { accountSasForm, noKey } from "./sas-forms.js";

/** @import { TableService } from "../core/client.js" */
/** @import { Continuation } from "../core/responses.js" */
/** @import { Entity } from "../core/edm.js" */
/** @import { CorsRule, Logging, Metrics, Retention, ServiceProperties } from "../core/xml.js" */
/** @import { Session } from "../session.js" */

/**
 * The requests for an operation. `milliseconds` is their average latency on the server.
 * @typedef {{operation: string, requests: number, failed: number, milliseconds: number, ingress: number, egress: number}} Usage
 */

const DAY_MS = 86_400_000;
const RULES_MAX = 5;
/** The table to which Storage Analytics writes hourly metrics (docs/analytics.md). */
const METRICS_TABLE = "$MetricsHourPrimaryTransactionsTable";

export class AccountView extends HTMLElement {
  /** @param {Session} session */
  constructor(session) {
    super();
    this.session = session;
  }

  connectedCallback() {
    const { service, settings } = this.session;
    // With host-style URLs, the secondary endpoint has a different origin, to which this page must not send requests.
    const hasSecondary = service.may("properties") && settings.hostAccount === null;
    replaceChildren(
      this,
      div("heading", h("h1", null, `Account ${service.account}`)),
      div("cards",
        card("Shared access signature", service.may("sign") ? accountSasForm(service) : noKey()),
        service.may("properties") && card("Service properties", propertiesForm(service)),
        service.may("query", METRICS_TABLE) && card("Requests in the last 24 hours", onDemand(service, "Show requests", usage)),
        hasSecondary && card("Replication", onDemand(service, "Show replication status", replication)),
        settings.load && service.may("sign") && card("Load of the cluster", onDemand(service, "Show load", clusterLoad))));
  }
}

customElements.define("account-view", AccountView);

/**
 * Creates a part of the view that is loaded only when the user presses a button, so that opening the view sends no
 * request for it.
 * @param {TableService} service
 * @param {string} label
 * @param {(service: TableService) => Promise<HTMLElement>} load
 */
function onDemand(service, label, load) {
  const place = h("div", { "aria-live": "polite" });
  const show = () => {
    replaceChildren(place, loaded(service, () => load(service)));
    again.textContent = "Refresh";
  };
  const again = button(label, show);
  return div(null, place, again);
}

/** @param {TableService} service */
async function replication(service) {
  const { status, lastSyncTime } = await service.getStatistics();
  return p(null, `Status: ${status}. Last synchronization: ${lastSyncTime || "unknown"}.`);
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
      return p(null, "The server does not record metrics. To record them, start it with --analytics.");
    }
    throw error;
  }
  const used = usageOf(entities);
  if (used.length === 0) {
    return p(null, "There are no metrics yet. The metrics of an hour are written after the hour ends.");
  }
  const heads = ["Operation", "Requests", "Failed", "Average latency (ms)", "Bytes in", "Bytes out"];
  const lines = used.map(({ operation, requests, failed, milliseconds, ingress, egress }) => {
    const numbers = [requests, failed, Math.round(milliseconds * 10) / 10, ingress, egress];
    return h("tr", null, h("th", { scope: "row" }, operation), numbers.map((number) => h("td", null, numberText(number))));
  });
  return scrollableTable("Requests", heads, lines);
}

/**
 * Returns the filter for the entities that count user requests in the last 24 hours.
 * @param {Date} now
 */
function usageFilter(now) {
  const [hour = ""] = new Date(now.getTime() - DAY_MS).toISOString().replaceAll("-", "").split(":");
  return `PartitionKey ge '${hour}00' and RowKey ge 'user;' and RowKey lt 'user<'`;
}

/**
 * Adds up entities by operation. The most frequent operation comes first; `All` comes last.
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
    // Latencies are averages over successful requests.
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

/**
 * @param {TableService} service
 * @returns {HTMLElement}
 */
function propertiesForm(service) {
  const place = div(null);
  const load = async () => propertiesFields(service, await service.getProperties(), show);
  const show = () => replaceChildren(place, loaded(service, load));
  show();
  return place;
}

/**
 * @param {TableService} service
 * @param {ServiceProperties} properties
 * @param {() => void} onSaved
 */
function propertiesFields(service, properties, onSaved) {
  const mayChange = !(service.credential instanceof SasCredential) || service.credential.has("w", "s");
  const cors = corsEditor(properties.cors);
  const hours = metricsFields("Metrics per hour", properties.hourMetrics);
  const minutes = metricsFields("Metrics per minute", properties.minuteMetrics);
  const logging = loggingFields(properties.logging);
  const problem = problemLine();
  const submit = h("button", { type: "submit", class: "primary", hidden: !mayChange }, "Save properties");
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    problem.textContent = "";
    submit.disabled = true;
    try {
      await service.setProperties({
        cors: cors.value(),
        hourMetrics: hours.value(),
        minuteMetrics: minutes.value(),
        logging: logging.value(),
      });
      onSaved();
      notify("The service properties were saved.", { kind: "success" });
    } catch (error) {
      problem.textContent = describe(error);
    } finally {
      submit.disabled = false;
    }
  };
  const analytics = [hours, minutes, logging].map(({ element }) => element);
  const parts = [h("h3", null, "CORS"), cors.element, h("h3", null, "Analytics"), analytics];
  const fields = h("fieldset", { class: "bare", disabled: !mayChange }, parts);
  const hint = p("hint", "Changes take effect immediately. In Azure, they can take up to 30 seconds.");
  return h("form", { onsubmit: save, novalidate: true }, fields, problem, submit, hint);
}

/** @param {Retention} retention */
function retentionFields(retention) {
  const box = checkbox("Delete after a number of days", { checked: retention.enabled });
  const days = h("input", { type: "number", min: "1", max: "365", value: retention.days, "aria-label": "Days" });
  const value = () => ({ enabled: box.input.checked, days: Number(days.value) });
  return { element: div("toolbar", box, field("Days", days)), value };
}

/**
 * @param {string} title
 * @param {Metrics} metrics
 */
function metricsFields(title, metrics) {
  const enabled = checkbox("Record metrics", { checked: metrics.enabled });
  const includeApis = checkbox("Include each operation", { checked: metrics.includeApis });
  const retention = retentionFields(metrics.retention);
  const element = h("fieldset", null, h("legend", null, title), enabled, includeApis, retention.element);
  /** @returns {Metrics} */
  const value = () => ({ enabled: enabled.input.checked, includeApis: includeApis.input.checked, retention: retention.value() });
  return { element, value };
}

/** @param {Logging} logging */
function loggingFields(logging) {
  const read = checkbox("Reads", { checked: logging.read });
  const write = checkbox("Writes", { checked: logging.write });
  const drop = checkbox("Deletions", { checked: logging.delete });
  const retention = retentionFields(logging.retention);
  const hint = p("hint", "Azure writes logs as blobs. Rowhouse only stores this setting and writes no logs.");
  const element = h("fieldset", null, h("legend", null, "Logging"), read, write, drop, retention.element, hint);
  const value = () => ({
    read: read.input.checked,
    write: write.input.checked,
    delete: drop.input.checked,
    retention: retention.value(),
  });
  return { element, value };
}

/**
 * Creates an editor for the CORS rules, which let pages from other origins use the account. `value` returns the edited
 * rules.
 * @param {CorsRule[]} rules
 */
function corsEditor(rules) {
  const editor = listEditor({
    create: ruleFields,
    blank: { origins: "", methods: "GET", headers: "*", exposedHeaders: "*", maxAgeSeconds: 3600 },
    label: "Add rule",
    none: "There are no rules, so pages from other origins cannot use the account.",
    itemsMax: RULES_MAX,
  });
  editor.show(rules);
  return { element: div(null, editor.empty, editor.list, editor.add), value: editor.items };
}

/**
 * @param {CorsRule} rule
 * @param {() => void} onRemove
 */
function ruleFields(rule, onRemove) {
  const input = (/** @type {string} */ value) => textInput({ value });
  const [origins, methods, headers, exposedHeaders] = [rule.origins, rule.methods, rule.headers, rule.exposedHeaders].map(input);
  const maxAge = h("input", { type: "number", min: "0", value: rule.maxAgeSeconds });
  if (!origins || !methods || !headers || !exposedHeaders) {
    throw new Error("A rule has four text fields.");
  }
  const legend = h("legend");
  const allowed = field("Allowed headers", headers, "For example x-ms-*,content-type.");
  const element = h("fieldset", null,
    legend,
    field("Allowed origins", origins, "For example https://a.example,https://*.b.example, or * for all origins."),
    field("Allowed methods", methods, "For example GET,POST,MERGE."),
    div("pair", allowed, field("Exposed headers", exposedHeaders)),
    field("Maximum age in seconds", maxAge),
    button("Remove", onRemove, { class: "quiet" }));
  const value = () => ({
    origins: origins.value.trim(),
    methods: methods.value.trim().toUpperCase(),
    headers: headers.value.trim(),
    exposedHeaders: exposedHeaders.value.trim(),
    maxAgeSeconds: Number(maxAge.value),
  });
  const title = (/** @type {number} */ number) => legend.replaceChildren(`Rule ${number}`);
  return { element, first: origins, title, value };
}
