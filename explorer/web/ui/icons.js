// The icons of buttons, drawn with lines in the colour of the text. An icon never stands without a name.

const SVG = "http://www.w3.org/2000/svg";

/** Paths in a square of 16 by 16. */
const PATHS = {
  add: "M8 3v10M3 8h10",
  edit: "M3 13l.7-2.8L10.5 3.3l2.2 2.2L5.8 12.3zM9.3 4.5l2.2 2.2",
  duplicate: "M6 6h7v7H6zM3.5 10H3V3h7v.5",
  remove: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.5 8.5h6l.5-8.5M7 7v3.5M9 7v3.5",
  json: "M6 3c-2 0-1.5 2-1.5 3S4 8 3 8c1 0 1.5 1 1.5 2S4 13 6 13M10 3c2 0 1.5 2 1.5 3S12 8 13 8c-1 0-1.5 1-1.5 2s.5 3-1.5 3",
  property: "M3 4h10M3 8h5M3 12h4M9.5 12.5l.4-1.7 3.3-3.3 1.3 1.3-3.3 3.3z",
  undo: "M6 3.5L3 6.5l3 3M3 6.5h6.5a3 3 0 0 1 0 6H7",
  columns: "M3 3.5h10v9H3zM6.4 3.5v9M9.7 3.5v9",
  refresh: "M12.5 8a4.5 4.5 0 1 1-1.4-3.3M12.5 2.5v3h-3",
  importing: "M8 3v6.5M5.3 7L8 9.7 10.7 7M3 11.5V13h10v-1.5",
  exporting: "M8 9.7V3.2M5.3 5.9L8 3.2l2.7 2.7M3 11.5V13h10v-1.5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  history: "M8 3.5a4.5 4.5 0 1 1-4.3 3.2M3 3.5v3h3M8 5.5V8l1.8 1.2",
  save: "M4.5 3h7v10L8 10.3 4.5 13z",
  code: "M5.5 5L2.7 8l2.8 3M10.5 5l2.8 3-2.8 3M9 3.5l-2 9",
  theme: "M8 3a5 5 0 1 0 0 10zM8 3a5 5 0 0 1 0 10",
  leave: "M9 3H3.5v10H9M6.5 8H13M10.7 5.5L13.2 8l-2.5 2.5",
  keys: "M2.5 5h11v6.5h-11zM5 7.3h.01M8 7.3h.01M11 7.3h.01M5.5 9.5h5",
  compare: "M3 3.5h4v9H3zM9 3.5h4v9H9z",
  pause: "M6 4v8M10 4v8",
  play: "M5 3.5v9L12 8z",
};

/** @typedef {keyof typeof PATHS} IconName */

/** @param {IconName} name */
export function icon(name) {
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  const svg = document.createElementNS(SVG, "svg");
  for (const [attribute, value] of [["class", "icon"], ["viewBox", "0 0 16 16"], ["aria-hidden", "true"]]) {
    svg.setAttribute(/** @type {string} */ (attribute), /** @type {string} */ (value));
  }
  svg.append(path);
  return svg;
}
