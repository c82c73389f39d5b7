/** All jobs that this process can see. */

import { useMemo, useState } from "preact/hooks";
import type { Jobs, JobSummary, Overview } from "../lib/contract";
import { ago, count, duration, plural, tail } from "../lib/format";
import { useNow } from "../lib/job";
import { useQuery } from "../lib/query";
import { go, href } from "../lib/route";
import { Card, Empty, Failing, Loading, None, Notice, Tiles, Time } from "../parts/basics";
import { Icon } from "../parts/icons";
import { JobBadge } from "../parts/states";
import { Table, type Column } from "../parts/table";

const SORTS: Readonly<Record<string, number>> = { failed: 0, damaged: 0, crashed: 0, restarting: 1, starting: 1, closing: 1, running: 2 };

export function JobsPage({ every }: { every: number }) {
  const overview = useQuery<Overview>("/overview", { every });
  const jobs = useQuery<Jobs>("/jobs", { every });
  const now = useNow((overview.data?.now ?? Date.now()) - Date.now());
  const [filter, setFilter] = useState("");
  const rows = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    return (jobs.data?.jobs ?? []).filter((job) => {
      const text = `${job.name} ${job.phase} ${job.storage}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }, [jobs.data, filter]);
  const columns = useMemo(() => columnsOf(now), [Math.floor(now / 1000)]);
  const seen = overview.data;

  return (
    <main id="main" class="page" tabIndex={-1}>
      <h1>Jobs</h1>
      {jobs.trouble && <Failing trouble={jobs.trouble} what="the jobs" retry={jobs.reload} />}
      {seen &&
        Object.entries(seen.unreachable).map(([storage, why]) => (
          <Notice key={storage} tone="warn" title={`${storage} cannot be reached`}>
            {why}. Its jobs are shown as they were last seen; it is tried again by itself.
          </Notice>
        ))}
      {seen && (
        <Tiles
          tiles={[
            { name: "Running", value: count(seen["jobs-running"]), title: "also those that start, restart or close" },
            { name: "Finished", value: count(seen["jobs-finished"]), title: "finished or stopped" },
            { name: "Cancelled", value: count(seen["jobs-cancelled"]) },
            { name: "Failed", value: count(seen["jobs-failed"]), ...(seen["jobs-failed"] > 0 ? { tone: "bad" as const } : {}) },
            { name: "Suspended", value: count(seen["jobs-suspended"]), title: "neither running nor ended: interrupted, crashed, unknown, damaged, new" },
          ]}
        />
      )}
      <Card
        tight
        title="All jobs"
        aside={
          <input
            type="search"
            class="filter"
            placeholder="Filter  /"
            aria-label="Filter jobs"
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        }
      >
        {!jobs.data && !jobs.trouble && <Loading what="jobs" />}
        {jobs.data && jobs.data.jobs.length === 0 && (
          <Empty title="No job yet">
            Run one with <code>headgate run job.py</code>; it is listed here as soon as it has begun.
          </Empty>
        )}
        {jobs.data && jobs.data.jobs.length > 0 && rows.length === 0 && <Empty title={`No job matches “${filter}”`} />}
        {rows.length > 0 && (
          <Table label="Jobs" rows={rows} columns={columns} rowKey={(job) => job.jid} rowHeight={42} onOpen={(job) => go("jobs", job.jid)} />
        )}
      </Card>
      {seen && (
        <p class="quiet page-foot">
          {plural(seen.storages.length, "storage")}: {seen.storages.join(", ")} · process {seen.process.pid} on {seen.process.machine} · Headgate {seen["headgate-version"]}
        </p>
      )}
    </main>
  );
}

function columnsOf(now: number): Column<JobSummary>[] {
  return [
    {
      key: "name",
      head: "Job",
      width: 190,
      grow: 3,
      sort: (job) => job.name,
      cell: (job) => (
        <span class="two-lines">
          <a class="strong" href={href("jobs", job.jid)}>
            {job.jid}
          </a>
          {job.text && (
            <span class="quiet" title={job.text}>
              {job.text}
            </span>
          )}
        </span>
      ),
    },
    { key: "state", head: "State", width: 120, sort: (job) => SORTS[job.phase] ?? 3, cell: (job) => <JobBadge job={job} /> },
    { key: "start", head: "Start", width: 150, grow: 1, sort: (job) => job["start-time"], cell: (job) => <Time ms={job["start-time"]} /> },
    {
      key: "duration",
      head: "Duration",
      width: 100,
      end: true,
      sort: (job) => durationOf(job, now),
      cell: (job) => duration(durationOf(job, now)),
    },
    {
      key: "end",
      head: "End",
      width: 150,
      grow: 1,
      sort: (job) => job["end-time"],
      cell: (job) => (job["end-time"] === null ? <None why={job.live ? "it runs" : "not known"} /> : <Time ms={job["end-time"]} />),
    },
    {
      key: "tasks",
      head: "Tasks",
      title: "running of all",
      width: 80,
      end: true,
      sort: (job) => job.tasks.total,
      cell: (job) => (
        <span title={`${job.tasks.running} running, ${job.tasks.initializing} starting, ${job.tasks.finished} finished, ${job.tasks.canceled} stopped`}>
          {job.tasks.running}/{job.tasks.total}
        </span>
      ),
    },
    {
      key: "checkpoint",
      head: "Last checkpoint",
      title: "the one that the job would return to, and how old it is",
      width: 150,
      end: true,
      sort: (job) => job.last_checkpoint?.completed_ms,
      cell: (job) =>
        job.last_checkpoint ? (
          <span>
            <a href={href("jobs", job.jid, "checkpoints", job.last_checkpoint.id)}>{job.last_checkpoint.id}</a>
            <span class="quiet"> · {ago(job.last_checkpoint.completed_ms, now)}</span>
          </span>
        ) : (
          <None why="none yet" />
        ),
    },
    {
      key: "restarts",
      head: "Restarts",
      title: "of the job, and of single tasks, in its latest execution",
      width: 84,
      end: true,
      sort: (job) => job.restarts.job * 1000 + job.restarts.task,
      cell: (job) => (
        <span class={job.restarts.job + job.restarts.task > 0 ? "warned" : ""} title={`${job.restarts.job} of the job, ${job.restarts.task} of tasks`}>
          {job.restarts.job + job.restarts.task > 0 && <Icon name="warning" />} {job.restarts.job + job.restarts.task}
        </span>
      ),
    },
    {
      key: "storage",
      head: "Storage",
      width: 130,
      grow: 1,
      sort: (job) => job.storage,
      cell: (job) => (
        <span class="cut" title={job.storage}>
          {tail(job.storage)}
        </span>
      ),
    },
  ];
}

function durationOf(job: JobSummary, now: number): number | null {
  if (job["end-time"] === null && job.live && job["start-time"] !== null) return now - job["start-time"];
  return job.duration;
}
