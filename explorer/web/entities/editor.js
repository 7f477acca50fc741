// The dialog that edits an entity. The caller saves it.

import { askDiscard, contentOf, openDialog } from "../ui/dialog.js";
import { button, div, h, p, problemLine, textInput, uniqueId } from "../ui/dom.js";
import { timeText, visibleText } from "./display.js";
import { TypedField, textArea } from "./value-field.js";

/** @import { EdmType, Entity, Value } from "../core/edm.js" */
/** @typedef {{element: HTMLElement, name: () => string, field: TypedField}} PropertyRow */

const OFFERED_MAX = 30;

/**
 * @typedef {object} EditorOptions
 * @property {string} title
 * @property {Entity} entity  the initial content
 * @property {"new" | "edit" | "read"} mode
 * @property {ReadonlyMap<string, EdmType>} [offered]  properties with fields that may stay empty
 * @property {string} [note]  a note above the properties
 * @property {boolean} [keepProperties]  whether properties cannot be removed, because a merge does not remove any
 * @property {string} action  the label of the save button
 * @property {(entity: Entity) => Promise<boolean | void>} [save]
 */

/** Returns why a new property cannot have the given name, or "". @param {string} name */
export function nameProblem(name) {
  if (name === "") return "Enter a name for the property.";
  if (["PartitionKey", "RowKey", "Timestamp"].includes(name)) return `${name} is a system property. Choose a different name.`;
  return /[@.]/.test(name) ? "A property name can contain neither \u201c.\u201d nor \u201c@\u201d." : "";
}

/** @param {EditorOptions} options */
export function openEditor(options) {
  const { title, entity, mode, note, action, save } = options;
  const rows = new PropertyRows(options);
  const [partitionKey, rowKey] = [keyField("PartitionKey", entity.partitionKey, mode), keyField("RowKey", entity.rowKey, mode)];
  const time =
    mode !== "new" && entity.timestamp
      ? p("entity-time", `Timestamp ${entity.timestamp}; local: ${timeText(entity.timestamp, true)}`)
      : null;
  const keys = div("entity-keys", partitionKey.element, rowKey.element);
  const body = div("entity-editor", note && p("note", note), keys, time, rows.element);
  const run = async () => {
    const properties = rows.read();
    if (!properties || !save) return false;
    return save({ ...entity, partitionKey: partitionKey.read(), rowKey: rowKey.read(), properties });
  };
  const first = contentOf(body);
  const dialog = openDialog({
    mayClose: () => contentOf(body) === first || askDiscard(),
    title,
    body,
    wide: true,
    cancel: mode === "read" ? "Close" : "Cancel",
    actions: mode === "read" ? [] : [{ label: action, kind: "primary", run }],
  });
  if (mode === "new") partitionKey.area.focus();
  else rows.focusFirst();
  return dialog;
}

/** @param {string} label @param {string} text @param {EditorOptions["mode"]} mode */
function keyField(label, text, mode) {
  const id = uniqueId("key");
  const { area, read } = textArea(text, { id, readonly: mode !== "new" });
  return { area, read, element: div("field", h("label", { for: id }, label), area) };
}

class PropertyRows {
  /** @type {PropertyRow[]} */
  #rows = [];
  #list = div("property-rows");
  #problem = problemLine();

  /** @param {EditorOptions} options */
  constructor({ entity, mode, keepProperties = false, offered = new Map() }) {
    this.readOnly = mode === "read";
    this.keepProperties = keepProperties;
    const add = () => this.#add("", { type: "Edm.String", text: "" }, true).querySelector("input")?.focus();
    this.element = h("fieldset", { class: "properties" },
      h("legend", null, "Properties"),
      offered.size > 0 ? h("small", null, "Properties left empty are not added.") : null,
      this.#list,
      this.#problem,
      this.readOnly ? null : button("Add property", add));
    for (const [name, value] of entity.properties) this.#add(name, value, mode === "new");
    for (const [name, type] of [...offered].slice(0, OFFERED_MAX)) this.#add(name, { type, text: "" }, false, true);
    if (mode === "read" && entity.properties.size === 0) this.#list.append("No properties.");
  }

  /**
   * @param {string} first @param {Value} value @param {boolean} isNew @param {boolean} [isOptional]
   * @returns {HTMLElement}
   */
  #add(first, value, isNew, isOptional = false) {
    const input = isNew && !this.readOnly ? textInput({ "aria-label": "Property name", value: first }) : null;
    const name = () => (input ? input.value : first);
    const field = new TypedField(value, {
      label: () => visibleText(name(), 60) || "the new property",
      readOnly: this.readOnly,
      isOptional,
    });
    const removable = !this.readOnly && !isOptional && (isNew || !this.keepProperties);
    const remove = removable ? button("Remove", () => this.#remove(row), { class: "quiet remove" }) : null;
    const relabel = () => {
      field.relabel();
      remove?.setAttribute("aria-label", `Remove ${visibleText(name(), 60) || "property"}`);
    };
    input?.addEventListener("input", relabel);
    relabel();
    const shown =
      input ?? h("span", { class: "property-name", dir: "auto", title: visibleText(first, 255) }, visibleText(first, 255));
    const element = h("div", { class: "property-row", role: "group", "aria-label": visibleText(first, 60) || "New property" },
      shown,
      field.select,
      field.element,
      remove);
    /** @type {PropertyRow} */
    const row = { element, name, field };
    this.#rows.push(row);
    this.#list.append(element);
    return element;
  }

  /** @param {PropertyRow} row */
  #remove(row) {
    this.#rows.splice(this.#rows.indexOf(row), 1);
    row.element.remove();
    const add = this.element.querySelector(":scope > button");
    if (add instanceof HTMLElement) add.focus();
  }

  focusFirst() {
    this.#rows[0]?.field.focus();
  }

  /**
   * Returns the properties; null if a field has an error. The first field with an error gets the focus.
   * @returns {Map<string, Value> | null}
   */
  read() {
    /** @type {Map<string, Value>} */
    const properties = new Map();
    this.#problem.textContent = "";
    for (const { element, name, field } of this.#rows) {
      if (field.isLeftOut) continue;
      const problem =
        (element.querySelector(":scope > input") && nameProblem(name())) ||
        (properties.has(name()) && "Two properties have the same name.");
      if (problem) {
        this.#problem.textContent = problem;
        element.querySelector("input")?.focus();
        return null;
      }
      if (!field.check()) {
        field.focus();
        return null;
      }
      properties.set(name(), field.read());
    }
    return properties;
  }
}
