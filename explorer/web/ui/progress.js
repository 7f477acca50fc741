// Shows the progress of long-running work, and lets the user stop it.

import { div, h } from "./dom.js";
import { openDialog } from "./dialog.js";
import { announce } from "./notify.js";

/** @typedef {{report: (done: number, total: number | null, text: string) => void, signal: AbortSignal}} Progress */

/**
 * Runs work and shows a dialog while it runs. Returns its result, or undefined if the user stopped it and it did not
 * complete.
 * @template T
 * @param {{title: string, run: (progress: Progress) => Promise<T>}} work
 * @returns {Promise<T | undefined>}
 */
export async function progressDialog({ title, run }) {
  const controller = new AbortController();
  const bar = h("progress", { "aria-label": title });
  const text = h("p", { class: "progress-text" });
  const stop = () => {
    controller.abort();
    text.textContent = "Stopping…";
    // The dialog stays open until the work has ended, because until then something may still be written.
    return false;
  };
  const dialog = openDialog({ title, body: div(null, bar, text), actions: [], cancel: "Stop", mayClose: stop });
  const report = (/** @type {number} */ done, /** @type {number | null} */ total, /** @type {string} */ words) => {
    if (total === null) {
      bar.removeAttribute("value");
    } else {
      bar.max = Math.max(total, 1);
      bar.value = done;
    }
    text.textContent = controller.signal.aborted ? "Stopping…" : words;
  };
  try {
    return await run({ report, signal: controller.signal });
  } catch (error) {
    if (controller.signal.aborted) {
      return undefined;
    }
    throw error;
  } finally {
    announce(text.textContent ?? "");
    dialog.close();
    await dialog.closed;
  }
}
