/** Sinks: what each guarantees, where its rows come from, and how commits go. */

import type { CheckpointingStatistics, JobDetails, JobReceiptPage, PlanSink, SinkFigures, SinkReceipt, Transactions } from "../lib/contract";
import { count, duration, plural, time, unwritten } from "../lib/format";
import { useJob } from "../lib/job";
import { useQuery } from "../lib/query";
import { href } from "../lib/route";
import { Badge, Card, Empty, Failing, Loading, None, Notice, Tiles } from "../parts/basics";
import { GuaranteeBadge } from "../parts/states";
import { Table, type Column } from "../parts/table";

interface Row extends PlanSink {
  readonly task: string;
}

export function SinksPage({ job }: { job: JobDetails }) {
  const view = useJob();
  const version = view.version("checkpoint-committed");
  const { data } = useQuery<CheckpointingStatistics>(`/jobs/${encodeURIComponent(view.jid)}/checkpoints?limit=1`, { version });
  const rows = job.plan.nodes.flatMap((node) => node.sinks.map((sink): Row => ({ ...sink, task: node.id })));
  const latest = data?.latest.completed ?? null;
  const summary = data?.summary ?? null;
  const stalled = job.stalled.filter((line) => rows.some((sink) => line.includes(sink.uid)));
  return (
    <>
      {stalled.map((line) => (
        <Notice key={line} tone="warn" title="A sink stands still">
          {line}
        </Notice>
      ))}
      <Tiles
        tiles={[
          { name: "Pre-commit", value: duration(latest?.pre_commit_ms), note: `the slowest sink's, last checkpoint · 99\u00a0%: ${duration(summary?.pre_commit_ms.p99)}` },
          { name: "Commit", value: duration(latest?.commit_ms), note: `until every sink had, last checkpoint · 99\u00a0%: ${duration(summary?.commit_ms.p99)}` },
          { name: "Commit retries", value: count(latest?.retries), note: "last checkpoint", ...((latest?.retries ?? 0) > 0 ? { tone: "warn" as const } : {}) },
          { name: "Guarantee", value: job.plan.guarantee ? <GuaranteeBadge guarantee={job.plan.guarantee} /> : "–", note: job.plan.because.length > 0 ? `because of ${job.plan.because.join(", ")}` : "of the whole job" },
        ]}
      />
      <Card title="Sinks" tight>
        {rows.length === 0 ? (
          <Empty title="No sinks are known">{job.plan.nodes.length === 0 ? unwritten(job) : "The job has none."}</Empty>
        ) : (
          <Table label="Sinks" rows={rows} columns={columns(view.jid)} rowKey={(sink) => sink.uid} rowHeight={42} />
        )}
      </Card>
      <OpenTransactions job={job} />
      <Receipts jid={view.jid} version={version} />
    </>
  );
}

/** What each sink owes at this moment. */
function OpenTransactions({ job }: { job: JobDetails }) {
  if (job.plan.nodes.every(({ sinks }) => sinks.length === 0)) return null;
  return (
    <Card title="Transactions" aside={<span class="quiet">counts since the process began</span>} tight>
      {job.sinks.length === 0 ? (
        <Empty title="Only a job that runs can tell">What an ended job left in doubt stands first among the receipts.</Empty>
      ) : (
        <Table label="Transactions" rows={job.sinks} columns={TRANSACTIONS} rowKey={(sink) => sink.sink} />
      )}
    </Card>
  );
}

const mean = (ms: number, times: number): string => duration(times > 0 ? ms / times : null);

const TRANSACTIONS: Column<SinkFigures>[] = [
  {
    key: "sink",
    head: "Sink",
    width: 150,
    grow: 2,
    sort: (one) => one.sink,
    cell: (one) => (
      <span class="tags">
        <strong>{one.sink}</strong>
        {one.full && (
          <Badge tone="warn" title="a batch waits until something is committed">
            full
          </Badge>
        )}
      </span>
    ),
  },
  { key: "open", head: "Open", title: "batches in the open transaction: not pre-committed yet", width: 96, end: true, sort: (one) => one.open_batches, cell: (one) => (one.open_batches === null ? <None why="the task has not started" /> : plural(one.open_batches, "batch", "batches")) },
  { key: "pre", head: "Pre-committed", title: "they wait for their checkpoint to complete", width: 112, end: true, sort: (one) => one.pre_committed, cell: (one) => count(one.pre_committed) },
  { key: "due", head: "To commit", title: "their checkpoint is complete", width: 84, end: true, sort: (one) => one.due, cell: (one) => count(one.due) },
  {
    key: "doubt",
    head: "In doubt",
    title: "left by an earlier generation, or a commit has failed and may or may not have had its effect",
    width: 84,
    end: true,
    sort: (one) => one.in_doubt,
    cell: (one) => (one.in_doubt > 0 ? <Badge tone="warn">{count(one.in_doubt)}</Badge> : count(one.in_doubt)),
  },
  { key: "committed", head: "Committed", width: 90, end: true, sort: (one) => one.committed, cell: (one) => count(one.committed) },
  { key: "recovered", head: "Recovered", title: "of those: pre-committed by an earlier generation", width: 88, end: true, sort: (one) => one.recovered_commits, cell: (one) => count(one.recovered_commits) },
  { key: "failed", head: "Failed tries", title: "of pre-commits, and of commits; the latter are tried again", width: 96, end: true, sort: (one) => one.failed_pre_commits + one.failed_commits, cell: (one) => `${count(one.failed_pre_commits)}, ${count(one.failed_commits)}` },
  { key: "abandoned", head: "Given up", title: "by name, by somebody", width: 80, end: true, sort: (one) => one.abandoned, cell: (one) => count(one.abandoned) },
  { key: "took", head: "Mean times", title: "of a pre-commit, of a commit", width: 130, end: true, cell: (one) => `${mean(one.pre_commits_ms, one.pre_commits)}, ${mean(one.commits_ms, one.committed)}` },
];

