/** Where one is, from the fragment of the address. One rule: every page, and every tab of it, has an address. */

import { useEffect, useState } from "preact/hooks";

export type Route = readonly string[];

export function route(): Route {
  return location.hash
    .replace(/^#\/?/, "")
    .split("/")
    .filter((part) => part !== "")
    .map(decode);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(...parts: readonly (string | number)[]): string {
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

export function go(...parts: readonly (string | number)[]): void {
  location.hash = href(...parts);
}

export function useRoute(): Route {
  const [now, setNow] = useState(route);
  useEffect(() => {
    const moved = (): void => setNow(route());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return now;
}
