// Dialogs, based on the browser's dialog element, which keeps the focus inside and restores it afterwards.

import { button, div, h, p, problemLine, textInput, uniqueId } from "./dom.js";
import { place as placeAt } from "./menu.js";
import { keepNotices } from "./notify.js";

/**
 * @typedef {{label: string, kind?: "primary" | "danger", run: () => Promise<boolean | void> | boolean | void}} DialogAction
 */
/** @typedef {{element: HTMLDialogElement, close: () => void, closed: Promise<void>}} Dialog */

/** The account and the host that every confirmation names. */
let place = "";

/** Says which account on which host the page changes from now on. @param {string} text */
export function namePlace(text) {
  place = text;
}

/**
 * Opens a dialog. It closes when one of its actions has run, unless the action returns false. An error that an action
 * throws is shown in the dialog.
 * @param {{title: string, body: HTMLElement, actions: DialogAction[], wide?: boolean, cancel?: string,
 *   anchor?: HTMLElement, mayClose?: () => boolean | Promise<boolean>}} content `anchor` is the element next to which the
 *   dialog opens. `mayClose` decides whether the user can cancel the dialog; by default, the user can, and is asked first
 *   if typed text would be lost
 * @returns {Dialog}
 */
export function openDialog({ title, body, actions, wide = false, cancel = "Cancel", anchor, mayClose }) {
  const opener = document.activeElement;
  const isUntouched = untouched(body);
  const heading = uniqueId("dialog");
  const problem = problemLine();
  const element = h("dialog", { "aria-labelledby": heading, class: wide ? "wide" : anchor ? "anchored" : null });
  const buttons = actions.map((action) => {
    const type = action.kind === "danger" ? "button" : "submit";
    return h("button", { type, class: action.kind ?? null, onclick: () => run(action) }, action.label);
  });
  const run = async (/** @type {DialogAction} */ action) => {
    problem.textContent = "";
    // The buttons are disabled while the action runs, so that nothing happens twice.
    buttons.forEach((button) => (button.disabled = true));
    try {
      if ((await action.run()) !== false) {
        element.close();
      }
    } catch (error) {
      problem.textContent = error instanceof Error ? error.message : String(error);
    } finally {
      buttons.forEach((button) => (button.disabled = false));
    }
  };
  const leave = async () => {
    if (mayClose ? await mayClose() : isUntouched() || (await askDiscard())) {
      element.close();
    }
  };
  // Browsers allow preventing only the first of two consecutive `cancel` events, so the Escape key is handled instead.
  const onLeave = (/** @type {Event} */ event) => {
    const isOwn = event instanceof KeyboardEvent ? event.key === "Escape" && !event.isComposing : event.target === element;
    if (!event.defaultPrevented && isOwn) {
      event.preventDefault();
      void leave();
    }
  };
  element.addEventListener("keydown", onLeave);
  element.addEventListener("cancel", onLeave);
  const safe = button(cancel, leave);
  element.append(h("form", { method: "dialog", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    h("h2", { id: heading }, title), div("dialog-body", body), problem, div("dialog-actions", buttons, safe)));
  const closed = /** @type {Promise<void>} */ (new Promise((resolve) => {
    element.addEventListener("close", () => {
      keepNotices(element);
      element.remove();
      // The element that opened the dialog may have been removed. Then the dialog or view below gets the focus.
      const isThere = opener instanceof HTMLElement && opener.isConnected;
      const next = isThere ? opener : document.querySelector("dialog[open]:last-of-type, main");
      if (next instanceof HTMLElement) {
        next.focus();
      }
      resolve();
    });
  }));
  document.body.append(element);
  element.showModal();
  if (anchor) placeAt(element, anchor);
  // Pressing Enter must not lose anything.
  if (actions.some(({ kind }) => kind === "danger") && !body.querySelector("input, select, textarea")) safe.focus();
  return { element, close: () => element.close(), closed };
}

/** Returns the content of all fields. @param {HTMLElement} body */
export function contentOf(body) {
  const fields = body.querySelectorAll("input:not([type=file]), textarea, select");
  return Array.from(fields, (field) => JSON.stringify(/** @type {HTMLInputElement} */ (field).value)).join();
}

/** Returns a function that is true if the user has typed nothing that would be lost. @param {HTMLElement} body */
function untouched(body) {
  /** @type {Map<HTMLInputElement, string>} */
  const first = new Map();
  body.addEventListener("focusin", ({ target }) => {
    const field = /** @type {HTMLInputElement} */ (target);
    if (field.matches("input:not([type=checkbox], [type=radio]), textarea") && !first.has(field)) first.set(field, field.value);
  });
  return () => [...first].every(([field, text]) => !field.isConnected || field.value === text);
}

/** Asks whether the input of a dialog may be lost. */
export function askDiscard() {
  return ask("Discard your changes?", "They have not been saved.", "Discard", "danger");
}

/**
 * Asks a question with one answer besides "Cancel".
 * @param {string} title @param {string} text @param {string} label @param {"primary" | "danger"} kind
 * @param {boolean} [isOfService]  whether the answer changes data, so that the question names the account and the host
 */
export async function ask(title, text, label, kind, isOfService = false) {
  let yes = false;
  const run = () => void (yes = true);
  await openDialog({ title, body: div(null, p(null, text), isOfService && placeLine()), actions: [{ label, kind, run }] }).closed;
  return yes;
}

function placeLine() {
  return p("place", place);
}

/**
 * Asks the user to type a text before an action that cannot be undone. Returns true if the action was carried out.
 * @param {{title: string, text: string, expected: string, label: string, run: () => Promise<void>}} question
 */
export async function confirmText({ title, text, expected, label, run }) {
  let isDone = false;
  const input = textInput();
  const body = div(null, p(null, text), placeLine(), h("label", null, `Type ${expected} to confirm`, input));
  const confirm = async () => {
    if (input.value !== expected) {
      input.focus();
      throw new Error(`Type ${expected} exactly.`);
    }
    await run();
    isDone = true;
  };
  await openDialog({ title, body, actions: [{ label, kind: "danger", run: confirm }], mayClose: () => true }).closed;
  return isDone;
}
