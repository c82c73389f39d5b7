/**
 * A flame graph: each frame is as wide as it was often seen, below the one that called it.
 * One rule: what can be done with the mouse can be done with keys, and what the colours say is in the text as well.
 */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { FlameNode } from "../lib/contract";
import { count, plural } from "../lib/format";
import { Button } from "./basics";

const ROW = 20;
/** In pixels: narrower frames are not drawn. They come when one zooms in. */
const LEAST = 1.5;
const LETTER = 6.7;
const TOP = "0";

interface Placed {
  readonly id: string;
  readonly node: FlameNode;
  readonly parent: string | null;
  /** From 0 to 1, of what is shown. */
  readonly left: number;
  readonly width: number;
  readonly depth: number;
  /** Whether one has zoomed in to something below it. */
  readonly above: boolean;
}

/** Where each frame is, when all of the width belongs to ``zoom``: the way to a frame from the root, as numbers of children. */
function placed(root: FlameNode, zoom: readonly number[], least: number): Placed[] {
  const found: Placed[] = [];
  let [node, id, parent] = [root, TOP, null as string | null];
  for (const number of zoom) {
    const child: FlameNode | undefined = node.children[number];
    if (!child) break;
    found.push({ id, node, parent, left: 0, width: 1, depth: found.length, above: true });
    [parent, id, node] = [id, `${id}.${number}`, child];
  }
  const put = (one: FlameNode, name: string, over: string | null, left: number, width: number, depth: number): void => {
    found.push({ id: name, node: one, parent: over, left, width, depth, above: false });
    let at = left;
    one.children.forEach((child, number) => {
      const wide = one.value > 0 ? (width * child.value) / one.value : 0;
      if (wide >= least) put(child, `${name}.${number}`, name, at, wide, depth + 1);
      at += wide;
    });
  };
  put(node, id, parent, 0, 1, found.length);
  return found;
}

function wayOf(id: string): number[] {
  return id.split(".").slice(1).map(Number);
}

/** How many samples have a frame that is looked for: each stack counts once. */
function matching(node: FlameNode, wanted: string): number {
  if (node.name.toLowerCase().includes(wanted)) return node.value;
  return node.children.reduce((all, child) => all + matching(child, wanted), 0);
}

/** Frames of one package look alike, whoever called them. */
function lookOf(name: string, depth: number): string {
  if (depth === 0) return "all";
  if (depth === 1) return "thread";
  const kind = name.includes("(") ? "python" : /^[\w$.]+\.[\w$<>]+(:\d+)?$/.test(name) ? "java" : "other";
  const pack = kind === "python" ? (name.split("(")[1] ?? "").split("/")[0] : name.split(".").slice(0, 3).join(".");
  let sum = 0;
  for (const letter of pack ?? "") sum = (sum * 31 + letter.charCodeAt(0)) % 997;
  return `${kind} shade-${sum % 3}`;
}

/** Java's names are long, and their ends say most. */
function shown(name: string, room: number): string {
  if (room < 3) return "";
  const short = /^[\w$.]+\.[\w$<>]+(:\d+)?$/.test(name) && name.length > room ? name.split(".").slice(-2).join(".") : name;
  return short.length <= room ? short : `${short.slice(0, room - 1)}…`;
}

