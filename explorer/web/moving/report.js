// Shows the preview and the report of an import. The preview shows the beginning of a file, with the types of its
// properties and errors. The report shows the lines that could not be written, with the reasons, and offers them as
// files to correct and retry.
//
// Must not depend on the service.

import { EDM_TYPES } from "../core/edm.js";
import { describe } from "../core/errors.js";
import { countText, numberText } from "../core/words.js";
import { openDialog } from "../ui/dialog.js";
import { button, div, dropDown, h, replaceChildren, scrollableTable } from "../ui/dom.js";
import { CSV, JSON_LINES, download } from "./export.js";
import { writeField } from "./formats.js";

/** @import { EdmType } from "../core/edm.js" */
/** @import { Import, ImportResult } from "./import.js" */
/** @import { EntitySource, PropertyPreview, SourceRecord } from "./source.js" */
/** @import { Failure, Outcome } from "./writer.js" */
/** A file and the lines that were not written. @typedef {{source: EntitySource, lines: Failure[]}} Failed */

const RECORDS = 20;
const VALUE_LENGTH = 60;
const SHOWN = 100;
const HEADS = ["File", "Line", "PartitionKey", "RowKey", "Code", "Reason"];
/** The newest preview of each element, which may still be loading. @type {WeakMap<HTMLElement, unknown>} */
const newest = new WeakMap();

/**
 * Shows the beginning of a file in an element. Updates it whenever the user changes a type.
 * @param {HTMLElement} place
 * @param {EntitySource} source
 */
export async function showPreview(place, source) {
  const preview = source.guessTypes().then(() => source.preview(RECORDS));
  newest.set(place, preview);
  /** @type {(Node | null)[]} */
  let content;
  try {
    const { records, properties } = await preview;
    const again = () => showPreview(place, source);
    const problems = records.filter(({ problem }) => problem).length;
    const summary =
      records.length === 0
        ? "The file contains no entities."
        : problems === 0
          ? ""
          : `${problems} of these lines cannot be imported.`;
    content = [
      h("p", { role: "status", class: problems > 0 ? "problem" : null }, summary),
      guessNote(source, properties, again),
      records.length > 0 ? table(source, records, properties, again) : null,
    ];
  } catch (error) {
    content = [h("p", { class: "problem", role: "alert" }, `${source.file.name}: ${describe(error)}`)];
  }
  // A preview that was started earlier may finish later.
  if (newest.get(place) === preview) {
    replaceChildren(place, content);
  }
}

/**
 * @param {EntitySource} source
 * @param {PropertyPreview[]} properties
 * @param {() => void} again
 */
function guessNote(source, properties, again) {
  const untyped = properties.filter(({ typeAt }) => typeAt < 0);
  if (source.format !== "csv" || untyped.length === 0) {
    return null;
  }
  const asStrings = () => {
    untyped.forEach(({ name }) => source.types.set(name, "Edm.String"));
    again();
  };
  return h("p", null,
    "The types were guessed from the beginning of the file. ",
    button("Import all as strings", asStrings));
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
    return [div(null, shortened(name)), type];
  });
  const rows = records.map(({ line, entity, problem, text }) => {
    const cells = entity
      ? [entity.partitionKey, entity.rowKey, ...properties.map(({ name }) => entity.properties.get(name)?.text)].map((value) =>
          h("td", value === undefined ? { class: "missing" } : null, value === undefined ? "—" : shortened(value)))
      : h("td", { class: "problem", colspan: properties.length + 2 }, `${problem}: `, h("code", null, shortened(text)));
    return h("tr", null, h("th", { scope: "row" }, String(line)), cells);
  });
  return scrollableTable("Preview", ["Line", "PartitionKey", "RowKey", ...heads], rows);
}

/**
 * @param {EntitySource} source
 * @param {PropertyPreview} property
 * @param {() => void} again
 */
