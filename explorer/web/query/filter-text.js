// The grammar of a filter: from its text to a tree, with every mistake at its place; and literals as text.
// It accepts what the service accepts, which a case in Chromium compares. This module must not know pages or requests.

import { ValueError } from "../core/errors.js";
import { tokenize, WORDS } from "./filter-lex.js";

/** @import { EdmType } from "../core/edm.js" */
/** @import { FilterError, Token } from "./filter-lex.js" */

/** @typedef {"eq" | "ne" | "gt" | "ge" | "lt" | "le"} Operator */
/**
 * A literal's text: of a string the string, of a binary value hex, of other types what stands in quotes or the number.
 * @typedef {{type: EdmType, text: string}} Literal
 */
/**
 * The tree of a filter. Comparisons have the property on the left. `group` marks what stands in parentheses.
 * @typedef {{kind: "and" | "or", operands: Node[], group?: boolean}
 *   | {kind: "not", operand: Node, group?: boolean}
 *   | {kind: "compare", property: string, operator: Operator, literal: Literal, group?: boolean}
 *   | {kind: "property", property: string, group?: boolean}
 *   | {kind: "constant", value: boolean, group?: boolean}} Node
 */
/**
 * `filter` is null for an empty text, and if there are errors.
 * @typedef {{filter: Node | null, errors: FilterError[], tokens: Token[]}} Parsed
 */

/** What a part of an expression is; `refused` after an error, which is not reported twice. @typedef {Node
 *   | {kind: "literal", literal: Literal} | {kind: "null"} | {kind: "refused"}} Operand */
/** An operand and its place. @typedef {{operand: Operand, start: number, end: number}} Placed */

/** @type {Operator[]} */
export const OPERATORS = ["eq", "ne", "gt", "ge", "lt", "le"];
/** @type {Record<Operator, Operator>} */
const MIRRORED = { eq: "eq", ne: "ne", gt: "lt", ge: "le", lt: "gt", le: "ge" };
const DEPTH_MAX = 256;

/**
 * @param {string} text
 * @returns {Parsed}
 */
export function parseFilter(text) {
  const { tokens, errors } = tokenize(text);
  if (tokens.length === 1) return { filter: null, errors, tokens };
  const parser = new Parser(tokens, errors);
  const filter = parser.whole();
  errors.sort((a, b) => a.start - b.start);
  return { filter: errors.length ? null : filter, errors, tokens };
}

/**
 * Throws a message for the user if a filter has a mistake, so that no request is sent with it.
 * @param {string} text
 * @throws {ValueError}
 */
export function checkFilter(text) {
  const [error] = parseFilter(text).errors;
  if (error) throw new ValueError(`The query was not sent, because its filter has a mistake at character ${error.start + 1}.`);
}

/** Ends the reading of a text that makes no sense from here on. */
class Stop extends Error {}

class Parser {
  #at = 0;
  #depth = 0;

