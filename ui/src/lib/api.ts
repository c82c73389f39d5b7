/** Asks the REST API. One rule: whatever goes wrong becomes a Trouble, whose lines say what, where and what to do. */

import type { TriggerResponse } from "./contract";

export type Kind = "unauthorized" | "forbidden" | "missing" | "refused" | "unreachable" | "failed";

export class Trouble extends Error {
  constructor(
    readonly kind: Kind,
    readonly lines: readonly string[],
    readonly status: number | null = null,
  ) {
    super(lines.join("\n"));
  }
}

const KEY = "headgate-token";
const PLACE = /^#token=([^/&]+)(?:[&]?(\/.*))?$/;

let token = "";

/** Take the token out of the address, where nobody shall read it later, or from this tab's memory. True for a new one. */
export function findToken(): boolean {
  const found = PLACE.exec(location.hash);
  if (!found?.[1]) {
    token = sessionStorage.getItem(KEY) ?? "";
    return false;
  }
  keepToken(decodeURIComponent(found[1]));
  history.replaceState(null, "", `${location.pathname}${location.search}#${found[2] ?? "/"}`);
  return true;
}

export function keepToken(value: string): void {
  token = value.trim();
  sessionStorage.setItem(KEY, token);
}

export function dropToken(): void {
  token = "";
  sessionStorage.removeItem(KEY);
}

export function hasToken(): boolean {
  return token !== "";
}

let unauthorized: () => void = () => undefined;

/** What is done when the server does not know the token (any more). */
export function onUnauthorized(what: () => void): void {
  unauthorized = what;
}

const KINDS: Readonly<Record<number, Kind>> = { 401: "unauthorized", 403: "forbidden", 404: "missing", 409: "refused" };

/** Send a request; return the answer if it is a good one. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("Authorization", `Bearer ${token}`);
  let answer: Response;
  try {
    answer = await fetch(`/v1${path}`, { ...init, headers, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Trouble("unreachable", [`${location.host} does not answer: is the process still running?`]);
  }
  if (answer.ok) return answer;
  const trouble = new Trouble(KINDS[answer.status] ?? "failed", await problems(answer), answer.status);
  if (trouble.kind === "unauthorized") unauthorized();
  throw trouble;
}

async function problems(answer: Response): Promise<string[]> {
  try {
    const body = (await answer.json()) as { errors?: unknown };
    if (Array.isArray(body.errors) && body.errors.length > 0) return body.errors.map(String);
  } catch {
    // Not an answer of the API: its status is all there is to say.
  }
  return [`${answer.status} ${answer.statusText}`.trim()];
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const answer = await send(path, signal ? { signal } : {});
  return (await answer.json()) as T;
}

/** Ask for an operation. The caller's own name for it makes it safe to ask again when the answer was lost. */
export async function trigger(method: "POST" | "DELETE", path: string, body?: object): Promise<string> {
  const name = unique();
  const init: RequestInit =
    method === "DELETE"
      ? { method }
      : { method, body: JSON.stringify({ ...body, triggerId: name }), headers: { "Content-Type": "application/json" } };
  for (let tries = 1; ; tries += 1) {
    try {
      const answer = await send(path, init);
      return ((await answer.json()) as TriggerResponse)["request-id"];
    } catch (error) {
      const again = error instanceof Trouble && error.kind === "unreachable" && method === "POST" && tries < 3;
      if (!again) throw error;
      await pause(300 * tries);
    }
  }
}

function unique(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) => one.toString(16).padStart(2, "0")).join("");
}

export function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}

export function troubleOf(error: unknown): Trouble {
  return error instanceof Trouble ? error : new Trouble("failed", [error instanceof Error ? error.message : String(error)]);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