/** What was published with each checkpoint, and what is in doubt. */
function Receipts({ jid, version }: { jid: string; version: number }) {
  const path = `/jobs/${encodeURIComponent(jid)}`;
  const { data: page, trouble, reload } = useQuery<JobReceiptPage>(`${path}/receipts?limit=200`, { version });
  const { data: doubt } = useQuery<Transactions>(`${path}/transactions`, { version });
  const open = doubt?.in_doubt ?? [];
  const known = new Set(open.map(keyOf));
  const rows = [...open, ...(page?.receipts ?? []).filter((one) => !known.has(keyOf(one)))];
  return (
    <>
      {(page?.unreadable ?? 0) > 0 && (
        <Notice tone="warn" title="Receipts that cannot be read">
          {`${count(page?.unreadable)} of the newest: headgate audit says which`}
        </Notice>
      )}
      <Card title="Receipts" tight>
        {trouble && <Failing trouble={trouble} what="receipts" retry={reload} />}
        {!page && !trouble && <Loading what="receipts" />}
        {page && rows.length === 0 && <Empty title="No receipts yet">A sink has one for each checkpoint that published something.</Empty>}
        {rows.length > 0 && <Table label="Receipts" rows={rows} columns={RECEIPTS} rowKey={keyOf} rowHeight={38} />}
      </Card>
    </>
  );
}

const keyOf = (one: SinkReceipt): string => `${one.sink}/${one.generation}/${one.checkpoint}`;

function read(one: SinkReceipt): string {
  const ranges = Object.entries({ ...one.sources, ...one.channels });
  return ranges.map(([name, [before, after]]) => `${name}: ${before ?? "the beginning"} to ${after ?? "–"}`).join("; ");
}

const RECEIPTS: Column<SinkReceipt>[] = [
  { key: "checkpoint", head: "Checkpoint", width: 100, end: true, sort: (one) => one.checkpoint, cell: (one) => one.checkpoint },
  { key: "sink", head: "Sink", width: 120, grow: 1, sort: (one) => one.sink, cell: (one) => one.sink },
  { key: "rows", head: "Rows", width: 90, end: true, sort: (one) => one.rows, cell: (one) => count(one.rows) },
  { key: "batches", head: "Batches", width: 130, end: true, sort: (one) => one.through, cell: (one) => (one.after + 1 === one.through ? one.through : `${one.after + 1} to ${one.through}`) },
  {
    key: "read",
    head: "Offsets read",
    width: 200,
    grow: 3,
    cell: (one) => (
      <span class="cut" title={read(one)}>
        {read(one) || "–"}
      </span>
    ),
  },
  {
    key: "hash",
    head: "Hash",
    title: "a sum over what was published, in any order",
    width: 130,
    grow: 1,
    cell: (one) => (
      <code class="cut" title={one.hash ?? ""}>
        {one.hash ?? "–"}
      </code>
    ),
  },
  { key: "pre", head: "Pre-committed", width: 130, sort: (one) => one.pre_committed_ms, cell: (one) => time(one.pre_committed_ms) },
  { key: "commit", head: "Committed", width: 130, sort: (one) => one.committed_ms, cell: (one) => (one.in_history ? time(one.committed_ms) : "in doubt") },
];

const columns = (jid: string): Column<Row>[] => [
  { key: "uid", head: "Sink", width: 160, grow: 1, sort: (sink) => sink.uid, cell: (sink) => <strong>{sink.uid}</strong> },
  { key: "guarantee", head: "Guarantee", width: 160, sort: (sink) => sink.guarantee, cell: (sink) => <GuaranteeBadge guarantee={sink.guarantee} /> },
  { key: "task", head: "Task", width: 150, grow: 1, sort: (sink) => sink.task, cell: (sink) => <a href={href("jobs", jid, "tasks", sink.task)}>{sink.task}</a> },
  {
    key: "way",
    head: "Rows come from",
    title: "operators on the way from the end of the task",
    width: 170,
    grow: 2,
    cell: (sink) => {
      const way = [...sink.inputs, ...sink.after].filter((one, index, all) => all.indexOf(one) === index).join(" → ");
      return (
        <span class="cut" title={way}>
          {way}
        </span>
      );
    },
  },
  {
    key: "what",
    head: "What it is",
    width: 220,
    grow: 3,
    cell: (sink) => (
      <span class="cut" title={sink.description}>
        {sink.description}
      </span>
    ),
  },
  {
    key: "where",
    head: "In the job",
    width: 120,
    grow: 1,
    cell: (sink) => (
      <code class="cut" title={sink.where}>
        {sink.where}
      </code>
    ),
  },
];
