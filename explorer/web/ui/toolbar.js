// A toolbar whose buttons stand in groups. Buttons that a narrow toolbar does not show, and rare ones, are in its menu.

import { button, div, h } from "./dom.js";
import { openMenu } from "./menu.js";

/**
 * @param {string} label
 * @param {HTMLButtonElement[][]} groups
 * @param {HTMLButtonElement[]} [rare]  shown only in the menu
 */
export function toolbar(label, groups, rare = []) {
  const open = () => {
    const unseen = groups.map((group) => group.filter((one) => !one.hidden && !one.checkVisibility()));
    const lists = [...unseen, rare.filter((one) => !one.hidden)].filter((list) => list.length > 0);
    openMenu(more, lists.flatMap((list, at) => [
      ...(at > 0 ? [{ label: "", separator: true }] : []),
      ...list.map((one) => ({ label: one.textContent ?? "", disabled: one.disabled, run: () => one.click() })),
    ]));
  };
  const more = button("More", open, { icon: "more", class: "icon-only", "aria-haspopup": "menu" });
  const parts = groups.map((group) => div("tool-group", group));
  return h("div", { class: "toolbar tools", role: "toolbar", "aria-label": label }, parts, more);
}
