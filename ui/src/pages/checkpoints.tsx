/** Checkpoints of a job: what there is at a glance, the history as a timeline, figures over all, settings. */

import { useMemo, useState } from "preact/hooks";
import type { CheckpointConfig, CheckpointingStatistics, CheckpointProgress, CheckpointStatistics, CheckpointSummary, CheckpointWaiting, JobDetails, StatsSummary } from "../lib/contract";
import { bytes, count, duration, plural, unwritten } from "../lib/format";
import { useJob, useNow } from "../lib/job";
import { usePages } from "../lib/paging";
import { useQuery } from "../lib/query";
import { go, href } from "../lib/route";
import { Button, Card, Empty, Facts, Failing, Loading, None, Notice, Path, Tabs, Tag, Tiles, Time, type Fact } from "../parts/basics";
import { CheckpointBar, Legend, Meter, scaleOf } from "../parts/bars";
import { Chart } from "../parts/chart";
import { CheckpointBadge } from "../parts/states";
import { Table, type Column } from "../parts/table";
import { CheckpointPage } from "./checkpoint";
import { recentLimit } from "./overview";

const EVENTS = ["checkpoint-", "savepoint-"] as const;

export function CheckpointsPage({ job, rest }: { job: JobDetails; rest: readonly string[] }) {
  const { jid } = useJob();
  const tab = rest[0] ?? "overview";
  if (/^\d+$/.test(tab)) return <CheckpointPage job={job} id={Number(tab)} task={rest[1] === "tasks" ? (rest[2] ?? null) : null} />;
  const at = (name: string): string => (name === "overview" ? href("jobs", jid, "checkpoints") : href("jobs", jid, "checkpoints", name));
  const tabs = ["overview", "history", "summary", "configuration"].map((name) => ({ name: name[0]?.toUpperCase() + name.slice(1), href: at(name), current: tab === name }));
  return (
    <>
      <Tabs label="Checkpoints" tabs={tabs} />
      {tab === "history" ? <History job={job} /> : tab === "summary" ? <Summary /> : tab === "configuration" ? <Configuration job={job} /> : <Glance job={job} />}
    </>
  );
}

function useBase(): string {
  return `/jobs/${encodeURIComponent(useJob().jid)}/checkpoints`;
}

// -- overview ------------------------------------------------------------------------------------------------------

function Glance({ job }: { job: JobDetails }) {
  const view = useJob();
  const base = useBase();
  const now = useNow(view.ahead, view.progress.length > 0 ? 250 : 1000);
  const { data, trouble, reload } = useQuery<CheckpointingStatistics>(`${base}?limit=${recentLimit(job)}&summary=false`, { version: view.version(...EVENTS) });
  if (trouble && !data) return <Failing trouble={trouble} what="checkpoints" retry={reload} />;
  if (!data) return <Loading what="checkpoints" lines={8} />;
  const { counts, latest } = data;
  return (
    <>
      {trouble && <Failing trouble={trouble} what="newer checkpoints" retry={reload} />}
      {data.unreadable > 0 && (
        <Notice tone="warn" title={`${plural(data.unreadable, "line")} of the history cannot be read`}>
          The events of type <a href={href("jobs", view.jid, "events")}>unreadable</a> say where.
        </Notice>
      )}
      {view.progress.map((progress) => (
        <UnderWay key={progress.id} progress={progress} now={now} job={job} />
      ))}
      <Tiles
        tiles={[
          { name: "Triggered", value: count(counts.total), note: "as far as the history goes back" },
          { name: "In progress", value: count(counts.in_progress), ...(counts.in_progress > 0 ? { tone: "busy" as const } : {}) },
          { name: "Completed", value: count(counts.completed), note: plural(counts.savepoints, "savepoint") },
          { name: "Failed", value: count(counts.failed), ...(counts.failed > 0 ? { tone: "warn" as const } : {}) },
          { name: "Restored", value: count(counts.restored), title: "how often the job went on from one" },
        ]}
      />
      {data.history.length === 0 ? (
        <Card>
          <Empty title="No checkpoint yet">{job.live ? "The first one begins after the interval, or when you ask for it." : job.phase === "new" ? "The job has never begun." : "The job ended before its first one."}</Empty>
        </Card>
      ) : (
        <>
          <Trend history={data.history} />
          <div class="columns">
            <Latest title="Latest completed checkpoint" one={latest.completed} none="None has completed yet." />
            <Latest title="Latest savepoint" one={latest.savepoint} none="None was taken." />
            <Latest title="Latest failed checkpoint" one={latest.failed} none="None has failed." />
            <Card title="Latest restore">
              {latest.restored ? (
                <Facts
                  facts={[
                    { name: "ID", value: <a href={href("jobs", view.jid, "checkpoints", latest.restored.id)}>{latest.restored.id}</a> },
                    { name: "Restored", value: <Time ms={latest.restored.restore_timestamp} /> },
                    { name: "Type", value: latest.restored.is_savepoint ? "savepoint" : "checkpoint" },
                    { name: "Generation", value: count(latest.restored.generation) },
                    latest.restored.external_path !== null ? { name: "Path", value: <Path path={latest.restored.external_path} /> } : null,
                  ]}
                />
              ) : (
                <p class="quiet">The job has always gone on from nothing.</p>
              )}
            </Card>
          </div>
        </>
      )}
    </>
  );
}

