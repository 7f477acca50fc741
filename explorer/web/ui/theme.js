// Light or dark: as the system says, unless the user chose.

import { browserStore } from "./storage.js";

const STORED = "rowhouse-theme";

/** Follows the choice of an earlier visit. */
export function startTheme() {
  set(browserStore.getItem(STORED));
}

/** Changes from light to dark, or back. */
export function toggleTheme() {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const current = document.documentElement.dataset["theme"] ?? (isDark ? "dark" : "light");
  const theme = current === "dark" ? "light" : "dark";
  browserStore.setItem(STORED, theme);
  set(theme);
}

/** @param {string | null} theme */
function set(theme) {
  if (theme === "light" || theme === "dark") {
    document.documentElement.dataset["theme"] = theme;
  }
}
