// Export and import: the explorer writes the same files as the program, each reads the other's files, and errors are
// reported.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { assertAccessible } from "../support/accessibility.js";
import { openExplorer } from "../support/browser.js";
import { startServer } from "../support/server.js";

const MANY = 100_000;
const SOME = 30_000;
// Long enough for a busy machine.
const IMPORT_MS = 600_000;
const HOSTILE = `a,"b"\r\n'=1+1' 😀é\u202Eתו <img src=x onerror=alert(1)> \\`;
const TYPED =
  '"Big@odata.type":"Edm.Int64","Big":"9007199254740993","Bytes@odata.type":"Edm.Binary","Bytes":"AP8=","Id@odata.type":"Edm.Guid",' +
  '"Id":"a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5","Less@odata.type":"Edm.Double","Less":"-Infinity","Not@odata.type":"Edm.Double",' +
  '"Not":"NaN","Small":-5,"When@odata.type":"Edm.DateTime","When":"2031-04-01T06:30:00.1234567Z","Whole@odata.type":"Edm.Double",' +
  '"Whole":5.0,"Huge@odata.type":"Edm.Double","Huge":1E+300,"Yes":true';

let server, folder;
before(async () => {
  server = await startServer();
  folder = await mkdtemp(join(tmpdir(), "moving-"));
});
after(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

// Runs the program itself, even if ROWHOUSE_BINARY is a wrapper around it.
async function rowhouse(...options) {
  const program = process.env.ROWHOUSE_REAL ?? process.env.ROWHOUSE_BINARY;
  const env = { ...process.env, ROWHOUSE_FROM_KEY: server.key, ROWHOUSE_TO_KEY: server.key };
  await promisify(execFile)(program, options, { env, cwd: folder });
}

async function programExports(table, name, ...options) {
  const path = join(folder, name);
  await rowhouse("export", "--from", server.endpoint, "--table", table, "--to", path, "--overwrite", ...options);
  return readFile(path, "utf8");
}

async function programImports(table, name, content) {
  const path = join(folder, name);
  await writeFile(path, content);
  await rowhouse("import", "--from", path, "--to", server.endpoint, "--table", table);
}

function line(partitionKey, rowKey, members = "") {
  return `{"PartitionKey":${JSON.stringify(partitionKey)},"RowKey":${JSON.stringify(rowKey)}${members && `,${members}`}}\n`;
}

function everyType() {
  const hostile = `"Text":${JSON.stringify(HOSTILE)}`;
  const names = '"Größe":1,"_x":" both ends "';
  return (
    line("a", "1", TYPED) + line("a", "2", hostile) + line("é'\"%", "", names) + line("p", "😀", '"Empty":""') + line("p", "none")
  );
}

async function exportFile(page, labels) {
  await page.getByRole("button", { name: "Export", exact: true }).click();
  const dialog = page.getByRole("dialog");
  for (const label of labels) {
    await dialog.getByLabel(label).check();
  }
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    dialog.getByRole("button", { name: "Export", exact: true }).click(),
  ]);
  return { name: download.suggestedFilename(), text: await readFile(await download.path(), "utf8") };
}

async function saved(page, button) {
  const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
  return { name: download.suggestedFilename(), text: await readFile(await download.path(), "utf8") };
}

async function chooseFiles(page, files) {
  const [chooser] = await Promise.all([
    page.waitForEvent("filechooser"),
    page.getByRole("button", { name: "Import", exact: true }).click(),
  ]);
  await chooser.setFiles(files.map(([name, text]) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) })));
  return page.getByRole("dialog");
}

const importButton = (dialog) => dialog.getByRole("button", { name: "Import", exact: true });

function numbered(count) {
  return Array.from({ length: count }, (_, at) =>
    line(`p${String(at % 400).padStart(3, "0")}`, String(at).padStart(6, "0"), `"Number":${at}`),
  );
}

