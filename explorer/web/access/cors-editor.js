// The rules by which browsers let pages of other origins use the account.

import { field, h, replaceChildren } from "../ui/dom.js";

/** @typedef {import("../core/xml.js").CorsRule} CorsRule */

const RULES_MAX = 5;

/**
 * Rules to edit; `value` has them as they are then.
 * @param {CorsRule[]} rules
 */
export function corsEditor(rules) {
  /** @type {{element: HTMLElement, origins: HTMLInputElement, value: () => CorsRule}[]} */
  let rows = [];
  const list = h("div", null);
  const empty = h("p", null, "There is no rule: pages of other origins cannot use the account.");
  const add = h("button", { type: "button" }, "Add rule");
  const update = () => {
    replaceChildren(
      list,
      rows.map(({ element }, at) => {
        element.firstElementChild?.replaceChildren(`Rule ${at + 1}`);
        return element;
      }),
    );
    empty.hidden = rows.length > 0;
    add.disabled = rows.length >= RULES_MAX;
  };
  const append = (/** @type {CorsRule} */ rule) => {
    const row = ruleFields(rule, () => {
      rows = rows.filter((other) => other !== row);
      update();
      add.focus();
    });
    rows.push(row);
    return row;
  };
  add.addEventListener("click", () => {
    const row = append({ origins: "", methods: "GET", headers: "*", exposedHeaders: "*", maxAgeSeconds: 3600 });
    update();
    row.origins.focus();
  });
  rules.forEach(append);
  update();
  return { element: h("div", null, empty, list, add), value: () => rows.map((row) => row.value()) };
}

/**
 * @param {CorsRule} rule
 * @param {() => void} onRemove
 */
function ruleFields(rule, onRemove) {
  const input = (/** @type {string} */ value) => h("input", { type: "text", value, spellcheck: "false", autocomplete: "off" });
  const [origins, methods, headers, exposedHeaders] = [rule.origins, rule.methods, rule.headers, rule.exposedHeaders].map(input);
  const maxAge = h("input", { type: "number", min: "0", value: rule.maxAgeSeconds });
  if (!origins || !methods || !headers || !exposedHeaders) {
    throw new Error("A rule has four lists.");
  }
  const element = h(
    "fieldset",
    null,
    h("legend", null, ""),
    field("Allowed origins", origins, "Such as https://a.example,https://*.b.example, or * for all."),
    field("Allowed methods", methods, "Such as GET,POST,MERGE."),
    h(
      "div",
      { class: "pair" },
      field("Allowed headers", headers, "Such as x-ms-*,content-type."),
      field("Exposed headers", exposedHeaders),
    ),
    field("Maximum age in seconds", maxAge),
    h("button", { type: "button", class: "quiet", onclick: onRemove }, "Remove"),
  );
  const value = () => ({
    origins: origins.value.trim(),
    methods: methods.value.trim().toUpperCase(),
    headers: headers.value.trim(),
    exposedHeaders: exposedHeaders.value.trim(),
    maxAgeSeconds: Number(maxAge.value),
  });
  return { element, origins, value };
}
