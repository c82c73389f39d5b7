/** Bars: phases of checkpoints, and how tasks spend their time. Each says in words what it shows. */

import type { CheckpointStatistics, Vertex } from "../lib/contract";
import { duration, percent } from "../lib/format";
import { checkpointSpans, PHASES, total, type Span } from "../lib/phases";
import { None } from "./basics";

export function PhaseBar({ spans, scale, offset = 0 }: { spans: readonly Span[]; scale: number; offset?: number }) {
  if (spans.length === 0) return <None why="no times were recorded" />;
  const words = spans.map(({ name, ms }) => `${name} ${duration(ms)}`).join(", ");
  let left = offset;
  return (
    <div class="phasebar" role="img" aria-label={words} title={spans.map(({ name, ms }) => `${name}: ${duration(ms)}`).join("\n")}>
      {spans.map(({ phase, ms }) => {
        const style = { left: `${(100 * left) / scale}%`, width: `${(100 * ms) / scale}%` };
        left += ms;
        return <span key={phase} class={`phase ${phase}`} style={style} />;
      })}
    </div>
  );
}

export function CheckpointBar({ checkpoint, scale, now }: { checkpoint: CheckpointStatistics; scale: number; now: number }) {
  if (checkpoint.status === "IN_PROGRESS" && checkpoint.trigger_timestamp !== null) {
    const ms = Math.max(0, now - checkpoint.trigger_timestamp);
    return (
      <div class="phasebar" role="img" aria-label={`under way for ${duration(ms)}`} title={`under way for ${duration(ms)}`}>
        <span class="phase underway" style={{ left: "0%", width: `${Math.min(100, (100 * ms) / scale)}%` }} />
      </div>
    );
  }
  return <PhaseBar spans={checkpointSpans(checkpoint)} scale={scale} />;
}

/** The longest bar, unless very few are far longer than all others: then those are cut off. */
export function scaleOf(checkpoints: readonly CheckpointStatistics[]): number {
  const sums = checkpoints.map((one) => total(checkpointSpans(one))).sort((a, b) => a - b);
  const usual = sums[Math.floor(sums.length * 0.95)] ?? 0;
  return Math.max(1, Math.min(sums[sums.length - 1] ?? 1, usual * 2));
}

export function Legend() {
  return (
    <ul class="legend">
      {PHASES.map(({ id, name, what }) => (
        <li key={id} title={what}>
          <span class={`swatch phase ${id}`} aria-hidden="true" />
          {name}
        </li>
      ))}
    </ul>
  );
}

type Ratios = Pick<Vertex, "busy_ratio" | "idle_ratio" | "backpressured_ratio">;

export function ratioWords(task: Ratios): string | null {
  if (task.busy_ratio === null && task.backpressured_ratio === null && task.idle_ratio === null) return null;
  return `busy ${percent(task.busy_ratio)}, backpressured ${percent(task.backpressured_ratio)}, idle ${percent(task.idle_ratio)}`;
}

/** Busy is plain, backpressured hatched, idle empty: they can be told without their colours. */
export function RatioBar({ task }: { task: Ratios }) {
  const words = ratioWords(task);
  if (words === null) return <None why="nobody measures how busy it is" />;
  return (
    <span class="ratiobar" role="img" aria-label={words} title={words}>
      <span class="busy" style={{ width: `${100 * (task.busy_ratio ?? 0)}%` }} />
      <span class="backpressured" style={{ width: `${100 * (task.backpressured_ratio ?? 0)}%` }} />
    </span>
  );
}

export function Meter({ value, of, label }: { value: number; of: number; label: string }) {
  return (
    <span class="meter" role="img" aria-label={label} title={label}>
      <span style={{ width: `${of > 0 ? Math.min(100, (100 * value) / of) : 0}%` }} />
    </span>
  );
}
