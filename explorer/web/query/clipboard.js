// Texts for the clipboard. Browsers give it to pages over HTTPS or of this machine only; elsewhere the text is shown.
// This module must not know what is copied.

import { openDialog } from "../ui/dialog.js";
import { h } from "../ui/dom.js";
import { notify } from "../ui/notify.js";

/**
 * @param {string} text
 * @param {string} what  as a sentence begins with it, such as "The link"
 */
export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notify(`${what} was copied.`, { kind: "success" });
  } catch {
    const area = h("textarea", { readonly: true, value: text, "aria-label": what });
    openDialog({ title: "Copy this", body: area, actions: [], cancel: "Close" });
    area.select();
  }
}