function typeSelect(source, { name, typeAt }, again) {
  /** @type {[string, string][]} */
  const types = EDM_TYPES.map((type) => [type, type.slice(4)]);
  const select = dropDown([typeAt < 0 ? null : ["", "as in the file"], ...types], { "aria-label": `Type of ${name}` });
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
function shortened(text) {
  return text.length > VALUE_LENGTH ? `${text.slice(0, VALUE_LENGTH)}…` : text;
}

/**
 * @param {ImportResult[]} results
 * @param {string} stop why the import ended early; empty if it did not
 * @param {Import[]} rest the files whose import was not started
 */
export function showReport(results, stop, rest) {
  const failed = results
    .map(({ import: { source }, outcome }) => ({ source, lines: notWritten(outcome) }))
    .filter(({ lines }) => lines.length > 0);
  const records = failed.flatMap(({ source, lines }) =>
    lines.map(({ line, partitionKey, rowKey, code, message }) =>
      [source.file.name, String(line), partitionKey, rowKey, code, message]));
  const body = div("moving",
    stop ? h("p", { class: "problem", role: "alert" }, stop) : null,
    h("ul", null,
      results.map((result) => h("li", null, resultText(result))),
      rest.map(({ source }) => h("li", null, `The import of ${source.file.name} was not started.`))),
    failed.length > 0 ? [failures(records), downloads(failed, records)] : null);
  return openDialog({
    title: stop ? "The import is incomplete" : "Some lines failed",
    body,
    wide: true,
    actions: [],
    cancel: "Close",
  }).closed;
}

/**
 * Summarizes the result for a file.
 * @param {ImportResult} result
 */
export function resultText({ import: { source, table }, outcome, isRead }) {
  const { written, unchanged, failures, waiting, last } = outcome;
  const counts = /** @type {const} */ ([
    [unchanged, "already existed"],
    [failures.length, "failed"],
    [waiting.size, "read but not written"],
  ]);
  const rest = counts.map(([count, what]) => (count > 0 ? `, ${numberText(count)} ${what}` : ""));
  // In an array, the next entity may begin on the line on which the last one ends.
  const ends = source.format === "json" ? 1 : 0;
  const next = last ? last.line + last.text.trim().split("\n").length - ends : 1;
  const unread = isRead ? "" : ` The import did not reach line ${numberText(next)}.`;
  return `${countText(written)} from ${source.file.name} written to ${table}${rest.join("")}.${unread}`;
}

/**
 * Returns the lines that failed, followed by the lines that were read but not written.
 * @param {Outcome} outcome
 * @returns {Failure[]}
 */
function notWritten({ failures, waiting }) {
  const message = "The import ended before this entity was written.";
  const rest = [...waiting].map(({ line, text, entity }) => ({ ...entity, line, text, code: "", message }));
  return [...failures.sort(byLine), ...rest];
}

/**
 * @param {Failure} one
 * @param {Failure} other
 */
function byLine(one, other) {
  return one.line - other.line;
}

/** @param {string[][]} records */
function failures(records) {
  const lines = records.slice(0, SHOWN).map((record) =>
    h("tr", null, record.map((text, at) => h("td", null, at < 4 ? shortened(text) : text))));
  const all = numberText(records.length);
  return div(null,
    scrollableTable("Failed lines", HEADS, lines),
    records.length > SHOWN ? h("p", null, `Showing the first ${SHOWN} of ${all} lines. The report contains all of them.`) : null);
}

/**
 * @param {Failed[]} failed
 * @param {string[][]} records
 */
function downloads(failed, records) {
  return h("p", { class: "downloads" },
    failed.map((one) => button(`Download the failed lines of ${one.source.file.name}`, () => saveLines(one))),
    button("Download the report as CSV", () => saveReport(records)));
}

/**
 * Downloads the failed lines unchanged, so that the user can correct and import them.
 * @param {Failed} failed
 */
function saveLines({ source: { file, format, headerText }, lines }) {
  const name = file.name.replace(/(\.[^.]*)?$/, "-failed$1");
  const texts = [...lines].sort(byLine).map(({ text }) => text);
  if (format === "json") {
    download(name, "application/json", ["[\n", texts.map((text) => text.trim()).join(",\n"), "\n]\n"]);
  } else if (format === "csv") {
    download(name, CSV, [headerText, ...texts].map((text) => `${text}\r\n`));
  } else {
    download(name, JSON_LINES, texts.map((text) => `${text}\n`));
  }
}

/**
 * Downloads the report for use in a spreadsheet. A leading apostrophe prevents the spreadsheet from running a string as
 * a formula.
 * @param {string[][]} records
 */
function saveReport(records) {
  const write = (/** @type {string} */ text) => writeField(text.replace(/^[=+\-@\t\r]/, "'$&"));
  download("import-report.csv", CSV, [HEADS, ...records].map((record) => `${record.map(write).join(",")}\r\n`));
}
