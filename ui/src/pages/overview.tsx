/** One job at a glance: its graph, its figures, and what is wrong with it. */

import { useMemo } from "preact/hooks";
import { Graph } from "../graph/graph";
import type { CheckpointingStatistics, JobDetails, Vertex } from "../lib/contract";
import { ago, bytes, compact, count, duration, isUneven, plural, rate, skew } from "../lib/format";
import { useJob, useNow, type JobView } from "../lib/job";
import { useQuery } from "../lib/query";
import { go, href } from "../lib/route";
import { Card, Empty, Loading, None, Notice, Tag, Tiles, Time } from "../parts/basics";
import { RatioBar } from "../parts/bars";
import { Chart } from "../parts/chart";
import { GuaranteeBadge, TaskBadge } from "../parts/states";
import { Table, type Column } from "../parts/table";
import { TaskDrawer } from "./task";

/** A chart with more lines than that is read by nobody. */
const LINES = 6;
const RECENT = 60;

export function OverviewPage({ job, task }: { job: JobDetails; task: string | null }) {
  const view = useJob();
  const now = useNow(view.ahead, view.progress.length > 0 ? 250 : 1000);
  const version = view.version("checkpoint-completed", "checkpoint-failed", "checkpoint-committed");
  const recent = useQuery<CheckpointingStatistics>(`/jobs/${encodeURIComponent(view.jid)}/checkpoints?limit=${recentLimit(job)}&summary=false`, { version });
  const choose = (id: string): void => go("jobs", view.jid, "tasks", id);
  const progress = view.progress[0] ?? null;
  const chosen = task === null ? null : (job.vertices.find(({ id }) => id === task) ?? null);

  return (
    <>
      <Alerts job={job} view={view} />
      <Tiles tiles={tiles(job, now)} />
      <Card
        title="Graph"
        aside={
          progress ? (
            <a class="underway" href={href("jobs", view.jid, "checkpoints", progress.id)}>
              {progress.is_savepoint ? "savepoint" : "checkpoint"} {progress.id}: {progress.acknowledged.length} of {progress.acknowledged.length + progress.waiting.length} tasks,{" "}
              {duration(Math.max(0, Math.round((now - progress.trigger_timestamp) / 100) * 100))}
            </a>
          ) : (
            <span class="quiet">{plural(job.vertices.length, "task")}</span>
          )
        }
        tight
      >
        <Graph job={job} progress={progress} now={now} chosen={task} onChoose={choose} />
      </Card>
      <Card title="Tasks" tight>
        {job.vertices.length === 0 ? (
          <Empty title="No tasks yet">They are known when the job has begun.</Empty>
        ) : (
          <Table label="Tasks" rows={job.vertices} columns={COLUMNS(view.jid)} rowKey={(one) => one.id} chosen={task} onOpen={(one) => choose(one.id)} />
        )}
      </Card>
      <div class="columns">
        <Rows job={job} view={view} />
        <Durations recent={recent.data} />
      </div>
      {task !== null && <TaskDrawer id={task} task={chosen} node={job.plan.nodes.find(({ id }) => id === task) ?? null} onClose={() => go("jobs", view.jid)} />}
    </>
  );
}

/** Each checkpoint of an answer has all its tasks. */
export function recentLimit(job: JobDetails): number {
  return Math.max(10, Math.min(RECENT, Math.floor(4000 / Math.max(1, job.vertices.length))));
}

function Alerts({ job, view }: { job: JobDetails; view: JobView }) {
  const failed = job.phase === "failed" || job.phase === "crashed" || job.phase === "damaged";
  const recovery = href("jobs", view.jid, "recovery");
  return (
    <>
      {failed && (
        <Notice tone="bad" title={`The job ${job.phase === "failed" ? "has failed" : job.phase === "crashed" ? "has crashed" : "is damaged"}`} actions={<a href={recovery}>Stack trace</a>}>
          {job.text ?? job.last_failure?.message ?? "No cause was recorded."}
        </Notice>
      )}
      {!failed && job.phase === "restarting" && (
        <Notice tone="warn" title="The job restarts" actions={<a href={recovery}>Restarts</a>}>
          {job.last_failure?.message ?? "Why is not known."}
        </Notice>
      )}
      {job.stalled.map((line) => (
        <Notice key={line} tone="warn" title="Something stands still">
          {line}
        </Notice>
      ))}
    </>
  );
}

