// The dialogs for many entities: which property is to be set or removed, and the report of what could not be written.
// Knows nothing of the service.

import { describe } from "../core/errors.js";
import { openDialog } from "../ui/dialog.js";
import { field, h, uniqueId } from "../ui/dom.js";
import { refusalReason, sameValue } from "./changes.js";
import { countText, entityName } from "./display.js";
import { TypedField } from "./value-field.js";

/** @import { Entity, Value } from "../core/edm.js" */
/** @import { Outcome } from "./changes.js" */
/** A value, or null to remove the property. @typedef {{name: string, value: Value | null}} PropertyEdit */

/** Failures that a report lists one by one. */
const LISTED_MAX = 200;

/**
 * Asks for the property to write.
 * @param {{count: number, names: string[], first: (name: string) => Value | undefined, removable: boolean}} options
 * @returns {Promise<PropertyEdit | null>}
 */
export async function askPropertyEdit({ count, names, first, removable }) {
  /** @type {PropertyEdit | null} */
  let answer = null;
  const list = uniqueId("names");
  const name = h("input", { type: "text", list, autocomplete: "off", spellcheck: "false" });
  const what = h(
    "select",
    null,
    h("option", { value: "set" }, "Set it to a value"),
    h("option", { value: "remove", disabled: !removable }, "Remove it"),
  );
  const holder = h("div", { class: "property-row" });
  /** @type {TypedField} */
  let value;
  const show = (/** @type {Value} */ shown) => {
    value = new TypedField(shown, { label: () => name.value || "the property" });
    holder.replaceChildren(value.select, value.element);
  };
  name.addEventListener("change", () => {
    const known = first(name.value);
    if (known) show(known);
    else value.relabel();
  });
  what.addEventListener("change", () => {
    holder.hidden = what.value === "remove";
  });
  show({ type: "Edm.String", text: "" });
  const run = () => {
    if (name.value === "") {
      name.focus();
      throw new Error("Name the property.");
    }
    if (what.value === "set" && !value.check()) {
      value.focus();
      return false;
    }
    answer = { name: name.value, value: what.value === "set" ? value.read() : null };
    return true;
  };
  const note = removable
    ? null
    : h("p", { class: "note" }, "Only some properties were loaded, so entities are merged and no property can be removed.");
  const body = h(
    "div",
    null,
    note,
    field("Property", name),
    h(
      "datalist",
      { id: list },
      names.map((known) => h("option", { value: known })),
    ),
    field("What to do", what),
    holder,
  );
  await openDialog({
    title: `Edit one property of ${countText(count)}`,
    body,
    actions: [{ label: "Write", kind: "primary", run }],
  }).closed;
  return answer;
}

/**
 * The entity with one property set or removed; null if that changes nothing.
 * @param {Entity} entity
 * @param {PropertyEdit} edit
 * @returns {Entity | null}
 */
export function withProperty(entity, { name, value }) {
  if (sameValue(entity.properties.get(name) ?? null, value)) return null;
  const properties = new Map(entity.properties);
  if (value) properties.set(name, value);
  else properties.delete(name);
  return { ...entity, properties };
}

/**
 * Shows which entities were not written, and why.
 * @param {string} title
 * @param {Outcome} outcome
 */
export function showReport(title, { pairs, failed, left }) {
  const rows = failed.slice(0, LISTED_MAX).map(({ step, error }) => {
    const reason = refusalReason(error);
    return h(
      "li",
      null,
      h("span", { dir: "auto" }, entityName(step.operation.entity)),
      `: ${reason ? `${reason}. ` : ""}${describe(error)}`,
    );
  });
  const more = failed.length > LISTED_MAX ? h("p", null, `\u2026 and ${countText(failed.length - LISTED_MAX)} more`) : null;
  const body = h(
    "div",
    null,
    h(
      "p",
      null,
      `${countText(pairs.length)} written, ${countText(failed.length)} failed${left ? `, ${countText(left)} not tried` : ""}.`,
    ),
    h("ul", { class: "failures" }, rows),
    more,
  );
  return openDialog({ title, body, wide: true, actions: [], cancel: "Close" }).closed;
}
