// Notices about events, which are shown temporarily and read out by screen readers.

import { button, h } from "./dom.js";

/** @typedef {{label: string, run: () => void}} NoticeAction */

const SHOWN_MS = 8000;
const status = h("div", { class: "visually-hidden", role: "status", "aria-live": "polite" });
const notices = h("section", { class: "notices", "aria-label": "Notices" });

/** Adds the containers for notices to the page. */
export function startNotices() {
  document.body.append(status, notices);
}

/**
 * Makes screen readers read out a text.
 * @param {string} text
 */
export function announce(text) {
  status.textContent = text;
}

/**
 * Shows a notice, and returns a function that removes it. An error stays until the user dismisses it, or until it no
 * longer applies; other notices disappear after a few seconds.
 * @param {string} text
 * @param {{kind?: "info" | "error" | "success", action?: NoticeAction}} [options]
 */
export function notify(text, { kind = "info", action } = {}) {
  const close = () => {
    notice.remove();
  };
  const run = () => {
    close();
    action?.run();
  };
  /** @type {HTMLElement} */
  const notice = h("div", { class: `notice ${kind}`, role: kind === "error" ? "alert" : "status" },
    h("span", null, text),
    action ? button(action.label, run) : null,
    button("×", close, { class: "quiet", "aria-label": "Dismiss" }));
  // A dialog covers everything outside it, so its notices are shown inside.
  (document.querySelector("dialog[open]:last-of-type") ?? notices).append(notice);
  if (kind !== "error") {
    setTimeout(close, SHOWN_MS);
  }
  return close;
}

/** Removes the errors that were shown, because they no longer apply. */
export function dismissErrors() {
  document.querySelectorAll(".notice.error").forEach((notice) => notice.remove());
}

/**
 * Moves the notices out of a dialog that is closing.
 * @param {HTMLElement} dialog
 */
export function keepNotices(dialog) {
  notices.append(...dialog.querySelectorAll(".notice"));
}
