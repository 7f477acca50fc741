// The dialogs for conflicts and for changing several entities. Must not depend on the service.

import { describe } from "../core/errors.js";
import { countText } from "../core/words.js";
import { openDialog } from "../ui/dialog.js";
import { button, div, dropDown, field, h, p, scrollableTable, textInput, uniqueId } from "../ui/dom.js";
import { differences, refusalReason, sameValue } from "./changes.js";
import { entityName, visibleText } from "./display.js";
import { nameProblem } from "./editor.js";
import { TypedField, valueText } from "./value-field.js";

/** @import { Entity, Value } from "../core/edm.js" */
/** @import { Difference, Failure, Outcome, Side } from "./changes.js" */
/** @typedef {"mine" | "theirs"} Choice */
/**
 * A change of one property. If `value` is null, the property is removed.
 * @typedef {{name: string, value: Value | null}} PropertyEdit
 */

const LISTED_MAX = 200;

/**
 * @param {{count: number, names: string[], known: (name: string) => Value | undefined, removable: boolean}} options
 * @returns {Promise<PropertyEdit | null>}
 */
export async function askPropertyEdit({ count, names, known, removable }) {
  /** @type {PropertyEdit | null} */
  let answer = null;
  const list = uniqueId("names");
  const name = textInput({ list });
  const what = dropDown([["set", "Set a value"], ["remove", "Remove the property"]]);
  what.querySelector("[value=remove]")?.toggleAttribute("disabled", !removable);
  const holder = div("property-row wide-value");
  /** @type {TypedField} */
  let value;
  const show = (/** @type {Value} */ shown) => {
    value = new TypedField(shown, { label: () => name.value || "the property" });
    holder.replaceChildren(value.select, value.element);
  };
  name.addEventListener("change", () => {
    const shown = known(name.value);
    if (shown) show(shown);
    else value.relabel();
  });
  // Otherwise, Enter would write the value that the field has just loaded.
  name.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    name.blur();
    if (holder.hidden) what.focus();
    else value.focus();
  });
  what.addEventListener("change", () => {
    holder.hidden = what.value === "remove";
  });
  show({ type: "Edm.String", text: "" });
  const run = () => {
    const problem = nameProblem(name.value);
    if (problem) {
      name.focus();
      throw new Error(problem);
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
    : p("note", "Only some properties are loaded, so entities are merged, and no property can be removed.");
  const offered = h("datalist", { id: list }, names.map((option) => h("option", { value: option })));
  const body = div(null, note, div("pair", field("Property", name), field("Action", what)), offered, holder);
  await openDialog({
    title: `Edit one property of ${countText(count)}`,
    body,
    actions: [{ label: "Apply", kind: "primary", run }],
  }).closed;
  return answer;
}

/**
 * Returns an entity with the change, or null if the change has no effect.
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
 * @param {string} title
 * @param {Outcome} outcome
 * @param {((failure: Failure) => Promise<boolean>)} [solve]  lets the user resolve a conflict; true if it is resolved
 * @returns {Promise<Failure[]>}  the failures to retry
 */
export async function showReport(title, { pairs, failed, left }, solve) {
  const conflicts = new Set(failed.filter(({ theirs, error }) => solve && theirs && refusalReason(error)));
  /** @type {Failure[]} */
  let again = [];
  const rows = failed.slice(0, LISTED_MAX).map((failure) => {
    const { step, error } = failure;
    const reason = refusalReason(error);
    const both = async () => {
      if (!solve || !(await solve(failure))) return;
      conflicts.delete(failure);
      row.replaceChildren(h("span", { dir: "auto" }, entityName(step.operation.entity)), ": resolved.");
    };
    const row = h("li", null,
      h("span", { dir: "auto" }, entityName(step.operation.entity)),
      `: ${reason ? `${reason}. ` : ""}${describe(error)} `,
      conflicts.has(failure) && button("Show both versions", both));
    return row;
  });
  const more = failed.length > LISTED_MAX && p(null, `\u2026 and ${countText(failed.length - LISTED_MAX)} more`);
  const rest = left ? `, ${countText(left)} not attempted` : "";
  const summary = `${countText(pairs.length)} written, ${countText(failed.length)} failed${rest}.`;
  const body = div(null, p(null, summary), h("ul", { class: "failures" }, rows), more);
  const run = () => {
    again = [...conflicts];
  };
  const actions = conflicts.size > 0 ? [{ label: "Overwrite their changes", kind: /** @type {const} */ ("danger"), run }] : [];
  await openDialog({ title, body, wide: true, actions, cancel: "Close" }).closed;
  return again;
}

/**
 * Asks the user to resolve a conflict. Returns the entity to write with the ETag of `theirs`, or `theirs` to keep it;
 * null if the user cancels.
 * @param {{loaded: Entity, mine: Entity | null, theirs: Entity, projected: boolean}} sides  `mine`: null for a deletion
 * @returns {Promise<{write: Entity | null} | {take: Entity} | null>}
 */
export async function askConflict({ loaded, mine, theirs, projected }) {
  const list = differences(loaded, mine ?? loaded, theirs, projected);
  /** @type {Map<string, Choice>} */
  const choices = new Map(
    list.map((difference) => [difference.name, !difference.mineChanged && difference.theirsChanged ? "theirs" : "mine"]));
  /** @type {{write: Entity | null} | {take: Entity} | null} */
  let answer = null;
  const chosen = () => {
    const properties = new Map();
    for (const difference of list) {
      const value = difference[choices.get(difference.name) ?? "mine"];
      if (value) properties.set(difference.name, value);
    }
    return { ...theirs, properties };
  };
  const heads = ["Property", "Loaded", ...(mine ? ["Mine"] : []), "Theirs"];
  const lines = list.map((difference) => conflictRow(difference, mine ? choices : null));
  const body = div("conflict",
    p(null, `Someone else changed ${entityName(theirs)}. ${mine ? "Your changes were not saved." : "It was not deleted."}`),
    scrollableTable("Both versions", heads, lines, "conflict-scroll"));
  /**
   * @type {(label: string, make: () => typeof answer, kind?: "primary" | "danger") => import("../ui/dialog.js").DialogAction}
   */
  const action = (label, make, kind) => ({
    label,
    ...(kind && { kind }),
    run: () => {
      answer = make();
    },
  });
  await openDialog({
    title: "The entity was changed by someone else",
    body,
    wide: true,
    actions: mine
      ? [
          action("Save the chosen values", () => ({ write: chosen() }), "primary"),
          action("Keep mine", () => ({ write: { ...mine, etag: theirs.etag } })),
          action("Keep theirs", () => ({ take: theirs })),
        ]
      : [
          action("Delete theirs", () => ({ write: null }), "danger"),
          action("Keep theirs", () => ({ take: theirs })),
        ],
  }).closed;
  return answer;
}

/** Shows two entities side by side. @param {Entity[]} entities */
export function openComparison([one, other]) {
  if (!one || !other) return;
  const lines = differences(one, one, other, false).map(({ name, loaded, theirs, theirsChanged }) =>
    h("tr", { class: theirsChanged ? "differs" : null },
      h("th", { scope: "row", dir: "auto" }, visibleText(name, 255)),
      [loaded, theirs].map((value) => h("td", { dir: "auto", class: theirsChanged ? "changed" : null }, valueText(value)))));
  const heads = ["Property", entityName(one), entityName(other)];
  const body = div("conflict", scrollableTable("Two entities", heads, lines, "conflict-scroll"));
  openDialog({ title: "Compare two entities", body, wide: true, actions: [], cancel: "Close" });
}

/**
 * @param {Difference} difference
 * @param {Map<string, Choice> | null} choices  null if the user is deleting the entity
 */
function conflictRow(difference, choices) {
  const { name, mineChanged, theirsChanged } = difference;
  const group = uniqueId("choice");
  const differs = mineChanged || theirsChanged;
  const side = (/** @type {Choice} */ choice, /** @type {boolean} */ changed) => {
    const shown = sideText(difference[choice], changed);
    const className = changed ? "changed" : null;
    if (!differs || !choices) return h("td", { class: className }, shown);
    const onchange = () => choices.set(name, choice);
    const input = h("input", { type: "radio", name: group, checked: choices.get(name) === choice, onchange });
    const label = h("span", { class: "visually-hidden" }, `${visibleText(name, 60)}, ${choice}: `);
    return h("td", { class: className }, h("label", null, input, label, shown));
  };
  return h("tr", { class: differs ? "differs" : null },
    h("th", { scope: "row", dir: "auto" }, visibleText(name, 255)),
    h("td", null, valueText(difference.loaded)),
    choices && side("mine", mineChanged),
    side("theirs", theirsChanged));
}

/** @param {Side} value @param {boolean} changed */
function sideText(value, changed) {
  return [
    h("span", { dir: "auto" }, valueText(value)),
    changed ? h("span", { class: "type-tag" }, value ? "changed" : "removed") : null,
  ];
}
