// The properties of the service: CORS, and what it records about requests.

import { SasCredential } from "../core/credential.js";
import { describe } from "../core/errors.js";
import { checkbox, field, h, replaceChildren } from "../ui/dom.js";
import { notify } from "../ui/notify.js";
import { loaded } from "./fields.js";

/** @import { TableService } from "../core/client.js" */
/** @import { CorsRule, Logging, Metrics, Retention, ServiceProperties } from "../core/xml.js" */

const RULES_MAX = 5;

/**
 * @param {TableService} service
 * @returns {HTMLElement}
 */
export function propertiesForm(service) {
  const place = h("div");
  const show = () => replaceChildren(place, loaded(service, async () => form(service, await service.getProperties(), show)));
  show();
  return place;
}

/**
 * @param {TableService} service
 * @param {ServiceProperties} properties
 * @param {() => void} onSaved
 */
function form(service, properties, onSaved) {
  const mayChange = !(service.credential instanceof SasCredential) || service.credential.has("w", "s");
  const cors = corsEditor(properties.cors);
  const hours = metricsFields("Metrics of each hour", properties.hourMetrics);
  const minutes = metricsFields("Metrics of each minute", properties.minuteMetrics);
  const logging = loggingFields(properties.logging);
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "submit", class: "primary", hidden: !mayChange }, "Save properties");
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    problem.textContent = "";
    button.disabled = true;
    try {
      await service.setProperties({
        cors: cors.value(),
        hourMetrics: hours.value(),
        minuteMetrics: minutes.value(),
        logging: logging.value(),
      });
      onSaved();
      notify("The properties of the service were saved.", { kind: "success" });
    } catch (error) {
      problem.textContent = describe(error);
    } finally {
      button.disabled = false;
    }
  };
  return h(
    "form",
    { onsubmit: save, novalidate: true },
    h(
      "fieldset",
      { class: "bare", disabled: !mayChange },
      h("h3", null, "CORS"),
      cors.element,
      h("h3", null, "Analytics"),
      hours.element,
      minutes.element,
      logging.element,
    ),
    problem,
    button,
    h("p", { class: "hint" }, "A change is in effect at once; in the cloud it takes up to 30 seconds."),
  );
}

/** @param {Retention} retention */
function retentionFields(retention) {
  const box = checkbox("Delete after a number of days", { checked: retention.enabled });
  const days = h("input", { type: "number", min: "1", max: "365", value: retention.days, "aria-label": "Days" });
  const value = () => ({ enabled: box.input.checked, days: Number(days.value) });
  return { element: h("div", { class: "toolbar" }, box, field("Days", days)), value };
}

/**
 * @param {string} title
 * @param {Metrics} metrics
 */
function metricsFields(title, metrics) {
  const enabled = checkbox("Record", { checked: metrics.enabled });
  const includeApis = checkbox("For each operation, too", { checked: metrics.includeApis });
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
  const element = h(
    "fieldset",
    null,
    h("legend", null, "Logging"),
    read,
    write,
    drop,
    retention.element,
    h("p", { class: "hint" }, "Logs are blobs, which a server of Rowhouse does not write; it keeps the setting."),
  );
  const value = () => ({
    read: read.input.checked,
    write: write.input.checked,
    delete: drop.input.checked,
    retention: retention.value(),
  });
  return { element, value };
}

/**
 * The rules by which browsers let pages of other origins use the account, to edit; `value` has them as they are then.
 * @param {CorsRule[]} rules
 */
function corsEditor(rules) {
  /** @type {{element: HTMLElement, origins: HTMLInputElement, value: () => CorsRule}[]} */
  let rows = [];
  const list = h("div", null);
  const empty = h("p", null, "There is no rule: pages of other origins cannot use the account.");
  const add = h("button", { type: "button" }, "Add rule");
  const update = () => {
    replaceChildren(
      list,
      rows.map(({ element }, at) => {
        element.firstElementChild?.replaceChildren(`Rule ${at + 1}`);
        return element;
      }),
    );
    empty.hidden = rows.length > 0;
    add.disabled = rows.length >= RULES_MAX;
  };
  const append = (/** @type {CorsRule} */ rule) => {
    const row = ruleFields(rule, () => {
      rows = rows.filter((other) => other !== row);
      update();
      add.focus();
    });
    rows.push(row);
    return row;
  };
  add.addEventListener("click", () => {
    const row = append({ origins: "", methods: "GET", headers: "*", exposedHeaders: "*", maxAgeSeconds: 3600 });
    update();
    row.origins.focus();
  });
  rules.forEach(append);
  update();
  return { element: h("div", null, empty, list, add), value: () => rows.map((row) => row.value()) };
}

/**
 * @param {CorsRule} rule
 * @param {() => void} onRemove
 */
function ruleFields(rule, onRemove) {
  const input = (/** @type {string} */ value) => h("input", { type: "text", value, spellcheck: "false", autocomplete: "off" });
  const [origins, methods, headers, exposedHeaders] = [rule.origins, rule.methods, rule.headers, rule.exposedHeaders].map(input);
  const maxAge = h("input", { type: "number", min: "0", value: rule.maxAgeSeconds });
  if (!origins || !methods || !headers || !exposedHeaders) {
    throw new Error("A rule has four lists.");
  }
  const element = h(
    "fieldset",
    null,
    h("legend", null, ""),
    field("Allowed origins", origins, "Such as https://a.example,https://*.b.example, or * for all."),
    field("Allowed methods", methods, "Such as GET,POST,MERGE."),
    h(
      "div",
      { class: "pair" },
      field("Allowed headers", headers, "Such as x-ms-*,content-type."),
      field("Exposed headers", exposedHeaders),
    ),
    field("Maximum age in seconds", maxAge),
    h("button", { type: "button", class: "quiet", onclick: onRemove }, "Remove"),
  );
  const value = () => ({
    origins: origins.value.trim(),
    methods: methods.value.trim().toUpperCase(),
    headers: headers.value.trim(),
    exposedHeaders: exposedHeaders.value.trim(),
    maxAgeSeconds: Number(maxAge.value),
  });
  return { element, origins, value };
}
