// Texts as literals of programming languages. What is written can end no literal and hide nothing: quotes and backslashes are
// escaped, and so are all characters that cannot be seen or that change the order in which text is shown.
// This module must not know what the texts mean.

/** Letters, marks, digits, punctuation, symbols and the blank. Not controls, other blanks, and halves of pairs. */
const VISIBLE = /[\p{L}\p{M}\p{N}\p{P}\p{S} ]/u;
/** @type {Record<string, string>} */
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"' };

/**
 * @param {string} text
 * @param {(code: number) => string} escape  writes the number of a character
 */
function quote(text, escape) {
  const parts = [...text].map(
    (character) => SHORT[character] ?? (VISIBLE.test(character) ? character : escape(character.codePointAt(0) ?? 0)),
  );
  return `"${parts.join("")}"`;
}

/** @param {number} code @param {number} digits */
const hex = (code, digits) => code.toString(16).padStart(digits, "0");

/** `\u0007`, and two of them above U+FFFF. @param {number} code */
const units = (code) =>
  [...Array(String.fromCodePoint(code).length).keys()]
    .map((at) => `\\u${hex(String.fromCodePoint(code).charCodeAt(at), 4)}`)
    .join("");

/** @param {string} text */
export const javascriptString = (text) => quote(text, units);

/** @param {string} text */
export const csharpString = (text) => quote(text, units);

/** @param {string} text */
export const pythonString = (text) => quote(text, (code) => (code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`));

/** The compiler reads `\u000a` as a line break, so controls are written in octal. @param {string} text */
export const javaString = (text) =>
  quote(text, (code) => (code < 0x100 ? `\\${code.toString(8).padStart(3, "0")}` : units(code)));

/** A string of Rust has whole characters only. @param {string} text */
export const rustString = (text) => quote(text.toWellFormed(), (code) => `\\u{${hex(code, 1)}}`);

/** An argument of a POSIX shell. @param {string} text */
export function shellString(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Whether every character can be seen; arguments of a shell have no escapes for others. @param {string} text */
export function isVisible(text) {
  return [...text].every((character) => VISIBLE.test(character));
}

/** A text in an address, with everything encoded that could mean something in an address or a shell. @param {string} text */
export function urlText(text) {
  return encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*~]/g,
    (character) => `%${hex(character.charCodeAt(0), 2).toUpperCase()}`,
  );
}
