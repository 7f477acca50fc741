// Exports entities to a JSON Lines or CSV file: either the loaded entities, or all entities that match the query, page
// by page.
//
// formats.js defines the formats. This module must not depend on how entities are displayed.

import { describe } from "../core/errors.js";
import { countText, numberText } from "../core/words.js";
import { checkFilter } from "../query/filter-text.js";
import { openDialog } from "../ui/dialog.js";
import { checkbox, div, h, uniqueId } from "../ui/dom.js";
import { notify } from "../ui/notify.js";
import { progressDialog } from "../ui/progress.js";
import { CsvWriter, writeLine } from "./formats.js";

/** @import { TableService } from "../core/client.js" */
/** @import { Continuation } from "../core/responses.js" */
/** @import { Entity } from "../core/edm.js" */
/** @import { Progress } from "../ui/progress.js" */
/** @typedef {{filter: string, select: string[] | null, top: number | null}} Query */
/** @typedef {{table: string, query: Query, entities: Entity[], visible: string[]}} Shown */
/**
 * @typedef {{format: "jsonl" | "csv", isEverything: boolean, names: string[] | null, withTimestamps: boolean}} Options
 */

export const JSON_LINES = "application/jsonl";
export const CSV = "text/csv";
const SYSTEM_PROPERTIES = ["PartitionKey", "RowKey", "Timestamp"];
/** The maximum length of a list of properties that is sent with the query, because URLs have a maximum length. */
const SELECT_LENGTH_MAX = 1500;

/**
 * @param {{service: TableService}} session
 * @param {Shown} shown
 */
export async function openExport({ service }, shown) {
  const names = shown.visible.filter((name) => !SYSTEM_PROPERTIES.includes(name));
  const count = shown.entities.length;
  const what = choice("Entities", [
    ["everything", "All entities that match the query"],
    ["loaded", count === 1 ? "The loaded entity" : `The ${numberText(count)} loaded entities`],
  ]);
  const format = choice("Format", [
    ["jsonl", "JSON Lines"],
    ["csv", "CSV"],
  ]);
  const properties = choice("Properties", [
    ["all", "All"],
    ["shown", `Displayed properties (${numberText(names.length)}), in their current order`],
  ]);
  const timestamps = checkbox("Include Timestamp and ETag (ignored by imports)");
  const note = h("p", { class: "hint" },
    "CSV has two columns for each property: its value and its type. Strings are written unchanged, so that an import " +
      "restores them. A spreadsheet may interpret a string that begins with =, +, - or @ as a formula.");
  const body = div("moving", what.element, format.element, properties.element, timestamps, note);
  /** @type {Options | null} */
  let options = null;
  const choose = () => {
    options = {
      format: format.value() === "csv" ? "csv" : "jsonl",
      isEverything: what.value() === "everything",
      names: properties.value() === "shown" ? names : null,
      withTimestamps: timestamps.input.checked,
    };
  };
  await openDialog({ title: `Export ${shown.table}`, body, actions: [{ label: "Export", kind: "primary", run: choose }] }).closed;
  if (options) {
    await run(service, shown, options);
  }
}

/**
 * Creates a group of radio buttons. The first one is selected.
 * @param {string} title
 * @param {[string, string][]} options values and labels
 */
export function choice(title, options) {
  const name = uniqueId("choice");
  const inputs = options.map(([value], at) => h("input", { type: "radio", name, value, checked: at === 0 }));
  const labels = options.map(([, label], at) => h("label", { class: "check" }, inputs[at], label));
  const value = () => inputs.find((input) => input.checked)?.value ?? "";
  return { element: h("fieldset", { class: "choice" }, h("legend", null, title), labels), value };
}

/**
 * @param {TableService} service
 * @param {Shown} shown
 * @param {Options} options
 */
async function run(service, { table, query, entities }, options) {
  const csv = options.format === "csv" ? new CsvWriter(options) : null;
  /** @type {string[]} */
  const lines = [];
  let count = 0;
  const work = async (/** @type {Progress} */ { report, signal }) => {
    const pages = options.isEverything ? pagesOf(service, table, query, options, signal) : [entities];
    for await (const page of pages) {
      if (csv) {
        page.forEach((entity) => csv.add(entity));
      } else {
        lines.push(page.map((entity) => writeLine(entity, options)).join(""));
      }
      count += page.length;
      report(count, query.top, `${countText(count)} read`);
    }
    return csv?.finish() ?? lines;
  };
  try {
    const parts = await progressDialog({ title: `Exporting ${table}`, run: work });
    if (!parts) {
      notify("The export was stopped. No file was written.");
      return;
    }
    const name = `${table}.${options.format}`;
    download(name, csv ? CSV : JSON_LINES, parts);
    notify(`${countText(count)} exported to ${name}.`, { kind: "success" });
  } catch (error) {
    notify(`The export failed: ${describe(error)}`, { kind: "error" });
  }
}

/**
 * Reads the pages of a query, up to its limit.
 * @param {TableService} service
 * @param {string} table
 * @param {Query} query
 * @param {Options} options
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<Entity[], void, void>}
 */
async function* pagesOf(service, table, { filter, select, top }, { names }, signal) {
  checkFilter(filter, service.extensions);
  const needed = select ?? (names && names.join().length <= SELECT_LENGTH_MAX ? names : null);
  let rest = top ?? Infinity;
  /** @type {Continuation | null} */
  let next = null;
  do {
    const limit = rest < 1000 ? rest : null;
    /** @type {Awaited<ReturnType<TableService["queryEntities"]>>} */
    const page = await service.queryEntities(table, { filter, select: needed, top: limit, next, signal });
    yield page.entities.slice(0, rest);
    rest -= page.entities.length;
    next = page.next;
  } while (next && rest > 0);
}

/**
 * Makes the browser download a file.
 * @param {string} name
 * @param {string} type
 * @param {string[]} parts
 */
export function download(name, type, parts) {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // By then, the browser has started to read the file.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
