// Fields that the forms of this part share: times in UTC, permissions, and texts to copy.
//
// Must not know the service.

import { checkbox, field, h } from "../ui/dom.js";
import { announce, notify } from "../ui/notify.js";

const HOUR_MS = 3_600_000;
/** @type {[string, number][]} */
const DURATIONS = [
  ["1 hour", HOUR_MS],
  ["1 day", 24 * HOUR_MS],
  ["1 week", 168 * HOUR_MS],
];

/**
 * Its value is empty, or like 2026-01-31T12:00:00Z.
 * @typedef {{element: HTMLElement, value: () => string, set: (text: string) => void}} TimeField
 */

/**
 * A time in UTC. A text that was given and not changed stays as it is.
 * @param {string} label
 * @param {{text?: string, hasDurations?: boolean}} [options]
 * @returns {TimeField}
 */
export function timeField(label, { text = "", hasDurations = false } = {}) {
  const input = h("input", { type: "datetime-local", step: "1" });
  let [original, shown] = ["", ""];
  const set = (/** @type {string} */ time) => {
    input.value = time && new Date(time).toISOString().slice(0, 19);
    [original, shown] = [time, input.value];
  };
  const value = () => (input.value === shown ? original : input.value && `${input.value.padEnd(19, ":00")}Z`);
  const choices = DURATIONS.map(([name, milliseconds]) =>
    h("button", { type: "button", class: "quiet", onclick: () => set(inFuture(milliseconds)) }, `in ${name}`),
  );
  set(text);
  const element = h(
    "div",
    { class: "time" },
    field(`${label} (UTC)`, input),
    hasDurations ? h("div", { class: "toolbar" }, choices) : null,
  );
  return { element, value, set };
}

/** @param {number} milliseconds */
export function inFuture(milliseconds) {
  return `${new Date(Date.now() + milliseconds).toISOString().slice(0, 19)}Z`;
}

/**
 * Check boxes whose value is the letters of those that are checked.
 * @param {string} title
 * @param {{letter: string, label: string}[]} options
 * @param {string} checked
 */
export function letterField(title, options, checked) {
  const boxes = options.map(({ letter, label }) => ({ letter, box: checkbox(label, { checked: checked.includes(letter) }) }));
  const element = h(
    "fieldset",
    null,
    h("legend", null, title),
    boxes.map(({ box }) => box),
  );
  const value = () =>
    boxes
      .filter(({ box }) => box.input.checked)
      .map(({ letter }) => letter)
      .join("");
  return { element, value };
}

/** Where requests may come from. */
export function originFields() {
  const protocol = h(
    "select",
    null,
    h("option", { value: "https,http" }, "HTTPS and HTTP"),
    h("option", { value: "https" }, "HTTPS only"),
  );
  const ipRange = h("input", { type: "text", placeholder: "any", spellcheck: "false", autocomplete: "off" });
  const element = h(
    "div",
    { class: "pair" },
    field("Protocol", protocol),
    field("IP addresses", ipRange, "Such as 10.0.0.1 or 10.0.0.1-10.0.0.255."),
  );
  return { element, value: () => ({ protocol: protocol.value === "https" ? "https" : "", ipRange: ipRange.value.trim() }) };
}

/**
 * A text to copy.
 * @param {string} label
 * @param {string} text
 */
export function copyField(label, text) {
  const input = h("input", { type: "text", readonly: true, value: text, spellcheck: "false" });
  const copy = async () => {
    input.select();
    try {
      await navigator.clipboard.writeText(text);
      announce(`${label} copied.`);
      button.textContent = "Copied";
    } catch {
      // Without HTTPS a browser does not let pages write to the clipboard.
      notify("The browser did not allow to copy. The text is selected: copy it with the keyboard.");
    }
  };
  const button = h("button", { type: "button", "aria-label": `Copy ${label}`, onclick: copy }, "Copy");
  return h("div", { class: "copyable" }, field(label, input), button);
}

/**
 * A new signature: what it allows, and the texts that programs need.
 * @param {{words: string, url: string, token: string, endpoint: string}} signature
 */
export function signatureResult({ words, url, token, endpoint }) {
  return h(
    "section",
    { class: "signature", "aria-label": "Signature" },
    h("p", { class: "words", role: "status" }, words),
    copyField("URL", url),
    copyField("Token", token),
    copyField("Connection string", `TableEndpoint=${endpoint};SharedAccessSignature=${token}`),
  );
}
