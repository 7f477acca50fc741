// Numbers, counts, sizes and lists, formatted for users.

/** @param {number} value */
export function numberText(value) {
  return value.toLocaleString("en");
}

/** @param {number} count @param {string} [one] @param {string} [many] */
export function countText(count, one = "entity", many = "entities") {
  return `${numberText(count)} ${count === 1 ? one : many}`;
}

/** @param {number} bytes */
export function sizeText(bytes) {
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** Joins items to a list in a sentence. @param {string[]} items */
export function listText(items) {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}
