// Imports files: asks for the target and how to handle existing entities, shows a preview, and writes the entities.
//
// source.js reads files, writer.js writes entities, and report.js shows errors. This module must not depend on the
// views that open it.

import { ServiceError, describe } from "../core/errors.js";
import { countText, numberText } from "../core/words.js";
import { openDialog } from "../ui/dialog.js";
import { div, dropDown, field, h, textInput } from "../ui/dom.js";
import { notify } from "../ui/notify.js";
import { progressDialog } from "../ui/progress.js";
import { choice } from "./export.js";
import { resultText, showPreview, showReport } from "./report.js";
import { EntitySource } from "./source.js";
import { EntityWriter } from "./writer.js";

/** @import { TableService } from "../core/client.js" */
/** @import { Progress } from "../ui/progress.js" */
/** @import { FileFormat } from "./source.js" */
/** @import { ImportKind, Outcome } from "./writer.js" */
/** A file and its target table. @typedef {{source: EntitySource, table: string}} Import */
/**
 * The result for a file. `isRead` is true once the whole file was read.
 * @typedef {{import: Import, outcome: Outcome, isRead: boolean}} ImportResult
 */

/** @type {[FileFormat, string][]} */
const FORMATS = [
  ["jsonl", "JSON Lines"],
  ["csv", "CSV"],
  ["json", "JSON array"],
];
const TABLE_NAME = /^[A-Za-z][A-Za-z0-9]{2,62}$/;

/**
 * Imports files. Returns the tables to which entities were written.
 * @param {{service: TableService}} session
 * @param {string | null} table the target; null for tables named after the files
 * @param {File[]} [files] if there are none, the user chooses files
 * @returns {Promise<string[]>}
 */
export async function openImport({ service }, table, files = []) {
  const kinds = kindsOf(service, table ?? undefined);
  if (kinds.length === 0) {
    notify("The credential does not allow adding entities.", { kind: "error" });
    return [];
  }
  // export.json is the manifest of an export, not a file with entities.
  const chosen = (files.length > 0 ? files : await pickFiles()).filter((file) => file.name !== "export.json");
  /** @type {Import[]} */
  const imports = [];
  for (const file of chosen) {
    try {
      const source = new EntitySource(file, await EntitySource.formatOf(file), new Map());
      imports.push({ source, table: table ?? tableOf(file.name) });
    } catch {
      // For example, a folder was dropped.
      notify(`${file.name} could not be read.`, { kind: "error" });
    }
  }
  if (imports.length === 0) {
    return [];
  }
  /** The tables known to exist, in lowercase. @type {Set<string>} */
  const tables = new Set(table === null ? [] : [table.toLowerCase()]);
  const kind = await ask(service, imports, kinds, tables);
  return kind === null ? [] : run(service, imports, kind, tables);
}

/** @returns {Promise<File[]>} */
function pickFiles() {
  const input = h("input", { type: "file", multiple: true, accept: ".jsonl,.ndjson,.csv,.json,.txt" });
  return new Promise((resolve) => {
    input.addEventListener("change", () => resolve([...(input.files ?? [])]));
    input.addEventListener("cancel", () => resolve([]));
    input.click();
  });
}

/**
 * Returns the ways to handle existing entities that the credential allows.
 * @param {TableService} service
 * @param {string | undefined} table
 * @returns {[ImportKind, string][]}
 */
function kindsOf(service, table) {
  if (!service.may("add", table)) {
    return [];
  }
  /** @type {[ImportKind, string][]} */
  const kinds = [["insert", "Keep it, and report the line if it differs"]];
  if (service.may("update", table)) {
    kinds.push(
      ["insertOrReplace", "Replace it"],
      ["insertOrMerge", "Merge: keep properties that are not in the line"]);
  }
  return kinds;
}

/**
 * Returns the table that a file is named after, or "".
 * @param {string} name
 */
function tableOf(name) {
  const table = name.replace(/\.[^.]*$/, "").replace(/[^A-Za-z0-9]/g, "");
  return TABLE_NAME.test(table) ? table : "";
}

/**
 * Shows a preview and asks how to handle existing entities. Returns null if the user cancels.
 * @param {TableService} service
 * @param {Import[]} imports
 * @param {[ImportKind, string][]} kinds
 * @param {Set<string>} tables existing tables are added to it
 * @returns {Promise<ImportKind | null>}
 */