async function countOf(table) {
  let count = 0;
  for await (const page of server
    .table(table)
    .listEntities({ queryOptions: { select: ["RowKey"] } })
    .byPage()) {
    count += page.length;
  }
  return count;
}

test("exported files are identical to those that the program writes", async (t) => {
  await programImports("Types", "types.jsonl", everyType());
  const page = await openExplorer(t, server, { hash: "#/t/Types" });
  await page
    .getByText(/5 entities/)
    .first()
    .waitFor();
  await page.getByRole("button", { name: "Export", exact: true }).click();
  await assertAccessible(page, "the export dialog");
  await page.keyboard.press("Escape");
  for (const [labels, name, options] of [
    [["JSON Lines"], "Types.jsonl", []],
    [["JSON Lines", /loaded entities/, /Include Timestamp/], "Types.jsonl", ["--with-timestamps"]],
    [["CSV"], "Types.csv", []],
    [["CSV", /loaded entities/, /Include Timestamp/], "Types.csv", ["--with-timestamps"]],
  ]) {
    const file = await exportFile(page, labels);
    assert.equal(file.name, name);
    assert.equal(file.text, await programExports("Types", name, ...options), labels.join());
    const copy = `Copy${labels.length}${file.name.slice(-3)}`;
    await programImports(copy, file.name, file.text);
    assert.equal(await programExports(copy, "copy.jsonl"), await programExports("Types", "original.jsonl"));
  }
});

test("the explorer imports files that the program exported, also by drag and drop", async (t) => {
  await programImports("Origin", "origin.jsonl", everyType());
  await server.createTable("Target");
  const page = await openExplorer(t, server, { hash: "#/t/Target" });
  const original = await programExports("Origin", "origin.jsonl");
  for (const [name, table] of [
    ["origin.jsonl", "FromLines"],
    ["origin.csv", "FromCsv"],
  ]) {
    const dialog = await chooseFiles(page, [[name, await programExports("Origin", name)]]);
    await dialog.getByLabel("Target table").fill(table);
    await dialog.getByText(`The table ${table} will be created if it does not exist.`).waitFor();
    await assertAccessible(page, `the preview of ${name}`);
    await importButton(dialog).click();
    await page.getByText(`5 entities from ${name} written to ${table}.`).waitFor();
    assert.equal(await programExports(table, "copy.jsonl"), original, name);
  }

  const transfer = await page.evaluateHandle(
    (text) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], "dropped.json"));
      return transfer;
    },
    `[${everyType().trim().replaceAll("\n", ",\n")}]`,
  );
  await page.getByRole("heading", { name: "Target" }).dispatchEvent("drop", { dataTransfer: transfer });
  await importButton(page.getByRole("dialog")).click();
  await page.getByText("5 entities from dropped.json written to Target.").waitFor();
  assert.equal(await programExports("Target", "copy.jsonl"), original);
});

test("files dropped on the list of tables are imported into tables named after them", async (t) => {
  const page = await openExplorer(t, server);
  const heading = page.getByRole("heading", { name: "Tables" });
  await heading.waitFor();
  const transfer = await page.evaluateHandle((text) => {
    const transfer = new DataTransfer();
    ["Dropped.jsonl", "Also dropped (2).jsonl"].forEach((name) => transfer.items.add(new File([text], name)));
    return transfer;
  }, everyType());
  await heading.dispatchEvent("dragover", { dataTransfer: transfer });
  await page.locator(".file-target").waitFor();
  await heading.dispatchEvent("drop", { dataTransfer: transfer });
  await importButton(page.getByRole("dialog", { name: "Import 2 files" })).click();
  await page.getByRole("link", { name: "Dropped", exact: true }).waitFor();
  await page.getByRole("link", { name: "Alsodropped2", exact: true }).waitFor();
  assert.equal(await page.locator(".file-target").count(), 0);
  assert.equal(await programExports("Alsodropped2", "copy.jsonl"), await programExports("Dropped", "original.jsonl"));
});

