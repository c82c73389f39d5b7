/** Shortcuts. One rule: they are listed where they are acted on, so the list under ? cannot be wrong. */

import { useEffect } from "preact/hooks";

export interface Shortcut {
  readonly keys: string;
  readonly what: string;
  readonly run: () => void;
}

const TYPING = new Set(["INPUT", "TEXTAREA", "SELECT"]);
/** After g, the second key must come within this time. */
const SEQUENCE_MS = 1200;

export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  useEffect(() => {
    let first = "";
    let at = 0;
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || TYPING.has(target.tagName)) return;
      if (document.querySelector("dialog[open]")) return;
      const sequence = first !== "" && Date.now() - at < SEQUENCE_MS ? `${first} ${event.key}` : event.key;
      const found = shortcuts.find((one) => one.keys === sequence);
      first = "";
      if (found) {
        event.preventDefault();
        found.run();
      } else if (event.key === "g") {
        first = "g";
        at = Date.now();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [shortcuts]);
}
