// Checks the sources of the explorer: all of them are needed, and none requires another origin or a looser
// Content-Security-Policy. explorer/src/lib.rs tests the files built from them.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { posix, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const LINE_CHARACTERS_MAX = 130;
const FILE_LINES_MAX = 440;

const folder = fileURLToPath(new URL("../../web/", import.meta.url));
const names = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(folder, `${entry.parentPath ?? entry.path}/${entry.name}`));
const files = new Map(names.map((name) => [name, readFileSync(`${folder}${name}`)]));
const texts = new Map([...files].map(([name, bytes]) => [name, bytes.toString()]));
const ofType = (ending) => [...texts].filter(([name]) => name.endsWith(ending));

// The names are relative to the folder.
function importsOf(name) {
  const found = texts.get(name).matchAll(/^(?:import|export)\s[^"';]*?from\s*"([^"]+)"|^import\s*"([^"]+)"|\bimport\(\s*"([^"]+)"\s*\)(?!\.)/gm);
  return [...found].map((match) => posix.join(posix.dirname(name), match[1] ?? match[2] ?? match[3]));
}

// The bundle is built from main.js, and the server generates the settings.
function referencesOf(name) {
  const found = texts.get(name).matchAll(/\b(?:src|href)="([^"#:]+)"|url\("?([^")#:]+)"?\)/g);
  const sources = new Map([["explorer.js", ["main.js"]], ["settings.json", []]]);
  return [...found].flatMap((match) => {
    const path = posix.join(posix.dirname(name), match[1] ?? match[2]);
    return sources.get(path) ?? [path];
  });
}

test("every file is needed", () => {
  const reached = new Set();
  const visit = (name) => {
    if (reached.has(name)) {
      return;
    }
    assert.ok(texts.has(name), `${name} is referenced but does not exist`);
    reached.add(name);
    (name.endsWith(".js") ? importsOf(name) : referencesOf(name)).forEach(visit);
  };
  visit("index.html");
  assert.deepEqual([...files.keys()].filter((name) => !reached.has(name)), []);
});

test("there are no import cycles", () => {
  const done = new Set();
  const visit = (name, path) => {
    assert.ok(!path.includes(name), [...path, name].join(" → "));
    if (!done.has(name)) {
      importsOf(name).forEach((next) => visit(next, [...path, name]));
      done.add(name);
    }
  };
  ofType(".js").forEach(([name]) => visit(name, []));
});

test("each folder imports only from allowed folders", () => {
  const below = ["core", "ui"];
  const allowed = {
    core: ["core"],
    ui: ["ui"],
    query: [...below, "query"],
    moving: [...below, "query", "moving"],
    access: [...below, "query", "access"],
    entities: [...below, "query", "moving", "entities"],
    tables: [...below, "moving", "tables"],
  };
  for (const [name] of ofType(".js")) {
    const parts = allowed[posix.dirname(name)];
    for (const imported of parts ? importsOf(name) : []) {
      assert.ok(parts.includes(posix.dirname(imported)), `${name} imports ${imported}`);
    }
  }
});

test("no script or style is inline", () => {
  for (const [name, text] of ofType(".html")) {
    assert.doesNotMatch(text, /<style|\sstyle=|\son[a-z]+=|javascript:/i, name);
    assert.doesNotMatch(text, /<script(?![^>]*\ssrc=)/i, name);
  }
});

test("no text becomes markup or code", () => {
  for (const [name, text] of ofType(".js")) {
    const found = /\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|eval\(|new Function)/.exec(text);
    assert.equal(found, null, `${name}: ${found?.[0]}`);
  }
});

// XML names, and URLs that are displayed or written into programs, are not requests.
test("nothing is loaded from another origin", () => {
  for (const [name, text] of ofType(".html")) {
    assert.doesNotMatch(text, /(?:src|href)="(?:https?:)?\/\//, name);
  }
  for (const [name, text] of ofType(".css")) {
    assert.doesNotMatch(text, /url\(["']?(?:https?:)?\/\/|@import/, name);
  }
  for (const [name, text] of ofType(".js")) {
    assert.doesNotMatch(text, /(?:fetch|import|WebSocket|EventSource|Worker|sendBeacon)\(\s*["'`](?:https?:|wss?:)?\/\//, name);
  }
});

test("every file begins with a comment, and no line is too long", () => {
  for (const [name, text] of [...ofType(".js"), ...ofType(".css")]) {
    const lines = text.split("\n");
    assert.match(lines[0], /^(?:\/\/|\/\*) /, name);
    assert.ok(lines.length <= FILE_LINES_MAX, `${name} has ${lines.length} lines`);
    const long = lines.findIndex((line) => line.length > LINE_CHARACTERS_MAX);
    assert.equal(long, -1, `${name}:${long + 1} is too long`);
    assert.doesNotMatch(text, /[ \t]$/m, name);
  }
});
