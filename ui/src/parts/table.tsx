/** A table of any length. One rule: only the rows that can be seen are in the document, and each has the same height. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { px } from "../lib/format";
import { Icon } from "./icons";

export type SortValue = number | string | null | undefined;

export interface Column<R> {
  readonly key: string;
  readonly head: string;
  readonly title?: string;
  /** Width at least, in pixels; what is left over goes to columns that grow. */
  readonly width: number;
  readonly grow?: number;
  readonly end?: boolean;
  readonly sort?: (row: R) => SortValue;
  readonly cell: (row: R) => ComponentChildren;
}

interface Props<R> {
  readonly label: string;
  readonly rows: readonly R[];
  readonly columns: readonly Column<R>[];
  readonly rowKey: (row: R) => string | number;
  readonly rowHeight?: number;
  readonly sorted?: { readonly key: string; readonly down: boolean };
  /** Rows of which the first cell is a link to more. */
  readonly onOpen?: (row: R) => void;
  readonly chosen?: string | number | null;
  /** Called when the end comes into sight. */
  readonly onEnd?: (() => void) | undefined;
  readonly footer?: ComponentChildren;
  readonly tall?: boolean;
}

/** As many rows are simply shown. */
const PLAIN = 80;
const BEYOND = 12;

export function Table<R>({ label, rows, columns, rowKey, rowHeight = 34, sorted, onOpen, chosen, onEnd, footer, tall = false }: Props<R>) {
  const [order, setOrder] = useState(sorted ?? null);
  const [seen, setSeen] = useState({ first: 0, last: 60 });
  const box = useRef<HTMLDivElement>(null);

  const shown = useMemo(() => {
    const column = order && columns.find(({ key }) => key === order.key);
    const by = column?.sort;
    if (!order || !by) return rows;
    return [...rows].sort((a, b) => compare(by(a), by(b), order.down));
  }, [rows, columns, order]);

  const virtual = shown.length > PLAIN;
  const first = virtual ? Math.max(0, seen.first - BEYOND) : 0;
  const last = virtual ? Math.min(shown.length, seen.last + BEYOND) : shown.length;

  const look = (): void => {
    const { current } = box;
    if (!current) return;
    const top = Math.floor(current.scrollTop / rowHeight);
    const bottom = Math.ceil((current.scrollTop + current.clientHeight) / rowHeight);
    setSeen((before) => (before.first === top && before.last === bottom ? before : { first: top, last: bottom }));
  };
  useEffect(look, [shown.length, virtual, rowHeight]);
  const atEnd = last >= shown.length && (!virtual || seen.last + BEYOND >= shown.length);
  useEffect(() => {
    if (virtual && atEnd) onEnd?.();
  }, [virtual, atEnd, onEnd]);

  const tracks = columns.map(({ width, grow }) => (grow ? `minmax(${width}px, ${grow}fr)` : `${width}px`)).join(" ");
  const least = columns.reduce((sum, { width }) => sum + width, 0) + 12;
  const grid = { gridTemplateColumns: tracks, minWidth: px(least) };

  const moved = (event: KeyboardEvent): void => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const row = (event.target as HTMLElement).closest<HTMLElement>("[role=row]");
    const next = event.key === "ArrowDown" ? row?.nextElementSibling : row?.previousElementSibling;
    const link = next?.querySelector<HTMLElement>("a, button");
    if (link) {
      event.preventDefault();
      link.focus();
    }
  };

  return (
    <div class={`table ${virtual ? "virtual" : ""} ${tall ? "tall" : ""}`}>
      <div
        class="table-scroll"
        role="table"
        aria-label={label}
        aria-rowcount={shown.length + 1}
        ref={box}
        onScroll={virtual ? () => requestAnimationFrame(look) : undefined}
        onKeyDown={moved}
        tabIndex={virtual ? 0 : undefined}
      >
        <div class="row head" role="row" style={grid}>
          {columns.map((column) => (
            <Head key={column.key} column={column} order={order} setOrder={setOrder} />
          ))}
        </div>
        {first > 0 && <div class="spacer" style={{ height: px(first * rowHeight), minWidth: px(least) }} />}
        {shown.slice(first, last).map((row, index) => {
          const key = rowKey(row);
          return (
            <div
              key={key}
              class={`row ${onOpen ? "opens" : ""} ${chosen === key ? "chosen" : ""}`}
              role="row"
              aria-rowindex={first + index + 2}
              aria-selected={chosen === undefined ? undefined : chosen === key}
              style={{ ...grid, height: px(rowHeight) }}
              onClick={
                onOpen &&
                ((event) => {
                  const target = event.target as HTMLElement;
                  if (!target.closest("a, button, input") && getSelection()?.isCollapsed !== false) onOpen(row);
                })
              }
            >
              {columns.map((column) => (
                <div key={column.key} role="cell" class={column.end ? "cell end" : "cell"}>
                  {column.cell(row)}
                </div>
              ))}
            </div>
          );
        })}
        {last < shown.length && <div class="spacer" style={{ height: px((shown.length - last) * rowHeight), minWidth: px(least) }} />}
      </div>
      {footer !== undefined && <div class="table-foot">{footer}</div>}
    </div>
  );
}

type Order = { readonly key: string; readonly down: boolean } | null;

function Head<R>({ column, order, setOrder }: { column: Column<R>; order: Order; setOrder: (order: Order) => void }) {
  const mine = order?.key === column.key ? order : null;
  const side = column.end ? "cell end" : "cell";
  if (!column.sort) {
    return (
      <div role="columnheader" class={side} title={column.title}>
        {column.head}
      </div>
    );
  }
  const turn = (): void => setOrder({ key: column.key, down: mine ? !mine.down : column.end === true });
  return (
    <div role="columnheader" class={side} aria-sort={mine ? (mine.down ? "descending" : "ascending") : "none"}>
      <button type="button" class="sort" title={column.title} onClick={turn}>
        {column.head}
        {mine && <Icon name={mine.down ? "down" : "up"} />}
      </button>
    </div>
  );
}

function compare(a: SortValue, b: SortValue, down: boolean): number {
  // What is not known comes last, whichever way.
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
  if (b === null || b === undefined) return -1;
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
  return down ? -order : order;
}
