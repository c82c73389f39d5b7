/** The graph of a job: tasks and channels, and the barrier of the checkpoint under way on its way through them. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { CheckpointProgress, JobDetails, JobGraph, PlanSink, Vertex } from "../lib/contract";
import { bytes, compact, count, duration, isUneven, percent, px, rate, skew, timeOfDay, unwritten } from "../lib/format";
import { Button, Empty, Loading } from "../parts/basics";
import { RatioBar, ratioWords } from "../parts/bars";
import { Icon } from "../parts/icons";
import { TaskBadge } from "../parts/states";
import { isLarge, layout, type Layout, type Place, type Road } from "./layout";

const STEPS = [0.15, 0.25, 0.35, 0.5, 0.65, 0.8, 1, 1.25];
/** Narrower than this the data flows downwards. */
const NARROW = 640;
/** Smaller than this a node shows its name alone. */
const FAR = 0.42;

type Passing = "before" | "cut" | "acknowledged" | null;

export function Graph({ job, progress, now, chosen, onChoose }: { job: JobDetails; progress: CheckpointProgress | null; now: number; chosen: string | null; onChoose: (task: string) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  const [scale, setScale] = useState<number | null>(null);
  const graph = useMemo(() => graphOf(job), [planKey(job)]);
  const down = room > 0 && room < NARROW;
  const laid = useLayout(graph, down, room > 0);

  useEffect(() => {
    const { current } = box;
    if (!current) return undefined;
    const watcher = new ResizeObserver(() => setRoom(current.clientWidth));
    watcher.observe(current);
    setRoom(current.clientWidth);
    return () => watcher.disconnect();
  }, []);

  const fit = room > 0 && laid !== null && laid.width > 0 ? Math.max(0.12, Math.min(1, room / laid.width)) : 1;
  const large = isLarge(graph);
  const zoom = scale ?? Math.max(fit, large ? 0.3 : down ? 0.5 : 0.6);
  const step = (by: number): void => {
    const index = STEPS.findIndex((one) => one >= zoom - 0.01);
    const next = STEPS[Math.max(0, Math.min(STEPS.length - 1, (index < 0 ? STEPS.length - 1 : index) + by))];
    if (next !== undefined) setScale(next);
  };
  const drag = useDrag(box);

  const vertices = useMemo(() => new Map(job.vertices.map((one) => [one.id, one])), [job.vertices]);
  const sinks = useMemo(() => new Map(graph.nodes.flatMap((node) => node.sinks.map((sink): [string, PlanSink] => [sink.uid, sink]))), [graph]);
  const passed = useMemo(() => passing(progress), [progress]);

  if (graph.nodes.length === 0) {
    return <Empty title="No plan is known">{unwritten(job)}</Empty>;
  }
  return (
    <div class="graph">
      <div class={`graph-scroll ${zoom < FAR ? "far" : ""} ${large ? "large" : ""}`} ref={box} {...drag}>
        {laid === null && <Loading what="the graph" lines={6} />}
        {laid !== null && (
        <div class="graph-sized" style={{ width: px(laid.width * zoom), height: px(laid.height * zoom) }}>
          <div class="graph-canvas" style={{ width: px(laid.width), height: px(laid.height), transform: `scale(${zoom})` }}>
            <Roads laid={laid} passed={passed} id={progress?.id ?? null} />
            {laid.places.map((place) =>
              place.shape === "task" ? (
                <TaskNode
                  key={place.key}
                  place={place}
                  vertex={vertices.get(place.id)}
                  passing={progress ? (passed.get(place.id) ?? "before") : null}
                  waited={progress ? now - progress.trigger_timestamp : 0}
                  chosen={chosen === place.id}
                  onChoose={onChoose}
                />
              ) : (
                <EndNode key={place.key} place={place} sink={sinks.get(place.id)} />
              ),
            )}
          </div>
        </div>
        )}
      </div>
      <div class="graph-foot">
        <GraphLegend underWay={progress !== null} measured={job.vertices.some((task) => ratioWords(task) !== null)} />
        <div class="graph-tools" role="group" aria-label="Size of the graph">
          <Button tone="plain" icon="minus" title="Smaller" onClick={() => step(-1)}>
            <span class="visually-hidden">Smaller</span>
          </Button>
          <Button tone="plain" icon="plus" title="Larger" onClick={() => step(1)}>
            <span class="visually-hidden">Larger</span>
          </Button>
          <Button tone="plain" icon="fit" title="Fit into the page" onClick={() => setScale(fit)}>
            <span class="visually-hidden">Fit into the page</span>
          </Button>
        </div>
      </div>
    </div>
  );
}

/** A large graph takes a while: everything else of the page is there before. */
function useLayout(graph: JobGraph, down: boolean, ready: boolean): Layout | null {
  const large = isLarge(graph);
  const small = useMemo(() => (large ? null : layout(graph, down)), [graph, down, large]);
  const [later, setLater] = useState<{ graph: JobGraph; laid: Layout } | null>(null);
  useEffect(() => {
    if (!large || !ready) return undefined;
    const timer = setTimeout(() => setLater({ graph, laid: layout(graph, down) }), 30);
    return () => clearTimeout(timer);
  }, [graph, down, large, ready]);
  return small ?? (later?.graph === graph ? later.laid : null);
}

/** Without a plan, tasks stand alone: that much is always known. */
function graphOf(job: JobDetails): JobGraph {
  if (job.plan.nodes.length > 0) return job.plan;
  const edges = job.vertices.flatMap((task) =>
    Object.keys(task.lag).flatMap((channel) => {
      const source = job.vertices.find(({ id }) => id !== task.id && channel.startsWith(`${id}`) && channel.includes(task.id));
      return source ? [{ id: channel, source: source.id, target: task.id, operator: task.id, input: 0 }] : [];
    }),
  );
  const nodes = job.vertices.map((task) => ({
    id: task.id,
    operator: task.id,
    description: task.name,
    parallelism: task.parallelism,
    inputs: [],
    operators: [],
    sources: [],
    sinks: [],
    output_mode: "",
    stateful: task.parallelism !== null,
  }));
  return { ...job.plan, nodes, edges };
}

function planKey(job: JobDetails): string {
  if (job.plan.nodes.length === 0) return `tasks ${job.vertices.map(({ id }) => id).join(" ")}`;
  return job.plan.nodes.map((node) => `${node.id}(${node.sources.join(",")}|${node.sinks.map(({ uid }) => uid).join(",")})`).join(" ") + job.plan.edges.map(({ id }) => id).join(" ");
}

function passing(progress: CheckpointProgress | null): Map<string, Passing> {
  const found = new Map<string, Passing>();
  for (const task of progress?.cut ?? []) found.set(task, "cut");
  for (const task of progress?.acknowledged ?? []) found.set(task, "acknowledged");
  return found;
}

/** Where the barrier is on a road: not on it yet, before its end, or past it. */
function barrierOn(road: Road, passed: Map<string, Passing>): "none" | "waiting" | "past" {
  const begun = road.source === null || passed.has(road.source);
  if (!begun) return "none";
  const taken = road.target === null ? passed.get(road.source ?? "") === "acknowledged" : passed.has(road.target);
  return taken ? "past" : "waiting";
}

function Roads({ laid, passed, id }: { laid: Layout; passed: Map<string, Passing>; id: number | null }) {
  return (
    <svg class="roads" width={laid.width} height={laid.height} aria-hidden="true">
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
          <path d="M0 0L8 4 0 8z" />
        </marker>
      </defs>
      {laid.roads.map((road) => {
        const barrier = id === null ? "none" : barrierOn(road, passed);
        return (
          <g key={road.key} class={`road ${barrier}`}>
            <path d={road.path} marker-end="url(#arrow)" />
            {id !== null && (
              <g class="barrier" key={id} style={{ offsetPath: `path("${road.path}")` }}>
                <rect x="-2.5" y="-11" width="5" height="22" rx="2" />
              </g>
            )}
          </g>
        );
      })}
    </svg>
  );
}

const PASSING: Readonly<Record<Exclude<Passing, null>, string>> = { before: "waits for the barrier", cut: "snapshot under way", acknowledged: "acknowledged" };

function TaskNode({ place, vertex, passing: state, waited, chosen, onChoose }: { place: Place; vertex: Vertex | undefined; passing: Passing; waited: number; chosen: boolean; onChoose: (task: string) => void }) {
  const style = styleOf(place);
  if (!vertex) {
    return (
      <button type="button" class="node task ghost" style={style} onClick={() => onChoose(place.id)}>
        <span class="node-name">{place.id}</span>
        <span class="node-line quiet">does not run</span>
      </button>
    );
  }
  const worst = Object.entries(vertex.lag).sort((a, b) => b[1] - a[1])[0];
  const words = ratioWords(vertex);
  const mark = watermark(vertex.watermark_ms);
  return (
    <button type="button" class={`node task ${heat(vertex)} ${state ? `passing-${state}` : ""} ${chosen ? "chosen" : ""}`} style={style} aria-pressed={chosen} title={vertex.name} onClick={() => onChoose(place.id)}>
      <span class="node-head">
        <span class="node-name">{vertex.id}</span>
        <TaskBadge task={vertex} />
      </span>
      <span class="node-line">
        <strong>{rate(vertex.rows_per_s)}</strong>
        <span title="the last batch that was committed">batch {vertex.batch < 0 ? "–" : count(vertex.batch)}</span>
      </span>
      <span class="node-line quiet">
        <span class={worst && worst[1] > 3 ? "lagging" : ""}>{worst ? `lag ${compact(worst[1])}` : vertex.state_bytes !== null ? `state ${bytes(vertex.state_bytes)}` : ""}</span>
        {mark && <span title="watermark">{mark}</span>}
      </span>
      {(words !== null || isUneven(vertex.skew)) && (
      <span class="node-foot">
        {words !== null && <RatioBar task={vertex} />}
        {isUneven(vertex.skew) && (
          <span class="node-skew" title={`the largest partition by the mean: ${vertex.skew_of}`}>
            skew {skew(vertex.skew)}
          </span>
        )}
        {words !== null && <span class="node-busy">{vertex["backpressure-level"] === "high" ? `backpressured ${percent(vertex.backpressured_ratio)}` : `busy ${percent(vertex.busy_ratio)}`}</span>}
      </span>
      )}
      {state && (
        <span class={`node-passing ${state}`}>
          <Icon name={state === "acknowledged" ? "check" : state === "cut" ? "turning" : "pause"} />
          {PASSING[state]}
          {state !== "acknowledged" && ` ${duration(Math.max(0, Math.round(waited / 100) * 100))}`}
        </span>
      )}
    </button>
  );
}

function EndNode({ place, sink }: { place: Place; sink: PlanSink | undefined }) {
  const style = styleOf(place);
  return (
    <div class={`node end ${place.shape}`} style={style} title={sink ? `${sink.description} (${sink.guarantee})` : place.id}>
      <Icon name={place.shape === "source" ? "source" : "sink"} label={place.shape} />
      <span>
        <span class="node-name">{place.id}</span>
        {sink && <span class="node-line quiet">{sink.guarantee.replaceAll("_", "-")}</span>}
      </span>
    </div>
  );
}

function styleOf({ x, y, width, height }: Place) {
  return { left: px(x), top: px(y), width: px(width), height: px(height) };
}

/** Flink's colours in words: what a task mostly does. */
function heat(vertex: Vertex): string {
  if (vertex.phase === "restarting" || vertex.phase === "starting") return "hot-starting";
  if (vertex["backpressure-level"] === "high") return "hot-pressed";
  if (vertex.busy_ratio === null) return "";
  return vertex.busy_ratio > 0.8 ? "hot-busy" : vertex.busy_ratio > 0.3 ? "hot-some" : "hot-idle";
}

function watermark(ms: number | null): string | null {
  if (ms === null) return null;
  // The end of time, as at the end of a bounded job.
  return ms > 8.64e15 / 2 ? "wm end" : `wm ${timeOfDay(ms)}`;
}

function GraphLegend({ underWay, measured }: { underWay: boolean; measured: boolean }) {
  return (
    <ul class="legend">
      {measured &&
        ["busy", "backpressured", "idle"].map((name) => (
          <li key={name}>
            <span class={`swatch ${name}`} aria-hidden="true" /> {name}
          </li>
        ))}
      <li class={underWay ? "" : "quiet"}>
        <span class="swatch wave" aria-hidden="true" /> barrier {underWay ? "on its way" : "(while a checkpoint is under way)"}
      </li>
    </ul>
  );
}

/** Pull the graph about with the mouse; its scroll bars and the keyboard do the same. */
function useDrag(box: { current: HTMLDivElement | null }) {
  const from = useRef<{ x: number; y: number; left: number; top: number } | null>(null);
  return {
    onPointerDown: (event: PointerEvent): void => {
      const { current } = box;
      if (!current || event.pointerType === "touch" || (event.target as HTMLElement).closest("button")) return;
      from.current = { x: event.clientX, y: event.clientY, left: current.scrollLeft, top: current.scrollTop };
      current.setPointerCapture(event.pointerId);
    },
    onPointerMove: (event: PointerEvent): void => {
      if (!from.current || !box.current) return;
      box.current.scrollLeft = from.current.left - (event.clientX - from.current.x);
      box.current.scrollTop = from.current.top - (event.clientY - from.current.y);
    },
    onPointerUp: (): void => {
      from.current = null;
    },
  };
}
