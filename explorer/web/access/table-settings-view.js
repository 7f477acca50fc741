// The view of a table's settings, which are extensions of the server: when its entities expire, and its indexes.

import { INDEXES_MAX, changeIndexes, watchIndexes } from "../core/indexes.js";
import { describe, isAborted } from "../core/errors.js";
import { confirmText } from "../ui/dialog.js";
import { button, div, dropDown, field, h, p, problemLine, replaceChildren, textInput } from "../ui/dom.js";
import { announce, notify } from "../ui/notify.js";
import { card, loaded } from "./fields.js";

/** @import { TableService } from "../core/client.js" */
/** @import { TableIndex, TableRetention } from "../core/xml.js" */
/** @import { Session } from "../session.js" */

export class TableSettingsView extends HTMLElement {
  #controller = new AbortController();

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
    if (!service.extensions || !service.may("policies", table)) {
      const reason = service.extensions ? "Changing them requires the account key." : "The server needs the option --extensions.";
      this.append(p(null, `This page shows the retention and the indexes of a table. ${reason}`));
      return;
    }
    this.append(div("cards",
      card("Retention", retentionEditor(service, table)),
      card("Indexes", indexEditor(service, table, this.#controller.signal))));
  }

  disconnectedCallback() {
    this.#controller.abort();
  }
}

customElements.define("table-settings-view", TableSettingsView);

/** Units of time, largest first. @type {[string, number][]} */
const UNITS = [
  ["days", 86_400],
  ["hours", 3600],
  ["minutes", 60],
  ["seconds", 1],
];
/** The longest time that the server accepts. */
const SECONDS_MAX = 100 * 365 * 86_400;
/** @type {[string, string][]} */
const MODES = [
  ["off", "Never"],
  ["age", "After a time without a change"],
  ["property", "At the time in a property"],
];

/**
 * @param {TableService} service
 * @param {string} table
 */
function retentionEditor(service, table) {
  const mode = dropDown(MODES);
  const property = textInput({ maxlength: 255, required: true });
  const number = h("input", { type: "number", min: 0, step: 1, inputmode: "numeric", required: true });
  const unit = dropDown(UNITS.map(([name]) => [name, name]));
  const problem = problemLine();
  const propertyField = field("Property", property, "Entities without a DateTime in this property do not expire.");
  const timeField = field("Time", number);
  const time = div("pair", timeField, field("Unit", unit));
  const unitSize = () => UNITS.find(([name]) => name === unit.value)?.[1] ?? 1;
  const fit = () => {
    const label = timeField.querySelector("label");
    if (label) label.textContent = mode.value === "age" ? "Time since the last change" : "Time after it";
    number.min = mode.value === "age" ? "1" : "0";
    number.max = String(SECONDS_MAX / unitSize());
    // A hidden field must not prevent saving.
    [propertyField.hidden, property.disabled] = [mode.value !== "property", mode.value !== "property"];
    [time.hidden, number.disabled] = [mode.value === "off", mode.value === "off"];
  };
  const show = (/** @type {TableRetention | null} */ retention) => {
    mode.value = retention === null ? "off" : retention.property ? "property" : "age";
    property.value = retention?.property ?? "";
    const seconds = retention?.seconds ?? UNITS[0]?.[1] ?? 0;
    const [name, size] = UNITS.find(([, size]) => seconds % size === 0) ?? ["seconds", 1];
    [number.value, unit.value] = [String(seconds / size), name];
    fit();
  };
  /** @returns {TableRetention | null} */
  const value = () => {
    if (mode.value === "off") return null;
    return { property: mode.value === "property" ? property.value.trim() : "", seconds: Number(number.value) * unitSize() };
  };
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    problem.textContent = "";
    const retention = value();
    const run = async () => {
      try {
        await service.setRetention(table, retention);
      } catch (error) {
        throw new Error(describe(error));
      }
    };
    try {
      if (retention === null) await run();
      else if (!(await confirmText({ ...questionOf(table, retention), run }))) return;
      show(await service.getRetention(table));
      notify(`The retention of ${table} was saved.`, { kind: "success" });
    } catch (error) {
      problem.textContent = describe(error);
    }
  };
  mode.addEventListener("change", () => {
    number.value = mode.value === "property" ? "0" : "1";
    fit();
  });
  unit.addEventListener("change", fit);
  const hint = "An entity that has expired is not returned any more, and is deleted within a minute.";
  const submit = h("button", { type: "submit", class: "primary" }, "Save retention");
  const form = h("form", { onsubmit: save }, field("Entities expire", mode), propertyField, time, problem, submit);
  const load = async () => {
    show(await service.getRetention(table));
    return form;
  };
  return div(null, loaded(service, load), p("hint", hint));
}

/**
 * @param {string} table
 * @param {TableRetention} retention
 */
function questionOf(table, { property, seconds }) {
  const what = property ? `whose time in ${property} has passed` : "that have not been changed for this time";
  const [name, size] = UNITS.find(([, size]) => seconds % size === 0) ?? ["seconds", 1];
  const time = property && seconds === 0 ? "" : ` (${seconds / size} ${name}${property ? " later" : ""})`;
  const text = `All entities of ${table} ${what}${time} will be deleted, now and in the future. This cannot be undone.`;
  return { title: "Delete expired entities", text, expected: table, label: "Save and delete" };
}

/**
 * @param {TableService} service
 * @param {string} table
 * @param {AbortSignal} signal  ends when the view is closed
 */
function indexEditor(service, table, signal) {
  const list = h("ul", { class: "plain indexes", "aria-label": "Indexes" });
  const empty = h("p", null, "The table has no indexes.");
  const name = textInput({ required: true, maxlength: 255 });
  const add = h("button", { type: "submit", class: "primary" }, "Add index");
  const problem = problemLine();
  let watching = new AbortController();
  /** @type {TableIndex[]} */
  let shown = [];

  const show = (/** @type {TableIndex[]} */ indexes) => {
    const ready = indexes.filter(({ property, isReady }) => {
      return isReady && shown.some((index) => index.property === property && !index.isReady);
    });
    if (ready.length) announce(`The index of ${ready.map(({ property }) => property).join(", ")} is ready.`);
    // While nothing changes, the focus stays where it is.
    if (JSON.stringify(indexes) === JSON.stringify(shown) && list.childElementCount === indexes.length) return;
    shown = indexes;
    replaceChildren(list, indexes.map(item));
    empty.hidden = indexes.length > 0;
    add.disabled = indexes.length >= INDEXES_MAX;
  };
  const item = (/** @type {TableIndex} */ { property, isReady }) => {
    const drop = () => change((names) => names.filter((other) => other !== property), `The index of ${property} was removed.`);
    const remove = button("Remove", drop, { class: "quiet", "aria-label": `Remove the index of ${property}` });
    return h("li", null,
      h("code", { dir: "auto" }, property), " ",
      h("span", { class: "type-tag" }, isReady ? "ready" : "being built"), " ",
      remove);
  };
  const watch = async () => {
    watching.abort();
    watching = new AbortController();
    const indexes = watchIndexes(service, table, AbortSignal.any([signal, watching.signal]));
    const first = await indexes.next();
    show(first.value ?? []);
    const rest = async () => {
      for await (const current of indexes) show(current);
    };
    rest().catch((error) => isAborted(error) || (problem.textContent = describe(error)));
  };
  const change = async (/** @type {(names: string[]) => string[]} */ edit, /** @type {string} */ done) => {
    problem.textContent = "";
    try {
      await changeIndexes(service, table, edit);
      await watch();
      name.focus();
      notify(done, { kind: "success" });
      return true;
    } catch (error) {
      if (!isAborted(error)) problem.textContent = describe(error);
      return false;
    }
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const property = name.value.trim();
    if (shown.some((index) => index.property === property)) {
      problem.textContent = `${property} already has an index.`;
    } else if (await change((names) => [...names, property], `The index of ${property} was added.`)) {
      name.value = "";
    }
  };
  const hint =
    "An index makes filters that compare its property fast, and lists the entities in the order of its values. Every write " +
    "of the table takes a little longer. Indexes are built while the table is in use.";
  const form = h("form", { onsubmit: submit }, field("Property", name), add);
  const content = div(null, empty, list, problem, form);
  const load = async () => {
    await watch();
    return content;
  };
  return div(null, loaded(service, load), p("hint", hint));
}
