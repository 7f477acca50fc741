// The menu of a cell. Must not depend on the grid.

import { toBytes, toHex } from "../core/edm.js";
import { copyText } from "../query/clipboard.js";
import { addCondition } from "../query/filter-fields.js";
import { parseFilter } from "../query/filter-text.js";
import { openMenu } from "../ui/menu.js";
import { isJson, visibleText } from "./display.js";
import { cellText, valueIn } from "./grid-line.js";
import { openJson } from "./json-view.js";

/** @import { Entity, Value } from "../core/edm.js" */
/** @import { Column } from "./columns.js" */

/** The maximum length of a value to filter by. Longer values could make a filter longer than the service accepts. */
const FILTER_VALUE_CHARACTERS_MAX = 2000;

/** @param {string} filter @param {string} property @param {Value} value */
function withValue(filter, property, { type, text }) {
  const literal = type === "Edm.Binary" ? toHex(toBytes(text)) : text;
  return addCondition(filter, { property, operator: "eq", type, text: literal });
}

/**
 * @param {HTMLElement} opener
 * @param {Entity} entity
 * @param {Column} column
 * @param {{filter: string, run: (filter: string) => void, open: () => void, json: () => void, openLabel: string}} actions
 *   `filter` is the current filter; `run` runs a new one
 */
export function openCellMenu(opener, entity, column, { filter, run, open, json, openLabel }) {
  const value = valueIn(entity, column);
  const narrowed = value && value.text.length <= FILTER_VALUE_CHARACTERS_MAX ? withValue(filter, column.name, value) : "";
  // Some property names cannot be used in a filter.
  const canFilter = narrowed !== "" && parseFilter(narrowed).errors.length === 0;
  const name = visibleText(column.name, 60);
  openMenu(
    opener,
    [
      { label: "Filter by this value", disabled: !canFilter, run: () => run(narrowed) },
      { label: "Copy value", disabled: !value, run: () => void copyText(cellText(entity, column), "The value") },
      ...(value?.type === "Edm.String" && isJson(value.text)
        ? [{ label: "Show value as JSON", run: () => openJson(`JSON in ${name}`, value.text) }]
        : []),
      { label: "", separator: true },
      { label: openLabel, run: open },
      { label: "Show entity as JSON", run: json },
    ],
    name);
}
