// Creates elements without markup: every text becomes a text node, so that no name or value can become an element.

import { icon } from "./icons.js";

/** @import { IconName } from "./icons.js" */
/** @typedef {Node | string | null | undefined | false | Child[]} Child */

/** Set as properties, because the attributes define only the initial state. */
const PROPERTIES = new Set(["value", "checked", "indeterminate"]);
let lastId = 0;

/**
 * Creates an element. Functions become listeners (`onclick`), booleans become attributes without a value, and
 * attributes that are null or undefined are omitted.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown> | null} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = null, ...children) {
  const element = document.createElement(tag);
  // The options come first, because a select can only have the value of an existing option.
  append(element, children);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    set(element, name, value);
  }
  return element;
}

/**
 * @param {HTMLElement} element
 * @param {string} name
 * @param {unknown} value
 */
function set(element, name, value) {
  if (value === null || value === undefined) {
    return;
  }
  if (typeof value === "function") {
    element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
  } else if (PROPERTIES.has(name)) {
    Object.assign(element, { [name]: value });
  } else if (typeof value === "boolean" && !name.startsWith("aria-")) {
    element.toggleAttribute(name, value);
  } else {
    element.setAttribute(name, String(value));
  }
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) {
      append(element, child);
    } else if (child !== null && child !== undefined && child !== false) {
      element.append(child);
    }
  }
}

/**
 * @param {Element} element
 * @param {...Child} children
 */
export function replaceChildren(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** Creates a block. @param {string | null} className @param {...Child} children */
export function div(className, ...children) {
  return h("div", { class: className }, children);
}

/** Creates a paragraph. @param {string | null} className @param {...Child} children */
export function p(className, ...children) {
  return h("p", { class: className }, children);
}

/**
 * Creates a button that does not submit a form. With an icon, narrow toolbars show the icon alone; the label is then the
 * tooltip.
 * @param {string} label
 * @param {(event: Event) => unknown} onclick
 * @param {Record<string, unknown> & {icon?: IconName}} [attributes]
 */
export function button(label, onclick, { icon: name, ...attributes } = {}) {
  const content = name ? [icon(name), h("span", null, label)] : label;
  return h("button", { type: "button", title: name ? label : null, ...attributes, onclick }, content);
}

/** Creates the line in which a form or a view says what went wrong. It is invisible while it is empty. */
export function problemLine() {
  return h("p", { class: "problem", role: "alert" });
}

/**
 * Returns an ID that no other element has.
 * @param {string} prefix
 */
export function uniqueId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}

/**
 * Creates a labelled form field.
 * @param {string} label
 * @param {HTMLElement} input
 * @param {string} [help]
 */
export function field(label, input, help) {
  input.id ||= uniqueId("field");
  const note = help ? h("small", { id: uniqueId("help") }, help) : null;
  if (note) {
    input.setAttribute("aria-describedby", note.id);
  }
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, note);
}

/**
 * Creates a field for one line of text that browsers neither complete nor correct.
 * @param {Record<string, unknown>} [attributes]
 */
export function textInput(attributes) {
  return h("input", { type: "text", spellcheck: "false", autocomplete: "off", ...attributes });
}

/**
 * Creates a drop-down list.
 * @param {(readonly [string, string] | null)[]} options values and labels; null for none
 * @param {Record<string, unknown>} [attributes]
 */
export function dropDown(options, attributes) {
  return h("select", attributes, options.map((option) => option && h("option", { value: option[0] }, option[1])));
}

/**
 * Creates a checkbox with its label.
 * @param {string} label
 * @param {Record<string, unknown>} [attributes]
 * @returns {HTMLElement & {input: HTMLInputElement}}
 */
export function checkbox(label, attributes = {}) {
  const input = h("input", { type: "checkbox", ...attributes });
  return Object.assign(h("label", { class: "check" }, input, label), { input });
}

/**
 * Creates a table in a region that scrolls.
 * @param {string} label
 * @param {(string | Node[])[]} heads
 * @param {HTMLElement[]} lines
 * @param {string} [className]
 */
export function scrollableTable(label, heads, lines, className = "preview") {
  const head = h("tr", null, heads.map((content) => h("th", { scope: "col" }, content)));
  const table = h("table", null, h("thead", null, head), h("tbody", null, lines));
  return h("div", { class: className, tabindex: "0", role: "region", "aria-label": label }, table);
}
