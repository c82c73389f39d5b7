/** Where the nodes of a job's graph stand. One rule: it follows from the plan alone, so figures that change move nothing. */

import dagre from "@dagrejs/dagre";
import type { JobGraph } from "../lib/contract";

export type Shape = "source" | "task" | "sink";

export interface Place {
  readonly key: string;
  readonly shape: Shape;
  /** The task, or the source or sink, that stands here. */
  readonly id: string;
  /** The task that it belongs to. */
  readonly task: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Road {
  readonly key: string;
  readonly from: string;
  readonly to: string;
  /** The task that puts barriers on it; null for the road of a source. */
  readonly source: string | null;
  /** The task that takes them in; null for the road to a sink. */
  readonly target: string | null;
  readonly channel: string | null;
  readonly path: string;
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly places: readonly Place[];
  readonly roads: readonly Road[];
}

type Sizes = Readonly<Record<Shape, readonly [number, number]>>;
const SIZES: Sizes = { source: [150, 40], task: [236, 124], sink: [170, 54] };
const SMALL: Sizes = { source: [130, 30], task: [190, 58], sink: [140, 30] };
/** From this many tasks on nodes are small, and the best order of them would take longer than anybody wants to wait. */
const MANY = 40;

export function isLarge(plan: JobGraph): boolean {
  return plan.nodes.length > MANY;
}

export function layout(plan: JobGraph, down: boolean): Layout {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({
    rankdir: down ? "TB" : "LR",
    nodesep: isLarge(plan) ? 14 : down ? 28 : 26,
    ranksep: isLarge(plan) ? 80 : down ? 46 : 64,
    marginx: 12,
    marginy: 12,
    ranker: isLarge(plan) ? "tight-tree" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  const shapes = new Map<string, { shape: Shape; id: string; task: string }>();
  const roads: Omit<Road, "path">[] = [];
  const put = (shape: Shape, id: string, task: string): string => {
    const key = `${shape}:${id}`;
    const [width, height] = (isLarge(plan) ? SMALL : SIZES)[shape];
    graph.setNode(key, { width, height });
    shapes.set(key, { shape, id, task });
    return key;
  };
  const join = (from: string, to: string, source: string | null, target: string | null, channel: string | null): void => {
    const key = channel ?? `${from}>${to}`;
    roads.push({ key, from, to, source, target, channel });
    graph.setEdge(from, to);
  };
  for (const node of plan.nodes) put("task", node.id, node.id);
  for (const node of plan.nodes) {
    for (const source of node.sources) join(put("source", source, node.id), `task:${node.id}`, null, node.id, null);
    for (const sink of node.sinks) join(`task:${node.id}`, put("sink", sink.uid, node.id), node.id, null, null);
  }
  for (const edge of plan.edges) {
    if (shapes.has(`task:${edge.source}`) && shapes.has(`task:${edge.target}`)) {
      join(`task:${edge.source}`, `task:${edge.target}`, edge.source, edge.target, edge.id);
    }
  }
  dagre.layout(graph);
  const places = [...shapes].map(([key, what]): Place => {
    const { x, y, width, height } = graph.node(key) as { x: number; y: number; width: number; height: number };
    return { key, ...what, x: x - width / 2, y: y - height / 2, width, height };
  });
  const at = new Map(places.map((place) => [place.key, place]));
  const size = graph.graph() as { width?: number; height?: number };
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    places,
    roads: roads.flatMap((road) => {
      const from = at.get(road.from);
      const to = at.get(road.to);
      if (!from || !to) return [];
      const bends = (graph.edge(road.from, road.to) as { points?: { x: number; y: number }[] }).points ?? [];
      return [{ ...road, path: curve(from, to, bends.slice(1, -1), down) }];
    }),
  };
}

/** From the middle of one side to the middle of the other, through the bends that keep clear of what stands between. */
function curve(from: Place, to: Place, bends: readonly { x: number; y: number }[], down: boolean): string {
  const begin = down ? { x: from.x + from.width / 2, y: from.y + from.height } : { x: from.x + from.width, y: from.y + from.height / 2 };
  const end = down ? { x: to.x + to.width / 2, y: to.y } : { x: to.x, y: to.y + to.height / 2 };
  const points = [begin, ...(bends.length > 2 ? bends : []), end];
  let path = `M${round(begin.x)} ${round(begin.y)}`;
  for (let index = 1; index < points.length; index += 1) {
    const a = points[index - 1];
    const b = points[index];
    if (!a || !b) continue;
    path += down
      ? `C${round(a.x)} ${round((a.y + b.y) / 2)} ${round(b.x)} ${round((a.y + b.y) / 2)} ${round(b.x)} ${round(b.y)}`
      : `C${round((a.x + b.x) / 2)} ${round(a.y)} ${round((a.x + b.x) / 2)} ${round(b.y)} ${round(b.x)} ${round(b.y)}`;
  }
  return path;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
