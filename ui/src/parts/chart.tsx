/** Lines over time, drawn by uPlot. One rule: a chart has a sentence that says the same to whoever cannot see it. */

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { timeOfDay } from "../lib/format";
import { CHANGED } from "../lib/theme";

export interface Line {
  readonly name: string;
  readonly values: readonly (number | null)[];
  readonly bars?: boolean;
}

interface Props {
  readonly x: readonly number[];
  /** Seconds since 1970, or plain numbers such as ids. */
  readonly time: boolean;
  readonly xName: string;
  readonly lines: readonly Line[];
  readonly format: (value: number | null | undefined) => string;
  readonly label: string;
  /** Steps of the axis are powers of two, as those of bytes are. */
  readonly binary?: boolean;
  readonly height?: number;
}

const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6", "--line-7", "--line-8"];
const BINARY = Array.from({ length: 60 }, (_, power) => 2 ** power);
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [], [6, 3], [2, 3], [8, 3, 2, 3]];

export function Chart({ x, time, xName, lines, format, label, binary = false, height = 180 }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const look = useLook();
  const shape = lines.map(({ name }) => name).join("\n");
  const data = [x as number[], ...lines.map(({ values }) => values as (number | null)[])] as uPlot.AlignedData;

  useEffect(() => {
    const { current } = box;
    if (!current) return undefined;
    const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), font: "11px Inter, system-ui", grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const made = new uPlot(
      {
        width: Math.max(200, current.clientWidth),
        height,
        padding: [10, 26, 0, 0],
        scales: {
          x: { time, ...(time ? {} : { range: (_: uPlot, low: number, high: number): [number, number] => [low - 0.7, high + 0.7] }) },
          y: { range: (_, low, high) => [Math.min(0, low ?? 0), niceTop(high)] },
        },
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        legend: { live: true },
        axes: [
          { ...axis, values: (_, splits) => splits.map((one) => (time ? timeOfDay(one * 1000) : Number.isInteger(one) ? String(one) : "")), space: 70 },
          { ...axis, size: 78, ...(binary ? { incrs: BINARY } : {}), values: (_, splits) => splits.map((one) => format(one)) },
        ],
        series: [
          { label: xName, value: (_, value: number | null) => (value === null ? "–" : time ? timeOfDay(value * 1000) : String(value)) },
          ...lines.map((line, index) => ({
            label: line.name,
            stroke: colour(COLOURS[index % COLOURS.length] ?? "--accent"),
            width: 1.5,
            dash: DASHES[index % DASHES.length] ?? [],
            points: { show: (plot: uPlot) => plot.data[0].length < 3 },
            value: (_: uPlot, value: number | null) => format(value),
            ...(line.bars && uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.7, 40] }), fill: `${colour(COLOURS[index % COLOURS.length] ?? "--accent")}55` } : {}),
          })),
        ],
      },
      data,
      current,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: Math.max(200, current.clientWidth), height }));
    watcher.observe(current);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, look, height, time, binary]);

  useEffect(() => plot.current?.setData(data));
  return <div class="chart" role="img" aria-label={label} ref={box} />;
}

function niceTop(high: number | null): number {
  if (!high || high <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(high));
  return Math.ceil((high * 1.05) / (step / 4)) * (step / 4);
}

/** Changes when the colours do. */
function useLook(): number {
  const [look, setLook] = useState(0);
  useEffect(() => {
    const changed = (): void => setLook((before) => before + 1);
    addEventListener(CHANGED, changed);
    return () => removeEventListener(CHANGED, changed);
  }, []);
  return look;
}
