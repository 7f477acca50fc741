// Completion for filters: the properties, operators and forms of values that fit at the caret.
// This module must not depend on the page.

import { exampleOf, isFunction } from "./filter-functions.js";
import { tokenize } from "./filter-lex.js";
import { isFilterName, OPERATORS, SYSTEM_TYPES } from "./filter-text.js";

/** @import { EdmType } from "../core/edm.js" */
/** @import { Token } from "./filter-lex.js" */

/**
 * `back` is the number of characters between the caret and the end of the inserted text.
 * @typedef {{label: string, insert: string, detail: string, back: number}} Option
 */
/**
 * The options for replacing the text from `start` to `end`. `typed` is the part of that text before the caret.
 * @typedef {{start: number, end: number, typed: string, options: Option[]}} Completion
 */

const OPTIONS_MAX = 50;
/** @type {Record<string, string>} */
const OPERATOR_WORDS = {
  eq: "equal to",
  ne: "not equal to",
  gt: "greater than",
  ge: "greater than or equal to",
  lt: "less than",
  le: "less than or equal to",
};

/** What a filter can contain. @typedef {{properties: ReadonlyMap<string, EdmType>, extensions: boolean}} Vocabulary */

/**
 * @param {string} text
 * @param {number} caret
 * @param {Vocabulary} vocabulary
 * @param {Date} now
 * @returns {Completion}
 */
export function complete(text, caret, vocabulary, now) {
  const { tokens, errors } = tokenize(text.slice(0, caret));
  tokens.pop();
  const none = { start: caret, end: caret, typed: "", options: [] };
  if (errors.some((error) => error.end === caret)) return none;
  const last = tokens.at(-1);
  const touches = last?.end === caret && last.kind !== "(" && last.kind !== ")";
  const isWord = touches && /^[\p{Alphabetic}_]/u.test(last.text) && !last.text.endsWith("'");
  if (touches && !isWord) return none;
  if (isWord) tokens.pop();
  const typed = isWord ? last.text : "";
  const start = isWord ? last.start : caret;
  const end = isWord ? (tokenize(text).tokens.find((token) => token.start === start)?.end ?? caret) : caret;
  const place = expected(tokens);
  // The other argument is inserted with the property, unless it is already there.
  if (place.what === "argument" && /^\s*,/.test(text.slice(end))) place.what = "property";
  const options = matching(optionsFor(place, vocabulary, now, typed !== ""), typed);
  return { start, end: Math.max(end, caret), typed, options };
}

/**
 * The kind of token that may come next. An `argument` is the first one of a function.
 * @typedef {{what: "condition" | "operator" | "value" | "link" | "argument" | "property" | "nothing", property: string}} Expected
 */

/** @param {Token[]} tokens @returns {Expected} */
function expected(tokens) {
  /** @type {Expected} */
  let state = { what: "condition", property: "" };
  for (const { kind, text } of tokens) {
    if (kind === "(") state = { what: isFunction(state.property) ? "argument" : "condition", property: "" };
    else if (kind === ",") state = { what: "value", property: "" };
    else if (kind === ")") state = { what: "link", property: "" };
    else if (state.what === "condition") {
      if (kind !== "name" || text !== "not") state = { what: "operator", property: kind === "name" ? text : "" };
    } else if (state.what === "argument") state = { what: "nothing", property: "" };
    else if (state.what === "value") state = { what: "link", property: "" };
    else if (text === "and" || text === "or") state = { what: "condition", property: "" };
    else state = { what: "value", property: state.property };
  }
  return state;
}

/**
 * @param {Expected} expected
 * @param {Vocabulary} vocabulary
 * @param {Date} now
 * @param {boolean} isTyping  whether a word has been started; then values of more types are offered
 * @returns {Option[]}
 */