export function Flame({ root, search, label }: { root: FlameNode; search: string; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  const [zoom, setZoom] = useState<readonly number[]>([]);
  const [chosen, setChosen] = useState<string | null>(null);
  const wanted = search.trim().toLowerCase();
  useEffect(() => {
    const { current } = box;
    if (!current) return undefined;
    const measure = (): void => setRoom(current.clientWidth);
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(current);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    setZoom([]);
    setChosen(null);
  }, [root]);
  const frames = useMemo(() => (room > 0 ? placed(root, zoom, LEAST / room) : []), [root, zoom, room]);
  const known = useMemo(() => new Map(frames.map((one) => [one.id, one])), [frames]);
  const height = (frames.reduce((most, { depth }) => Math.max(most, depth), 0) + 1) * ROW;
  const seen = useMemo(() => (wanted === "" ? null : matching(root, wanted)), [root, wanted]);
  const told = (chosen !== null ? known.get(chosen) : undefined) ?? frames[zoom.length];
  const share = (value: number): string => `${((100 * value) / Math.max(1, root.value)).toFixed(1)} %`;

  const zoomTo = (id: string): void => {
    setZoom(wayOf(id));
    setChosen(id);
  };
  const move = (step: "up" | "down" | "left" | "right"): void => {
    const at = (chosen !== null ? known.get(chosen) : undefined) ?? frames[zoom.length];
    if (!at) return;
    const beside = frames.filter(({ parent, depth }) => parent === at.parent && depth === at.depth);
    const place = beside.indexOf(at);
    const next =
      step === "up" ? (at.parent === null ? undefined : known.get(at.parent)) : step === "down" ? frames.find(({ parent }) => parent === at.id) : beside[place + (step === "left" ? -1 : 1)];
    if (next) setChosen(next.id);
  };
  const pressed = (event: KeyboardEvent): void => {
    const steps = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" } as const;
    if (event.key in steps) move(steps[event.key as keyof typeof steps]);
    else if ((event.key === "Enter" || event.key === " ") && told) zoomTo(told.id);
    else if (event.key === "Escape" && zoom.length > 0) setZoom([]);
    else return;
    event.preventDefault();
  };

  return (
    <div class="flame">
      <p class="flame-told" aria-live="polite">
        {told && (
          <>
            <code title={told.node.name}>{told.node.name === "root" ? "all threads" : told.node.name}</code>
            <span class="quiet">
              {plural(told.node.value, "sample")}, {share(told.node.value)}
            </span>
          </>
        )}
        <span class="grow" />
        {seen !== null && (
          <span class="flame-found">
            {seen === 0 ? "nothing matches" : `${plural(seen, "sample")} with a match, ${share(seen)}`}
          </span>
        )}
        {zoom.length > 0 && (
          <Button tone="plain" icon="fit" title="All of it (Esc)" onClick={() => setZoom([])}>
            Zoom out
          </Button>
        )}
      </p>
      <div
        class="flame-box"
        ref={box}
        role="tree"
        tabIndex={0}
        aria-label={`${label}. Arrows go from frame to frame, Enter zooms in, Escape out`}
        aria-activedescendant={told ? `frame-${told.id}` : undefined}
        onKeyDown={pressed}
        onMouseLeave={() => setChosen(null)}
      >
        <svg width={room} height={height} aria-hidden={frames.length === 0}>
          {frames.map((one) => {
            const wide = one.width * room;
            const hit = wanted !== "" && one.node.name.toLowerCase().includes(wanted);
            return (
              <g
                key={one.id}
                id={`frame-${one.id}`}
                role="treeitem"
                aria-level={one.depth + 1}
                aria-selected={told === one}
                aria-label={`${one.node.name}, ${count(one.node.value)} samples, ${share(one.node.value)}`}
                class={`frame ${lookOf(one.node.name, one.depth)}${one.above ? " above" : ""}${hit ? " hit" : wanted !== "" ? " missed" : ""}${told === one ? " chosen" : ""}`}
                transform={`translate(${(one.left * room).toFixed(2)} ${one.depth * ROW})`}
                onClick={() => zoomTo(one.id)}
                onMouseMove={() => chosen !== one.id && setChosen(one.id)}
              >
                <title>{`${one.node.name}\n${plural(one.node.value, "sample")}, ${share(one.node.value)}`}</title>
                <rect width={Math.max(0.5, wide - 1).toFixed(2)} height={ROW - 1} rx="2" />
                <text x="4" y={ROW - 6.5}>
                  {shown(one.node.name === "root" ? "all threads" : one.node.name, Math.floor((wide - 8) / LETTER))}
                </text>
              </g>
            );
          })}
        </svg>
      </div>
    </div>
  );
}
