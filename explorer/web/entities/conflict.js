// The dialog for an entity that somebody else changed meanwhile: what was loaded, mine and theirs by property, and the choice
// between them. Knows the three entities, not how the choice is written.

import { openDialog } from "../ui/dialog.js";
import { h, uniqueId } from "../ui/dom.js";
import { differences } from "./changes.js";
import { entityName, visibleText } from "./display.js";
import { valueText } from "./value-field.js";

/** @import { Entity } from "../core/edm.js" */
/** @import { Difference } from "./changes.js" */
/** @typedef {"mine" | "theirs"} Choice */

/**
 * Asks which state is to be kept. Returns the entity to write with their ETag, theirs if nothing is to be written, or null.
 * @param {{loaded: Entity, mine: Entity, theirs: Entity, projected: boolean}} sides
 * @returns {Promise<{write: Entity} | {take: Entity} | null>}
 */
export async function askConflict({ loaded, mine, theirs, projected }) {
  const list = differences(loaded, mine, theirs, projected);
  /** @type {Map<string, Choice>} */
  const choices = new Map(
    list.map((difference) => [difference.name, !difference.mineChanged && difference.theirsChanged ? "theirs" : "mine"]),
  );
  /** @type {{write: Entity} | {take: Entity} | null} */
  let answer = null;
  const chosen = () => {
    const properties = new Map();
    for (const difference of list) {
      const value = difference[choices.get(difference.name) ?? "mine"];
      if (value) properties.set(difference.name, value);
    }
    return { ...mine, etag: theirs.etag, properties };
  };
  const body = h(
    "div",
    { class: "conflict" },
    h("p", null, `Somebody else changed ${entityName(mine)} after it was loaded. Nothing of yours is written yet.`),
    h(
      "div",
      { class: "conflict-scroll", tabindex: "0", role: "region", "aria-label": "Both states" },
      h(
        "table",
        null,
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["Property", "Loaded", "Mine", "Theirs"].map((text) => h("th", { scope: "col" }, text)),
          ),
        ),
        h(
          "tbody",
          null,
          list.map((difference) => conflictRow(difference, choices)),
        ),
      ),
    ),
  );
  const dialog = openDialog({
    title: "The entity was changed meanwhile",
    body,
    wide: true,
    actions: [
      {
        label: "Write what is chosen",
        kind: "primary",
        run: () => {
          answer = { write: chosen() };
        },
      },
      {
        label: "Keep mine",
        run: () => {
          answer = { write: { ...mine, etag: theirs.etag } };
        },
      },
      {
        label: "Take theirs",
        run: () => {
          answer = { take: theirs };
        },
      },
    ],
  });
  await dialog.closed;
  return answer;
}

/** @param {Difference} difference @param {Map<string, Choice>} choices */
function conflictRow(difference, choices) {
  const { name, mineChanged, theirsChanged } = difference;
  const group = uniqueId("choice");
  const differs = mineChanged || theirsChanged;
  const side = (/** @type {Choice} */ choice, /** @type {boolean} */ changed) =>
    h(
      "td",
      { class: changed ? "changed" : null },
      differs
        ? h(
            "label",
            null,
            h("input", {
              type: "radio",
              name: group,
              checked: choices.get(name) === choice,
              onchange: () => choices.set(name, choice),
            }),
            h("span", { class: "visually-hidden" }, `${choice} of ${visibleText(name, 60)}: `),
            sideText(difference[choice], changed),
          )
        : sideText(difference[choice], changed),
    );
  return h(
    "tr",
    { class: differs ? "differs" : null },
    h("th", { scope: "row", dir: "auto" }, visibleText(name, 255)),
    h("td", null, valueText(difference.loaded)),
    side("mine", mineChanged),
    side("theirs", theirsChanged),
  );
}

/** @param {import("./changes.js").Side} value @param {boolean} changed */
function sideText(value, changed) {
  return [
    h("span", { dir: "auto" }, valueText(value)),
    changed ? h("span", { class: "type-tag" }, value ? "changed" : "removed") : null,
  ];
}

/**
 * Asks whether an entity that was deleted meanwhile is to be inserted again.
 * @param {Entity} mine
 * @returns {Promise<boolean>}
 */
export async function askInsertAgain(mine) {
  let again = false;
  const body = h(
    "p",
    null,
    `Somebody else deleted ${entityName(mine)} after it was loaded. Do you want to insert it again, as you edited it?`,
  );
  await openDialog({
    title: "The entity was deleted meanwhile",
    body,
    actions: [
      {
        label: "Insert again",
        kind: "primary",
        run: () => {
          again = true;
        },
      },
    ],
  }).closed;
  return again;
}