function tiles(job: JobDetails, now: number) {
  const reading = job.plan.nodes.length > 0 ? new Set(job.plan.nodes.filter((node) => node.sources.length > 0).map(({ id }) => id)) : null;
  const ins = job.vertices.filter((task) => (reading ? reading.has(task.id) : Object.keys(task.lag).length === 0));
  const rates = ins.map((task) => task.rows_per_s).filter((one) => one !== null);
  const reads = ins.map((task) => task.metrics["read-records"]).filter((one) => one !== null);
  const lags = job.vertices.flatMap((task) => Object.entries(task.lag).map(([channel, batches]) => ({ task: task.id, channel, batches })));
  const worst = lags.sort((a, b) => b.batches - a.batches)[0];
  const last = job.last_checkpoint;
  const state = job.vertices.map((task) => task.state_bytes).filter((one) => one !== null);
  return [
    { name: "Rows in", value: rates.length > 0 ? rate(sum(rates)) : rate(null), note: reads.length > 0 ? `${compact(sum(reads))} since the process began` : "by all sources", title: "read from all sources" },
    {
      name: "Lag",
      value: worst ? plural(worst.batches, "batch", "batches") : "–",
      note: worst ? `at most, into ${worst.task}` : "no channels",
      title: worst ? `channel ${worst.channel}` : "",
    },
    {
      name: "Last checkpoint",
      value: last ? (
        <a href={href("jobs", job.jid, "checkpoints", last.id)}>
          {last.completed_ms === null ? last.id : ago(last.completed_ms, now)}
        </a>
      ) : (
        "–"
      ),
      note: last ? `${last.kind} ${last.id}, took ${duration(last.duration_ms)}` : "none yet",
    },
    { name: "State", value: state.length > 0 ? bytes(sum(state)) : "–", note: state.length > 0 ? `of ${plural(state.length, "task")}` : "not measured" },
    {
      name: "Restarts",
      value: <a href={href("jobs", job.jid, "recovery")}>{count(job.restarts.job + job.restarts.task)}</a>,
      note: `${count(job.restarts.job)} of the job, ${count(job.restarts.task)} of tasks`,
      ...(job.restarts.job + job.restarts.task > 0 ? { tone: "warn" as const } : {}),
    },
    {
      name: "Guarantee",
      value: job.plan.guarantee ? <GuaranteeBadge guarantee={job.plan.guarantee} /> : "–",
      note: job.plan.because.length > 0 ? job.plan.because.join(", ") : job.plan.guarantee ? "from end to end" : "not written down",
    },
  ];
}

function sum(values: readonly number[]): number {
  return values.reduce((all, one) => all + one, 0);
}

const COLUMNS = (jid: string): Column<Vertex>[] => [
  {
    key: "name",
    head: "Task",
    width: 130,
    grow: 3,
    sort: (task) => task.id,
    cell: (task) => (
      <span class="cut">
        <a class="strong" href={href("jobs", jid, "tasks", task.id)} title={task.name}>
          {task.id}
        </a>
        {task.name !== task.id && <span class="quiet"> {task.name}</span>}
      </span>
    ),
  },
  { key: "state", head: "State", width: 100, sort: (task) => task.phase, cell: (task) => <TaskBadge task={task} /> },
  { key: "busy", head: "Busy", title: "busy, backpressured (hatched), idle", width: 72, grow: 1, sort: (task) => task.busy_ratio, cell: (task) => <RatioBar task={task} /> },
  { key: "rate", head: "Rows", width: 108, end: true, sort: (task) => task.rows_per_s, cell: (task) => rate(task.rows_per_s) },
  { key: "read", head: "Read", title: "records since its process began", width: 66, end: true, sort: (task) => task.metrics["read-records"], cell: (task) => compact(task.metrics["read-records"]) },
  { key: "written", head: "Written", title: "records since its process began", width: 66, end: true, sort: (task) => task.metrics["write-records"], cell: (task) => compact(task.metrics["write-records"]) },
  { key: "lag", head: "Lag", title: "batches behind, on the channel that is furthest behind", width: 48, end: true, sort: (task) => lagOf(task), cell: (task) => count(lagOf(task)) },
  { key: "batch", head: "Batch", title: "the last one that was committed", width: 64, end: true, sort: (task) => task.batch, cell: (task) => (task.batch < 0 ? "–" : count(task.batch)) },
  { key: "watermark", head: "Watermark", width: 84, end: true, sort: (task) => task.watermark_ms, cell: (task) => <Watermark ms={task.watermark_ms} /> },
  { key: "state-size", head: "State", title: "of its operators", width: 80, end: true, sort: (task) => task.state_bytes, cell: (task) => bytes(task.state_bytes) },
  { key: "skew", head: "Skew", title: "the largest partition by the mean, of the source or the state that is most uneven", width: 60, end: true, sort: (task) => task.skew, cell: (task) => <Skew task={task} /> },
  { key: "parallelism", head: "Partitions", title: "of its state", width: 76, end: true, sort: (task) => task.parallelism, cell: (task) => count(task.parallelism) },
  { key: "for", head: "For", title: "how long its last run has been up", width: 104, end: true, sort: (task) => task.duration, cell: (task) => duration(wholeSeconds(task.duration)) },
  { key: "run", head: "Run", title: "how often its query was started in this generation", width: 48, end: true, sort: (task) => task.run, cell: (task) => count(task.run) },
  { key: "since", head: "Since", title: "when its last run was up", width: 130, end: true, sort: (task) => task["start-time"], cell: (task) => <Time ms={task["start-time"]} /> },
];

