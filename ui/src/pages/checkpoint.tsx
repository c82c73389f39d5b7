/** One checkpoint: by task, and one task of it by state partition. */

import { useMemo } from "preact/hooks";
import type { CheckpointStatistics, JobDetails, PartitionStatistics, TaskCheckpointDetails, TaskCheckpointStatistics } from "../lib/contract";
import { bytes, count, duration } from "../lib/format";
import { useJob, useNow } from "../lib/job";
import { PHASES, checkpointSpans, slowest, taskSpans, total } from "../lib/phases";
import { useQuery } from "../lib/query";
import { go, href } from "../lib/route";
import { Card, Empty, Facts, Failing, Loading, None, Notice, Path, Tag, Time } from "../parts/basics";
import { Legend, PhaseBar } from "../parts/bars";
import { Icon } from "../parts/icons";
import { CheckpointBadge } from "../parts/states";
import { Table, type Column } from "../parts/table";
import { sizes, StatsTable, WaitingFor } from "./checkpoints";
import { HoldButton } from "./holding";

export function CheckpointPage({ job, id, task }: { job: JobDetails; id: number; task: string | null }) {
  const view = useJob();
  const path = `/jobs/${encodeURIComponent(view.jid)}/checkpoints/details/${id}`;
  const now = useNow(view.ahead, 250);
  const { data, trouble, reload } = useQuery<CheckpointStatistics>(path, { version: view.version("checkpoint-", "savepoint-") });
  const progress = view.progress.find((one) => one.id === id) ?? null;
  const ms = progress ? Math.max(0, Math.round((now - progress.trigger_timestamp) / 100) * 100) : 0;
  const word = (data?.is_savepoint ?? progress?.is_savepoint) ? "Savepoint" : "Checkpoint";
  return (
    <>
      <nav class="crumbs" aria-label="Where this is">
        <a href={href("jobs", view.jid, "checkpoints", "history")}>
          <Icon name="back" /> History
        </a>
        {task !== null && <a href={href("jobs", view.jid, "checkpoints", id)}>{`${word} ${id}`}</a>}
      </nav>
      {trouble && !data && <Failing trouble={trouble} what={`checkpoint ${id}`} retry={reload} />}
      {!data && !trouble && <Loading what={`checkpoint ${id}`} lines={8} />}
      {data && task !== null && <TaskOf checkpoint={data} task={task} path={path} />}
      {data && task === null && (
        <>
          <Head data={data} word={word} />
          {progress && progress.waiting.length > 0 && (
            <Card title="Under way" aside={duration(ms)}>
              <WaitingFor progress={progress} job={job} ms={ms} />
            </Card>
          )}
          {data.status !== "IN_PROGRESS" && <Phases data={data} />}
          <Tasks data={data} />
        </>
      )}
    </>
  );
}

const TYPES = { CHECKPOINT: "aligned checkpoint", UNALIGNED_CHECKPOINT: "unaligned checkpoint", SAVEPOINT: "savepoint" } as const;

function Head({ data, word }: { data: CheckpointStatistics; word: string }) {
  return (
    <Card
      title={
        <>
          {word} {data.id} <CheckpointBadge status={data.status} />
        </>
      }
      aside={<HoldButton checkpoint={data} />}
    >
      {data.status === "FAILED" && (
        <Notice tone="bad" title="It failed">
          {data.failure_message ?? "No cause was recorded."}
        </Notice>
      )}
      <Facts
        facts={[
          { name: "Type", value: TYPES[data.checkpoint_type] },
          { name: "Triggered", value: <Time ms={data.trigger_timestamp} /> },
          data.status === "FAILED" ? { name: "Failed", value: <Time ms={data.failure_timestamp} /> } : { name: "Complete", value: <Time ms={data.latest_ack_timestamp} /> },
          { name: "End to end", value: duration(data.end_to_end_duration) },
          { name: "Tasks", value: data.num_subtasks === null ? "–" : `${data.num_acknowledged_subtasks ?? 0} of ${data.num_subtasks}` },
          ...sizes(data),
          { name: "Files", value: count(data.files) },
          { name: "Generation", value: count(data.generation) },
          { name: "Commit retries", value: count(data.retries) },
          { name: "Restarts before", title: "since the checkpoint before", value: count(data.restarts) },
          {
            name: "Can be returned to",
            value: (
              <span class="tags">
                {data.kept ? "yes" : data.status === "IN_PROGRESS" ? "not yet" : "no"}
                {data.held && <Tag title="it stays until it is released">held</Tag>}
                {data.discarded && <Tag title="the job can no longer return to it">discarded</Tag>}
              </span>
            ),
          },
          data.savepointFormat ? { name: "Format", value: data.savepointFormat.toLowerCase() } : null,
          data.is_savepoint ? { name: "Copy", value: data.external_path ? <Path path={data.external_path} /> : "not complete yet" } : null,
        ]}
      />
    </Card>
  );
}

