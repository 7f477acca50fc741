// Shows indented JSON: an entity as it is sent to the service, or a string that contains JSON. Must not depend on the
// service.

import { writeEntity } from "../core/json.js";
import { copyText } from "../query/clipboard.js";
import { openDialog } from "../ui/dialog.js";
import { h } from "../ui/dom.js";
import { entityName, escapeUnsafe, prettyJson } from "./display.js";

/** @import { Entity } from "../core/edm.js" */

/** @param {Entity} entity */
export function openEntityJson(entity) {
  openJson(`JSON of ${entityName(entity)}`, writeEntity(entity));
}

/** @param {string} title @param {string} json */
export function openJson(title, json) {
  const text = prettyJson(json);
  const copy = async () => {
    await copyText(text, "The JSON");
    return false;
  };
  openDialog({
    title,
    body: h("pre", { class: "json", tabindex: "0", role: "region", "aria-label": "JSON" }, escapeUnsafe(text)),
    wide: true,
    cancel: "Close",
    actions: [{ label: "Copy", run: copy }],
  });
}