  /** @param {Token[]} tokens @param {FilterError[]} errors */
  constructor(tokens, errors) {
    this.tokens = tokens;
    this.errors = errors;
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

  /** The end of the last token that was taken. */
  get #end() {
    return this.tokens[this.#at - 1]?.end ?? 0;
  }

  /** @param {{start: number, end: number}} place @param {string} message @param {boolean} [incomplete] */
  fail({ start, end }, message, incomplete) {
    // One message is enough for one place.
    if (this.errors.some((error) => error.start <= start && end <= error.end && (end > start || error.end === end))) return;
    this.errors.push({ start, end, message, ...(incomplete ? { incomplete } : {}) });
  }

  /** @returns {Node | null} */
  whole() {
    try {
      const filter = this.condition(this.or());
      const token = this.token;
      if (token.kind === ")") this.fail(token, "This parenthesis was not opened.");
      else if (token.kind !== "end") this.unexpected(token);
      return filter;
    } catch (error) {
      if (error instanceof Stop) return null;
      throw error;
    }
  }

  /** Says what is wrong with a token where an operator, or the end, was expected. @param {Token} token */
  unexpected(token) {
    const lower = token.text.toLowerCase();
    if (token.kind === "name" && lower !== token.text && /^(eq|ne|gt|ge|lt|le|and|or)$/.test(lower)) {
      return this.fail(token, `Operators are written in lower case: ${lower}.`);
    }
    const isFunctionLike = token.kind === "name" && /^(in|has|add|sub|mul|div|mod|like|contains|startswith)$/.test(lower);
    this.fail(
      token,
      isFunctionLike
        ? `The service has no ${token.text}.`
        : "An operator is missing before this: eq ne gt ge lt le compare, and or combine.",
    );
  }

  /** The operator at this place, also if it is miswritten, which is an error but goes on. @returns {string} */
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
    if (isNot) this.fail(this.token, "A comparison needs a value here; not stands before a whole comparison.");
    const right = isNot ? this.unary() : this.primary();
    if (isNot) return { operand: { kind: "refused" }, start: left.start, end: right.end };
    const place = { start: left.start, end: right.end };
    const again = this.operator();
    if (again !== "" && again !== "and" && again !== "or") {
      this.fail(this.token, "Comparisons cannot be chained; combine them with and.");
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
        "There is no null: a property without a value is missing, and no comparison finds it. Try not (Name ne …).",
      );
    } else if (a.kind === "property" && b.kind === "literal") {
      return this.typed(a.property, operator, b.literal, right);
    } else if (a.kind === "literal" && b.kind === "property") {
      return this.typed(b.property, MIRRORED[operator], a.literal, left);
    } else if (a.kind === "property" && b.kind === "property") {
      this.fail(right, `Two properties cannot be compared. Put a text into quotes: '${b.property}'.`);
    } else {
      this.fail(place, "A comparison has a property on one side and a value on the other.");
    }
    return { kind: "refused" };
  }

  /** @param {string} property @param {Operator} operator @param {Literal} literal @param {Placed} place @returns {Operand} */
  typed(property, operator, literal, place) {
    const wanted = SYSTEM_TYPES[property];
    if (wanted && wanted !== literal.type) {
      this.fail(
        place,
        wanted === "Edm.String"
          ? `${property} is a text: put the value into single quotes.`
          : `${property} is a time: write datetime'2026-01-31T12:00:00Z'.`,
      );
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
        this.fail(token, "A minus belongs to a number, without a blank.");
        this.take();
        return { ...this.primary(), operand: { kind: "refused" } };
      case "end":
        this.fail(
          token,
          this.#at === 0 ? "A condition is missing." : "The filter ends too early: a value or a condition is missing.",
          true,
        );
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
    const inner = this.nested(() => this.or());
    if (this.token.kind !== ")") {
      if (this.token.kind === "end") this.fail(open, "The closing parenthesis is missing.", true);
      else this.unexpected(this.token);
      throw new Stop();
    }
    this.take();
    const { operand } = inner;
    return {
      operand: "operands" in operand || operand.kind === "not" ? { ...operand, group: true } : operand,
      start: open.start,
      end: this.#end,
    };
  }

  /** @returns {Placed} */
  name() {
    const name = this.take();
    if (this.token.kind === "(") {
      this.fail({ start: name.start, end: name.end }, functionMessage(name.text));
      this.arguments();
      return { operand: { kind: "refused" }, start: name.start, end: this.#end };
    }
    if (this.token.kind === "/") {
      while (/^(\/|name)$/.test(this.token.kind) && !this.operator()) this.take();
      this.fail({ start: name.start, end: this.#end }, "The service has no paths: a property has one name.");
      return { operand: { kind: "refused" }, start: name.start, end: this.#end };
    }
    return { operand: { kind: "property", property: name.text }, start: name.start, end: name.end };
  }

  /** Skips the arguments of a function. */
  arguments() {
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
      this.fail(this.token, `Parentheses and not are nested more than ${DEPTH_MAX} deep.`);
      throw new Stop();
    }
    const result = read();
    this.#depth--;
    return result;
  }

  /** An operand as a condition; null after an error. @param {Placed} placed @returns {Node | null} */
  condition(placed) {
    const { operand } = placed;
    switch (operand.kind) {
      case "refused":
        return null;
      case "literal":
        if (operand.literal.type === "Edm.Boolean") return { kind: "constant", value: operand.literal.text === "true" };
        this.fail(placed, "A value alone is no condition: compare it with a property.", this.token.kind === "end");
        return null;
      case "null":
        this.fail(placed, "null is no condition.");
        return null;
      case "property":
        if (!SYSTEM_TYPES[operand.property]) return operand;
        this.fail(placed, `${operand.property} alone is no condition: compare it with a value.`, this.token.kind === "end");
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

/** @param {string} name */
function functionMessage(name) {
  const lower = name.toLowerCase();
  if (lower === "startswith") return "The service has no functions. Texts that begin with ab: Name ge 'ab' and Name lt 'ac'.";
  if (lower === "and" || lower === "or") return `A condition is missing before ${lower}.`;
  return `The service has no functions, so ${name}(…) is refused.`;
}

/** Whether a text can be written as a property in a filter. @param {string} name */
export function isFilterName(name) {
  const { tokens } = tokenize(name);
  return tokens.length === 2 && tokens[0]?.kind === "name" && tokens[0].text === name && name !== "not";
}

/** @param {string} text */
export function writeString(text) {
  return `'${text.replaceAll("'", "''")}'`;
}

/** @param {Literal} literal */
export function writeLiteral({ type, text }) {
  switch (type) {
    case "Edm.String":
      return writeString(text);
    case "Edm.DateTime":
      return `datetime'${text}'`;
    case "Edm.Guid":
      return `guid'${text}'`;
    case "Edm.Binary":
      return `X'${text}'`;
    case "Edm.Int64":
      return `${text}L`;
    case "Edm.Double":
      return writeDouble(text);
    default:
      return text;
  }
}

/** A Double without a fraction needs one, or it would be an Int32. @param {string} text */
function writeDouble(text) {
  if (text.endsWith("Infinity")) return text.replace("Infinity", "INF");
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}
