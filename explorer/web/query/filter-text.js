// The grammar of filters: parses a text into a tree, with the position of every error. It accepts
// what the service accepts, and with extensions also string functions; a Chromium test compares it with the server. This
// module must not depend on pages or requests.

import { ValueError } from "../core/errors.js";
import { callOf, exampleOf, functionMessage, isFunction } from "./filter-functions.js";
import { tokenize, WORDS } from "./filter-lex.js";

/** @import { EdmType } from "../core/edm.js" */
/** @import { StringFunction } from "./filter-functions.js" */
/** @import { FilterError, Token } from "./filter-lex.js" */

/** @typedef {"eq" | "ne" | "gt" | "ge" | "lt" | "le"} Operator */
/**
 * A literal. `text` is the string itself, the hexadecimal digits of a binary value, or for other types the number or
 * the text inside the quotes.
 * @typedef {{type: EdmType, text: string}} Literal
 */
/**
 * The tree of a filter. Comparisons have the property on the left. `group` is true for an expression in parentheses, and
 * for a call that is already compared with a Boolean.
 * @typedef {{kind: "and" | "or", operands: Node[], group?: boolean}
 *   | {kind: "not", operand: Node, group?: boolean}
 *   | {kind: "compare", property: string, operator: Operator, literal: Literal, group?: boolean}
 *   | {kind: "call", called: StringFunction, property: string, text: string, group?: boolean}
 *   | {kind: "property", property: string, group?: boolean}
 *   | {kind: "constant", value: boolean, group?: boolean}} Node
 */
/**
 * The result of parsing. `filter` is null if the text is empty or has errors.
 * @typedef {{filter: Node | null, errors: FilterError[], tokens: Token[]}} Parsed
 */

/** A part of an expression; `refused` after an error, so that the error is not reported twice. @typedef {Node
 *   | {kind: "literal", literal: Literal} | {kind: "null"} | {kind: "refused"}} Operand */
/** @typedef {Node & {kind: "call"}} Call */
/** An operand and its position. @typedef {{operand: Operand, start: number, end: number}} Placed */

/** @type {Operator[]} */
export const OPERATORS = ["eq", "ne", "gt", "ge", "lt", "le"];
/** @type {Record<Operator, Operator>} */
const MIRRORED = { eq: "eq", ne: "ne", gt: "lt", ge: "le", lt: "gt", le: "ge" };
const DEPTH_MAX = 256;

/**
 * @param {string} text
 * @param {boolean} [extensions]  whether string functions are part of the language
 * @returns {Parsed}
 */
export function parseFilter(text, extensions = true) {
  const { tokens, errors } = tokenize(text);
  if (tokens.length === 1) return { filter: null, errors, tokens };
  const parser = new Parser(tokens, errors, extensions);
  const filter = parser.whole();
  errors.sort((a, b) => a.start - b.start);
  return { filter: errors.length ? null : filter, errors, tokens };
}

/**
 * Throws an error with a message for the user if a filter is malformed, so that it is not sent in a request.
 * @param {string} text
 * @param {boolean} extensions
 * @throws {ValueError}
 */
export function checkFilter(text, extensions) {
  const [error] = parseFilter(text, extensions).errors;
  if (error) throw new ValueError(`The query was not sent because its filter has an error at character ${error.start + 1}.`);
}

/** Stops parsing a text that makes no sense from here on. */
class Stop extends Error {}

class Parser {
  #at = 0;
  #depth = 0;

  /** @param {Token[]} tokens @param {FilterError[]} errors @param {boolean} extensions */
  constructor(tokens, errors, extensions) {
    this.tokens = tokens;
    this.errors = errors;
    this.extensions = extensions;
  }

