// Accessibility checks with axe, and checks that axe does not make: horizontal scrolling and the focus.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

// axe is injected through the browser's debugging protocol, which the Content-Security-Policy of the page does not
// restrict.
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export async function assertAccessible(page, what) {
  await settle(page);
  if (!(await page.evaluate("typeof axe === 'object'"))) {
    await page.evaluate(`${axe}; undefined`);
  }
  const found = await page.evaluate(async () => {
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const { violations } = await globalThis.axe.run(document, { runOnly: tags, resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) =>
      nodes.slice(0, 3).map((node) => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary?.split("\n")[1] ?? ""}`),
    );
  });
  assert.deepEqual(found, [], what);
}

export function settle(page) {
  return page.evaluate(async () => {
    const finite = document.getAnimations().filter((animation) => animation.effect?.getComputedTiming().iterations !== Infinity);
    await Promise.allSettled(finite.map((animation) => animation.finished));
  });
}

// Asserts that the page itself does not scroll horizontally. Parts of it, such as the grid, may.
export async function assertNoSidewaysScroll(page, what) {
  const { width, content, widest } = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const isClipped = (element) => {
      for (let parent = element.parentElement; parent && parent !== document.body; parent = parent.parentElement) {
        if (getComputedStyle(parent).overflowX !== "visible") {
          return true;
        }
      }
      return false;
    };
    const widest = [...document.body.querySelectorAll("*")]
      .filter((element) => element.getBoundingClientRect().right > width + 1 && !isClipped(element))
      .map((element) => `${element.tagName.toLowerCase()}.${element.className}`);
    return { width, content: document.documentElement.scrollWidth, widest: widest.slice(0, 5) };
  });
  assert.ok(content <= width, `${what}: ${content} px in ${width} px (${widest.join(", ")})`);
}

// Returns "" for the page itself.
export function focusedName(page) {
  return page.evaluate(() => {
    const element = document.activeElement;
    if (!element || element === document.body) {
      return "";
    }
    const labels = "labels" in element ? [...(element.labels ?? [])].map((label) => label.textContent) : [];
    const name = element.getAttribute("aria-label") || labels.join(" ") || element.textContent;
    return `${element.getAttribute("role") ?? element.tagName.toLowerCase()} ${name?.trim().replace(/\s+/g, " ") ?? ""}`.slice(0, 80);
  });
}
