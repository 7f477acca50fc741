// The text box for a filter, which marks errors and offers completion from the keyboard.
// The focus stays in the text box, and aria-activedescendant names the active suggestion.
// This module must not depend on requests or on the other parts of a query.

import { div, h, replaceChildren, uniqueId } from "../ui/dom.js";
import { complete } from "./completion.js";
import { parseFilter } from "./filter-text.js";

/** @import { EdmType } from "../core/edm.js" */
/** @import { Completion } from "./completion.js" */
/** @import { FilterError } from "./filter-lex.js" */

const SHOWN_ERRORS_MAX = 3;

/** Dispatches "change" when the user edits the text, and "run" when the user runs the query. */
export class FilterInput extends HTMLElement {
  /** @type {ReadonlyMap<string, EdmType>} */
  properties = new Map();
  /** Whether the server offers string functions. */
  extensions = false;
  /** @type {Completion | null} */
  #completion = null;
  #active = -1;

  constructor() {
    super();
    const [id, list, problem] = [uniqueId("filter"), uniqueId("filter-list"), uniqueId("filter-problem")];
    this.text = h("textarea", {
      id,
      rows: 1,
      spellcheck: "false",
      autocomplete: "off",
      autocapitalize: "off",
      placeholder: "PartitionKey eq '…' and …",
      "aria-autocomplete": "list",
      "aria-haspopup": "listbox",
      "aria-controls": list,
      "aria-describedby": problem,
      oninput: () => this.#typed(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
      onblur: () => this.#left(),
      onpointerdown: () => this.#close(),
      onscroll: () => (this.shade.scrollTop = this.text.scrollTop),
    });
    this.shade = h("div", { class: "filter-shade", "aria-hidden": "true" });
    this.list = h("ul", { id: list, class: "filter-list", role: "listbox", "aria-label": "Suggestions", hidden: true });
    this.problem = h("p", { id: problem, class: "problem filter-problem", "aria-live": "polite" });
    this.label = h("label", { for: id }, "Filter");
  }

  connectedCallback() {
    replaceChildren(this, this.label, div("filter-stack", this.shade, this.text, this.list), this.problem);
    this.check(false);
  }

  get value() {
    return this.text.value;
  }

  set value(value) {
    this.text.value = value;
    this.#close();
    this.check(true);
  }

  /**
   * Marks the errors, and returns true if there are none. Without `all`, ignores errors that further typing may
   * resolve.
   * @param {boolean} all
   */
  check(all) {
    const text = this.text.value;
    const errors = parseFilter(text, this.extensions).errors.filter((error) => all || !error.incomplete);
    replaceChildren(this.shade, ...marked(text, errors));
    this.text.setAttribute("aria-invalid", String(errors.length > 0));
    const messages = errors.slice(0, SHOWN_ERRORS_MAX).map(({ start, message }) => `Character ${start + 1}: ${message}`);
    if (errors.length > SHOWN_ERRORS_MAX) messages.push("…");
    const said = messages.join(" ");
    // Screen readers would read out an unchanged message again.
    if (this.problem.textContent !== said) this.problem.textContent = said;
    return errors.length === 0;
  }