test("the result of a query is exported, with properties in the displayed order", async (t) => {
  const numbers = Array.from({ length: 2500 }, (_, at) => line("p", String(at).padStart(4, "0"), `"A":${at},"B":"x","C":true`));
  await programImports("Found", "found.jsonl", numbers.join(""));
  const page = await openExplorer(t, server, { hash: `#/t/Found?filter=${encodeURIComponent("A ge 100")}&select=C,A` });
  await page
    .getByText(/entities/)
    .first()
    .waitFor();
  const { text } = await exportFile(page, ["JSON Lines"]);
  assert.equal(text.split("\n").length - 1, 2400);
  assert.equal(text.split("\n")[0], line("p", "0100", '"A":100,"C":true').trim());
  const csv = await exportFile(page, ["CSV", /^Displayed properties/]);
  const [header, first] = csv.text.split("\r\n");
  const [, , one, , two] = header.split(",");
  assert.deepEqual([one, two].sort(), ["A", "C"]);
  assert.equal(first, `p,0100,${one === "A" ? "100,Edm.Int32,true,Edm.Boolean" : "true,Edm.Boolean,100,Edm.Int32"}`);

  await page.goto(`${server.origin}/_rowhouse/#/t/Found?top=1500`);
  await page
    .getByText(/entities/)
    .first()
    .waitFor();
  assert.equal((await exportFile(page, ["JSON Lines"])).text, numbers.slice(0, 1500).join(""));
});

test("types can be chosen for CSV from other tools, and invalid lines are reported", async (t) => {
  const table = await server.createTable("Csv", [{ partitionKey: "p", rowKey: "3", Age: 7 }]);
  const csv =
    "PartitionKey,RowKey,Age,Born,<img src=x onerror=alert(1)>\r\np,1,5,2001-01-01T00:00:00Z,x\r\np,2,6\r\np,3,8,2001-01-01T00:00:00Z,\r\n" +
    "p/,4,8,2001-01-01T00:00:00Z,\r\np,5,six,2001-01-01T00:00:00Z,\r\n";
  const text = csv.replaceAll(",<img src=x onerror=alert(1)>", "").replaceAll(/(Z),x?/g, "$1");
  const page = await openExplorer(t, server, { hash: "#/t/Csv", statuses: [400, 409] });
  const dialog = await chooseFiles(page, [
    ["hostile.csv", csv],
    ["people.csv", text],
  ]);
  await dialog.getByLabel("File (2)").selectOption("people.csv");
  const shown = dialog.getByRole("region", { name: "people.csv" });
  await shown.getByText("1 of these lines cannot be imported.").waitFor();
  const bad = shown.getByRole("row").filter({ has: page.getByRole("rowheader", { name: "3", exact: true }) });
  assert.match(await bad.textContent(), /the record has 3 fields, but the header has 4/);
  await shown.getByLabel("Type of Age").selectOption("Int32");
  await shown.getByText("2 of these lines cannot be imported.").waitFor();
  await page.waitForFunction(() =>
    [...document.querySelectorAll("select")].some(
      (select) => select.ariaLabel === "Type of Born" && select.value === "Edm.DateTime",
    ),
  );
  await shown.getByLabel("Type of Age").selectOption("Int32");
  await dialog.getByLabel("File (2)").selectOption("hostile.csv");
  const hostile = dialog.getByRole("region", { name: "hostile.csv" });
  await hostile.getByText("<img src=x onerror=alert(1)>").waitFor();
  await hostile.getByRole("button", { name: "Import all as strings" }).click();
  await hostile.getByLabel("Type of Born").and(page.locator("select:has(option:checked[value='Edm.String'])")).waitFor();
  await importButton(dialog).click();

  const report = page.getByRole("dialog", { name: "Some lines failed" });
  await report
    .getByText("1 entity from people.csv written to Csv, 4 failed.")
    .or(report.getByText(/from people.csv/))
    .first()
    .waitFor();
  await assertAccessible(page, "the report");
  const rows = await report.getByRole("row").allTextContents();
  assert.ok(
    rows.some((row) => row.includes("people.csv3") && row.includes("the record has 3 fields")),
    rows.join("\n"),
  );
  assert.ok(
    rows.some((row) => row.includes("people.csv4") && row.includes("EntityAlreadyExists")),
    rows.join("\n"),
  );
  assert.ok(
    rows.some((row) => row.includes("people.csv6") && row.includes("the value of 'Age' is not Edm.Int32")),
    rows.join("\n"),
  );
  const failed = await saved(page, report.getByRole("button", { name: "Download the failed lines of people.csv" }));
  assert.equal(failed.name, "people-failed.csv");
  const lines = text.split("\r\n");
  assert.deepEqual(failed.text.split("\r\n"), [lines[0], lines[2], lines[3], lines[4], lines[5], ""]);
  const details = await saved(page, report.getByRole("button", { name: "Download the report as CSV" }));
  assert.match(details.text, /^File,Line,PartitionKey,RowKey,Code,Reason\r\n/);
  assert.match(details.text, /\r\npeople\.csv,4,p,3,EntityAlreadyExists,/);
  const one = await table.getEntity("p", "1");
  assert.deepEqual([one.Age, one.Born], [5, new Date("2001-01-01T00:00:00Z")]);
  assert.equal((await table.getEntity("p", "3")).Age, 7);
});

