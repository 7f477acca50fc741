// What an import could not write: a table of the lines with the reasons, and files to correct and to import again.
//
// Must not know the service.

import { openDialog } from "../ui/dialog.js";
import { h } from "../ui/dom.js";
import { writeField } from "./formats.js";
import { CSV, JSON_LINES, download } from "./download.js";
import { scrolled, shortened } from "./preview.js";

/** @import { Import, ImportResult } from "./import.js" */
/** @import { EntitySource } from "./source.js" */
/** @import { Failure, Outcome } from "./writer.js" */
/** A file and its lines that were not written. @typedef {{source: EntitySource, lines: Failure[]}} Failed */

const SHOWN = 100;
const HEADS = ["File", "Line", "PartitionKey", "RowKey", "Code", "Reason"];

/**
 * @param {ImportResult[]} results
 * @param {string} stop why the import ended early; empty if it did not
 * @param {Import[]} rest the files that were not begun
 */
export function showReport(results, stop, rest) {
  const failed = results
    .map(({ import: { source }, outcome }) => ({ source, lines: notWritten(outcome) }))
    .filter(({ lines }) => lines.length > 0);
  const records = failed.flatMap(({ source, lines }) =>
    lines.map(({ line, partitionKey, rowKey, code, message }) =>
      [source.file.name, String(line), partitionKey, rowKey, code, message]),
  );
  const body = h(
    "div",
    { class: "moving" },
    stop ? h("p", { class: "problem", role: "alert" }, stop) : null,
    h(
      "ul",
      null,
      results.map((result) => h("li", null, resultText(result))),
      rest.map(({ source }) => h("li", null, `Nothing of ${source.file.name} was tried.`)),
    ),
    failed.length > 0 ? [table(records), downloads(failed, records)] : null,
  );
  return openDialog({
    title: stop ? "The import is incomplete" : "Some lines failed",
    body,
    wide: true,
    actions: [],
    cancel: "Close",
  }).closed;
}

/**
 * A number of entities.
 * @param {number} count
 */
export function entities(count) {
  return count === 1 ? "1 entity" : `${count.toLocaleString("en")} entities`;
}

/**
 * What became of a file.
 * @param {ImportResult} result
 */
export function resultText({ import: { source, table }, outcome, isRead }) {
  const { written, unchanged, failures, waiting, last } = outcome;
  const counts = /** @type {const} */ ([
    [unchanged, "were already there"],
    [failures.length, "failed"],
    [waiting.size, "were read and not written"],
  ]);
  const rest = counts.map(([count, what]) => (count > 0 ? `, ${count.toLocaleString("en")} ${what}` : ""));
  // The next entity of an array may begin where the last one ends.
  const ends = source.format === "json" ? 1 : 0;
  const next = last ? last.line + last.text.trim().split("\n").length - ends : 1;
  const unread = isRead ? "" : ` Nothing from line ${next.toLocaleString("en")} on was tried.`;
  return `${entities(written)} of ${source.file.name} were written to ${table}${rest.join("")}.${unread}`;
}

/**
 * The lines that failed, and then those that an import did not come to.
 * @param {Outcome} outcome
 * @returns {Failure[]}
 */
function notWritten({ failures, waiting }) {
  const message = "The import ended before this was written.";
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
function table(records) {
  const lines = records.slice(0, SHOWN).map((record) =>
    h("tr", null, record.map((text, at) => h("td", null, at < 4 ? shortened(text) : text))));
  const heads = HEADS.map((name) => h("th", { scope: "col" }, name));
  const all = records.length.toLocaleString("en");
  return h(
    "div",
    null,
    scrolled("Lines that failed", h("table", null, h("thead", null, h("tr", null, heads)), h("tbody", null, lines))),
    records.length > SHOWN ? h("p", null, `These are the first ${SHOWN} of ${all}; the report has all.`) : null,
  );
}

/**
 * @param {Failed[]} failed
 * @param {string[][]} records
 */
function downloads(failed, records) {
  const button = (/** @type {string} */ label, /** @type {() => void} */ onclick) =>
    h("button", { type: "button", onclick }, label);
  return h(
    "p",
    { class: "downloads" },
    failed.map((one) => button(`Download the failed lines of ${one.source.file.name}`, () => saveLines(one))),
    button("Download the report as CSV", () => saveReport(records)),
  );
}

/**
 * Saves the lines as they stand in the file, so that they can be corrected and imported.
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
 * Saves what went wrong, to be read in a spreadsheet: a quote in front keeps it from running a text as a formula.
 * @param {string[][]} records
 */
function saveReport(records) {
  const write = (/** @type {string} */ text) => writeField(text.replace(/^[=+\-@\t\r]/, "'$&"));
  download("import-report.csv", CSV, [HEADS, ...records].map((record) => `${record.map(write).join(",")}\r\n`));
}
