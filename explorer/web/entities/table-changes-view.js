// The live view of a table's changes: what the server streams while the view is open. Nothing is stored.

import { refusalOf } from "../core/batch.js";
import { ServiceError, describe, isAborted } from "../core/errors.js";
import { parseEntities, writeEntity } from "../core/json.js";
import { wait } from "../core/wait.js";
import { countText } from "../core/words.js";
import { h, replaceChildren } from "../ui/dom.js";
import { visibleText } from "./display.js";
import { openJson } from "./json-view.js";

/** @import { Entity, Value } from "../core/edm.js" */
/** @import { ServerEvent } from "../core/events.js" */
/** @import { Session } from "../session.js" */

/** Older changes leave the list. */
const SHOWN_MAX = 500;
/** The pause before the stream is opened again. */
const AGAIN_MS = 1000;
/** The prefix of the properties of the entity. */
const PREFIX = "Entity_";
const HEADS = ["Time", "Operation", "PartitionKey", "RowKey", "Entity"];

export class TableChangesView extends HTMLElement {
  #session;
  #table;
  /** The position after which the stream continues; empty for changes from now on. */
  #position = "";
  #count = 0;
  /** Null while the view is paused. @type {AbortController | null} */
  #streaming = null;
  #rows = h("tbody");
  #status = h("p", { class: "status", role: "status" });
  #problem = h("p", { class: "problem", role: "alert" });
  #toggle = h("button", { type: "button", onclick: () => (this.#streaming ? this.#pause() : this.#start()) });

  /** @param {Session} session @param {{table: string}} params */
  constructor(session, { table }) {
    super();
    this.#session = session;
    this.#table = table;
  }

  connectedCallback() {
    if (!this.#session.settings.changes) {
      this.append(h("p", null, "This page shows the changes of a table. The server needs the option --keep-log."));
      return;
    }
    const clear = h("button", { type: "button", onclick: () => this.#clear() }, "Clear");
    const head = h("tr", null, HEADS.map((name) => h("th", { scope: "col" }, name)));
    this.append(
      h("div", { class: "toolbar", role: "toolbar", "aria-label": "Changes" }, this.#toggle, clear),
      this.#status,
      this.#problem,
      h("div", { class: "preview live", tabindex: "0", role: "region", "aria-label": "Changes, the latest first" },
        h("table", null, h("thead", null, head), this.#rows)),
    );
    this.#start();
  }

  disconnectedCallback() {
    this.#streaming?.abort();
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
    this.#rows.replaceChildren();
    this.#showStatus(this.#streaming ? "Waiting for changes" : "Paused");
  }

  /** Reads until the view is paused or closed, or the server refuses. @param {AbortController} streaming */
  async #read(streaming) {
    const { service } = this.#session;
    const { signal } = streaming;
    while (!signal.aborted) {
      try {
        const opened = () => this.#showStatus("Waiting for changes");
        for await (const event of service.streamChanges(this.#table, { after: this.#position, signal, opened })) {
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
    this.#rows.prepend(lineOf(change));
    if (this.#rows.rows.length > SHOWN_MAX) this.#rows.lastElementChild?.remove();
    this.#showStatus("Waiting for changes");
  }

  /** @param {ServiceError} error */
  #fail(error) {
    this.#streaming = null;
    const isExpired = error.code === "PositionExpired";
    // After a gap, only the changes from now on can be shown.
    if (isExpired) this.#position = "";
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
}

/** Returns the JSON of the entity after a change. @param {Entity} change */
function jsonOf({ properties }) {
  /** @type {Map<string, Value>} */
  const own = new Map();
  for (const [name, value] of properties) {
    if (name.startsWith(PREFIX)) own.set(name.slice(PREFIX.length), value);
  }
  const keys = { partitionKey: own.get("PartitionKey")?.text ?? "", rowKey: own.get("RowKey")?.text ?? "" };
  for (const name of ["PartitionKey", "RowKey", "Timestamp"]) own.delete(name);
  return writeEntity({ ...keys, properties: own });
}

/** @param {Entity} change */
function lineOf(change) {
  const text = (/** @type {string} */ name) => change.properties.get(name)?.text ?? "";
  const cell = (/** @type {string} */ name) => h("td", { dir: "auto" }, visibleText(text(name)));
  const operation = text("Operation");
  const open = () => openJson(`Change ${change.rowKey}`, jsonOf(change));
  const time = h("time", { datetime: change.timestamp, title: change.rowKey }, change.timestamp.replace(/^.*T|Z$/g, ""));
  const label = `JSON of the change of ${visibleText(text("Entity_RowKey"), 60)}`;
  const button = h("button", { type: "button", class: "quiet", "aria-label": label, onclick: open }, "JSON");
  return h("tr", null,
    h("td", null, time), h("td", null, operation), cell("Entity_PartitionKey"), cell("Entity_RowKey"),
    h("td", null, operation === "Put" ? button : null));
}

customElements.define("table-changes-view", TableChangesView);
