// The list of the keys that the explorer understands.

import { openDialog } from "./dialog.js";
import { div, h } from "./dom.js";

/** @type {Record<string, [keys: string, action: string][]>} */
const KEYS = {
  Page: [
    ["?", "Show this list"],
    ["/", "Go to the filter, or to the search of the tables"],
    ["Ctrl+Z", "Undo the last change"],
  ],
  Filter: [
    ["Enter", "Run the query"],
    ["Ctrl+Space", "Suggest names and operators"],
    ["Ctrl+Enter", "Run the query while suggestions are shown"],
  ],
  Entities: [
    ["Arrow keys", "Move by a cell; with Ctrl, to the first or last column or entity"],
    ["Page Up, Page Down", "Move by a page"],
    ["Home, End", "Move to the first or last column; with Ctrl, also to the first or last entity"],
    ["Space", "Select the entity, or no longer"],
    ["Shift+arrow keys", "Select several entities"],
    ["Ctrl+A, Escape", "Select all loaded entities, or none"],
    ["Enter, F2", "Open the editor"],
    ["Delete", "Delete the selected entities, after a question"],
    ["Ctrl+C", "Copy the value of the cell"],
    ["Shift+F10", "Open the menu of the cell"],
  ],
  "Heads of columns": [
    ["Enter", "Open the menu of the column"],
    ["Alt+arrow keys", "Move the column"],
    ["Shift+arrow keys", "Resize the column"],
  ],
};

export function openKeysDialog() {
  const list = (/** @type {[string, string][]} */ keys) =>
    h("dl", { class: "keys" }, keys.map(([key, action]) => div(null, h("dt", null, h("kbd", null, key)), h("dd", null, action))));
  const body = div(null, Object.entries(KEYS).map(([part, keys]) => [h("h3", null, part), list(keys)]));
  openDialog({ title: "Keyboard shortcuts", body, actions: [], cancel: "Close" });
}
