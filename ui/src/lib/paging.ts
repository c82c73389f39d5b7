/** A list that comes page by page. One rule: what is new joins at the top, and what was loaded below stays. */

import { useCallback, useRef, useState } from "preact/hooks";
import { get, troubleOf, type Trouble } from "./api";
import { useAsking } from "./query";

export interface Page<R> {
  readonly rows: readonly R[];
  readonly next: string | number | null;
}

export interface Paged<T, R> {
  /** The newest answer to the first page, with all else that it says. */
  readonly first: T | null;
  readonly rows: readonly R[];
  readonly more: boolean;
  readonly loading: boolean;
  readonly trouble: Trouble | null;
  readonly loadMore: () => void;
  readonly reload: () => void;
}

interface State<T, R> {
  readonly path: string;
  readonly first: T | null;
  readonly rows: readonly R[];
  readonly next: string | number | null;
  readonly trouble: Trouble | null;
}

function nothing<T, R>(path: string): State<T, R> {
  return { path, first: null, rows: [], next: null, trouble: null };
}

/** The first page anew, and below it what was loaded before. */
function joined<T, R>(before: State<T, R>, path: string, answer: T, page: Page<R>, keyOf: (row: R) => string | number): State<T, R> {
  const fresh = new Set(page.rows.map(keyOf));
  const touches = before.rows.some((row) => fresh.has(keyOf(row)));
  // More happened than fits a page: begin anew, so that nothing is left out between.
  const anew = before.path !== path || before.first === null || (!touches && page.next !== null);
  const older = anew ? [] : before.rows.filter((row) => !fresh.has(keyOf(row)));
  return { path, first: answer, rows: [...page.rows, ...older], next: older.length > 0 ? before.next : page.next, trouble: null };
}

/** ``path`` of the first page, to which ``before`` is added; ``read`` says what is in an answer, the newest first. */
export function usePages<T, R>(
  path: string,
  read: (answer: T) => Page<R>,
  keyOf: (row: R) => string | number,
  version = 0,
): Paged<T, R> {
  const [state, setState] = useState<State<T, R>>(() => nothing(path));
  const [loading, setLoading] = useState(false);
  const busy = useRef(false);
  const reading = useRef(read);
  reading.current = read;

  const reload = useAsking<T>(
    path,
    version,
    (answer) => {
      const page = reading.current(answer);
      setState((before) => joined(before, path, answer, page, keyOf));
    },
    (trouble) => setState((before) => (before.path === path ? { ...before, trouble } : { ...nothing(path), trouble })),
  );

  const next = state.path === path ? state.next : null;
  const loadMore = useCallback(() => {
    if (busy.current || next === null) return;
    busy.current = true;
    setLoading(true);
    const sign = path.includes("?") ? "&" : "?";
    get<T>(`${path}${sign}before=${encodeURIComponent(String(next))}`)
      .then(
        (answer) => {
          const page = reading.current(answer);
          setState((before) => {
            if (before.path !== path) return before;
            const known = new Set(before.rows.map(keyOf));
            return { ...before, rows: [...before.rows, ...page.rows.filter((row) => !known.has(keyOf(row)))], next: page.next, trouble: null };
          });
        },
        (error: unknown) => setState((before) => ({ ...before, trouble: troubleOf(error) })),
      )
      .finally(() => {
        busy.current = false;
        setLoading(false);
      });
  }, [path, next]);

  const mine = state.path === path;
  return {
    first: mine ? state.first : null,
    rows: mine ? state.rows : [],
    more: next !== null,
    loading,
    trouble: mine ? state.trouble : null,
    loadMore,
    reload,
  };
}