export function Skew({ task }: { task: Vertex }) {
  if (task.skew === null) return <None why="nothing is measured by partition" />;
  return (
    <span class={isUneven(task.skew) ? "uneven" : ""} title={task.skew_of ?? ""}>
      {skew(task.skew)}
    </span>
  );
}

export function Watermark({ ms }: { ms: number | null }) {
  if (ms !== null && ms > 8.64e15 / 2) return <Tag title="all windows are closed">end of time</Tag>;
  return <Time ms={ms} />;
}

/** It changes once a second. */
export function wholeSeconds(ms: number | null): number | null {
  return ms === null ? null : Math.floor(ms / 1000) * 1000;
}

function lagOf(task: Vertex): number | null {
  const lags = Object.values(task.lag);
  return lags.length > 0 ? Math.max(...lags) : null;
}

function Rows({ job, view }: { job: JobDetails; view: JobView }) {
  const lines = [...view.series.rows]
    .map(([name, values]) => ({ name, values: [...values], size: values.reduce<number>((all, one) => all + (one ?? 0), 0) }))
    .sort((a, b) => b.size - a.size)
    .slice(0, LINES);
  const enough = view.series.at.length > 1;
  const known = job.vertices.some(({ rows_per_s: rows }) => rows !== null);
  return (
    <Card title="Rows per second" aside={<span class="quiet">{job.vertices.length > LINES ? `the ${LINES} busiest tasks, ` : ""}since this page was opened</span>}>
      {enough && known ? (
        <Chart x={[...view.series.at]} time xName="time" lines={lines} format={rate} label={`Rows per second of ${lines.map(({ name }) => name).join(", ")}`} />
      ) : (
        <Empty title={known || job.live ? "Listening" : "The job does not run"}>{known || job.live ? "The first points come in a few seconds." : "Only a job that runs can say how fast it is."}</Empty>
      )}
    </Card>
  );
}

function Durations({ recent }: { recent: CheckpointingStatistics | null }) {
  const shown = useMemo(() => [...(recent?.history ?? [])].reverse().filter((one) => one.status === "COMPLETED"), [recent]);
  return (
    <Card title="Checkpoint duration" aside={<span class="quiet">the last {shown.length}</span>}>
      {recent === null ? (
        <Loading what="checkpoints" lines={5} />
      ) : shown.length > 1 ? (
        <Chart
          x={shown.map(({ id }) => id)}
          time={false}
          xName="checkpoint"
          lines={[{ name: "end to end", values: shown.map((one) => one.end_to_end_duration), bars: true }]}
          format={duration}
          label={`Duration of checkpoints ${shown[0]?.id ?? ""} to ${shown[shown.length - 1]?.id ?? ""}`}
        />
      ) : (
        <Empty title="No checkpoints yet">The first bars come with the second one.</Empty>
      )}
    </Card>
  );
}

