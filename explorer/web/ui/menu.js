// Menus that open from buttons, usable by mouse and keyboard.

import { h } from "./dom.js";

/** @typedef {{label: string, run?: () => void, disabled?: boolean, checked?: boolean, separator?: boolean}} MenuItem */

/**
 * Opens a menu below the button that was pressed.
 * @param {HTMLElement} opener
 * @param {MenuItem[]} items
 * @param {string} [label]
 */
export function openMenu(opener, items, label = opener.textContent?.trim() ?? "") {
  const elements = items.map(({ label: text, run, disabled, checked, separator }) => {
    if (separator) {
      return h("hr", { role: "separator" });
    }
    const role = checked === undefined ? "menuitem" : "menuitemcheckbox";
    const choose = () => {
      close(true);
      run?.();
    };
    return h("button", { type: "button", role, tabindex: "-1", "aria-checked": checked, disabled, onclick: choose }, text);
  });
  const menu = h("div", { class: "menu", role: "menu", tabindex: "-1", "aria-label": label, onkeydown: move }, elements);
  const buttons = elements.filter((element) => element instanceof HTMLButtonElement && !element.disabled);

  /** @param {boolean} isFocusBack */
  function close(isFocusBack) {
    menu.remove();
    document.removeEventListener("pointerdown", onOutside, true);
    opener.setAttribute("aria-expanded", "false");
    if (isFocusBack) {
      opener.focus();
    }
  }

  /** @param {Event} event */
  function onOutside(event) {
    if (event.target instanceof Node && !menu.contains(event.target)) {
      close(false);
    }
  }

  /** @param {KeyboardEvent} event */
  function move(event) {
    const at = buttons.findIndex((button) => button === document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      buttons.at(next % buttons.length)?.focus();
    } else if (event.key === "Escape" || event.key === "Tab") {
      event.stopPropagation();
      close(true);
      if (event.key === "Escape") {
        event.preventDefault();
      }
    }
  }

  // The menu must be reachable while a dialog is open, and be inside the landmark that the opener belongs to.
  (opener.closest("dialog, main, header") ?? document.body).append(menu);
  place(menu, opener);
  opener.setAttribute("aria-expanded", "true");
  document.addEventListener("pointerdown", onOutside, true);
  (buttons[0] ?? menu).focus();
}

/**
 * Places an element below its anchor, or above it if there is enough room only there.
 * @param {HTMLElement} element
 * @param {HTMLElement} anchor
 */
export function place(element, anchor) {
  const { left, top, bottom } = anchor.getBoundingClientRect();
  const { width, height } = element.getBoundingClientRect();
  const isAbove = bottom + height > innerHeight && top > height;
  element.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
  element.style.top = `${isAbove ? top - height : bottom}px`;
}
