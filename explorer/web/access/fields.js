// The elements that the views in this folder share: content that is loaded, and fields for times in UTC and for
// permissions.
//
// Must not depend on the service.

import { describe } from "../core/errors.js";
import { button, checkbox, div, field, h, replaceChildren } from "../ui/dom.js";

/** @type {[string, number][]} labels and hours */
const DURATIONS = [
  ["1 hour", 1],
  ["1 day", 24],
  ["1 week", 168],
];

/**
 * Creates a section of a view.
 * @param {string} title
 * @param {HTMLElement} content
 */
export function card(title, content) {
  return h("section", { class: "card", "aria-label": title }, h("h2", null, title), content);
}

/**
 * Creates a container for an element that is loaded. If loading fails, it is retried when the service becomes reachable
 * again, or when the user presses a button.
 * @param {EventTarget} service
 * @param {() => Promise<HTMLElement>} load
 */
export function loaded(service, load) {
  const place = div(null);
  const run = async () => {
    service.removeEventListener("reachable", again);
    replaceChildren(place, h("p", { role: "status" }, "Loading…"));
    try {
      replaceChildren(place, await load());
    } catch (error) {
      const problem = h("p", { class: "problem", role: "alert" }, describe(error));
      replaceChildren(place, problem, button("Try again", run));
      service.addEventListener("reachable", again, { once: true });
    }
  };
  // The user may have left the view.
  const again = () => place.isConnected && run();
  void run();
  return place;
}

/**
 * Creates a field for a time in UTC. Its value is empty, or a time such as 2026-01-31T12:00:00Z. A given time that the
 * user does not edit keeps all its digits.
 * @param {string} label
 * @param {{text?: string, hasDurations?: boolean}} [options]
 */
export function timeField(label, { text = "", hasDurations = false } = {}) {
  const input = h("input", { type: "datetime-local", step: "1" });
  let [original, shown] = ["", ""];
  const set = (/** @type {string} */ time) => {
    input.value = time && new Date(time).toISOString().slice(0, 19);
    [original, shown] = [time, input.value];
  };
  const value = () => (input.value === shown ? original : input.value && `${input.value.padEnd(19, ":00")}Z`);
  const choices = DURATIONS.map(([name, hours]) => {
    const choose = () => {
      set(inFuture(hours));
      // The event is the same as for typed input, so the form removes a signature created from other values.
      input.dispatchEvent(new Event("input", { bubbles: true }));
    };
    return button(`in ${name}`, choose, { class: "quiet" });
  });
  set(text);
  return { element: div("time", field(`${label} (UTC)`, input), hasDurations && div("toolbar", choices)), value };
}

/** @param {number} hours */
export function inFuture(hours) {
  return `${new Date(Date.now() + hours * 3_600_000).toISOString().slice(0, 19)}Z`;
}

/**
 * Creates a group of checkboxes. Its value consists of the letters of those that are checked.
 * @param {string} title
 * @param {{letter: string, label: string}[]} options
 * @param {string} checked
 */
export function letterField(title, options, checked) {
  const boxes = options.map(({ letter, label }) => ({ letter, box: checkbox(label, { checked: checked.includes(letter) }) }));
  const element = h("fieldset", null, h("legend", null, title), boxes.map(({ box }) => box));
  const value = () => boxes.map(({ letter, box }) => (box.input.checked ? letter : "")).join("");
  return { element, value };
}

/**
 * The fields of one item in a list. `first` gets the focus in a new item; `title` shows the number of the item, if it has
 * no other name.
 * @template T
 * @typedef {{element: HTMLElement, first: HTMLElement, title?: (number: number) => void, value: () => T}} ItemFields
 */

/**
 * Creates an editor for a list of items. `items` returns the edited list.
 * @template T
 * @param {{create: (item: T, onRemove: () => void) => ItemFields<T>, blank: T, label: string, none: string, itemsMax: number}}
 *   kind `none` is the text that an empty list shows
 */
export function listEditor({ create, blank, label, none, itemsMax }) {
  /** @type {ItemFields<T>[]} */
  let rows = [];
  const list = div(null);
  const empty = h("p", null, none);
  const update = () => {
    rows.forEach(({ title }, at) => title?.(at + 1));
    replaceChildren(list, rows.map(({ element }) => element));
    empty.hidden = rows.length > 0;
    add.disabled = rows.length >= itemsMax;
  };
  const append = (/** @type {T} */ item) => {
    const row = create(item, () => {
      rows = rows.filter((other) => other !== row);
      update();
      add.focus();
    });
    rows.push(row);
    return row;
  };
  const addBlank = () => {
    const { first } = append(blank);
    update();
    first.focus();
  };
  const add = button(label, addBlank);
  const show = (/** @type {T[]} */ items) => {
    rows = [];
    items.forEach(append);
    update();
  };
  const focus = (/** @type {number} */ at) => rows[at]?.first.focus();
  return { empty, list, add, show, focus, items: () => rows.map((row) => row.value()) };
}
