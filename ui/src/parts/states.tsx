/** What states of jobs, tasks and checkpoints look like. One rule: the same word always has the same sign and colour. */

import type { CheckpointStatistics, JobSummary, Vertex } from "../lib/contract";
import { Badge, type Tone } from "./basics";

const PHASES: Readonly<Record<JobSummary["phase"], readonly [Tone, string]>> = {
  new: ["quiet", "It has never begun."],
  starting: ["busy", "Its tasks start."],
  running: ["ok", "All is well."],
  restarting: ["busy", "It goes back to its last checkpoint, or a task starts again."],
  closing: ["busy", "It commits what it owes, and ends."],
  finished: ["ok", "All its sources came to an end."],
  stopped: ["quiet", "It was stopped with a savepoint, and goes on with headgate run."],
  cancelled: ["quiet", "It was cancelled."],
  failed: ["bad", "It has failed."],
  deposed: ["warn", "Another process leads it now."],
  interrupted: ["warn", "Its process was told to end. It goes on with headgate run."],
  crashed: ["bad", "Its process is gone without a word. It goes on with headgate run."],
  unknown: ["warn", "Its process is on another machine, or does not answer."],
  damaged: ["bad", "Its records cannot be read."],
};

export function JobBadge({ job }: { job: Pick<JobSummary, "phase" | "state"> }) {
  const [tone, what] = PHASES[job.phase];
  return (
    <Badge tone={tone} title={`${what} (Flink: ${job.state})`}>
      {job.phase}
    </Badge>
  );
}

const TASKS: Readonly<Record<Vertex["phase"], Tone>> = { starting: "busy", running: "ok", restarting: "busy", stopped: "quiet", finished: "ok" };

export function TaskBadge({ task }: { task: Pick<Vertex, "phase" | "status"> }) {
  return (
    <Badge tone={TASKS[task.phase]} title={`Flink: ${task.status}`}>
      {task.phase}
    </Badge>
  );
}

const CHECKPOINTS: Readonly<Record<CheckpointStatistics["status"], readonly [Tone, string]>> = {
  IN_PROGRESS: ["busy", "under way"],
  COMPLETED: ["ok", "completed"],
  FAILED: ["bad", "failed"],
};

export function CheckpointBadge({ status, short = false }: { status: CheckpointStatistics["status"]; short?: boolean }) {
  const [tone, word] = CHECKPOINTS[status];
  return (
    <Badge tone={tone} title={status}>
      <span class={short ? "visually-hidden" : ""}>{word}</span>
    </Badge>
  );
}

const GUARANTEES: Readonly<Record<string, Tone>> = { "exactly-once": "ok", "effectively-once": "ok", "at-least-once": "warn", "at-most-once": "warn" };

export function GuaranteeBadge({ guarantee }: { guarantee: string }) {
  const word = guarantee.replaceAll("_", "-");
  return <Badge tone={GUARANTEES[word] ?? "info"}>{word}</Badge>;
}
