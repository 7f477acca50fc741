// The live view of a table's changes: what the server streams while the view is open. Nothing is stored.

import { refusalOf } from "../core/batch.js";
import { ServiceError, describe, isAborted } from "../core/errors.js";
import { parseEntities, writeEntity } from "../core/json.js";
import { wait } from "../core/wait.js";
import { countText } from "../core/words.js";
import { writeString } from "../query/filter-fields.js";
import { EVERYTHING, queryHash } from "../query/query.js";
import { button, div, dropDown, h, p, problemLine, replaceChildren, textInput } from "../ui/dom.js";
import { differences } from "./changes.js";
import { visibleText } from "./display.js";
import { openJson } from "./json-view.js";
import { valueText } from "./value-field.js";

/** @import { Entity, Value } from "../core/edm.js" */
/** @import { ServerEvent } from "../core/events.js" */
/** @import { Session } from "../session.js" */

/** Older changes leave the list. */
const SHOWN_MAX = 500;
/** The entities whose last shown version is kept, to mark what the next change changes. */
const VERSIONS_MAX = 5000;
/** The pause before the stream is opened again. */
const AGAIN_MS = 1000;
/** The prefix of the properties of the entity. */
const PREFIX = "Entity_";
const HEADS = ["Time", "Operation", "PartitionKey", "RowKey", "Values", "Entity"];
/** @type {[string, string][]} */
const BEGINNINGS = [
  ["now", "From now"],
  ["start", "From the oldest change"],
  ["time", "From a time (UTC)"],
];
const WAITING =
  "Every insert, change and deletion of an entity of this table appears here as soon as it is committed, whichever client " +
  "made it.";

export class TableChangesView extends HTMLElement {
  #session;
  #table;
  /** The position after which the stream continues; empty to begin as the user chose. */
  #position = "";
  #count = 0;
  /** The last shown version of each entity, by its keys. @type {Map<string, Entity | null>} */
  #versions = new Map();
  /** Null while the view is paused. @type {AbortController | null} */
  #streaming = null;
  #rows = h("tbody");
  #status = h("p", { class: "status", role: "status" });
  #problem = problemLine();
  #toggle = button("", () => (this.#streaming ? this.#pause() : this.#start()));
  #beginning = dropDown(BEGINNINGS, { "aria-label": "Begin", onchange: () => this.#restart() });
  #time = h("input", { type: "datetime-local", "aria-label": "Time in UTC", onchange: () => this.#restart() });
  #filter = textInput({ "aria-label": "Filter", placeholder: "Entity_RowKey eq '\u2026'", onchange: () => this.#restart() });
  #region = h("div", { class: "preview live", tabindex: "0", role: "region", "aria-label": "Changes, the latest first" });

  /** @param {Session} session @param {{table: string}} params */
  constructor(session, { table }) {
    super();
    this.#session = session;
    this.#table = table;
  }

  connectedCallback() {
    if (!this.#session.settings.changes) {
      replaceChildren(this, p(null, "This page shows the changes of a table. The server needs the option --keep-log."));
      return;
    }
    const head = h("tr", null, HEADS.map((name) => h("th", { scope: "col" }, name)));
    this.#region.append(h("table", null, h("thead", null, head), this.#rows));
    const tools = [this.#beginning, this.#time, this.#filter, this.#toggle, button("Clear", () => this.#clear())];
    replaceChildren(this,
      h("div", { class: "toolbar", role: "toolbar", "aria-label": "Changes" }, tools),
      this.#status,
      this.#problem,
      this.#region,
      p("hint", WAITING));
    this.#restart();
  }

  disconnectedCallback() {
    this.#streaming?.abort();
  }

  /** The filter that the server applies, with the place where the stream begins. */
  get #query() {
    const time = this.#time.value.slice(0, 16).replace(/[-:]/g, "");
    const from = { now: "", start: "RowKey gt ''", time: time && `PartitionKey ge ${writeString(time)}` }[this.#beginning.value];
    const filter = this.#filter.value.trim();
    return [from, filter && `(${filter})`].filter(Boolean).join(" and ");
  }

  #restart() {
    this.#streaming?.abort();
    this.#position = "";
    this.#time.hidden = this.#beginning.value !== "time";
    this.#clear();
    this.#start();
  }