async function ask(service, imports, kinds, tables) {
  const known = h("datalist", { id: "import-tables" });
  const existing = choice("If an entity already exists", kinds);
  const panels = imports.map((one) => panelOf(one, tables, service.may("create")));
  panels.forEach(({ element }, at) => (element.hidden = at > 0));
  const select = dropDown(imports.map(({ source }, at) => [String(at), source.file.name]));
  const show = () => panels.forEach(({ element }, at) => (element.hidden = at !== Number(select.value)));
  select.addEventListener("change", show);
  const body = div("moving",
    known,
    imports.length > 1 ? field(`File (${imports.length})`, select) : null,
    panels.map(({ element }) => element),
    existing.element);
  /** @type {ImportKind | null} */
  let kind = null;
  const choose = () => {
    const wrong = panels.findIndex(({ input }) => !TABLE_NAME.test(input.value));
    if (wrong >= 0) {
      select.value = String(wrong);
      show();
      panels[wrong]?.input.focus();
      throw new Error("A table name must consist of 3 to 63 letters and digits and start with a letter.");
    }
    kind = /** @type {ImportKind} */ (existing.value());
  };
  const title = imports.length === 1 ? `Import ${imports[0]?.source.file.name}` : `Import ${imports.length} files`;
  const dialog = openDialog({ title, body, wide: true, actions: [{ label: "Import", kind: "primary", run: choose }] });
  void knownTables(service).then((names) => {
    names.forEach((name) => tables.add(name.toLowerCase()));
    known.append(...names.map((name) => h("option", { value: name })));
    panels.forEach(({ update }) => update());
  });
  await dialog.closed;
  return kind;
}

/**
 * Creates the part of the dialog that belongs to a file.
 * @param {Import} one
 * @param {Set<string>} tables
 * @param {boolean} mayCreate
 */
function panelOf(one, tables, mayCreate) {
  const { source } = one;
  const input = textInput({ value: one.table, list: "import-tables" });
  const note = h("p", { class: "hint", role: "status" });
  const preview = div(null);
  const update = () => {
    one.table = input.value;
    const isNew = mayCreate && TABLE_NAME.test(one.table) && !tables.has(one.table.toLowerCase());
    note.textContent = isNew ? `The table ${one.table} will be created if it does not exist.` : "";
  };
  input.addEventListener("input", update);
  const format = dropDown(FORMATS, { value: source.format });
  format.addEventListener("change", () => {
    source.useFormat(/** @type {FileFormat} */ (format.value));
    void showPreview(preview, source);
  });
  void showPreview(preview, source);
  const fields = div("pair", field("Target table", input), field("Format", format));
  return { element: h("section", { "aria-label": source.file.name }, fields, note, preview), input, update };
}

/**
 * Returns the tables to choose from; none if the credential does not allow listing them.
 * @param {TableService} service
 * @returns {Promise<string[]>}
 */
async function knownTables(service) {
  try {
    return service.may("list") ? (await service.listTables()).tables : [];
  } catch {
    return [];
  }
}

/**
 * @param {TableService} service
 * @param {Import[]} imports
 * @param {ImportKind} kind
 * @param {Set<string>} tables
 */
async function run(service, imports, kind, tables) {
  const total = imports.reduce((sum, { source }) => sum + source.file.size, 0);
  const began = performance.now();
  /** @type {ImportResult[]} */
  const results = [];
  const kept = "Entities that were already written are kept.";
  let stop = `The import was stopped. ${kept}`;
  const work = async (/** @type {Progress} */ { report, signal }) => {
    for (const one of imports) {
      const onProgress = () =>
        report(
          imports.reduce((sum, { source }) => sum + source.bytesRead, 0),
          total,
          progressText(results, began));
      const writer = new EntityWriter(service, one.table, kind, { signal, onProgress });
      const result = { import: one, outcome: writer.outcome, isRead: false };
      results.push(result);
      await createIfMissing(service, one.table, tables);
      await one.source.guessTypes();
      for await (const records of one.source.read()) {
        await writer.add(records);
        signal.throwIfAborted();
      }
      result.isRead = true;
      await writer.flush();
    }
    return true;
  };
  try {
    const isComplete = await progressDialog({
      title: `Importing ${imports.map(({ source }) => source.file.name).join(", ")}`,
      run: work,
    });
    stop = isComplete ? "" : stop;
  } catch (error) {
    stop = `The import of ${results.at(-1)?.import.source.file.name} failed. ${kept} ${describe(error)}`;
  }
  if (stop || results.some(({ outcome }) => outcome.failures.length > 0)) {
    void showReport(results, stop, imports.slice(results.length));
  } else {
    notify(results.map((result) => resultText(result)).join(" "), { kind: "success" });
  }
  return [...new Set(results.map((result) => result.import.table))];
}

/**
 * @param {ImportResult[]} results
 * @param {number} began
 */
function progressText(results, began) {
  const sum = (/** @type {(outcome: Outcome) => number} */ of) => results.reduce((total, { outcome }) => total + of(outcome), 0);
  const [written, unchanged, failed] = [sum((o) => o.written), sum((o) => o.unchanged), sum((o) => o.failures.length)];
  const rate = Math.round((written + unchanged + failed) / Math.max((performance.now() - began) / 1000, 0.1));
  const rest = [
    unchanged ? `${numberText(unchanged)} already existed` : "",
    failed ? `${numberText(failed)} failed` : "",
  ];
  return [`${countText(written)} written`, ...rest, `${numberText(rate)} per second`].filter(Boolean).join(", ");
}

/**
 * @param {TableService} service
 * @param {string} table
 * @param {Set<string>} tables
 */
async function createIfMissing(service, table, tables) {
  if (tables.has(table.toLowerCase()) || !service.may("create")) {
    return;
  }
  try {
    await service.createTable(table);
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "TableAlreadyExists") {
      throw error;
    }
  }
  tables.add(table.toLowerCase());
}
