// What an import could not write: a table of the lines with the reasons, and files to correct and to import again.
//
// Must not know the service.

import { openDialog } from "../ui/dialog.js";
import { h } from "../ui/dom.js";
import { writeField } from "./formats.js";
import { CSV, JSON_LINES, download } from "./download.js";
import { shortened } from "./preview.js";

/** @typedef {import("./import.js").ImportResult} ImportResult */

const SHOWN = 100;

/**
 * @param {ImportResult[]} results
 * @param {string} stop why the import ended early; empty if it did not
 */
export function showReport(results, stop) {
  const failed = results.filter(({ outcome }) => outcome.failures.length > 0);
  const body = h(
    "div",
    { class: "moving" },
    stop ? h("p", { class: "problem", role: "alert" }, stop) : null,
    h(
      "ul",
      null,
      results.map((result) => h("li", null, resultText(result))),
    ),
    failed.length > 0 ? failures(failed) : null,
    failed.length > 0 ? downloads(failed) : null,
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
export function resultText({ import: { source, table }, outcome }) {
  const { written, unchanged, failures } = outcome;
  const rest = [
    unchanged ? `${unchanged.toLocaleString("en")} were already there` : "",
    failures.length ? `${failures.length.toLocaleString("en")} failed` : "",
  ];
  const words = [`${entities(written)} of ${source.file.name} were written to ${table}`, ...rest].filter(Boolean);
  return `${words.join(", ")}.`;
}

/** @param {ImportResult[]} results */
function failures(results) {
  const all = results.flatMap((result) =>
    result.outcome.failures.map((failure) => ({ ...failure, file: result.import.source.file.name })),
  );
  const rows = all.slice(0, SHOWN).map(({ file, line, partitionKey, rowKey, code, message }) =>
    h(
      "tr",
      null,
      [file, String(line), partitionKey, rowKey, code, message].map((text, at) => h("td", null, at < 4 ? shortened(text) : text)),
    ),
  );
  const heads = ["File", "Line", "PartitionKey", "RowKey", "Code", "Reason"].map((name) => h("th", { scope: "col" }, name));
  const rest =
    all.length > SHOWN
      ? h("p", null, `These are the first ${SHOWN} of ${all.length.toLocaleString("en")}; the report has all.`)
      : null;
  const table = h("table", null, h("thead", null, h("tr", null, heads)), h("tbody", null, rows));
  return h(
    "div",
    null,
    h("div", { class: "preview", tabindex: "0", role: "region", "aria-label": "Lines that failed" }, table),
    rest,
  );
}

/** @param {ImportResult[]} results */
function downloads(results) {
  const lines = results.map((result) => {
    const { file } = result.import.source;
    const name = file.name.replace(/(\.[^.]*)?$/, "-failed$1");
    return h("button", { type: "button", onclick: () => saveLines(result, name) }, `Download the failed lines of ${file.name}`);
  });
  return h(
    "p",
    { class: "downloads" },
    lines,
    h("button", { type: "button", onclick: () => saveReport(results) }, "Download the report as CSV"),
  );
}

/**
 * Saves the lines as they stand in the file, so that they can be corrected and imported.
 * @param {ImportResult} result
 * @param {string} name
 */
function saveLines({ import: { source }, outcome }, name) {
  const texts = outcome.failures.map(({ text }) => text);
  if (source.format === "csv") {
    download(
      name,
      CSV,
      [source.headerText, ...texts].map((text) => `${text}\r\n`),
    );
  } else if (source.format === "json") {
    download(name, "application/json", ["[\n", texts.map((text) => text.trim()).join(",\n"), "\n]\n"]);
  } else {
    download(
      name,
      JSON_LINES,
      texts.map((text) => `${text}\n`),
    );
  }
}

/** @param {ImportResult[]} results */
function saveReport(results) {
  const records = [["File", "Line", "PartitionKey", "RowKey", "Code", "Reason"]];
  for (const {
    import: { source },
    outcome,
  } of results) {
    for (const { line, partitionKey, rowKey, code, message } of outcome.failures) {
      records.push([source.file.name, String(line), partitionKey, rowKey, code, message]);
    }
  }
  download(
    "import-report.csv",
    CSV,
    records.map((record) => `${record.map(writeField).join(",")}\r\n`),
  );
}