  #typed() {
    this.check(false);
    this.#suggest(false);
    this.dispatchEvent(new Event("change"));
  }

  #left() {
    this.#close();
    this.check(true);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.isComposing) return;
    const isOpen = this.#completion !== null;
    const { selectionStart: caret, selectionEnd } = this.text;
    const isAtEnd = caret === selectionEnd && caret === this.text.value.length;
    const action = this.#actionOf(event, isOpen, isAtEnd);
    if (!action) {
      if (isOpen && /^(Arrow(Left|Right)|Home|End|Page)/.test(event.key)) this.#close();
      return;
    }
    event.preventDefault();
    if (isOpen) event.stopPropagation();
    action();
  }

  /** @param {KeyboardEvent} event @param {boolean} isOpen @param {boolean} isAtEnd @returns {(() => void) | null} */
  #actionOf(event, isOpen, isAtEnd) {
    const isChosen = isOpen && this.#active >= 0;
    switch (event.key) {
      case "Enter":
        if (event.ctrlKey || event.metaKey) return () => this.#run();
        if (isChosen) return () => this.#accept(this.#active);
        return event.shiftKey ? null : () => this.#run();
      case "Tab":
        return isChosen && !event.shiftKey ? () => this.#accept(this.#active) : null;
      case "Escape":
        return isOpen ? () => this.#close() : null;
      case "ArrowDown":
        return isOpen ? () => this.#move(1) : isAtEnd || event.altKey ? () => this.#suggest(true) : null;
      case "ArrowUp":
        return isOpen ? () => this.#move(-1) : null;
      case " ":
        return event.ctrlKey ? () => this.#suggest(true) : null;
      default:
        return null;
    }
  }

  #run() {
    this.#close();
    this.check(true);
    this.dispatchEvent(new Event("run"));
  }

  /**
   * Opens the list of suggestions. The first one is selected only if the user requested the list or has started a word,
   * so that Enter runs a complete filter.
   * @param {boolean} wanted  whether the user requested the list
   */
  #suggest(wanted) {
    const { selectionStart: caret, selectionEnd } = this.text;
    const completion = complete(this.text.value, caret, this, new Date());
    const { options, typed } = completion;
    const isWhole = options.some((option) => option.label === typed);
    if (caret !== selectionEnd || options.length === 0 || (isWhole && !wanted) || (this.text.value === "" && !wanted))
      return this.#close();
    this.#completion = completion;
    replaceChildren(
      this.list,
      options.map(({ label, detail }, at) =>
        h(
          "li",
          {
            role: "option",
            id: `${this.list.id}-${at}`,
            "aria-selected": "false",
            // Keeps the focus in the text box.
            onpointerdown: (/** @type {Event} */ event) => event.preventDefault(),
            onclick: () => this.#accept(at),
          },
          h("code", null, label),
          h("span", null, detail)),
      ));
    this.list.hidden = false;
    this.#choose(wanted || typed !== "" ? 0 : -1);
  }

  /** @param {number} by */
  #move(by) {
    const count = this.#completion?.options.length ?? 0;
    this.#choose(this.#active < 0 && by < 0 ? count - 1 : (this.#active + by + count) % count);
  }

  /** @param {number} at */
  #choose(at) {
    this.list.children[this.#active]?.setAttribute("aria-selected", "false");
    this.#active = at;
    const option = this.list.children[at];
    if (!option) return this.text.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.text.setAttribute("aria-activedescendant", option.id);
  }

  /** @param {number} at */
  #accept(at) {
    const completion = this.#completion;
    const option = completion?.options[at];
    if (!completion || !option) return;
    const { start, end } = completion;
    this.#close();
    const isBlankNext = option.insert.endsWith(" ") && this.text.value[end] === " ";
    const insert = isBlankNext ? option.insert.trimEnd() : option.insert;
    this.text.focus();
    this.text.setSelectionRange(start, end);
    // This is the only way to insert text such that the browser can undo it. It dispatches "input".
    if (!document.execCommand("insertText", false, insert)) {
      this.text.setRangeText(insert, start, end, "end");
      this.#typed();
    }
    const caret = start + insert.length - option.back + (isBlankNext ? 1 : 0);
    this.text.setSelectionRange(caret, caret);
    this.#suggest(false);
  }

  #close() {
    this.#completion = null;
    this.#active = -1;
    this.list.hidden = true;
    this.text.removeAttribute("aria-activedescendant");
  }
}

customElements.define("filter-input", FilterInput);

/**
 * Returns the text with its errors in mark elements, to be shown beneath the text box. An error at the end of the text
 * marks an additional space.
 * @param {string} text
 * @param {FilterError[]} errors
 */
function marked(text, errors) {
  /** @type {(string | HTMLElement)[]} */
  const parts = [];
  let at = 0;
  for (const { start, end } of errors) {
    const from = Math.max(at, start);
    const to = Math.max(from, end);
    parts.push(text.slice(at, from), h("mark", null, text.slice(from, to) || "\u00a0"));
    at = to;
  }
  return [...parts, text.slice(at), "\u200b"];
}