test("an import that ends early reports the lines that were not written", async (t) => {
  await server.createTable("Early");
  const page = await openExplorer(t, server, { hash: "#/t/Early", statuses: [500] });
  const error = { "odata.error": { code: "InternalError", message: { lang: "en", value: "No." } } };
  await page.route(/batch|Early$/, (route) =>
    route.request().method() === "POST"
      ? route.fulfill({ status: 500, contentType: "application/json", body: JSON.stringify(error) })
      : route.continue(),
  );
  // More than one window of entities, so that the end of the file is not read.
  const lines = numbered(SOME);
  const dialog = await chooseFiles(page, [
    ["many.jsonl", lines.join("")],
    ["other.jsonl", lines[0]],
  ]);
  await dialog.getByLabel("File (2)").selectOption("other.jsonl");
  await importButton(dialog).click();
  const report = page.getByRole("dialog", { name: "The import is incomplete" });
  await report
    .getByText(
      "0 entities from many.jsonl written to Early, 20,000 read but not written. The import did not reach line 20,001.",
    )
    .waitFor();
  await report.getByText("The import of other.jsonl was not started.").waitFor();
  const first = report.getByRole("row").nth(1);
  assert.equal(await first.textContent(), "many.jsonl1p000000000The import ended before this entity was written.");
  const failed = await saved(page, report.getByRole("button", { name: "Download the failed lines of many.jsonl" }));
  assert.equal(failed.text, lines.slice(0, 20_000).join(""));
});

test("a spreadsheet runs no formula from the report of an import", async (t) => {
  await server.createTable("Formulas");
  const page = await openExplorer(t, server, { hash: "#/t/Formulas", statuses: [400] });
  const keys = ["=1+1", "+1", "-1", "@SUM(A1)", "x=1"];
  const lines = keys.map((key) => line(`${key}/`, key));
  await importButton(await chooseFiles(page, [["=cmd.jsonl", lines.join("")]])).click();
  const report = page.getByRole("dialog", { name: "Some lines failed" });
  const { text } = await saved(page, report.getByRole("button", { name: "Download the report as CSV" }));
  const cells = text.trim().split("\r\n").slice(1).map((row) => row.split(",").slice(0, 4));
  assert.deepEqual(
    cells,
    keys.map((key, at) => ["'=cmd.jsonl", `${at + 1}`, ...[`${key}/`, key].map((cell) => (at < 4 ? `'${cell}` : cell))]),
  );
  const failed = await saved(page, report.getByRole("button", { name: "Download the failed lines of =cmd.jsonl" }));
  assert.equal(failed.text, lines.join(""));
});

