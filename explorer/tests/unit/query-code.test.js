// Queries as programs: hostile strings as literals of each language, and programs that compile.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  csharpString, isVisible, javaString, javascriptString, pythonString, rustString, shellString, urlText,
  LANGUAGES,
  taskOf,
} from "../../web/query/programs.js";

const SERVICE = { endpoint: "http://127.0.0.1:10002/acme", account: "acme" };
const HOSTILE = [
  "", "plain", "it's", 'say "no"', "\\", "\\u0041 \\n", "ends with \\", "line\nbreak\r\ttab", "${x} $x `x` $(x) %s {0}", "\u0000\u0007\u001b[31m",
  "ü ß 日本 😀", "\u202eRTL\u2066", "\u200b\u00a0\u2028\u2029\ufeff", "a*/ // # --", "\u{e0041}", "'''\"\"\"", "!history", "-x", "@file",
];

test("Python and JavaScript literals evaluate to the original string", () => {
  for (const text of HOSTILE) {
    assert.equal(JSON.parse(javascriptString(text)), text);
    assert.equal(Function(`"use strict"; return ${javascriptString(text)}`)(), text);
  }
  const program = `import json\nprint(json.dumps([${HOSTILE.map(pythonString).join(", ")}]))`;
  assert.deepEqual(JSON.parse(execFileSync("python3", ["-c", program], { encoding: "utf8" })), HOSTILE);
});

test("literals of all languages contain no invisible characters and do not end early", () => {
  for (const write of [csharpString, javaString, rustString, javascriptString, pythonString]) {
    for (const text of HOSTILE) {
      const literal = write(text);
      assert.ok(isVisible(literal), literal);
      assert.match(literal, /^"(?:[^"\\]|\\.)*"$/u, literal);
    }
  }
  assert.equal(javaString("\n\u0000\u0085\u202e\u{e0041}"), '"\\n\\000\\205\\u202e\\udb40\\udc41"');
  assert.equal(csharpString("\u0000\u{e0041}"), '"\\u0000\\udb40\\udc41"');
  assert.equal(rustString("\u0000\u{e0041}\ud800"), '"\\u{0}\\u{e0041}\ufffd"');
});

test("shell arguments evaluate to the original string", () => {
  for (const text of HOSTILE.filter((text) => !text.includes("\0"))) {
    assert.equal(execFileSync("sh", ["-c", `printf %s ${shellString(text)}`], { encoding: "utf8" }), text);
  }
  assert.match(urlText("a'b(c)*!~/?#&%ü \ud800"), /^[\w%.-]+$/);
});

function argumentsOf(script, command) {
  const shim = `${command}() { for argument do printf '%s\\0' "$argument"; done; }\n`;
  return execFileSync("sh", ["-c", shim + script], { encoding: "utf8", env: { TABLE_SAS: "sv=1&sig=x%2By" } }).split("\0").slice(0, -1);
}

function write(id, table, query, sas = null) {
  return LANGUAGES.find((language) => language.id === id).write(taskOf(SERVICE, table, query, sas));
}

test("curl and the command line receive the table and the filter unchanged", () => {
  for (const text of HOSTILE.filter((text) => !text.includes("\0"))) {
    const query = { filter: `A eq '${text}'`, select: ["A", `B${text.replaceAll(",", "")}`], top: 5 };
    const options = argumentsOf(write("command-line", text, query), "rowhouse");
    assert.deepEqual(options.slice(0, 5), ["entity", "query", `--endpoint=${SERVICE.endpoint}`, `--filter=A eq '${text}'`,
      `--select=PartitionKey,RowKey,${query.select.join(",")}`.replace(/\n+$/, "")]);
    assert.deepEqual(options.slice(5), ["--top=5", "--", text]);
    const sent = argumentsOf(write("curl", text, query), "curl");
    assert.equal(sent[4], `${SERVICE.endpoint}/${urlText(text)}()?sv=1&sig=x%2By`);
    const filter = sent.find((argument) => /^(\$|%24)filter=/.test(argument));
    const isEncoded = filter.startsWith("%24");
    assert.equal(isEncoded ? decodeURIComponent(filter.slice(10)) : filter.slice(8), query.filter);
  }
});

test("a program contains a signature only if one was created", () => {
  const query = { filter: "", select: null, top: null };
  assert.match(write("curl", "cars", query), /^# TABLE_SAS holds/);
  assert.match(write("curl", "cars", query, "sv=1&sig=abc%3D"), /^TABLE_SAS='sv=1&sig=abc%3D'$/m);
  for (const { id } of LANGUAGES.filter(({ id }) => id !== "curl")) assert.doesNotMatch(write(id, "cars", query, "sig=abc"), /sig=abc/, id);
});

test("programs contain only the options of the query, and respect its limit", () => {
  for (const { id, write: writeProgram } of LANGUAGES) {
    const everything = writeProgram(taskOf(SERVICE, "cars", { filter: "  ", select: null, top: null }));
    assert.doesNotMatch(everything, /filter|select:|select=|maxPage|limit\(|take\(|islice|\$top|--top/i, id);
    const some = writeProgram(taskOf(SERVICE, "cars", { filter: "A eq 1", select: ["A"], top: 2500 }));
    assert.match(some, /A eq 1/, id);
    assert.match(some, /RowKey/, id);
    assert.match(some, id === "curl" ? /\$top=1000/ : /2500/, id);
  }
});

const CHECKS = [
  { id: "python", file: "query.py", command: ["python3", "-m", "py_compile"] },
  { id: "javascript", file: "query.mjs", command: [process.execPath, "--check"] },
  { id: "curl", file: "query.sh", command: ["sh", "-n"] },
  { id: "command-line", file: "query.sh", command: ["sh", "-n"] },
];

test("programs with hostile strings compile", () => {
  const folder = mkdtempSync(join(tmpdir(), "explorer-"));
  try {
    for (const { id, file, command: [program, ...options] } of CHECKS) {
      const path = join(folder, file);
      for (const text of HOSTILE) {
        writeFileSync(path, write(id, text, { filter: text, select: [text], top: 3 }));
        const { status, stderr } = spawnSync(program, [...options, path], { encoding: "utf8" });
        assert.equal(status, 0, `${id} ${JSON.stringify(text)}: ${stderr}`);
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
