// The fields for values of each type, and the select that changes the type. Must not depend on entities.

import { EDM_TYPES, asType, fromBytes, fromHex, readValue, toBytes, toHex } from "../core/edm.js";
import { describe } from "../core/errors.js";
import { button, div, dropDown, h, replaceChildren, textInput, uniqueId } from "../ui/dom.js";
import { binarySize, convert, isJson, localTime, restoreLineEndings, shortType, visibleText } from "./display.js";
import { openJson } from "./json-view.js";

/** @import { EdmType, Value } from "../core/edm.js" */
/** @typedef {{parts: HTMLElement[], input: HTMLElement, read: () => Value}} Field */
/** @typedef {(value: Value, attributes: Record<string, unknown>) => Field} FieldMaker */

/** @param {string} text @param {Record<string, unknown>} attributes */
export function textArea(text, attributes) {
  const area = h("textarea", {
    rows: text.includes("\n") ? 4 : 1,
    spellcheck: "false",
    autocomplete: "off",
    dir: "auto",
    value: text,
    ...attributes,
  });
  return { area, read: () => restoreLineEndings(area.value, text) };
}

/** @type {FieldMaker} */
const stringField = (value, attributes) => {
  const { area, read } = textArea(value.text, attributes);
  const marked = visibleText(value.text, 2000);
  const isMarked = marked !== value.text && marked.replace(/\u21b5/g, "\n") !== value.text && value.text.length <= 2000;
  const note = isMarked ? h("small", null, `With invisible characters shown: ${marked}`) : null;
  const show = () => openJson("The value as JSON", read());
  const json = isJson(value.text) ? button("Show as JSON", show) : null;
  const parts = [area, json, note].filter((part) => part !== null);
  return { parts, input: area, read: () => ({ type: "Edm.String", text: read() }) };
};

/** @type {FieldMaker} */
const booleanField = (value, attributes) => {
  const select = dropDown(
    [value.text === "" ? ["", "not set"] : null, ["true", "true"], ["false", "false"]],
    { ...attributes, disabled: attributes["readonly"] === true, value: value.text });
  return { parts: [select], input: select, read: () => readValue("Edm.Boolean", select.value) };
};

/** @param {Value} value @param {Record<string, unknown>} attributes @returns {Field & {input: HTMLInputElement}} */
function lineField(value, attributes) {
  const input = textInput({ ...attributes, value: value.text });
  const read = () => (input.value === value.text && value.text !== "" ? value : readValue(value.type, input.value));
  return { parts: [input], input, read };
}