function Phases({ data }: { data: CheckpointStatistics }) {
  const spans = checkpointSpans(data);
  const task = slowest(data);
  const all = total(spans);
  if (all === 0) return null;
  const by = new Map(spans.map((one) => [one.phase, one.ms]));
  return (
    <Card title="Where the time went" aside={task && <span class="quiet">slowest task: {task[0]}</span>}>
      <div class="phasebar-large">
        <PhaseBar spans={spans} scale={all} />
      </div>
      <ul class="phases">
        {PHASES.map(({ id, name, what }) => (
          <li key={id} title={what}>
            <span class={`swatch phase ${id}`} aria-hidden="true" />
            <span class="phases-name">{name}</span>
            <strong>{by.has(id) ? duration(by.get(id)) : "–"}</strong>
            <span class="quiet">{by.has(id) ? `${Math.round((100 * (by.get(id) ?? 0)) / all)} %` : ""}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

type Row = readonly [string, TaskCheckpointStatistics];

function Tasks({ data }: { data: CheckpointStatistics }) {
  const { jid } = useJob();
  const rows = useMemo(() => Object.entries(data.tasks), [data]);
  const scale = useMemo(() => Math.max(1, ...rows.map(([, task]) => total(taskSpans(task)))), [rows]);
  const columns: Column<Row>[] = [
    {
      key: "task",
      head: "Task",
      width: 130,
      grow: 2,
      sort: ([name]) => name,
      cell: ([name]) => (
        <a class="strong cut" href={href("jobs", jid, "checkpoints", data.id, "tasks", name)} title={name}>
          {name}
        </a>
      ),
    },
    { key: "status", head: "", width: 36, cell: ([, task]) => <CheckpointBadge status={task.status} short /> },
    { key: "bar", head: "Start delay → async", width: 150, grow: 3, cell: ([, task]) => <PhaseBar spans={taskSpans(task)} scale={scale} /> },
    { key: "end", head: "Duration", title: "from the trigger until its snapshot was taken", width: 82, end: true, sort: ([, task]) => task.end_to_end_duration, cell: ([, task]) => duration(task.end_to_end_duration) },
    { key: "delay", head: "Start delay", title: "from the trigger to its cut", width: 92, end: true, sort: ([, task]) => task.start_delay, cell: ([, task]) => duration(task.start_delay) },
    { key: "alignment", head: "Alignment", title: "from the first barrier on an input to its cut", width: 88, end: true, sort: ([, task]) => task.alignment.duration, cell: ([, task]) => duration(task.alignment.duration) },
    { key: "sync", head: "Sync", width: 72, end: true, sort: ([, task]) => task.checkpoint.sync, cell: ([, task]) => duration(task.checkpoint.sync) },
    { key: "async", head: "Async", width: 76, end: true, sort: ([, task]) => task.checkpoint.async, cell: ([, task]) => duration(task.checkpoint.async) },
    { key: "full", head: "Full", width: 82, end: true, sort: ([, task]) => task.state_size, cell: ([, task]) => bytes(task.state_size) },
    { key: "new", head: "New", width: 82, end: true, sort: ([, task]) => task.checkpointed_size, cell: ([, task]) => bytes(task.checkpointed_size) },
    { key: "flight", head: "In flight", width: 80, end: true, sort: ([, task]) => task.persisted_data, cell: ([, task]) => bytes(task.persisted_data) },
    { key: "files", head: "Files", width: 56, end: true, sort: ([, task]) => task.files, cell: ([, task]) => count(task.files) },
    { key: "ack", head: "Acknowledged", title: "when its snapshot was taken", width: 108, end: true, sort: ([, task]) => task.latest_ack_timestamp, cell: ([, task]) => <Time ms={task.latest_ack_timestamp} /> },
  ];
  return (
    <Card title="By task" aside={<Legend />} tight>
      {rows.length === 0 ? (
        <Empty title="No task has said what it took">{data.status === "IN_PROGRESS" ? "Figures come when it is complete." : "It did not come so far."}</Empty>
      ) : (
        <Table label={`Tasks of checkpoint ${data.id}`} rows={rows} columns={columns} rowKey={([name]) => name} onOpen={([name]) => go("jobs", jid, "checkpoints", data.id, "tasks", name)} />
      )}
    </Card>
  );
}

const PARTITIONS: Column<PartitionStatistics>[] = [
  { key: "index", head: "Partition", width: 90, sort: (one) => one.index, cell: (one) => one.index },
  { key: "operator", head: "Operator", width: 160, grow: 2, sort: (one) => one.operator, cell: (one) => one.operator ?? "–" },
  { key: "status", head: "Status", width: 150, cell: (one) => (one.status === "completed" ? "completed" : "pending or failed") },
  { key: "new", head: "New", title: "of files that the kept checkpoint before does not name", width: 110, grow: 1, end: true, sort: (one) => one.checkpointed_size, cell: (one) => (one.checkpointed_size === null ? <None why="no checkpoint before it is kept" /> : bytes(one.checkpointed_size)) },
  { key: "full", head: "Full", width: 110, grow: 1, end: true, sort: (one) => one.state_size, cell: (one) => bytes(one.state_size) },
];

function TaskOf({ checkpoint, task, path }: { checkpoint: CheckpointStatistics; task: string; path: string }) {
  const { data, trouble, reload } = useQuery<TaskCheckpointDetails>(`${path}/subtasks/${encodeURIComponent(task)}`);
  if (trouble && !data) return <Failing trouble={trouble} what={`task ${task} in checkpoint ${checkpoint.id}`} retry={reload} />;
  if (!data) return <Loading what={`task ${task}`} lines={6} />;
  const spans = taskSpans(data);
  return (
    <>
      <Card title={`Task ${task}`} aside={<Legend />}>
        <div class="phasebar-large">
          <PhaseBar spans={spans} scale={Math.max(1, total(spans))} />
        </div>
        <Facts
          facts={[
            { name: "Acknowledged", title: "when its snapshot was taken", value: <Time ms={data.latest_ack_timestamp} /> },
            { name: "Duration", title: "from the trigger until its snapshot was taken", value: duration(data.end_to_end_duration) },
            { name: "Start delay", value: duration(data.start_delay) },
            { name: "Alignment", value: duration(data.alignment.duration) },
            { name: "Snapshot began", title: "after the trigger", value: duration(data.snapshot_start) },
            { name: "Sync", value: duration(data.checkpoint.sync) },
            { name: "Async", value: duration(data.checkpoint.async) },
            { name: "Full size", value: bytes(data.state_size) },
            { name: "New bytes", value: bytes(data.checkpointed_size) },
            { name: "In flight", value: bytes(data.persisted_data) },
            { name: "Files", value: count(data.files) },
          ]}
        />
      </Card>
      <Card title="By state partition" tight>
        {data.subtasks.length === 0 ? (
          <Empty title="Nothing is known by partition">The task keeps no state, or the checkpoint is not kept any more.</Empty>
        ) : (
          <>
            <StatsTable
              label="Over the partitions"
              rows={[
                { name: "Full size", format: bytes, stats: data.summary.state_size },
                { name: "New bytes", format: bytes, stats: data.summary.checkpointed_size },
              ]}
            />
            <Table label="Partitions" rows={data.subtasks} columns={PARTITIONS} rowKey={(one) => `${one.operator ?? ""} ${one.index}`} tall />
          </>
        )}
      </Card>
    </>
  );
}
