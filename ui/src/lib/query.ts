/** A component's question to the API. One rule: what was known stays on the page while it is asked again. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, isAbort, troubleOf, type Trouble } from "./api";

/** However often something changes, nothing is asked for more often than this. */
const LEAST_MS = 1000;

/**
 * Ask for ``path`` now, when ``version`` changes, and when the function that is returned is called. One question at a
 * time: what changes while an answer is on its way is asked for when that has come.
 */
export function useAsking<T>(path: string | null, version: number, answered: (answer: T) => void, failed: (trouble: Trouble) => void): () => void {
  const poke = useRef<() => void>(() => undefined);
  const told = useRef({ answered, failed });
  told.current = { answered, failed };
  const seen = useRef(version);

  useEffect(() => {
    if (path === null) return undefined;
    const controller = new AbortController();
    let busy = false;
    let again = false;
    let last = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = (): void => {
      timer = undefined;
      busy = true;
      again = false;
      last = Date.now();
      get<T>(path, controller.signal)
        .then(
          (answer) => told.current.answered(answer),
          (error: unknown) => {
            if (!isAbort(error)) told.current.failed(troubleOf(error));
          },
        )
        .finally(() => {
          busy = false;
          if (again && !controller.signal.aborted) poke.current();
        });
    };
    poke.current = () => {
      if (busy) again = true;
      else timer ??= setTimeout(ask, Math.max(0, last + LEAST_MS - Date.now()));
    };
    ask();
    return () => {
      clearTimeout(timer);
      controller.abort();
      poke.current = () => undefined;
    };
  }, [path]);

  useEffect(() => {
    if (seen.current !== version) {
      seen.current = version;
      poke.current();
    }
  }, [version]);
  return useCallback(() => poke.current(), []);
}

export interface Query<T> {
  readonly data: T | null;
  readonly trouble: Trouble | null;
  readonly reload: () => void;
}

interface Asked<T> {
  readonly path: string | null;
  readonly data: T | null;
  readonly trouble: Trouble | null;
}

/** ``version``: ask again when it changes. ``every``: ask again after this many milliseconds, while the page is seen. */
export function useQuery<T>(path: string | null, { version = 0, every = 0 }: { version?: number; every?: number } = {}): Query<T> {
  const [asked, setAsked] = useState<Asked<T>>({ path, data: null, trouble: null });
  const reload = useAsking<T>(
    path,
    version,
    (data) => setAsked({ path, data, trouble: null }),
    (trouble) => setAsked((before) => ({ path, data: before.path === path ? before.data : null, trouble })),
  );
  useEffect(() => {
    if (every <= 0) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) reload();
    }, every);
    return () => clearInterval(timer);
  }, [every, reload]);
  const mine = asked.path === path;
  return { data: mine ? asked.data : null, trouble: mine ? asked.trouble : null, reload };
}
