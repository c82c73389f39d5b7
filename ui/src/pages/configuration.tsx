/** How the job is tuned. */

import { useMemo, useState } from "preact/hooks";
import type { JobConfiguration, JobDetails } from "../lib/contract";
import { bytes, count, duration } from "../lib/format";
import { useJob } from "../lib/job";
import { useQuery } from "../lib/query";
import { href } from "../lib/route";
import { Card, Copy, Empty, Facts, Failing, Loading, None, Path } from "../parts/basics";
import { Table, type Column } from "../parts/table";

type Setting = readonly [string, string];

export function ConfigurationPage({ job }: { job: JobDetails }) {
  const { jid } = useJob();
  const { data, trouble, reload } = useQuery<JobConfiguration>(`/jobs/${encodeURIComponent(jid)}/config`);
  const [filter, setFilter] = useState("");
  const settings = useMemo(
    () =>
      Object.entries(data?.["execution-config"]?.["user-config"] ?? {})
        .filter(([name, value]) => `${name} ${value}`.toLowerCase().includes(filter.toLowerCase()))
        .sort(([a], [b]) => a.localeCompare(b)),
    [data, filter],
  );
  if (trouble && !data) return <Failing trouble={trouble} what="the configuration" retry={reload} />;
  if (!data) return <Loading what="the configuration" lines={8} />;
  const execution = data["execution-config"];
  return (
    <>
      <div class="columns">
        <Card title="Execution">
          {execution === null && <p class="quiet">Not written down: an earlier release ran the job last.</p>}
          <Facts
            facts={[
              { name: "Restart strategy", value: execution?.["restart-strategy"] ?? <None /> },
              { name: "State partitions", title: "of a task that begins", value: count(execution?.["job-parallelism"]) },
              { name: "Batch interval", value: data.batch_interval === null ? "as soon as there is something" : duration(data.batch_interval) },
              { name: "Latency", title: "what batches that size themselves keep to", value: duration(data.latency) },
              { name: "State backend", value: data.state_backend ?? <None /> },
              { name: "Spark's master", value: data.master ?? <None /> },
              { name: "Spark's UI", title: "stages, executors and queries, as Spark shows them", value: <SparkUi job={job} /> },
              { name: "Checkpoints", value: <a href={href("jobs", jid, "checkpoints", "configuration")}>their own page</a> },
            ]}
          />
        </Card>
        <Card title="Job">
          <Facts
            facts={[
              { name: "Name", value: data.name },
              { name: "Storage", value: <Path path={job.storage} /> },
              { name: "Leader", value: job.leader ?? <None why="nobody" /> },
              { name: "Generation", value: count(job.generation) },
              { name: "History", value: data.history ? `${count(data.history.max_checkpoints)} checkpoints, ${bytes(data.history.max_bytes)} at most` : <None /> },
              ...Object.entries(data.versions).map(([name, value]) => ({ name: `Version of ${name}`, value })),
            ]}
          />
        </Card>
      </div>
      <Card
        title="Settings of Spark"
        tight
        aside={<input type="search" class="filter" placeholder="Filter  /" aria-label="Filter settings" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />}
      >
        {settings.length === 0 ? (
          <Empty title={filter ? `No setting matches “${filter}”` : "None were given"}>{filter ? "" : "All is as Headgate and Spark have it by themselves."}</Empty>
        ) : (
          <Table label="Settings" rows={settings} columns={COLUMNS} rowKey={([name]) => name} tall />
        )}
      </Card>
      <p class="quiet page-foot">Passwords, and values that look secret, are left out.</p>
    </>
  );
}

function SparkUi({ job }: { job: JobDetails }) {
  if (job.spark_ui !== null) {
    return (
      <a href={job.spark_ui} target="_blank" rel="noopener noreferrer">
        {job.spark_ui}
      </a>
    );
  }
  if (!job.live) return <None why="the job does not run" />;
  return (
    <span>
      off; for the next run: <code class="wrap">{'spark_conf={"spark.ui.enabled": "true"}'}</code> in the job, or <code class="wrap">--conf spark.ui.enabled=true</code>
    </span>
  );
}

const COLUMNS: Column<Setting>[] = [
  { key: "name", head: "Setting", width: 240, grow: 2, sort: ([name]) => name, cell: ([name]) => <code class="cut">{name}</code> },
  {
    key: "value",
    head: "Value",
    width: 240,
    grow: 3,
    cell: ([name, value]) => (
      <span class="path">
        <code class="cut" title={value}>
          {value}
        </code>
        <Copy text={value} what={name} />
      </span>
    ),
  },
];