test("a preview is not shown if a newer preview has finished first", async (t) => {
  await server.createTable("Preview");
  const page = await openExplorer(t, server, { hash: "#/t/Preview" });
  // Reading the first file is delayed.
  await page.evaluate(() => {
    const { stream } = File.prototype;
    File.prototype.stream = function () {
      File.prototype.stream = stream;
      const { promise, resolve } = Promise.withResolvers();
      window.endFirst = resolve;
      const bytes = new TextEncoder().encode("PartitionKey,RowKey,Old\np,1,x\n");
      const pull = async (controller) => {
        await promise;
        controller.enqueue(bytes);
        controller.close();
      };
      return new ReadableStream({ pull });
    };
  });
  const dialog = await chooseFiles(page, [["preview.csv", line("p", "1", '"New":1')]]);
  await dialog.getByLabel("Format").selectOption("csv");
  await dialog.getByLabel("Format").selectOption("jsonl");
  const head = dialog.getByRole("columnheader", { name: "New" });
  await head.waitFor();
  await page.evaluate(async () => {
    window.endFirst();
    // The first preview finishes before this task runs.
    await new Promise((resolve) => setTimeout(resolve));
  });
  assert.equal(await head.count(), 1);
  assert.equal(await dialog.getByRole("columnheader", { name: "Old" }).count(), 0);
});

test("an existing entity is replaced or merged as chosen, and an equal entity is kept", async (t) => {
  const table = await server.createTable("Modes", [{ partitionKey: "p", rowKey: "1", Old: "x", Age: 5 }]);
  const page = await openExplorer(t, server, { hash: "#/t/Modes", statuses: [409] });
  const send = async (label, text) => {
    const dialog = await chooseFiles(page, [["modes.jsonl", text]]);
    await dialog.getByLabel(label).check();
    await importButton(dialog).click();
  };
  await send(/^Keep it/, line("p", "1", '"Old":"x","Age":5'));
  await page.getByText("0 entities from modes.jsonl written to Modes, 1 already existed.").waitFor();
  await send(/^Merge/, line("p", "1", '"Age":6') + line("p", "1", '"Age":7'));
  await page.getByText("2 entities from modes.jsonl written to Modes.").waitFor();
  const merged = await table.getEntity("p", "1");
  assert.deepEqual([merged.Old, merged.Age], ["x", 7]);
  await send(/^Replace it/, line("p", "1", '"Age":8'));
  await page.getByText("1 entity from modes.jsonl written to Modes.").waitFor();
  const replaced = await table.getEntity("p", "1");
  assert.deepEqual([replaced.Old, replaced.Age], [undefined, 8]);
});

