/** Reads the event stream of a job. One rule: it comes back by itself, and whoever watches knows whether it is there. */

import { isAbort, send, troubleOf, type Trouble } from "./api";

const FIRST_MS = 500;
const LONGEST_MS = 15_000;
/** The server says something every 15 s. */
const SILENT_MS = 40_000;
/** A page that has not been seen for this long listens no more. */
const HIDDEN_MS = 30_000;

export type Connection =
  | { readonly state: "connecting" }
  | { readonly state: "live" }
  | { readonly state: "paused" }
  | { readonly state: "over"; readonly text: string; readonly retryAt: number }
  | { readonly state: "lost"; readonly trouble: Trouble; readonly retryAt: number };

export interface Listener {
  message(event: string, data: unknown): void;
  connection(connection: Connection): void;
}

export interface Listening {
  /** Do not wait any longer. */
  retry(): void;
  stop(): void;
}

/** Listen until told to stop. */
export function listen(path: string, listener: Listener): Listening {
  let stopped = false;
  let attempt = 0;
  let current = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let hidden: ReturnType<typeof setTimeout> | undefined;
  let paused = false;

  const later = (): number => {
    const wait = Math.min(LONGEST_MS, FIRST_MS * 2 ** attempt) * (0.75 + Math.random() / 2);
    attempt += 1;
    timer = setTimeout(() => void connect(), wait);
    return Date.now() + wait;
  };

  const connect = async (): Promise<void> => {
    clearTimeout(timer);
    current = new AbortController();
    const mine = current;
    let over: string | null = null;
    try {
      const answer = await send(path, { signal: mine.signal, headers: { Accept: "text/event-stream" } });
      if (answer.body === null) throw new Error("the stream has no body");
      listener.connection({ state: "live" });
      for await (const { event, data } of messages(answer.body, mine)) {
        attempt = 0;
        const value: unknown = JSON.parse(data);
        if (event === "over") over = (value as { text?: string }).text ?? "";
        listener.message(event, value);
      }
      if (stopped || paused || mine !== current) return;
      if (over !== null) listener.connection({ state: "over", text: over, retryAt: later() });
      else listener.connection({ state: "lost", trouble: troubleOf(new Error("the connection was closed")), retryAt: later() });
    } catch (error) {
      if (stopped || paused || mine !== current) return;
      const trouble = isAbort(error) ? troubleOf(new Error("nothing was heard for a while")) : troubleOf(error);
      if (trouble.kind === "unauthorized") return;
      listener.connection({ state: "lost", trouble, retryAt: later() });
    }
  };

  const seen = (): void => {
    clearTimeout(hidden);
    if (document.hidden) {
      hidden = setTimeout(() => {
        paused = true;
        clearTimeout(timer);
        current.abort();
        listener.connection({ state: "paused" });
      }, HIDDEN_MS);
    } else if (paused) {
      paused = false;
      attempt = 0;
      listener.connection({ state: "connecting" });
      void connect();
    }
  };

  document.addEventListener("visibilitychange", seen);
  void connect();
  return {
    retry: () => {
      attempt = 0;
      current.abort();
      void connect();
    },
    stop: () => {
      stopped = true;
      clearTimeout(timer);
      clearTimeout(hidden);
      document.removeEventListener("visibilitychange", seen);
      current.abort();
    },
  };
}

interface Message {
  readonly event: string;
  readonly data: string;
}

async function* messages(body: ReadableStream<Uint8Array>, controller: AbortController): AsyncGenerator<Message> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const silent = setTimeout(() => controller.abort(), SILENT_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(silent));
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const parts = rest.split(/\r?\n\r?\n/);
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const message = parse(part);
      if (message !== null) yield message;
    }
  }
}

function parse(part: string): Message | null {
  let event = "message";
  const data: string[] = [];
  for (const line of part.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") event = value;
    if (name === "data") data.push(value);
  }
  return data.length === 0 ? null : { event, data: data.join("\n") };
}