function optionsFor({ what, property }, { properties, extensions }, now, isTyping) {
  const type = SYSTEM_TYPES[property] ?? properties.get(property);
  switch (what) {
    case "condition":
      return [...propertyOptions(properties), option("not", "negates the next condition"), ...(extensions ? CALLS : [])];
    case "argument":
      return strings(properties).map((each) => ({ ...each, insert: `${each.label},'')`, back: 2 }));
    case "property":
      return strings(properties).map((each) => ({ ...each, insert: each.label }));
    case "nothing":
      return [];
    case "operator": {
      const comparisons = OPERATORS.map((word) => option(word, OPERATOR_WORDS[word] ?? ""));
      return type === "Edm.Boolean" ? [...LINKS, ...comparisons] : [...comparisons, ...(type ? [] : LINKS)];
    }
    case "value":
      return type ? values(type, now) : isTyping ? VALUE_TYPES.flatMap((each) => values(each, now)) : values("Edm.String", now);
    default:
      return LINKS;
  }
}

/** @param {string} word @param {string} detail @returns {Option} */
function option(word, detail) {
  return { label: word, insert: `${word} `, detail, back: 0 };
}

const LINKS = [option("and", "both conditions"), option("or", "either condition")];
/** @type {Option[]} */
const CALLS = ["startswith", "endswith", "contains"].map((name) => {
  return { label: exampleOf(name), insert: `${name}(`, detail: "compares part of a string", back: 0 };
});
/** @type {EdmType[]} */
const VALUE_TYPES = ["Edm.String", "Edm.DateTime", "Edm.Guid", "Edm.Binary", "Edm.Boolean"];

/** @param {ReadonlyMap<string, EdmType>} properties */
function propertyOptions(properties) {
  const names = [...properties.keys()].filter((name) => !SYSTEM_TYPES[name] && isFilterName(name)).sort();
  return [...Object.keys(SYSTEM_TYPES), ...names].map((name) => {
    const type = SYSTEM_TYPES[name] ?? properties.get(name) ?? "";
    return option(name, type.replace("Edm.", ""));
  });
}

/** Returns the properties that can be an argument of a function. @param {ReadonlyMap<string, EdmType>} properties */
function strings(properties) {
  return propertyOptions(properties).filter(({ detail }) => detail === "String");
}

/** Returns the forms of values of a type. @param {EdmType} type @param {Date} now @returns {Option[]} */
function values(type, now) {
  /** @type {(label: string, insert: string, detail: string, back?: number) => Option} */
  const form = (label, insert, detail, back = 0) => ({ label, insert, detail, back });
  const instant = (/** @type {Date} */ date) => `datetime'${date.toISOString().slice(0, 19)}Z'`;
  switch (type) {
    case "Edm.String":
      return [form("'…'", "''", "string", 1)];
    case "Edm.DateTime": {
      const today = new Date(now);
      today.setUTCHours(0, 0, 0, 0);
      const hourAgo = new Date(now.getTime() - 3_600_000);
      return [form(instant(today), instant(today), "today, UTC"), form(instant(hourAgo), instant(hourAgo), "an hour ago, UTC")];
    }
    case "Edm.Guid":
      return [form("guid'…'", "guid''", "Guid", 1)];
    case "Edm.Binary":
      return [form("X'…'", "X''", "binary, in hex", 1)];
    case "Edm.Boolean":
      return [form("true", "true", ""), form("false", "false", "")];
    case "Edm.Int64":
      return [form("…L", "L", "Int64", 1)];
    default:
      return [];
  }
}

/**
 * Returns the options that begin with the typed text, followed by other options that contain it. Ignores letter case.
 * @param {Option[]} options
 * @param {string} typed
 */
function matching(options, typed) {
  const wanted = typed.toLowerCase();
  const place = (/** @type {Option} */ { label }) => label.toLowerCase().indexOf(wanted);
  const begins = options.filter((each) => place(each) === 0);
  const contains = options.filter((each) => place(each) > 0);
  return [...begins, ...contains].slice(0, OPTIONS_MAX);
}
