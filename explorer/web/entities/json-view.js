// Shows indented JSON: an entity as it is sent to the service, or a string that contains JSON, and edits the JSON of an
// entity. Must not depend on the service.

import { readValue } from "../core/edm.js";
import { ValueError, describe } from "../core/errors.js";
import { parseEntities, writeEntity } from "../core/json.js";
import { copyText } from "../query/clipboard.js";
import { openDialog } from "../ui/dialog.js";
import { div, field, h, p } from "../ui/dom.js";
import { entityName, escapeUnsafe, prettyJson } from "./display.js";

/** @import { Entity } from "../core/edm.js" */
/** @typedef {(entity: Entity) => Promise<boolean | void>} Save */

/**
 * @param {Entity} entity
 * @param {Save | null} save  null if the entity cannot be edited as a whole
 */
export function openEntityJson(entity, save) {
  const edit = () => void openJsonEditor(entity, /** @type {Save} */ (save));
  openJson(`JSON of ${entityName(entity)}`, writeEntity(entity), save ? [{ label: "Edit", run: edit }] : []);
}

/** @param {string} title @param {string} json @param {import("../ui/dialog.js").DialogAction[]} [actions] */
export function openJson(title, json, actions = []) {
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
    actions: [{ label: "Copy", run: copy }, ...actions],
  });
}

/** @param {Entity} entity @param {Save} save */
function openJsonEditor(entity, save) {
  const area = h("textarea", { rows: 16, spellcheck: "false", autocomplete: "off", value: prettyJson(writeEntity(entity)) });
  const hint = "\u201cTotal@odata.type\u201d is the type of Total, if JSON does not show it. Null removes a property.";
  openDialog({
    title: `Edit ${entityName(entity)} as JSON`,
    body: div(null, field("Entity", area), p("hint", hint)),
    wide: true,
    actions: [{ label: "Save", kind: "primary", run: () => save(readEntityJson(area.value, entity)) }],
  });
}

/**
 * Reads the JSON of an entity whose keys must stay the same.
 * @param {string} text
 * @param {Entity} entity
 * @returns {Entity}
 */
function readEntityJson(text, entity) {
  /** @type {unknown} */
  let content;
  try {
    content = JSON.parse(text);
  } catch (error) {
    throw new ValueError(`This is not valid JSON: ${describe(error)}`);
  }
  if (typeof content !== "object" || content === null || Array.isArray(content)) throw new ValueError("Enter one JSON object.");
  const [nested] = Object.entries(content).find(([, value]) => value !== null && typeof value === "object") ?? [];
  if (nested !== undefined) throw new ValueError(`${nested} must be a string, a number, or true or false.`);
  const [read] = parseEntities(text);
  if (read?.partitionKey !== entity.partitionKey || read.rowKey !== entity.rowKey) {
    throw new ValueError("The keys of an entity cannot change. To insert an entity with other keys, duplicate this one.");
  }
  const properties = new Map(Array.from(read.properties, ([name, { type, text }]) => {
    try {
      return [name, readValue(type, text)];
    } catch (error) {
      throw new ValueError(`${name}: ${describe(error)}`);
    }
  }));
  return { ...entity, properties };
}
