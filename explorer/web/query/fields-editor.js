// Edits the conditions of a filter as fields: property, operator, type and value.
// This module must not depend on the text form of a filter: it returns conditions.

import { EDM_TYPES, fromHex, readValue, toHex } from "../core/edm.js";
import { button, div, dropDown, h, replaceChildren, textInput, uniqueId } from "../ui/dom.js";
import { isFilterName, OPERATORS, SYSTEM_TYPES } from "./filter-text.js";

/** @import { EdmType } from "../core/edm.js" */
/** @import { Condition, FieldOperator } from "./filter-fields.js" */

/** @type {[FieldOperator, string][]} */
const OPERATOR_LABELS = [
  ["eq", "is"],
  ["ne", "is not"],
  ["gt", "is greater than"],
  ["ge", "is at least"],
  ["lt", "is less than"],
  ["le", "is at most"],
  ["startsWith", "begins with"],
];
/** Conditions that need extensions of the server. @type {[FieldOperator, string][]} */
const EXTENSION_LABELS = [
  ["endsWith", "ends with"],
  ["contains", "contains"],
];

/** Example values, shown as placeholders. @type {Partial<Record<EdmType, string>>} */
const EXAMPLES = {
  "Edm.DateTime": "2026-01-31T12:00:00Z",
  "Edm.Guid": "00000000-0000-0000-0000-000000000000",
  "Edm.Binary": "00ff (hex)",
  "Edm.Double": "1.5",
};

/** Dispatches "change" when a condition changes, and "run" when the user runs the query. */
export class FieldsEditor extends HTMLElement {
  /** Whether conditions may need extensions of the server. */
  extensions = false;
  /** @type {ReadonlyMap<string, EdmType>} */
  #properties = new Map();
  /** @type {ConditionLine[]} */
  #lines = [];

  constructor() {
    super();
    this.names = h("datalist", { id: uniqueId("names") });
    this.list = div("filter-fields");
    this.add = button("Add condition", () => this.#add());
  }

  connectedCallback() {
    replaceChildren(this, this.names, this.list, this.add);
  }

  /** @param {ReadonlyMap<string, EdmType>} properties */
  set properties(properties) {
    this.#properties = properties;
    const names = [...Object.keys(SYSTEM_TYPES), ...[...properties.keys()].filter((name) => !SYSTEM_TYPES[name]).sort()];
    replaceChildren(
      this.names,
      names.filter(isFilterName).map((name) => h("option", { value: name })));
  }

  /** The conditions that are complete. @returns {Condition[]} */
  get conditions() {
    return this.#lines.map((line) => line.condition).filter((condition) => condition !== null);
  }

  set conditions(conditions) {
    this.#lines = [];
    replaceChildren(this.list);
    for (const condition of conditions) this.#append(condition);
    if (conditions.length === 0) this.#append({ property: "PartitionKey", operator: "eq", type: "Edm.String", text: "" }, true);
  }

  /** Shows errors. Returns true if every condition is either complete or not yet started. */
  check() {
    const wrong = this.#lines.find((line) => !line.check());
    wrong?.focus();
    return !wrong;
  }

  #add() {
    this.#append({ property: "", operator: "eq", type: "Edm.String", text: "" }, true).focus();
  }

  /** @param {Condition} condition @param {boolean} [isNew] */
  #append(condition, isNew = false) {
    const line = new ConditionLine(condition, isNew, {
      names: this.names.id,
      operators: this.extensions ? [...OPERATOR_LABELS, ...EXTENSION_LABELS] : OPERATOR_LABELS,
      typeOf: (name) => SYSTEM_TYPES[name] ?? this.#properties.get(name),
      onChange: () => this.dispatchEvent(new Event("change")),
      onRun: () => this.dispatchEvent(new Event("run")),
      onRemove: () => this.#remove(line),
    });
    this.#lines.push(line);
    this.list.append(line.element);
    this.#number();
    return line;
  }

  /** @param {ConditionLine} line */
  #remove(line) {
    const at = this.#lines.indexOf(line);
    this.#lines.splice(at, 1);
    line.element.remove();
    this.#number();
    const next = this.#lines[Math.min(at, this.#lines.length - 1)];
    if (next) next.focus();
    else this.add.focus();
    this.dispatchEvent(new Event("change"));
  }

  #number() {
    this.#lines.forEach((line, at) => line.element.setAttribute("aria-label", `Condition ${at + 1}`));
  }
}

customElements.define("fields-editor", FieldsEditor);

/**
 * @typedef {{names: string, operators: [FieldOperator, string][], typeOf: (name: string) => EdmType | undefined,
 *   onChange: () => void, onRun: () => void, onRemove: () => void}} LineListener
 */