function UnderWay({ progress, now, job }: { progress: CheckpointProgress; now: number; job: JobDetails }) {
  const { jid } = useJob();
  const all = progress.acknowledged.length + progress.waiting.length;
  const ms = Math.max(0, Math.round((now - progress.trigger_timestamp) / 100) * 100);
  const done = progress.waiting.length === 0;
  return (
    <Card
      title={
        <a href={href("jobs", jid, "checkpoints", progress.id)}>
          {progress.is_savepoint ? "Savepoint" : "Checkpoint"} {progress.id}
        </a>
      }
      aside={
        <span>
          {done ? "all tasks have acknowledged" : "under way"} · {duration(ms)}
          {progress.unaligned && " · unaligned"}
        </span>
      }
    >
      <div class="underway-line">
        <Meter value={progress.acknowledged.length} of={all} label={`${progress.acknowledged.length} of ${all} tasks have acknowledged`} />
        <span>
          {progress.acknowledged.length} of {plural(all, "task")}
        </span>
      </div>
      {!done && <WaitingFor progress={progress} job={job} ms={ms} />}
    </Card>
  );
}

const SHOWN = 12;

const LOOK_MS = 2000;

/** Which task, which batch, how long, and on demand its Python stack. */
export function WaitingFor({ progress, job, ms }: { progress: CheckpointProgress; job: JobDetails; ms: number }) {
  const { jid } = useJob();
  const cut = new Set(progress.cut);
  const [stacks, setStacks] = useState(false);
  const path = `/jobs/${encodeURIComponent(jid)}/checkpoints/details/${progress.id}/waiting?stacks=${stacks}`;
  const { data, trouble } = useQuery<CheckpointWaiting>(job.live ? path : null, { every: LOOK_MS });
  const known = new Map((data?.waiting_for ?? []).map((one) => [one.task, one]));
  return (
    <div class="waiting">
      <h3>Waiting for</h3>
      <ul>
        {progress.waiting.slice(0, SHOWN).map((id) => {
          const task = job.vertices.find((one) => one.id === id);
          const behind = task ? Object.entries(task.lag).filter(([, batches]) => batches > 0) : [];
          const at = known.get(id);
          return (
            <li key={id}>
              <a class="strong" href={href("jobs", jid, "tasks", id)}>
                {id}
              </a>{" "}
              {cut.has(id) ? "has cut, its snapshot is under way" : "has not met the barrier on every input yet"}
              <span class="quiet">
                {" "}
                · for {duration(ms)}
                {task && task.phase !== "running" && ` · it is ${task.phase}`}
                {task && task.batch >= 0 && ` · last batch ${count(task.batch)}`}
                {behind.map(([channel, batches]) => ` · ${plural(batches, "batch", "batches")} behind on ${channel}`).join("")}
              </span>
              {at && at.doing !== null && (
                <div class="quiet">
                  {at.doing} for {duration(at.for_ms)}
                  {at.place !== null && `, ${at.place}`}
                </div>
              )}
              {at && at.stack.length > 0 && <StackOf lines={at.stack} what={`Python stack of ${id}`} />}
            </li>
          );
        })}
        {progress.waiting.length > SHOWN && <li class="quiet">and {plural(progress.waiting.length - SHOWN, "more task")}</li>}
      </ul>
      {job.live && (
        <label class="check">
          <input type="checkbox" checked={stacks} onChange={(event) => setStacks(event.currentTarget.checked)} /> Python stacks
        </label>
      )}
      {trouble && <p class="quiet">{trouble.lines.join(" ")}</p>}
      {stacks && data && <Workers data={data} />}
    </div>
  );
}