/** @type {FieldMaker} */
const guidField = (value, attributes) => {
  const field = lineField(value, attributes);
  // crypto.randomUUID exists only in secure contexts.
  const make = () => {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
    setText(field.input, toHex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"));
  };
  const generate = button("New Guid", make);
  return attributes["readonly"] ? field : { ...field, parts: [field.input, generate] };
};

/** @param {HTMLInputElement | HTMLTextAreaElement} input @param {string} text */
function setText(input, text) {
  input.value = text;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

/** @type {FieldMaker} */
const timeField = (value, attributes) => {
  const field = lineField(value, attributes);
  const local = h("small");
  const picker = h("input", { type: "datetime-local", step: "1", "aria-label": "Choose a time in UTC" });
  const follow = () => {
    try {
      const { text } = field.read();
      local.textContent = `Local: ${localTime(text)}`;
      picker.value = text.slice(0, 19);
    } catch {
      local.textContent = "UTC, for example 2026-01-31T12:00:00.1234567Z";
    }
  };
  field.input.addEventListener("input", follow);
  picker.addEventListener("change", () => {
    if (picker.value) setText(field.input, `${picker.value}${picker.value.length === 16 ? ":00" : ""}Z`);
  });
  follow();
  return { ...field, parts: attributes["readonly"] ? [field.input, local] : [field.input, picker, local] };
};

/** @type {FieldMaker} */
const binaryField = (value, attributes) => {
  const size = h("small");
  const format = dropDown([["hex", "Hexadecimal"], ["base64", "Base64"]], { "aria-label": "Encoding" });
  const area = h("textarea", { rows: "3", spellcheck: "false", autocomplete: "off", class: "binary", ...attributes });
  let written = "hex";
  const bytes = () => (written === "hex" ? fromHex(area.value) : toBytes(area.value.replace(/\s+/g, "")));
  const show = (/** @type {Uint8Array} */ content) => {
    area.value = format.value === "hex" ? toHex(content).replace(/(..)(?=.)/g, "$1 ") : fromBytes(content);
    written = format.value;
    size.textContent = `${content.length} bytes`;
  };
  const ifValid = (/** @type {(content: Uint8Array<ArrayBuffer>) => void} */ use) => {
    try {
      use(bytes());
    } catch {
      format.value = written;
      area.focus();
    }
  };
  format.addEventListener("change", () => ifValid(show));
  area.addEventListener("input", () => {
    try {
      size.textContent = `${bytes().length} bytes`;
    } catch {
      size.textContent = "";
    }
  });
  const download = button("Download", () => ifValid(saveFile));
  const chooser = h("input", { type: "file", hidden: true, "aria-label": "File to load" });
  chooser.addEventListener("change", async () => {
    const [file] = chooser.files ?? [];
    if (!file) return;
    show(new Uint8Array(await file.arrayBuffer()));
    area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const load = button("Load file", () => chooser.click());
  show(toBytes(value.text));
  const parts = [
    area,
    div("binary-tools", format, download, attributes["readonly"] ? null : [load, chooser], size),
  ];
  return { parts, input: area, read: () => ({ type: "Edm.Binary", text: fromBytes(bytes()) }) };
};

/** @param {Uint8Array<ArrayBuffer>} content */
function saveFile(content) {
  const address = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  h("a", { href: address, download: "value.bin" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** @type {Record<EdmType, FieldMaker>} */
const FIELDS = {
  "Edm.String": stringField,
  "Edm.Boolean": booleanField,
  "Edm.Int32": lineField,
  "Edm.Int64": lineField,
  "Edm.Double": lineField,
  "Edm.DateTime": timeField,
  "Edm.Guid": guidField,
  "Edm.Binary": binaryField,
};

/** @param {Field} field */
const textOf = ({ input }) => /** @type {HTMLInputElement} */ (input).value;

export class TypedField {
  #type;
  /** @type {Field} */
  #field;
  /**
   * The value given or typed last. Type changes convert it, and not the result of earlier conversions.
   * @type {Value}
   */
  #origin;
  #shown = "";
  #holder = div("value-parts");
  #message = h("p", { class: "problem", id: uniqueId("value"), "aria-live": "polite" });

  /** @param {Value} value @param {{label: () => string, readOnly?: boolean, isOptional?: boolean}} options */
  constructor(value, { label, readOnly = false, isOptional = false }) {
    this.label = label;
    this.readOnly = readOnly;
    this.isOptional = isOptional;
    this.#type = value.type;
    this.#origin = value;
    const attributes = { value: value.type, disabled: readOnly, onchange: () => this.#changeType() };
    this.select = dropDown(EDM_TYPES.map((type) => [type, shortType(type)]), attributes);
    this.element = div("value-field", this.#holder, this.#message);
    this.#holder.addEventListener("input", () => this.check());
    this.#field = this.#show(value);
    this.relabel();
  }

  /** @param {Value} value */
  #show(value) {
    const field = FIELDS[value.type](value, { readonly: this.readOnly, "aria-describedby": this.#message.id });
    replaceChildren(this.#holder, field.parts);
    this.#shown = textOf(field);
    return field;
  }

  relabel() {
    this.select.setAttribute("aria-label", `Type of ${this.label()}`);
    this.#field.input.setAttribute("aria-label", `Value of ${this.label()}`);
  }

  #changeType() {
    const type = asType(this.select.value);
    try {
      const text = textOf(this.#field);
      /** @type {Value} */
      const origin =
        text === this.#shown ? this.#origin : text ? this.#field.read() : { type: "Edm.String", text };
      const value = convert(origin, type);
      this.#origin = origin;
      this.#type = type;
      this.#field = this.#show(value ?? { type, text: type === "Edm.Boolean" && !this.isOptional ? "false" : "" });
      this.#say("");
    } catch (error) {
      this.select.value = this.#type;
      this.#say(describe(error));
    }
    this.relabel();
  }

  /** @param {string} message */
  #say(message) {
    this.#message.textContent = message;
    this.#field.input.setAttribute("aria-invalid", String(message !== ""));
  }

  /** True if the field may stay empty and is empty. */
  get isLeftOut() {
    return this.isOptional && textOf(this.#field) === "";
  }

  /** Returns true if the value is valid for its type. Otherwise, the field shows why. */
  check() {
    try {
      if (!this.isLeftOut) this.#field.read();
      this.#say("");
      return true;
    } catch (error) {
      this.#say(describe(error));
      return false;
    }
  }

  /** @returns {Value} */
  read() {
    return this.#field.read();
  }

  focus() {
    this.#field.input.focus();
  }
}

/** @param {Value | null} value */
export function valueText(value) {
  if (value === null) return "(no value)";
  const text =
    value.type === "Edm.Binary"
      ? `${binarySize(value.text)} bytes, Base64 ${visibleText(value.text, 400)}`
      : value.text === ""
        ? "(empty)"
        : visibleText(value.text, 1000);
  return `${shortType(value.type)}: ${text}`;
}
