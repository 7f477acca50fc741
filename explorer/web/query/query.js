// A query of a table as a value: what is asked, its address, and a line that names it.
// This module must not know the page.

/**
 * `top` is the most entities that are wanted in all, on however many pages.
 * @typedef {{filter: string, select: string[] | null, top: number | null}} Query
 */

/** @type {Query} */
export const EVERYTHING = { filter: "", select: null, top: null };

/**
 * The part of an address after the page: it names the table and the query, and never holds a credential.
 * @param {string} table
 * @param {Query} query
 */
export function queryHash(table, { filter, select, top }) {
  const options = Object.entries({ filter, select: select?.join(",") ?? "", top: top === null ? "" : String(top) })
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return `#/t/${encodeURIComponent(table)}${options.length ? `?${options.join("&")}` : ""}`;
}

/** @param {Query} query */
export function queryLabel({ filter, select, top }) {
  const parts = [filter.trim() || "everything"];
  if (select) parts.push(`select ${select.join(", ")}`);
  if (top !== null) parts.push(`take ${top}`);
  return parts.join(" · ");
}

/** @param {Query} a @param {Query} b */
export function sameQuery(a, b) {
  return queryHash("", a) === queryHash("", b);
}

/** The query that a stored value is; null if it is none. @param {unknown} value @returns {Query | null} */
export function asQuery(value) {
  if (typeof value !== "object" || value === null) return null;
  const { filter, select, top } = /** @type {Record<string, unknown>} */ (value);
  const isSelect = select === null || (Array.isArray(select) && select.every((name) => typeof name === "string"));
  const isTop = top === null || (typeof top === "number" && Number.isInteger(top) && top > 0);
  return typeof filter === "string" && isSelect && isTop ? { filter, select, top } : null;
}

/**
 * The names of a projection as people write them, with commas between them; null if there are none.
 * @param {string} text
 */
export function readNames(text) {
  return [
    ...new Set(
      text
        .split(",")
        .map((name) => name.trim())
        .filter(Boolean),
    ),
  ];
}