function StackOf({ lines, what }: { lines: readonly string[]; what: string }) {
  return (
    <pre class="stack" tabIndex={0} aria-label={what}>
      {[...lines].reverse().join("\n")}
    </pre>
  );
}

/** Which worker works for which task nobody knows. */
function Workers({ data }: { data: CheckpointWaiting }) {
  if (data.workers_missing !== null) return <p class="quiet">The stacks of Python workers: {data.workers_missing}</p>;
  if (data.workers.length === 0) return <p class="quiet">No Python worker is at anything on this machine.</p>;
  return (
    <>
      <h3>Python workers at work</h3>
      <ul>
        {data.workers.map((one) => (
          <li key={`${one.pid} ${one.thread}`}>
            {one.process} {one.pid}
            <StackOf lines={one.stack} what={`Stack of process ${one.pid}`} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Latest({ title, one, none }: { title: string; one: CheckpointStatistics | null; none: string }) {
  const { jid } = useJob();
  return (
    <Card title={title}>
      {one ? (
        <Facts
          facts={[
            { name: "ID", value: <a href={href("jobs", jid, "checkpoints", one.id)}>{one.id}</a> },
            one.status === "FAILED" ? { name: "Failed", value: <Time ms={one.failure_timestamp} /> } : { name: "Completed", value: <Time ms={one.latest_ack_timestamp} /> },
            one.status === "FAILED" ? { name: "Cause", value: <span class="wrap">{one.failure_message ?? "–"}</span> } : { name: "End to end", value: duration(one.end_to_end_duration) },
            ...(one.status === "FAILED" ? [] : sizes(one)),
            one.external_path !== null ? { name: "Path", value: <Path path={one.external_path} /> } : null,
          ]}
        />
      ) : (
        <p class="quiet">{none}</p>
      )}
    </Card>
  );
}

export function sizes(one: CheckpointStatistics): Fact[] {
  return [
    { name: "New bytes", title: "that no checkpoint had named before (Flink: checkpointed data size)", value: bytes(one.checkpointed_size) },
    { name: "Full size", title: "all bytes that it names", value: bytes(one.state_size) },
    { name: "In flight", title: "on channels, which belong to it", value: bytes(one.persisted_data) },
  ];
}

function Trend({ history }: { history: readonly CheckpointStatistics[] }) {
  const shown = useMemo(() => [...history].reverse().filter((one) => one.status === "COMPLETED"), [history]);
  if (shown.length < 2) return null;
  const ids = shown.map(({ id }) => id);
  const range = `of checkpoints ${ids[0] ?? ""} to ${ids[ids.length - 1] ?? ""}`;
  return (
    <div class="columns">
      <Card title="Duration">
        <Chart
          x={ids}
          time={false}
          xName="checkpoint"
          format={duration}
          label={`Duration ${range}`}
          lines={[
            { name: "end to end", values: shown.map((one) => one.end_to_end_duration), bars: true },
            { name: "commit", values: shown.map((one) => one.commit_ms) },
          ]}
        />
      </Card>
      <Card title="Size">
        <Chart
          x={ids}
          time={false}
          xName="checkpoint"
          format={bytes}
          binary
          label={`Size ${range}`}
          lines={[
            { name: "full", values: shown.map((one) => one.state_size) },
            { name: "new", values: shown.map((one) => one.checkpointed_size), bars: true },
            { name: "in flight", values: shown.map((one) => one.persisted_data) },
          ]}
        />
      </Card>
    </div>
  );
}

// -- history -------------------------------------------------------------------------------------------------------

function readHistory(answer: CheckpointingStatistics) {
  return { rows: answer.history, next: answer.next_before };
}

function idOf(one: { id: number }): number {
  return one.id;
}

function History({ job }: { job: JobDetails }) {
  const view = useJob();
  const base = useBase();
  const now = useNow(view.ahead, view.progress.length > 0 ? 250 : 1000);
  const limit = Math.max(20, Math.min(200, Math.floor(4000 / Math.max(1, job.vertices.length))));
  const pages = usePages<CheckpointingStatistics, CheckpointStatistics>(`${base}?limit=${limit}&summary=false`, readHistory, idOf, view.version(...EVENTS));
  const scale = useMemo(() => scaleOf(pages.rows), [pages.rows]);
  const columns = useMemo(() => historyColumns(view.jid, scale, now), [view.jid, scale, view.progress.length > 0 ? now : 0]);
  if (pages.trouble && !pages.first) return <Failing trouble={pages.trouble} what="the history" retry={pages.reload} />;
  if (!pages.first) return <Loading what="the history" lines={10} />;
  const all = pages.first.counts.total;
  return (
    <Card title="History" aside={<Legend />} tight>
      {pages.trouble && <Failing trouble={pages.trouble} what="more of the history" retry={pages.reload} />}
      {pages.rows.length === 0 ? (
        <Empty title="No checkpoint yet" />
      ) : (
        <Table
          label="Checkpoints, the newest first"
          rows={pages.rows}
          columns={columns}
          rowKey={idOf}
          onOpen={(one) => go("jobs", view.jid, "checkpoints", one.id)}
          onEnd={pages.more ? pages.loadMore : undefined}
          tall
          footer={
            <>
              <span>
                {count(pages.rows.length)} of {count(all)}
              </span>
              <span class="quiet">the bar is the slowest task's part, then what sinks and the coordinator took; as long as {duration(scale)}</span>
              {pages.more && (
                <Button tone="plain" busy={pages.loading} onClick={pages.loadMore}>
                  Load older ones
                </Button>
              )}
            </>
          }
        />
      )}
    </Card>
  );
}

function historyColumns(jid: string, scale: number, now: number): Column<CheckpointStatistics>[] {
  return [
    {
      key: "id",
      head: "ID",
      width: 72,
      cell: (one) => (
        <a class="strong" href={href("jobs", jid, "checkpoints", one.id)}>
          {one.id}
        </a>
      ),
    },
    { key: "status", head: "Status", width: 114, cell: (one) => <CheckpointBadge status={one.status} /> },
    {
      key: "kind",
      head: "Kind",
      width: 104,
      cell: (one) => (
        <span class="tags">
          {one.is_savepoint ? <Tag>savepoint</Tag> : one.unaligned ? <Tag>unaligned</Tag> : <span class="quiet">aligned</span>}
          {one.held && <Tag title="it stays until it is released">held</Tag>}
        </span>
      ),
    },
    { key: "triggered", head: "Triggered", width: 126, cell: (one) => <Time ms={one.trigger_timestamp} /> },
    {
      key: "acknowledged",
      head: "Tasks",
      title: "that have acknowledged, of all",
      width: 62,
      end: true,
      cell: (one) => (one.num_subtasks === null ? <None /> : `${one.num_acknowledged_subtasks ?? 0}/${one.num_subtasks}`),
    },
    {
      key: "duration",
      head: "Duration",
      title: "end to end",
      width: 84,
      end: true,
      cell: (one) => (one.status === "IN_PROGRESS" && one.trigger_timestamp !== null ? duration(now - one.trigger_timestamp) : duration(one.end_to_end_duration)),
    },
    {
      key: "bar",
      head: "Start delay → commit",
      width: 196,
      grow: 4,
      cell: (one) =>
        one.status === "FAILED" ? (
          <span class="cut quiet" title={one.failure_message ?? ""}>
            {one.failure_message ?? "no cause was recorded"}
          </span>
        ) : (
          <CheckpointBar checkpoint={one} scale={scale} now={now} />
        ),
    },
    { key: "full", head: "Full", title: "all bytes that it names", width: 84, end: true, cell: (one) => bytes(one.state_size) },
    { key: "new", head: "New", title: "bytes that no checkpoint had named before", width: 84, end: true, cell: (one) => bytes(one.checkpointed_size) },
    { key: "flight", head: "In flight", title: "bytes on channels, which belong to it", width: 84, end: true, cell: (one) => bytes(one.persisted_data) },
  ];
}

// -- summary -------------------------------------------------------------------------------------------------------

const MEASURED: readonly (readonly [keyof CheckpointSummary, string, (value: number | null) => string])[] = [
  ["end_to_end_duration", "End to end duration", duration],
  ["pre_commit_ms", "Pre-commit", duration],
  ["publish_ms", "Publish", duration],
  ["commit_ms", "Commit", duration],
  ["checkpointed_size", "New bytes", bytes],
  ["state_size", "Full size", bytes],
  ["persisted_data", "In-flight bytes", bytes],
  ["files", "Files", count],
];
const FIGURES: readonly (readonly [keyof StatsSummary, string])[] = [
  ["min", "Minimum"],
  ["avg", "Average"],
  ["max", "Maximum"],
  ["p50", "50 %"],
  ["p90", "90 %"],
  ["p95", "95 %"],
  ["p99", "99 %"],
  ["p999", "99.9 %"],
];

function Summary() {
  const base = useBase();
  const { data, trouble, reload } = useQuery<CheckpointingStatistics>(`${base}?limit=1`, { every: 30_000 });
  if (trouble && !data) return <Failing trouble={trouble} what="the summary" retry={reload} />;
  if (!data) return <Loading what="the summary" lines={8} />;
  const { summary, counts } = data;
  return (
    <Card title="Over all completed checkpoints" aside={<span class="quiet">{plural(counts.completed, "checkpoint")}; a percentile is a value that was measured</span>} tight>
      {!summary || counts.completed === 0 ? (
        <Empty title="No checkpoint has completed yet" />
      ) : (
        <StatsTable
          label="Summary"
          rows={MEASURED.map(([key, name, format]) => ({ name, format, stats: summary[key] }))}
        />
      )}
    </Card>
  );
}

interface StatsRow {
  readonly name: string;
  readonly format: (value: number | null) => string;
  readonly stats: StatsSummary;
}

export function StatsTable({ label, rows }: { label: string; rows: readonly StatsRow[] }) {
  const columns: Column<StatsRow>[] = [
    { key: "name", head: "", width: 170, grow: 2, cell: (row) => <span class="strong">{row.name}</span> },
    ...FIGURES.map(([key, head]): Column<StatsRow> => ({ key, head, width: 96, grow: 1, end: true, cell: (row) => row.format(row.stats[key]) })),
  ];
  return <Table label={label} rows={rows} columns={columns} rowKey={(row) => row.name} />;
}

// -- configuration -------------------------------------------------------------------------------------------------

function Configuration({ job }: { job: JobDetails }) {
  const base = useBase();
  const { data, trouble, reload } = useQuery<CheckpointConfig>(`${base}/config`);
  if (trouble?.kind === "missing") {
    return (
      <Card>
        <Empty title="The settings were not written down">{unwritten(job)}</Empty>
      </Card>
    );
  }
  if (trouble && !data) return <Failing trouble={trouble} what="the settings" retry={reload} />;
  if (!data) return <Loading what="the settings" lines={10} />;
  const yes = (value: boolean): string => (value ? "yes" : "no");
  return (
    <Card title="Settings of checkpoints">
      <Facts
        facts={[
          { name: "Mode", value: data.mode.replaceAll("_", " ") },
          { name: "Interval", value: data.interval === null ? "only when asked for" : duration(data.interval) },
          { name: "Timeout", value: duration(data.timeout) },
          { name: "Minimum pause", title: "between the end of one and the trigger of the next", value: duration(data.min_pause) },
          { name: "At once, at most", value: count(data.max_concurrent) },
          { name: "Tolerable failed checkpoints", value: count(data.tolerable_failed_checkpoints) },
          { name: "Unaligned", value: yes(data.unaligned_checkpoints) },
          { name: "Aligned timeout", title: "after which one becomes unaligned", value: data.aligned_checkpoint_timeout === null ? "never" : duration(data.aligned_checkpoint_timeout) },
          {
            name: "When the job is cancelled",
            value: data.externalization.delete_on_cancellation ? "checkpoints are deleted, but held ones and savepoints" : "checkpoints are kept",
          },
          { name: "With finished tasks", value: yes(data.checkpoints_after_tasks_finish) },
          { name: "Kept", title: "completed checkpoints", value: count(data.num_retained) },
          { name: "Batches ahead, at most", title: "how far a task may run ahead of those who read it", value: data.max_batches_ahead === null ? "no bound" : count(data.max_batches_ahead) },
          { name: "State backend", value: data.state_backend },
          { name: "State changelog", value: yes(data.state_changelog_enabled) },
          {
            name: "Snapshots of changes",
            title: "how often Spark looks whether a snapshot of the state is due",
            value: data.changelog_periodic_materialization_interval === null ? "–" : `every ${duration(data.changelog_periodic_materialization_interval)}`,
          },
          { name: "Storage", value: <Path path={data.checkpoint_storage} /> },
          { name: "Working directory", value: <Path path={data.working_directory} /> },
        ]}
      />
    </Card>
  );
}
