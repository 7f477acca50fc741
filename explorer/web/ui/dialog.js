// Dialogs, based on the browser's dialog element, which keeps the focus inside and restores it afterwards.

import { h, replaceChildren, textInput, uniqueId } from "./dom.js";
import { keepNotices } from "./notify.js";

/**
 * @typedef {{label: string, kind?: "primary" | "danger", run: () => Promise<boolean | void> | boolean | void}} DialogAction
 */
/** @typedef {{element: HTMLDialogElement, close: () => void, closed: Promise<void>}} Dialog */

/**
 * Opens a dialog. It closes when one of its actions has run, unless the action returns false. An error that an action
 * throws is shown in the dialog.
 * @param {{title: string, body: Node, actions: DialogAction[], wide?: boolean, cancel?: string,
 *   mayClose?: () => boolean | Promise<boolean>}} content `mayClose` decides whether the user can cancel the dialog
 * @returns {Dialog}
 */
export function openDialog({ title, body, actions, wide = false, cancel = "Cancel", mayClose }) {
  const opener = document.activeElement;
  const heading = uniqueId("dialog");
  const problem = h("p", { class: "problem", role: "alert" });
  const element = h("dialog", { "aria-labelledby": heading, class: wide ? "wide" : null });
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
    if (!mayClose || (await mayClose())) {
      element.close();
    }
  };
  // Browsers allow preventing only the first of two consecutive `cancel` events, so the Escape key is handled instead.
  const onLeave = (/** @type {Event} */ event) => {
    const isOwn = event instanceof KeyboardEvent ? event.key === "Escape" && !event.isComposing : event.target === element;
    if (mayClose && !event.defaultPrevented && isOwn) {
      event.preventDefault();
      void leave();
    }
  };
  element.addEventListener("keydown", onLeave);
  element.addEventListener("cancel", onLeave);
  const form = h("form", { method: "dialog", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    h("h2", { id: heading }, title),
    h("div", { class: "dialog-body" }, body),
    problem,
    h("div", { class: "dialog-actions" }, buttons, h("button", { type: "button", onclick: () => leave() }, cancel)));
  replaceChildren(element, form);
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
  return { element, close: () => element.close(), closed };
}

/**
 * Asks the user to type a text before an action that cannot be undone. Returns true if the action was carried out.
 * @param {{title: string, text: string, expected: string, label: string, run: () => Promise<void>}} question
 */
export async function confirmText({ title, text, expected, label, run }) {
  let isDone = false;
  const input = textInput();
  const body = h("div", null, h("p", null, text), h("label", null, `Type ${expected} to confirm`, input));
  const confirm = async () => {
    if (input.value !== expected) {
      input.focus();
      throw new Error(`Type ${expected} exactly.`);
    }
    await run();
    isDone = true;
  };
  await openDialog({ title, body, actions: [{ label, kind: "danger", run: confirm }] }).closed;
  return isDone;
}