/** The fields of one condition. */
class ConditionLine {
  /** @type {HTMLInputElement | HTMLSelectElement} */
  #value;
  /** True until the user edits the condition. Until then, an empty value does not count as a value. */
  #isNew;

  /** @param {Condition} condition @param {boolean} isNew @param {LineListener} listener */
  constructor(condition, isNew, listener) {
    this.#isNew = isNew;
    this.listener = listener;
    this.property = textInput({
      list: listener.names,
      value: condition.property,
      "aria-label": "Property",
      placeholder: "Property",
      autocapitalize: "off",
      oninput: () => this.#named(),
    });
    const operator = { "aria-label": "Operator", value: condition.operator, onchange: () => this.#changed() };
    this.operator = dropDown(listener.operators, operator);
    const type = { "aria-label": "Type", value: condition.type, onchange: () => this.#typed() };
    this.type = dropDown(EDM_TYPES.map((type) => [type, type.replace("Edm.", "")]), type);
    this.#value = this.#control(condition.type, condition.text);
    this.problem = h("span", { class: "problem", id: uniqueId("condition") });
    this.remove = h("button", { type: "button", class: "quiet", "aria-label": "Remove condition", onclick: listener.onRemove },
      "×");
    const onkeydown = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || event.target instanceof HTMLButtonElement) return;
      event.preventDefault();
      listener.onRun();
    };
    this.element = h("div", { class: "condition", role: "group", onkeydown },
      this.property,
      this.operator,
      this.type,
      this.#value,
      this.remove,
      this.problem);
    this.#fit();
  }

  focus() {
    (this.property.value === "" || !isFilterName(this.property.value) ? this.property : this.#value).focus();
  }

  /** @returns {Condition | null} null if it is not complete */
  get condition() {
    const property = this.property.value.trim();
    const type = /** @type {EdmType} */ (this.type.value);
    if (this.#isNew || !isFilterName(property)) return null;
    try {
      return {
        property,
        operator: /** @type {FieldOperator} */ (this.operator.value),
        type,
        text: readText(type, this.#value.value),
      };
    } catch {
      return null;
    }
  }

  /** Shows an error, if there is one. Returns true if there is none. */
  check() {
    const message = this.#fault();
    this.problem.textContent = message;
    const isName = message !== "" && !isFilterName(this.property.value.trim());
    for (const [control, isWrong] of /** @type {const} */ ([
      [this.property, isName],
      [this.#value, message !== "" && !isName],
    ])) {
      control.setAttribute("aria-invalid", String(isWrong));
      if (isWrong) control.setAttribute("aria-describedby", this.problem.id);
      else control.removeAttribute("aria-describedby");
    }
    return message === "";
  }

  #fault() {
    const property = this.property.value.trim();
    if (this.#isNew || (property === "" && this.#value.value === "")) return "";
    if (property === "") return "Enter a property name.";
    if (!isFilterName(property)) return "A filter can use only property names that consist of letters, digits and underscores.";
    try {
      readText(/** @type {EdmType} */ (this.type.value), this.#value.value);
      return "";
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  /** Selects the type of the named property, if it is known. */
  #named() {
    const type = this.listener.typeOf(this.property.value.trim());
    if (type && type !== this.type.value) {
      this.type.value = type;
      this.#typed();
    } else this.#changed();
  }

  #typed() {
    const control = this.#control(/** @type {EdmType} */ (this.type.value), this.#value.value);
    this.#value.replaceWith(control);
    this.#value = control;
    this.#fit();
    this.#changed();
  }

  /** Disables "begins with" and the like for types other than String. */
  #fit() {
    const isText = this.type.value === "Edm.String";
    for (const option of this.operator.options) option.disabled = !isText && !OPERATORS.some((name) => name === option.value);
    if (this.operator.selectedOptions[0]?.disabled) this.operator.value = "eq";
  }

  #changed() {
    this.#isNew = false;
    this.check();
    this.listener.onChange();
  }

  /** @param {EdmType} type @param {string} value */
  #control(type, value) {
    const label = "Value";
    if (type === "Edm.Boolean") {
      const chosen = value === "false" ? "false" : "true";
      const attributes = { "aria-label": label, value: chosen, onchange: () => this.#changed() };
      return dropDown([["true", "true"], ["false", "false"]], attributes);
    }
    return textInput({
      "aria-label": label,
      value,
      placeholder: EXAMPLES[type] ?? "Value",
      autocapitalize: "off",
      oninput: () => this.#changed(),
    });
  }
}

/** Returns the text form of a literal. @param {EdmType} type @param {string} text */
function readText(type, text) {
  return type === "Edm.Binary" ? toHex(fromHex(text)) : readValue(type, text).text;
}
