// The cost of a query: a summary line that is always visible, and details below it with key ranges, figures and advice.
// This module must not send requests: it only shows the reports about pages that it is given, and dispatches "add-index"
// with the name of a property if the user wants its index.

import { countText, numberText, sizeText } from "../core/words.js";
import { button, div, h, replaceChildren } from "../ui/dom.js";
import { advise, costOf, duration, planName, rangeWords } from "./advice.js";
import { EVERYTHING } from "./query.js";

/** @import { PageReport } from "../core/responses.js" */
/** @import { Advice, Cost, Words } from "./advice.js" */
/** @import { Query } from "./query.js" */

export class ExplainPanel extends HTMLElement {
  /** @type {Query} */
  #query = EVERYTHING;
  /** @type {PageReport[]} */
  #reports = [];
  #complete = false;
  /** @type {string[] | null} */
  #indexed = null;

  constructor() {
    super();
    this.line = h("p", { class: "explain-line", role: "status" });
    this.content = div("explain-content");
    this.details = h("details", { hidden: true, ontoggle: () => this.#toggled() },
      h("summary", null, "Cost details"),
      this.content);
  }

  connectedCallback() {
    replaceChildren(this, h("section", { class: "explain", "aria-label": "Query cost" }, this.line, this.details));
  }

  /** Prepares the panel for a new query. @param {Query} query */
  reset(query) {
    this.#query = query;
    this.#reports = [];
    this.#complete = false;
    this.line.textContent = "";
    this.details.hidden = true;
  }

  /** The properties that have an index; null if no index can be added. @param {string[] | null} indexed */
  set indexed(indexed) {
    this.#indexed = indexed;
    this.#showDetails();
  }

  /** Adds the report about a page. @param {PageReport} report */
  add(report) {
    this.#reports.push(report);
    this.#show();
  }

  /** Handles the end of loading. @param {boolean} complete whether all pages were read */
  finish(complete) {
    this.#complete = complete;
    if (this.#reports.length) this.#show();
  }

  #show() {
    const cost = costOf(this.#reports, this.#complete);
    const line = summary(cost);
    // While many pages arrive, screen readers read out only the first and the final summary.
    this.line.setAttribute("aria-live", cost.pages > 1 && !cost.complete ? "off" : "polite");
    if (this.line.textContent !== line) this.line.textContent = line;
    this.details.hidden = false;
    this.#showDetails();
  }

  /** Scrolls the details into view, because the panel is at the bottom of the page. */
  #toggled() {
    this.#showDetails();
    if (this.details.open) this.details.scrollIntoView({ block: "nearest" });
  }

  #showDetails() {
    if (!this.details.open || this.#reports.length === 0) return;
    const cost = costOf(this.#reports, this.#complete);
    const advice = advise(cost, this.#query, this.#indexed);
    const hadFocus = this.content.contains(document.activeElement);
    replaceChildren(
      this.content,
      advice.length ? h("ul", { class: "explain-advice", "aria-label": "Advice" }, advice.map((each) => this.#item(each))) : null,
      cost.explain ? null : h("p", null, "The server does not report the cost of queries."),
      h("dl", null,
        facts(cost).map(([name, value]) => div(null, h("dt", null, name), h("dd", null, value)))),
    );
    // The button that was pressed is gone.
    if (hadFocus) this.details.querySelector("summary")?.focus();
  }

  /** @param {Advice} advice */
  #item({ words, guide, add }) {
    const request = () => this.dispatchEvent(new CustomEvent("add-index", { detail: add }));
    return h("li", null,
      nodes(words),
      add ? div(null, button(`Add an index of ${add}`, request)) : null,
      guide ? h("small", null, "Guide: ", guideLink(guide)) : null);
  }
}

customElements.define("explain-panel", ExplainPanel);

/** @param {Cost} cost */
function summary(cost) {
  const { explain, index, examined, returned, pages, microseconds, milliseconds, bytes, complete } = cost;
  const parts = explain
    ? [`${planName(explain.plan, index)}: ${numberText(examined)} examined, ${numberText(returned)} returned`]
    : [`${countText(returned, "entity", "entities")} returned`];
  parts.push(countText(pages, "page", "pages"));
  if (explain) parts.push(`${duration(microseconds / 1000)} on the server`);
  parts.push(`${duration(milliseconds)} in total`, sizeText(bytes));
  return `${parts.join(", ")}${complete ? "." : "; more available."}`;
}

/** @param {Cost} cost @returns {[string, string | Node][]} */
function facts(cost) {
  const { explain, index } = cost;
  /** @type {[string, string | Node][]} */
  const rows = [];
  if (explain) {
    const ranges = rangeWords(explain);
    rows.push(["Plan", planName(explain.plan, index)]);
    if (ranges.length)
      rows.push([
        index === null ? "Key ranges read" : "Key ranges",
        h("ul", { class: "plain" },
          ranges.map((words) => h("li", null, nodes(words)))),
      ]);
    const ratio = Math.round((cost.examined / cost.returned) * 10) / 10;
    const each = cost.returned ? ` (${numberText(ratio)} examined per entity)` : "";
    rows.push(
      ["Examined", countText(cost.examined, "entity", "entities")],
      ["Returned", `${countText(cost.returned, "entity", "entities")}${each}`]);
    rows.push(["Server time", duration(cost.microseconds / 1000)]);
  } else rows.push(["Returned", countText(cost.returned, "entity", "entities")]);
  rows.push(
    ["Round trip", duration(cost.milliseconds)],
    ["Pages", `${numberText(cost.pages)}${cost.complete ? "" : ", more available"}`],
    ["Received", sizeText(cost.bytes)]);
  return rows;
}

/** Returns a link to a heading of the guide, which the server serves next to this page. @param {string} heading */
function guideLink(heading) {
  const text = encodeURIComponent(`## ${heading}`).replaceAll("-", "%2D");
  return h("a", { href: `patterns.md#:~:text=${text}`, target: "_blank" }, heading);
}

/** @param {Words} words */
function nodes(words) {
  return words.map((word) => (typeof word === "string" ? word : h("code", null, word.code)));
}
