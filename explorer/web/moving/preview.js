// The beginning of a file as a table: what an import would read, with the type of each property and what is wrong.
//
// Must not know the service.

import { EDM_TYPES } from "../core/edm.js";
import { describe } from "../core/errors.js";
import { h, replaceChildren } from "../ui/dom.js";

/** @import { EdmType } from "../core/edm.js" */
/** @import { EntitySource, PropertyPreview, SourceRecord } from "./source.js" */

const RECORDS = 20;
const VALUE_LENGTH = 60;
/** The preview of each element that was begun last. @type {WeakMap<HTMLElement, unknown>} */
const newest = new WeakMap();

/**
 * Shows the beginning of a file in an element, again whenever a type was changed.
 * @param {HTMLElement} place
 * @param {EntitySource} source
 */
export async function showPreview(place, source) {
  const preview = source.preview(RECORDS);
  newest.set(place, preview);
  /** @type {(Node | null)[]} */
  let content;
  try {
    const { records, properties } = await preview;
    const again = () => showPreview(place, source);
    const problems = records.filter(({ problem }) => problem).length;
    const summary =
      records.length === 0 ? "The file has no entities." : problems === 0 ? "" : `${problems} of these lines cannot be imported.`;
    content = [
      h("p", { role: "status", class: problems > 0 ? "problem" : null }, summary),
      guessButton(source, properties, again),
      records.length > 0 ? scrolled("Preview", table(source, records, properties, again)) : null,
    ];
  } catch (error) {
    content = [h("p", { class: "problem", role: "alert" }, `${source.file.name}: ${describe(error)}`)];
  }
  // One that was begun earlier may end later.
  if (newest.get(place) === preview) {
    replaceChildren(place, content);
  }
}

/**
 * A table that is scrolled if it is large.
 * @param {string} label
 * @param {HTMLElement} table
 */
export function scrolled(label, table) {
  return h("div", { class: "preview", tabindex: "0", role: "region", "aria-label": label }, table);
}

/**
 * @param {EntitySource} source
 * @param {PropertyPreview[]} properties
 * @param {() => void} again
 */
function guessButton(source, properties, again) {
  const untyped = properties.filter(({ typeAt }) => typeAt < 0);
  if (source.format !== "csv" || untyped.length === 0) {
    return null;
  }
  const guess = () => {
    untyped.forEach(({ name, guess }) => source.types.set(name, guess));
    again();
  };
  return h("button", { type: "button", onclick: guess }, "Guess types from these lines");
}

/**
 * @param {EntitySource} source
 * @param {SourceRecord[]} records
 * @param {PropertyPreview[]} properties
 * @param {() => void} again
 */
function table(source, records, properties, again) {
  const heads = properties.map((property) => {
    const { name, types } = property;
    const type =
      source.format === "csv"
        ? typeSelect(source, property, again)
        : h("small", null, types.map((type) => type.slice(4)).join(", "));
    return h("th", { scope: "col" }, h("div", null, shortened(name)), type);
  });
  const rows = records.map(({ line, entity, problem, text }) => {
    const cells = entity
      ? [entity.partitionKey, entity.rowKey, ...properties.map(({ name }) => entity.properties.get(name)?.text)].map((value) =>
          h("td", value === undefined ? { class: "missing" } : null, value === undefined ? "—" : shortened(value)),
        )
      : h("td", { class: "problem", colspan: properties.length + 2 }, `${problem}: `, h("code", null, shortened(text)));
    return h("tr", null, h("th", { scope: "row" }, String(line)), cells);
  });
  const fixed = ["Line", "PartitionKey", "RowKey"].map((name) => h("th", { scope: "col" }, name));
  return h("table", null, h("thead", null, h("tr", null, fixed, heads)), h("tbody", null, rows));
}

/**
 * @param {EntitySource} source
 * @param {PropertyPreview} property
 * @param {() => void} again
 */
function typeSelect(source, { name, typeAt }, again) {
  const options = EDM_TYPES.map((type) => h("option", { value: type }, type.slice(4)));
  const select = h(
    "select",
    { "aria-label": `Type of ${name}` },
    typeAt < 0 ? options : [h("option", { value: "" }, "as in the file"), ...options],
  );
  select.value = source.types.get(name) ?? (typeAt < 0 ? "Edm.String" : "");
  select.addEventListener("change", () => {
    if (select.value) {
      source.types.set(name, /** @type {EdmType} */ (select.value));
    } else {
      source.types.delete(name);
    }
    again();
  });
  return select;
}

/** @param {string} text */
export function shortened(text) {
  return text.length > VALUE_LENGTH ? `${text.slice(0, VALUE_LENGTH)}…` : text;
}