  /** @returns {Token} */
  get token() {
    return /** @type {Token} */ (this.tokens[Math.min(this.#at, this.tokens.length - 1)]);
  }

  take() {
    const token = this.token;
    this.#at++;
    return token;
  }

  /** The end of the token that was taken last. */
  get #end() {
    return this.tokens[this.#at - 1]?.end ?? 0;
  }

  /** @param {{start: number, end: number}} place @param {string} message @param {boolean} [incomplete] */
  fail({ start, end }, message, incomplete) {
    // One message per position is enough.
    if (this.errors.some((error) => error.start <= start && end <= error.end && (end > start || error.end === end))) return;
    this.errors.push({ start, end, message, ...(incomplete ? { incomplete } : {}) });
  }

  /** @returns {Node | null} */
  whole() {
    try {
      const filter = this.condition(this.or());
      const token = this.token;
      if (token.kind === ")") this.fail(token, "This closing parenthesis has no opening parenthesis.");
      else if (token.kind !== "end") this.unexpected(token);
      return filter;
    } catch (error) {
      if (error instanceof Stop) return null;
      throw error;
    }
  }

  /** Reports a token that stands where an operator or the end was expected. @param {Token} token */
  unexpected(token) {
    const lower = token.text.toLowerCase();
    if (token.kind === "name" && lower !== token.text && /^(eq|ne|gt|ge|lt|le|and|or)$/.test(lower)) {
      return this.fail(token, `Operators are written in lower case: ${lower}.`);
    }
    if (token.kind === "name" && this.extensions && isFunction(lower)) {
      return this.fail(token, `Write ${exampleOf(lower)}.`);
    }
    const isFunctionLike = token.kind === "name" && /^(in|has|add|sub|mul|div|mod|like|contains|startswith)$/.test(lower);
    this.fail(
      token,
      isFunctionLike
        ? `The service does not support ${token.text}.`
        : "An operator is missing before this. Compare with eq, ne, gt, ge, lt or le; join conditions with “and” or “or”.");
  }

  /**
   * Returns the operator at this position, or "". A misspelled operator is reported, but parsing continues.
   * @returns {string}
   */
  operator() {
    const { kind, text } = this.token;
    const word = kind === "wrong" ? (WORDS[text] ?? "") : kind === "name" ? text : "";
    const lower = word.toLowerCase();
    if (!/^(eq|ne|gt|ge|lt|le|and|or)$/.test(lower)) return "";
    if (kind === "name" && lower !== text) this.unexpected(this.token);
    return lower;
  }

  /** @returns {Placed} */
  or() {
    return this.chain("or", () => this.chain("and", () => this.unary()));
  }

  /** @param {"and" | "or"} kind @param {() => Placed} next @returns {Placed} */
  chain(kind, next) {
    const first = next();
    if (this.operator() !== kind) return first;
    /** @type {(Node | null)[]} */
    const operands = [this.condition(first)];
    while (this.operator() === kind) {
      this.take();
      operands.push(this.condition(next()));
    }
    const place = { start: first.start, end: this.#end };
    const nodes = operands.filter((operand) => operand !== null);
    return { operand: nodes.length === operands.length ? { kind, operands: nodes } : { kind: "refused" }, ...place };
  }

  /** @returns {Placed} */
  unary() {
    const token = this.token;
    const isMark = token.kind === "wrong" && token.text === "!";
    if (!isMark && !(token.kind === "name" && token.text === "not")) return this.compare();
    this.take();
    const operand = this.nested(() => this.condition(this.unary()));
    return { operand: operand ? { kind: "not", operand } : { kind: "refused" }, start: token.start, end: this.#end };
  }

  /** @returns {Placed} */
  compare() {
    const left = this.primary();
    const operator = this.operator();
    if (operator === "" || operator === "and" || operator === "or") return left;
    this.take();
    const isNot = this.token.kind === "name" && this.token.text === "not";
    if (isNot) this.fail(this.token, "A comparison needs a value here. Put “not” before the whole comparison.");
    const right = isNot ? this.unary() : this.primary();
    if (isNot) return { operand: { kind: "refused" }, start: left.start, end: right.end };
    const place = { start: left.start, end: right.end };
    const again = this.operator();
    if (again !== "" && again !== "and" && again !== "or") {
      this.fail(this.token, "Comparisons cannot be chained. Join them with “and”.");
      this.take();
      this.primary();
    }
    return { operand: this.comparison(left, /** @type {Operator} */ (operator), right), ...place };
  }

  /** @param {Placed} left @param {Operator} operator @param {Placed} right @returns {Operand} */
  comparison(left, operator, right) {
    const [a, b] = [left.operand, right.operand];
    const place = { start: left.start, end: right.end };
    if (a.kind === "refused" || b.kind === "refused") return { kind: "refused" };
    if (a.kind === "null" || b.kind === "null") {
      this.fail(
        place,
        "null is not supported: a property without a value does not exist, and no comparison matches it. Try not (Name ne …).");
    } else if (a.kind === "call" || b.kind === "call") {
      return a.kind === "call" ? this.tested(a, operator, b, place) : this.tested(/** @type {Call} */ (b), operator, a, place);
    } else if (a.kind === "property" && b.kind === "literal") {
      return this.typed(a.property, operator, b.literal, right);
    } else if (a.kind === "literal" && b.kind === "property") {
      return this.typed(b.property, MIRRORED[operator], a.literal, left);
    } else if (a.kind === "property" && b.kind === "property") {
      this.fail(right, `Two properties cannot be compared. Put a string in quotes: '${b.property}'.`);
    } else {
      this.fail(place, "A comparison needs a property on one side and a value on the other.");
    }
    return { kind: "refused" };
  }

  /**
   * Some clients write every call as a comparison with true.
   * @param {Call} call
   * @param {Operator} operator
   * @param {Operand} value
   * @param {{start: number, end: number}} place
   * @returns {Operand}
   */
  tested(call, operator, value, place) {
    const isOfTruth = value.kind === "literal" && value.literal.type === "Edm.Boolean" && /^(eq|ne)$/.test(operator);
    if (!isOfTruth || call.group) {
      this.fail(place, "A function can be compared only with true or false, by eq or ne.");
      return { kind: "refused" };
    }
    const isPlain = (value.literal.text === "true") === (operator === "eq");
    return isPlain ? { ...call, group: true } : { kind: "not", operand: call };
  }

  /**
   * @param {string} property
   * @param {Operator} operator
   * @param {Literal} literal
   * @param {Placed} place
   * @returns {Operand}
   */
  typed(property, operator, literal, place) {
    const wanted = SYSTEM_TYPES[property];
    if (wanted && wanted !== literal.type) {
      this.fail(
        place,
        wanted === "Edm.String"
          ? `${property} is a string: put the value in single quotes.`
          : `${property} is a time: write datetime'2026-01-31T12:00:00Z'.`);
      return { kind: "refused" };
    }
    return { kind: "compare", property, operator, literal };
  }

  /** @returns {Placed} */
  primary() {
    const token = this.token;
    const place = { start: token.start, end: token.end };
    switch (token.kind) {
      case "(":
        return this.parentheses();
      case "literal":
        this.take();
        return { operand: { kind: "literal", literal: { type: token.type ?? "Edm.String", text: token.value ?? "" } }, ...place };
      case "null":
        this.take();
        return { operand: { kind: "null" }, ...place };
      case "name":
        return this.name();
      case "-":
        this.fail(token, "A minus sign must be followed directly by a number.");
        this.take();
        return { ...this.primary(), operand: { kind: "refused" } };
      case "end":
        this.fail(
          token,
          this.#at === 0 ? "A condition is missing." : "The filter ends too early: a value or condition is missing.",
          true);
        throw new Stop();
      case "wrong":
        this.take();
        return { operand: { kind: "refused" }, ...place };
      default:
        this.fail(token, "A property, a value or a condition is missing before this.");
        throw new Stop();
    }
  }

  /** @returns {Placed} */
  parentheses() {
    const open = this.take();
    const { operand } = this.nested(() => this.or());
    this.close(open);
    return {
      operand: "operands" in operand || operand.kind === "not" ? { ...operand, group: true } : operand,
      start: open.start,
      end: this.#end,
    };
  }

  /** Takes a closing parenthesis. @param {Token} open */
  close(open) {
    if (this.token.kind !== ")") {
      if (this.token.kind === "end") this.fail(open, "The closing parenthesis is missing.", true);
      else this.unexpected(this.token);
      throw new Stop();
    }
    this.take();
  }

  /** @returns {Placed} */
  name() {
    const name = this.take();
    if (this.token.kind === "(") return this.call(name);
    if (this.token.kind === "/") {
      while (/^(\/|name)$/.test(this.token.kind) && !this.operator()) this.take();
      this.fail({ start: name.start, end: this.#end }, "The service does not support paths. Use the name of a property.");
      return { operand: { kind: "refused" }, start: name.start, end: this.#end };
    }
    return { operand: { kind: "property", property: name.text }, start: name.start, end: name.end };
  }

  /** @param {Token} name @returns {Placed} */
  call(name) {
    /** @type {Operand} */
    let operand = { kind: "refused" };
    if (this.extensions && isFunction(name.text)) {
      const given = this.nested(() => this.arguments());
      const call = callOf(name.text, given);
      if (typeof call !== "string") operand = call;
      else if (given.every(({ kind }) => kind !== "refused")) this.fail({ start: name.start, end: this.#end }, call);
    } else {
      this.fail({ start: name.start, end: name.end }, functionMessage(name.text, this.extensions));
      this.skipArguments();
    }
    return { operand, start: name.start, end: this.#end };
  }

  /** @returns {Operand[]} */
  arguments() {
    const open = this.take();
    const given = [];
    if (this.token.kind !== ")") {
      do given.push(this.or().operand);
      while (this.token.kind === "," && this.take());
    }
    this.close(open);
    return given;
  }

  skipArguments() {
    let depth = 0;
    do {
      const { kind } = this.take();
      if (kind === "(") depth++;
      if (kind === ")") depth--;
    } while (depth > 0 && this.token.kind !== "end");
  }

  /** @template T @param {() => T} read @returns {T} */
  nested(read) {
    if (++this.#depth > DEPTH_MAX) {
      this.fail(this.token, `Parentheses and “not” are nested more than ${DEPTH_MAX} levels deep.`);
      throw new Stop();
    }
    const result = read();
    this.#depth--;
    return result;
  }

  /** Returns an operand as a condition; null after an error. @param {Placed} placed @returns {Node | null} */
  condition(placed) {
    const { operand } = placed;
    switch (operand.kind) {
      case "refused":
        return null;
      case "literal":
        if (operand.literal.type === "Edm.Boolean") return { kind: "constant", value: operand.literal.text === "true" };
        this.fail(placed, "A value alone is not a condition: compare it with a property.", this.token.kind === "end");
        return null;
      case "null":
        this.fail(placed, "null is not a condition.");
        return null;
      case "property":
        if (!SYSTEM_TYPES[operand.property]) return operand;
        this.fail(placed, `${operand.property} alone is not a condition: compare it with a value.`, this.token.kind === "end");
        return null;
      default:
        return operand;
    }
  }
}

/** @type {Record<string, EdmType | undefined>} */
export const SYSTEM_TYPES = Object.assign(Object.create(null), {
  PartitionKey: "Edm.String",
  RowKey: "Edm.String",
  Timestamp: "Edm.DateTime",
});

/** Returns true if a filter can contain the name as a property. @param {string} name */
export function isFilterName(name) {
  const { tokens } = tokenize(name);
  return tokens.length === 2 && tokens[0]?.kind === "name" && tokens[0].text === name && name !== "not";
}
