/** Operations: asked for, followed to their end, and shown until somebody has seen how they ended. */

import { createContext, type ComponentChildren } from "preact";
import { useCallback, useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, pause, trigger, troubleOf } from "./api";
import type { OperationStatus, Operations } from "./contract";

export type OperationKind = OperationStatus["kind"];

export interface Followed {
  readonly key: string;
  readonly label: string;
  readonly kind: OperationKind;
  readonly begun: number;
  readonly ended: number | null;
  readonly outcome: "done" | "failed" | "refused" | "lost" | null;
  readonly text: string;
}

export interface Asked {
  readonly kind: OperationKind;
  readonly label: string;
  readonly method?: "POST" | "DELETE";
  /** Below the job's own path. */
  readonly path: string;
  readonly body?: object;
}

interface Desk {
  readonly followed: readonly Followed[];
  readonly busy: ReadonlySet<OperationKind>;
  ask(asked: Asked): Promise<void>;
  dismiss(key: string): void;
  /** Changes when one is over. */
  readonly ended: number;
}

const WAIT_S = 25;
const SHOWN_MS = 10_000;
const TRIES = 5;

const Context = createContext<Desk | null>(null);

export function useOperations(): Desk {
  const found = useContext(Context);
  if (found === null) throw new Error("useOperations outside of a job's pages");
  return found;
}

export function OperationsProvider({ jid, live, children }: { jid: string; live: boolean; children: ComponentChildren }) {
  const [followed, setFollowed] = useState<readonly Followed[]>([]);
  const [ended, setEnded] = useState(0);
  const base = `/jobs/${encodeURIComponent(jid)}`;
  const known = useRef(new Set<string>());
  const mounted = useRef(true);
  useEffect(() => {
    mounted.current = true;
    return () => {
      mounted.current = false;
    };
  }, []);

  const change = useCallback((key: string, what: Partial<Followed>) => {
    setFollowed((before) => before.map((one) => (one.key === key ? { ...one, ...what } : one)));
  }, []);
  const dismiss = useCallback((key: string) => setFollowed((before) => before.filter((one) => one.key !== key)), []);

  const follow = useCallback(
    async (key: string, request: string) => {
      known.current.add(request);
      let notices = 0;
      let tries = 0;
      while (mounted.current) {
        try {
          const status = await get<OperationStatus>(`${base}/operations/${encodeURIComponent(request)}?wait=${WAIT_S}&after=${notices}`);
          tries = 0;
          notices = status.notices;
          change(key, { text: status.text });
          if (status.status.id === "COMPLETED") {
            change(key, { outcome: status.outcome ?? "done", ended: Date.now(), text: ending(status) });
            setEnded((before) => before + 1);
            if (status.outcome === "done") {
              await pause(SHOWN_MS);
              dismiss(key);
            }
            return;
          }
        } catch (error) {
          tries += 1;
          const trouble = troubleOf(error);
          if (tries >= TRIES || trouble.kind === "missing") {
            const text = `nobody answers any more, so what became of it is not known here: ${trouble.lines[0] ?? ""}`;
            change(key, { outcome: "lost", ended: Date.now(), text });
            return;
          }
          await pause(1000 * tries);
        }
      }
    },
    [base, change, dismiss],
  );

  const ask = useCallback(
    async ({ kind, label, method = "POST", path, body = {} }: Asked) => {
      const key = `${kind}-${Date.now()}`;
      setFollowed((before) => [...before, { key, label, kind, begun: Date.now(), ended: null, outcome: null, text: "asking the job" }]);
      try {
        const request = await trigger(method, `${base}${path}`, body);
        void follow(key, request);
      } catch (error) {
        const trouble = troubleOf(error);
        change(key, { outcome: trouble.status === null ? "failed" : "refused", ended: Date.now(), text: trouble.lines.join("\n") });
      }
    },
    [base, change, follow],
  );

  // What others have asked for, or this page before it was opened anew.
  useEffect(() => {
    if (!live) return;
    get<Operations>(`${base}/operations`).then(
      ({ operations }) => {
        for (const one of operations) {
          const request = one["request-id"];
          if (one.status.id !== "IN_PROGRESS" || known.current.has(request)) continue;
          const key = `other-${request}`;
          setFollowed((before) => [
            ...before,
            { key, label: one.kind, kind: one.kind, begun: one.begun_ms, ended: null, outcome: null, text: one.text },
          ]);
          void follow(key, request);
        }
      },
      () => undefined,
    );
  }, [base, follow, live]);

  const desk = useMemo<Desk>(
    () => ({
      followed,
      busy: new Set(followed.filter((one) => one.outcome === null).map(({ kind }) => kind)),
      ask,
      dismiss,
      ended,
    }),
    [followed, ask, dismiss, ended],
  );
  return <Context.Provider value={desk}>{children}</Context.Provider>;
}

function ending(status: OperationStatus): string {
  const cause = status.operation?.["failure-cause"];
  if (cause) return cause["stack-trace"] || status.text;
  const location = status.operation?.location;
  return location && !status.text.includes(location) ? `${status.text}: ${location}` : status.text;
}
