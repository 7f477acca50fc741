// The menu of a cell. Knows no grid.

import { toBytes, toHex } from "../core/edm.js";
import { copyText } from "../query/clipboard.js";
import { addCondition } from "../query/filter-fields.js";
import { isFilterName } from "../query/filter-text.js";
import { openMenu } from "../ui/menu.js";
import { isJson, visibleText } from "./display.js";
import { cellText, valueIn } from "./grid-line.js";
import { openEntityJson, openJson } from "./json-view.js";

/** @import { Entity } from "../core/edm.js" */
/** @import { Column } from "./columns.js" */

/** Longer values make a filter longer than the service accepts. */
const FILTER_VALUE_CHARACTERS_MAX = 2000;

/**
 * @param {HTMLElement} opener
 * @param {Entity} entity
 * @param {Column} column
 * @param {{filter: string, run: (filter: string) => void, open: () => void, openLabel: string}} actions
 *   `filter` is the filter now, and `run` runs another one
 */
export function openCellMenu(opener, entity, column, { filter, run, open, openLabel }) {
  const value = valueIn(entity, column);
  const canFilter = value && isFilterName(column.name) && value.text.length <= FILTER_VALUE_CHARACTERS_MAX;
  const filterByValue = () => {
    if (!value) return;
    const text = value.type === "Edm.Binary" ? toHex(toBytes(value.text)) : value.text;
    run(addCondition(filter, { property: column.name, operator: "eq", type: value.type, text }));
  };
  const name = visibleText(column.name, 60);
  openMenu(
    opener,
    [
      { label: "Filter by this value", disabled: !canFilter, run: filterByValue },
      { label: "Copy value", disabled: !value, run: () => void copyText(cellText(entity, column), "The value") },
      ...(value?.type === "Edm.String" && isJson(value.text)
        ? [{ label: "Show value as JSON", run: () => openJson(`JSON in ${name}`, value.text) }]
        : []),
      { label: "", separator: true },
      { label: openLabel, run: open },
      { label: "Show entity as JSON", run: () => openEntityJson(entity) },
    ],
    name,
  );
}
