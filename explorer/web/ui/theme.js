// The theme, light or dark. It follows the system unless the user has chosen one.

import { browserStore } from "./storage.js";

const STORED = "rowhouse-theme";

/** Restores the theme that the user chose on an earlier visit. */
export function startTheme() {
  set(browserStore.getItem(STORED));
}

/** Switches between the light and the dark theme. */
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
