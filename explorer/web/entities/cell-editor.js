// The dialog that edits one property of an entity at its cell. The caller saves it.

import { openDialog } from "../ui/dialog.js";
import { div } from "../ui/dom.js";
import { entityName, visibleText } from "./display.js";
import { TypedField } from "./value-field.js";

/** @import { Entity, Value } from "../core/edm.js" */

/**
 * @param {Entity} entity
 * @param {{name: string, value: Value, isNew: boolean, cell: HTMLElement,
 *   save: (value: Value) => Promise<boolean | void>}} options
 *   `isNew`: the entity has no such property yet, and gets none if the field stays empty
 */
export function openCellEditor(entity, { name, value, isNew, cell, save }) {
  const shown = visibleText(name, 60);
  const field = new TypedField(value, { label: () => shown, isOptional: isNew });
  const run = async () => {
    if (field.isLeftOut) return true;
    if (field.check()) return save(field.read());
    field.focus();
    return false;
  };
  const body = div("cell-editor", field.select, field.element);
  // As in a line of text, Enter saves. Shift+Enter begins another line.
  body.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !(event.target instanceof HTMLTextAreaElement)) return;
    event.preventDefault();
    body.closest("form")?.querySelector("button")?.click();
  });
  const title = `${shown} of ${entityName(entity)}`;
  const dialog = openDialog({ title, body, actions: [{ label: "Save", kind: "primary", run }], anchor: cell });
  field.focus();
  return dialog;
}
