// Copies text to the clipboard. Browsers give access to it only if the page came over HTTPS or from this machine;
// otherwise the text is shown. This module must not depend on what is copied.

import { openDialog } from "../ui/dialog.js";
import { h } from "../ui/dom.js";
import { notify } from "../ui/notify.js";

/**
 * @param {string} text
 * @param {string} what  the name of the text at the start of a sentence, such as "The link"
 */
export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notify(`${what} was copied.`, { kind: "success" });
  } catch {
    const area = h("textarea", { readonly: true, value: text, "aria-label": what });
    openDialog({ title: "Copy this text", body: area, actions: [], cancel: "Close" });
    area.select();
  }
}
