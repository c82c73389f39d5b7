/** Light or dark: what the system says, unless the user says otherwise. This runs before anything is painted. */

export type Theme = "system" | "light" | "dark";

/** Told to whoever paints with colours of its own. */
export const CHANGED = "headgate-theme";

const KEY = "headgate-theme";
const ORDER: readonly Theme[] = ["system", "light", "dark"];

export function theme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

const system = matchMedia("(prefers-color-scheme: dark)");

function applyTheme(): void {
  const chosen = theme();
  document.documentElement.dataset["theme"] = chosen === "system" ? (system.matches ? "dark" : "light") : chosen;
  dispatchEvent(new Event(CHANGED));
}

export function beginTheme(): void {
  applyTheme();
  system.addEventListener("change", applyTheme);
}

/** The next of system, light, dark. */
export function nextTheme(): Theme {
  const next = ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length] ?? "system";
  if (next === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, next);
  applyTheme();
  return next;
}
