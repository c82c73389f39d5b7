/** A checkpoint as a bar of phases. One rule: the bar follows the slowest task, since that is whom all others wait for. */

import type { CheckpointStatistics, TaskCheckpointStatistics } from "./contract";

export const PHASES = [
  { id: "delay", name: "start delay", what: "from the trigger until the first barrier reached the slowest task" },
  { id: "alignment", name: "alignment", what: "from the first barrier on an input of it to its cut" },
  { id: "wait", name: "wait", what: "from its cut until its snapshot began" },
  { id: "sync", name: "sync", what: "the part of its snapshot that held its query" },
  { id: "async", name: "async", what: "the part of its snapshot that went on beside it" },
  { id: "precommit", name: "pre-commit", what: "the slowest sink's pre-commit" },
  { id: "publish", name: "publish", what: "writing the record that makes the checkpoint count" },
  { id: "commit", name: "commit", what: "after it was complete, until every sink had committed" },
] as const;

export type PhaseId = (typeof PHASES)[number]["id"];

export interface Span {
  readonly phase: PhaseId;
  readonly name: string;
  readonly ms: number;
}

/** The task that took longest, of those that have said what they took. */
export function slowest(checkpoint: CheckpointStatistics): readonly [string, TaskCheckpointStatistics] | null {
  let found: readonly [string, TaskCheckpointStatistics] | null = null;
  for (const one of Object.entries(checkpoint.tasks)) {
    if (length(one[1]) > (found ? length(found[1]) : -1)) found = one;
  }
  return found;
}

function length(task: TaskCheckpointStatistics): number {
  return task.end_to_end_duration ?? begun(task) + (task.checkpoint.sync ?? 0) + (task.checkpoint.async ?? 0);
}

/** When its snapshot began, after the trigger: with its cut, or later. */
function begun(task: TaskCheckpointStatistics): number {
  return Math.max(task.start_delay ?? 0, task.snapshot_start ?? 0);
}

/** A task's own phases. Its alignment is the end of its start delay. */
export function taskSpans(task: TaskCheckpointStatistics): Span[] {
  const alignment = task.alignment.duration ?? 0;
  return spans({
    delay: Math.max(0, (task.start_delay ?? 0) - alignment),
    alignment,
    wait: begun(task) - (task.start_delay ?? 0),
    sync: task.checkpoint.sync ?? 0,
    async: task.checkpoint.async ?? 0,
  });
}

export function checkpointSpans(checkpoint: CheckpointStatistics): Span[] {
  const task = slowest(checkpoint);
  return [
    ...(task ? taskSpans(task[1]) : []),
    ...spans({
      precommit: checkpoint.pre_commit_ms ?? 0,
      publish: checkpoint.publish_ms ?? 0,
      commit: checkpoint.commit_ms ?? 0,
    }),
  ];
}

function spans(parts: Partial<Record<PhaseId, number>>): Span[] {
  return PHASES.flatMap(({ id, name }) => {
    const ms = parts[id] ?? 0;
    return ms > 0 ? [{ phase: id, name, ms }] : [];
  });
}

export function total(parts: readonly Span[]): number {
  return parts.reduce((sum, one) => sum + one.ms, 0);
}