  #start() {
    this.#streaming = new AbortController();
    this.#problem.textContent = "";
    this.#showStatus("Connecting\u2026");
    void this.#read(this.#streaming);
  }

  #pause() {
    this.#streaming?.abort();
    this.#streaming = null;
    this.#showStatus("Paused");
  }

  #clear() {
    this.#count = 0;
    this.#versions.clear();
    this.#rows.replaceChildren();
    this.#showStatus(this.#streaming ? "Waiting for changes" : "Paused");
  }

  /** Reads until the view is paused or closed, or the server refuses. @param {AbortController} streaming */
  async #read(streaming) {
    const { service } = this.#session;
    const { signal } = streaming;
    const filter = this.#query;
    while (!signal.aborted) {
      try {
        const opened = () => this.#showStatus("Waiting for changes");
        for await (const event of service.streamChanges(this.#table, { after: this.#position, filter, signal, opened })) {
          this.#take(event);
        }
        // The server ends each stream at some time.
        await wait(AGAIN_MS, signal);
      } catch (error) {
        if (isAborted(error)) return;
        if (error instanceof ServiceError && error.status !== 503) return this.#fail(error);
        this.#showStatus("Not connected; trying again");
        await wait(AGAIN_MS, signal).catch(() => {});
      }
    }
  }

  /** @param {ServerEvent} event */
  #take({ id, event, data }) {
    if (event === "failure") {
      throw refusalOf(data.includes('"PositionExpired"') ? 410 : 500, data, { requestId: "", reason: "" });
    }
    this.#position = id;
    const [change] = data ? parseEntities(data) : [];
    if (!change) return;
    this.#count += 1;
    const { scrollTop, scrollHeight } = this.#region;
    this.#rows.prepend(this.#lineOf(change));
    // What the user reads stays where it is.
    if (scrollTop > 0) this.#region.scrollTop = scrollTop + this.#region.scrollHeight - scrollHeight;
    if (this.#rows.rows.length > SHOWN_MAX) this.#rows.lastElementChild?.remove();
    this.#showStatus("Waiting for changes");
  }

  /** @param {ServiceError} error */
  #fail(error) {
    this.#streaming = null;
    const isExpired = error.code === "PositionExpired";
    // After a gap, only the changes from now on can be shown.
    if (isExpired) [this.#position, this.#beginning.value] = ["", "now"];
    this.#problem.textContent = isExpired
      ? "The server has dropped changes that are not shown here. Resume to see the changes from now on."
      : describe(error);
    this.#showStatus("Stopped");
  }

  /** @param {string} state */
  #showStatus(state) {
    this.#toggle.textContent = this.#streaming ? "Pause" : "Resume";
    const older = this.#count > SHOWN_MAX ? `, of which the last ${SHOWN_MAX} are shown` : "";
    this.#status.textContent = `${state} \u00b7 ${countText(this.#count, "change", "changes")}${older}`;
  }

  /** @param {Entity} change */
  #lineOf(change) {
    const operation = change.properties.get("Operation")?.text ?? "";
    const entity = entityIn(change);
    const { partitionKey, rowKey } = entity;
    const open = () => openJson(`Change ${change.rowKey}`, writeEntity(entity));
    const time = h("time", { datetime: change.timestamp, title: change.rowKey }, change.timestamp.replace(/^.*T|Z$/g, ""));
    const label = `JSON of the change of ${visibleText(rowKey, 60)}`;
    const filter = `PartitionKey eq ${writeString(partitionKey)} and RowKey eq ${writeString(rowKey)}`;
    const href = queryHash(this.#table, { ...EVERYTHING, filter });
    const isPut = operation === "Put";
    const name = visibleText(rowKey);
    const key = isPut ? h("a", { href, title: "Show this entity" }, name || "\u2039empty\u203a") : name;
    return h("tr", null,
      h("td", null, time),
      h("td", null, operation),
      h("td", { dir: "auto" }, visibleText(partitionKey)),
      h("td", { dir: "auto" }, key),
      h("td", { class: "values" }, this.#valuesOf(entity, isPut)),
      h("td", null, isPut && button("JSON", open, { class: "quiet", "aria-label": label })));
  }

  /**
   * Returns the values of an entity. If an earlier version is known, marks what has changed since, with the old values.
   * @param {Entity} entity
   * @param {boolean} isPut
   */
  #valuesOf(entity, isPut) {
    const key = JSON.stringify([entity.partitionKey, entity.rowKey]);
    const former = this.#versions.get(key);
    if (this.#versions.size >= VERSIONS_MAX) this.#versions.clear();
    this.#versions.set(key, isPut ? entity : null);
    const none = { ...entity, properties: new Map() };
    const changes = differences(former ?? none, former ?? none, isPut ? entity : none, false);
    const shown = changes.filter(({ theirsChanged }) => theirsChanged);
    return shown.map(({ name, loaded, theirs }) => div(null,
      h("code", { dir: "auto" }, visibleText(name, 60)), " ",
      loaded && h("del", { dir: "auto" }, valueText(loaded)), loaded && " ",
      theirs && h(former ? "ins" : "span", { dir: "auto" }, valueText(theirs))));
  }
}

/** Returns the entity after a change. @param {Entity} change @returns {Entity} */
function entityIn({ properties }) {
  /** @type {Map<string, Value>} */
  const own = new Map();
  for (const [name, value] of properties) {
    if (name.startsWith(PREFIX)) own.set(name.slice(PREFIX.length), value);
  }
  const [partitionKey, rowKey] = ["PartitionKey", "RowKey"].map((name) => own.get(name)?.text ?? "");
  for (const name of ["PartitionKey", "RowKey", "Timestamp"]) own.delete(name);
  return { partitionKey: partitionKey ?? "", rowKey: rowKey ?? "", timestamp: "", etag: "", properties: own };
}

customElements.define("table-changes-view", TableChangesView);
