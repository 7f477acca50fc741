// The heading of the entities view, with links to the other views of the table. Must not depend on entities.

import { h } from "../ui/dom.js";

/** @import { Session } from "../session.js" */

/**
 * @param {Session} session
 * @param {string} table
 * @param {() => void} exportShown
 * @param {HTMLElement} importing  the button that imports files
 */
export function headingOf({ service, settings }, table, exportShown, importing) {
  const address = `#/t/${encodeURIComponent(table)}`;
  const mayManage = service.may("policies", table);
  const link = (/** @type {string} */ name) => h("a", { class: "button", href: `${address}/${name.toLowerCase()}` }, name);
  return h(
    "div",
    { class: "heading" },
    h("h1", { dir: "auto" }, table),
    h(
      "nav",
      { class: "toolbar", "aria-label": "Table" },
      mayManage || service.may("sign", table) ? link("Access") : null,
      mayManage && service.extensions && !table.startsWith("$") ? link("Settings") : null,
      settings.changes && service.may("query", table) && !table.startsWith("$") ? link("Changes") : null,
      h("button", { type: "button", onclick: exportShown }, "Export"),
      importing,
    ),
  );
}
