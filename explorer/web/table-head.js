// The head of every view of a table: its name, and the views as tabs.

import { div, h } from "./ui/dom.js";

/** @import { Session } from "./session.js" */
/** @typedef {"Entities" | "Changes" | "Access" | "Settings"} TableTab */

/**
 * @param {Session} session
 * @param {string} table
 * @param {TableTab} current
 */
export function tableHead({ service, settings }, table, current) {
  const isOwn = !table.startsWith("$");
  const mayManage = service.may("policies", table);
  /** @type {[TableTab, boolean][]} */
  const tabs = [
    ["Entities", true],
    ["Changes", settings.changes && isOwn && service.may("query", table)],
    ["Access", mayManage || service.may("sign", table)],
    ["Settings", mayManage && service.extensions && isOwn],
  ];
  const link = (/** @type {TableTab} */ name) => {
    const part = name === "Entities" ? "" : `/${name.toLowerCase()}`;
    const href = `#/t/${encodeURIComponent(table)}${part}`;
    return h("a", { href, "aria-current": name === current ? "page" : null }, name);
  };
  const shown = tabs.filter(([name, isOffered]) => isOffered || name === current);
  return div("heading",
    h("h1", { dir: "auto" }, table),
    h("nav", { class: "tabs", "aria-label": "Table" }, shown.map(([name]) => link(name))));
}
