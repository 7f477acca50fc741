// Data that tries to become something other than text, and checks for pages that show it.

import assert from "node:assert/strict";
import { startServer } from "./server.js";

export const TABLE = "harvest";
export const HASH = `#/t/${TABLE}`;

export async function serverWith(test, entities = []) {
  const server = await startServer();
  test.after(() => server.stop());
  await server.createTable(TABLE);
  for (const entity of entities) {
    await server.send(TABLE, entity);
  }
  return server;
}

export const MARKUP = '<img src=x onerror="alert(1)">';

// Property values. Each name describes what the value tries to do.
export const VALUES = {
  markup: MARKUP,
  script: "<script>alert(2)</script>",
  svg: '"><svg onload=alert(3)>',
  closing: "</textarea></td></dialog></script><iframe src=javascript:alert(4)>",
  address: "javascript:alert(5)",
  template: "${alert(6)}{{7*7}}<%= 7 %>",
  entities: "&lt;b&gt; &amp; &#60;i&#62;",
  direction: "\u202egnp.exe\u202c \u2066hidden\u2069 שלום مرحبا",
  invisible: "a\u200bb\ufeffc\u00add",
  control: "line\nnext\ttab\u0001\u001b[31mred\u007f",
  endings: "a\r\nb\rc\nd\u2028e",
  formula: "=HYPERLINK(\"http://example.net\",\"click\")",
  proto: "__proto__",
  emoji: "👩‍👩‍👧‍👦 e\u0301 𝕏",
  blank: "   ",
  empty: "",
  long: `${"x".repeat(32 * 1024 - MARKUP.length)}${MARKUP}`,
};

// Property names that the service accepts.
export const NAMES = ["__proto__", "constructor", "toString", "hasOwnProperty", "名前", "ünïcode", "odata", "value", "length"];

// Keys that the service accepts.
export const KEYS = [
  MARKUP,
  "",
  " ",
  "..",
  "%2F%00%zz",
  "it's ''quoted'' \"twice\"",
  "a&b=c+d;e,f$g@h!i(j)k[l]m{n}o|p^q`r~s*t",
  "😀\u202e\u200bשלום",
  "__proto__",
  "constructor",
  "k".repeat(512),
];

// Acts as a hostile server.
export function answer(page, path, content, status = 200) {
  return page.route(
    (url) => url.pathname.endsWith(path),
    (route) => route.fulfill({ status, contentType: "application/json;odata=minimalmetadata", body: JSON.stringify(content) }),
  );
}

// Asserts that no element of the page was created from data. The explorer itself uses none of these elements.
export async function assertOnlyText(page, what) {
  const found = await page.evaluate(() => {
    const wrong = [...document.querySelectorAll("img, iframe, object, embed, base, meta[http-equiv], script:not([src='explorer.js'])")];
    const elements = [...document.querySelectorAll("*")];
    wrong.push(...elements.filter((element) => element.getAttributeNames().some((name) => name.startsWith("on"))));
    wrong.push(...elements.filter((element) => /^\s*javascript:/i.test(element.getAttribute("href") ?? element.getAttribute("src") ?? "")));
    return wrong.map((element) => element.outerHTML.slice(0, 200));
  });
  assert.deepEqual(found, [], what);
  assert.equal(await page.evaluate(() => Object.prototype.polluted), undefined, what);
}

export async function assertShown(scope, text) {
  await scope.getByText(text).filter({ visible: true }).first().waitFor();
}
