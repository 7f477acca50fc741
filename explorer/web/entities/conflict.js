// The dialog for an entity that somebody else changed meanwhile. Knows the three states, not how the choice is written.

import { openDialog } from "../ui/dialog.js";
import { h, uniqueId } from "../ui/dom.js";
import { differences } from "./changes.js";
import { entityName, visibleText } from "./display.js";
import { valueText } from "./value-field.js";

/** @import { Entity } from "../core/edm.js" */
/** @import { Difference } from "./changes.js" */
/** @typedef {"mine" | "theirs"} Choice */

/**
 * What to write with their ETag, or theirs to be taken.
 * @param {{loaded: Entity, mine: Entity | null, theirs: Entity, projected: boolean}} sides  mine is null to delete it
 * @returns {Promise<{write: Entity | null} | {take: Entity} | null>}
 */
export async function askConflict({ loaded, mine, theirs, projected }) {
  const list = differences(loaded, mine ?? loaded, theirs, projected);
  /** @type {Map<string, Choice>} */
  const choices = new Map(
    list.map((difference) => [difference.name, !difference.mineChanged && difference.theirsChanged ? "theirs" : "mine"]),
  );
  /** @type {{write: Entity | null} | {take: Entity} | null} */
  let answer = null;
  const chosen = () => {
    const properties = new Map();
    for (const difference of list) {
      const value = difference[choices.get(difference.name) ?? "mine"];
      if (value) properties.set(difference.name, value);
    }
    return { ...theirs, properties };
  };
  const body = h(
    "div",
    { class: "conflict" },
    h("p", null, `Somebody else changed ${entityName(theirs)} meanwhile. It is not ${mine ? "written" : "deleted"} yet.`),
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
            ["Property", "Loaded", ...(mine ? ["Mine"] : []), "Theirs"].map((text) => h("th", { scope: "col" }, text)),
          ),
        ),
        h(
          "tbody",
          null,
          list.map((difference) => conflictRow(difference, mine ? choices : null)),
        ),
      ),
    ),
  );
  /** @type {(label: string, make: () => typeof answer, kind?: "primary" | "danger") => import("../ui/dialog.js").DialogAction} */
  const action = (label, make, kind) => ({
    label,
    ...(kind && { kind }),
    run: () => {
      answer = make();
    },
  });
  await openDialog({
    title: "The entity was changed meanwhile",
    body,
    wide: true,
    actions: mine
      ? [
          action("Write what is chosen", () => ({ write: chosen() }), "primary"),
          action("Keep mine", () => ({ write: { ...mine, etag: theirs.etag } })),
          action("Take theirs", () => ({ take: theirs })),
        ]
      : [
          action("Delete theirs", () => ({ write: null }), "danger"),
          action("Keep theirs", () => ({ take: theirs })),
        ],
  }).closed;
  return answer;
}

/** @param {Difference} difference @param {Map<string, Choice> | null} choices  null if mine is to delete the entity */
function conflictRow(difference, choices) {
  const { name, mineChanged, theirsChanged } = difference;
  const group = uniqueId("choice");
  const differs = mineChanged || theirsChanged;
  const side = (/** @type {Choice} */ choice, /** @type {boolean} */ changed) =>
    h(
      "td",
      { class: changed ? "changed" : null },
      differs && choices
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
    choices && side("mine", mineChanged),
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

/** @param {Entity} mine */
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
