/** What the pages of one job share: its details and events as they come, and the operations that were asked for. */

import { createContext, type ComponentChildren } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, troubleOf, type Trouble } from "./api";
import type { CheckpointProgress, JobDetails } from "./contract";
import { listen, type Connection, type Listening } from "./stream";

export interface JobEvent {
  readonly at: number;
  readonly event: string;
  readonly position?: string;
  readonly [field: string]: unknown;
}

/** Rows a second by task, since the page was opened. */
export interface Series {
  readonly at: number[];
  readonly rows: Map<string, (number | null)[]>;
}

export interface JobView {
  readonly jid: string;
  readonly details: JobDetails | null;
  /** Why there are no details, or no newer ones. */
  readonly trouble: Trouble | null;
  readonly connection: Connection;
  /** When the details were true, by the clock of this machine. */
  readonly seenAt: number | null;
  /** What the server's clock is ahead of this one's. */
  readonly ahead: number;
  /** Events since the page was opened, the newest first. */
  readonly events: readonly JobEvent[];
  readonly series: Series;
  /** Checkpoints under way; one that has just completed stays for a moment, so that the eye can follow. */
  readonly progress: readonly CheckpointProgress[];
  /** Counts events whose type begins with one of these: who asks again when it changes, is up to date. */
  version(...types: readonly string[]): number;
  retry(): void;
}

const KEPT_EVENTS = 500;
const KEPT_POINTS = 900;
const LINGER_MS = 1500;
/** Several events at once are one reason to ask anew. */
const GATHER_MS = 400;

const Context = createContext<JobView | null>(null);

export function useJob(): JobView {
  const found = useContext(Context);
  if (found === null) throw new Error("useJob outside of a job's pages");
  return found;
}

interface State {
  readonly details: JobDetails | null;
  readonly seenAt: number | null;
  readonly ahead: number;
  readonly trouble: Trouble | null;
  readonly connection: Connection;
  readonly events: readonly JobEvent[];
  readonly counts: Readonly<Record<string, number>>;
  readonly lingering: { readonly progress: CheckpointProgress; readonly until: number } | null;
}

const NEW: State = {
  details: null,
  seenAt: null,
  ahead: 0,
  trouble: null,
  connection: { state: "connecting" },
  events: [],
  counts: {},
  lingering: null,
};

export function JobProvider({ jid, children }: { jid: string; children: ComponentChildren }) {
  const [state, setState] = useState<State>(NEW);
  const series = useRef<Series>({ at: [], rows: new Map() });
  const listening = useRef<Listening | null>(null);

  useEffect(() => {
    setState(NEW);
    series.current = { at: [], rows: new Map() };
    const waiting: JobEvent[] = [];
    let gather: ReturnType<typeof setTimeout> | undefined;
    const flush = (): void => {
      gather = undefined;
      const fresh = waiting.splice(0).reverse();
      setState((before) => {
        const counts = { ...before.counts };
        for (const { event } of fresh) counts[event] = (counts[event] ?? 0) + 1;
        return { ...before, counts, events: [...fresh, ...before.events].slice(0, KEPT_EVENTS) };
      });
    };
    listening.current = listen(`/jobs/${encodeURIComponent(jid)}/stream`, {
      connection: (connection) =>
        setState((before) => ({
          ...before,
          connection,
          trouble: connection.state === "live" ? null : connection.state === "lost" ? connection.trouble : before.trouble,
        })),
      message: (event, data) => {
        if (event === "job") {
          const details = data as JobDetails;
          record(series.current, details);
          setState((before) => ({ ...before, ...seen(details), lingering: linger(before, details) }));
        } else if (event === "event" || event === "missed") {
          waiting.push(event === "event" ? (data as JobEvent) : { at: Date.now(), event: "missed", ...(data as object) });
          gather ??= setTimeout(flush, GATHER_MS);
        }
      },
    });
    return () => {
      clearTimeout(gather);
      listening.current?.stop();
    };
  }, [jid]);

  // Where the stream is not to be had, the same is asked for once in a while.
  const lost = state.connection.state === "lost" && state.connection.trouble.kind !== "unreachable";
  useEffect(() => {
    if (!lost) return undefined;
    const ask = (): void => {
      get<JobDetails>(`/jobs/${encodeURIComponent(jid)}`).then(
        (details) => setState((before) => ({ ...before, ...seen(details), trouble: null, lingering: linger(before, details) })),
        (error: unknown) => setState((before) => ({ ...before, trouble: troubleOf(error) })),
      );
    };
    ask();
    const timer = setInterval(ask, 5000);
    return () => clearInterval(timer);
  }, [jid, lost]);

  const { lingering } = state;
  useEffect(() => {
    if (lingering === null) return undefined;
    const timer = setTimeout(() => setState((before) => ({ ...before, lingering: null })), Math.max(0, lingering.until - Date.now()));
    return () => clearTimeout(timer);
  }, [lingering]);

  const view = useMemo<JobView>(
    () => ({
      jid,
      details: state.details,
      trouble: state.trouble,
      connection: state.connection,
      seenAt: state.seenAt,
      ahead: state.ahead,
      events: state.events,
      series: series.current,
      progress: state.details?.in_progress.length ? state.details.in_progress : lingering ? [lingering.progress] : [],
      version: (...types) =>
        Object.entries(state.counts).reduce(
          (sum, [type, number]) => (types.some((one) => type.startsWith(one)) ? sum + number : sum),
          0,
        ),
      retry: () => listening.current?.retry(),
    }),
    [jid, state],
  );
  return <Context.Provider value={view}>{children}</Context.Provider>;
}

function seen(details: JobDetails): Pick<State, "details" | "seenAt" | "ahead"> {
  const now = Date.now();
  return { details, seenAt: now, ahead: details.now - now };
}

/** A checkpoint that was under way, and is complete now. */
function linger(before: State, details: JobDetails): State["lingering"] {
  if (details.in_progress.length > 0) return null;
  const last = before.details?.in_progress[0];
  if (!last || details.last_checkpoint?.id !== last.id) return before.lingering;
  const all = details.vertices.map(({ id }) => id);
  return { progress: { ...last, cut: all, acknowledged: all, waiting: [] }, until: Date.now() + LINGER_MS };
}

function record(series: Series, details: JobDetails): void {
  series.at.push(details.now / 1000);
  const length = series.at.length;
  for (const { id, rows_per_s: rows } of details.vertices) {
    const values = series.rows.get(id) ?? [];
    while (values.length < length - 1) values.push(null);
    values.push(rows);
    series.rows.set(id, values);
  }
  for (const values of series.rows.values()) {
    while (values.length < length) values.push(null);
    if (length > KEPT_POINTS) values.shift();
  }
  if (length > KEPT_POINTS) series.at.shift();
}

/** The server's time, every second. */
export function useNow(ahead = 0, every = 1000): number {
  const [now, setNow] = useState(() => Date.now() + ahead);
  useEffect(() => {
    setNow(Date.now() + ahead);
    const timer = setInterval(() => setNow(Date.now() + ahead), every);
    return () => clearInterval(timer);
  }, [ahead, every]);
  return now;
}