test("100,000 entities are imported and exported again", async (t) => {
  const lines = numbered(MANY);
  const page = await openExplorer(t, server, { hash: "#/" });
  await server.createTable("Many");
  await page.goto(`${server.origin}/_rowhouse/#/t/Many`);
  const dialog = await chooseFiles(page, [["many.jsonl", lines.join("")]]);
  const began = performance.now();
  await importButton(dialog).click();
  await page.getByText("100,000 entities from many.jsonl written to Many.").waitFor({ timeout: IMPORT_MS });
  t.diagnostic(`imported ${Math.round(MANY / ((performance.now() - began) / 1000))} entities a second`);
  await page.reload();
  await page
    .getByText(/entities/)
    .first()
    .waitFor();
  await page.getByRole("button", { name: "Export", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Export", exact: true }).click();
  await page.getByRole("dialog", { name: "Exporting Many" }).getByRole("button", { name: "Stop" }).click();
  await page.getByText("The export was stopped. No file was written.").waitFor();
  const { text } = await exportFile(page, ["JSON Lines"]);
  assert.equal(text, lines.sort().join(""));
});

test("an import can be stopped, and continues when the server is reachable again", async (t) => {
  await server.createTable("Stopped");
  await server.createTable("Resumed");
  const page = await openExplorer(t, server, { hash: "#/t/Stopped", unreachable: true, statuses: [409] });
  const text = numbered(SOME).join("");
  const start = async () => {
    await importButton(await chooseFiles(page, [["many.jsonl", text]])).click();
    const dialog = page.getByRole("dialog", { name: /^Importing/ });
    await dialog.getByText(/[1-9][\d,]* entities written/).waitFor();
    return dialog;
  };
  await (await start()).getByRole("button", { name: "Stop" }).click();
  const report = page.getByRole("dialog", { name: "The import is incomplete" });
  await report.getByText("The import was stopped. Entities that were already written are kept.").waitFor();
  const written = Number(/([\d,]+) entities from many/.exec(await report.textContent())[1].replaceAll(",", ""));
  assert.ok(written > 0 && written < SOME, `${written}`);
  await report.getByRole("button", { name: "Close" }).click();

  await page.goto(`${server.origin}/_rowhouse/#/t/Resumed`);
  await page.getByRole("heading", { name: "Resumed" }).waitFor();
  await start();
  await page.context().setOffline(true);
  await page.getByText("The server cannot be reached.").first().waitFor();
  await page.context().setOffline(false);
  await page.getByText(/ from many.jsonl written to Resumed/).waitFor({ timeout: IMPORT_MS });
  assert.equal(await countOf("Resumed"), SOME);
});

test("a signature without Update cannot replace entities, and an expired signature stops the import", async (t) => {
  const other = await startServer({ ownAccount: true });
  t.after(() => other.stop());
  await other.createTable("Cars");
  const page = await openExplorer(t, other, { statuses: [403] });
  const secret = other.tableSas("Cars", ["query", "add"]);
  const signIn = { kind: "sas", account: other.account, secret };
  await page.evaluate((signIn) => sessionStorage.setItem("rowhouse-sign-in", JSON.stringify(signIn)), signIn);
  await page.goto(`${other.origin}/_rowhouse/#/t/Cars`);
  await page.reload();
  const dialog = await chooseFiles(page, [["cars.jsonl", line("p", "1") + line("p", "2")]]);
  const choices = dialog.getByRole("group", { name: "If an entity already exists" }).getByRole("radio");
  await choices.first().waitFor();
  assert.equal(await choices.count(), 1);
  await page.evaluate(() => {
    const { credential } = document.querySelector("rowhouse-explorer").session.service;
    credential.token = credential.token.replace(/se=[^&]*/, "se=2001-01-01T00%3A00%3A00Z");
  });
  await importButton(dialog).click();
  const report = page.getByRole("dialog", { name: "The import is incomplete" });
  await report.getByText(/The import of cars\.jsonl failed\. .*AuthenticationFailed/).waitFor();
});

test("files without entities and invalid table names are reported", async (t) => {
  await server.createTable("Nothing");
  const page = await openExplorer(t, server, { hash: "#/t/Nothing" });
  const dialog = await chooseFiles(page, [
    ["a.csv", "Name,Age\nx,5\n"],
    ["b.jsonl", "\n"],
    ["export.json", '{"format":1}'],
  ]);
  await dialog.getByText("a.csv: line 1: there is no column 'PartitionKey': the first line must name the columns").waitFor();
  await dialog.getByLabel("File (2)").selectOption("b.jsonl");
  await dialog.getByText("The file contains no entities.").waitFor();
  await dialog.getByRole("region", { name: "b.jsonl" }).getByLabel("Target table").fill("1");
  await importButton(dialog).click();
  await dialog.getByText("A table name must consist of 3 to 63 letters and digits and start with a letter.").waitFor();
  assert.equal(await countOf("Nothing"), 0);
});
