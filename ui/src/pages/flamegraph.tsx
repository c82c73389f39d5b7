/** Where the processes of a job spend their time. What is shown is sampled because somebody looks, at most once a minute. */

import { useState } from "preact/hooks";
import type { FlameGraph, JobDetails } from "../lib/contract";
import { ago, count, duration } from "../lib/format";
import { useJob, useNow } from "../lib/job";
import { useQuery } from "../lib/query";
import { go, href } from "../lib/route";
import { Button, Card, Empty, Failing, Loading, Notice, Tabs } from "../parts/basics";
import { Flame } from "../parts/flame";
import { Icon } from "../parts/icons";

const SUBJECTS = [
  { id: "driver", name: "Driver JVM", of: "all threads of the JVM of Spark's driver; with a local master that is the executor, too" },
  { id: "driver-python", name: "Driver Python", of: "all threads of the job's own Python process" },
  { id: "python-workers", name: "Python workers", of: "the Python processes that Spark started for the job on this machine" },
] as const;
const TYPES = [
  { id: "on_cpu", name: "On CPU", of: "threads that ran" },
  { id: "off_cpu", name: "Off CPU", of: "threads that waited" },
  { id: "full", name: "Mixed", of: "both" },
] as const;
const SAMPLING_MS = 1000;

export function FlameGraphPage({ job, rest }: { job: JobDetails; rest: readonly string[] }) {
  const { jid, ahead } = useJob();
  const [search, setSearch] = useState("");
  const subject = SUBJECTS.find(({ id }) => id === rest[0]) ?? SUBJECTS[0];
  const kind = TYPES.find(({ id }) => id === rest[1]) ?? TYPES[0];
  const now = useNow(ahead);
  const [polls, setPolls] = useState(true);
  const path = `/jobs/${encodeURIComponent(jid)}/flamegraph?type=${kind.id}&subject=${subject.id}`;
  const { data, trouble, reload } = useQuery<FlameGraph>(job.live ? path : null, { every: polls ? SAMPLING_MS : 0 });
  const samples = data?.status === "SAMPLING" || data === null;
  if (samples !== polls) setPolls(samples);
  const age = data && data.endTimestamp !== null ? now - data.endTimestamp : null;
  const fresh = data !== null && age !== null && age < data.refresh_ms;

  return (
    <>
      <Tabs label="What is sampled" tabs={SUBJECTS.map(({ id, name }) => ({ name, href: href("jobs", jid, "flamegraph", id, kind.id), current: id === subject.id }))} />
      <div class="toolbar">
        <select aria-label="Which samples" value={kind.id} onChange={(event) => go("jobs", jid, "flamegraph", subject.id, event.currentTarget.value)}>
          {TYPES.map(({ id, name, of }) => (
            <option key={id} value={id}>
              {name}: {of}
            </option>
          ))}
        </select>
        <input type="search" class="filter" placeholder="Find a frame  /" aria-label="Find a frame" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <span class="grow" />
        {data && data.endTimestamp !== null && (
          <span class="quiet">
            {count(data.samples)} times in {duration(data.took_ms)}, {ago(data.endTimestamp, now)}
          </span>
        )}
        {job.live && (
          <Button disabled={fresh} busy={samples} title={fresh ? "What is less than a minute old is not sampled anew" : "Sample again"} onClick={reload}>
            {samples ? "Sampling" : "Sample again"}
          </Button>
        )}
      </div>
      <Card title={`${subject.name}: ${kind.name}`} aside={<span class="quiet">{subject.of}</span>}>
        <Shown job={job} data={data} trouble={trouble} reload={reload} search={search} label={`Flame graph of ${subject.of}, ${kind.of}`} workers={subject.id === "python-workers"} />
      </Card>
      {job.live && (
        <p class="quiet page-foot">
          {job.spark_ui !== null ? (
            <>
              Executors on other machines: their thread dumps are in{" "}
              <a href={job.spark_ui} target="_blank" rel="noopener noreferrer">
                Spark's UI
              </a>
              .
            </>
          ) : (
            <>
              Executors on other machines are not sampled. Spark's UI has their thread dumps; it is off: <a href={href("jobs", jid, "configuration")}>how to switch it on</a>.
            </>
          )}
        </p>
      )}
    </>
  );
}

interface ShownProps {
  readonly job: JobDetails;
  readonly data: FlameGraph | null;
  readonly trouble: Parameters<typeof Failing>[0]["trouble"] | null;
  readonly reload: () => void;
  readonly search: string;
  readonly label: string;
  readonly workers: boolean;
}

function Shown({ job, data, trouble, reload, search, label, workers }: ShownProps) {
  if (!job.live) return <Empty title="The job does not run">Only a job that runs can be looked into.</Empty>;
  if (trouble && !data) return <Failing trouble={trouble} what="the flame graph" retry={reload} />;
  if (!data) return <Loading what="the flame graph" lines={8} />;
  if (data.status === "FAILED") {
    return (
      <Notice tone="warn" title="It cannot be sampled" actions={<button onClick={reload}>Try again</button>}>
        {data.why ?? "No cause was given."}
      </Notice>
    );
  }
  if (data.data === null) {
    return (
      <div class="empty" role="status">
        <Icon name="turning" />
        <strong>Sampling</strong>
        <p>100 samples, 50 ms apart: that takes some seconds. Nothing is stopped for it.</p>
      </div>
    );
  }
  if (data.data.value === 0) {
    return <Empty title="Nothing was seen">{workers ? "No Python process of Spark's was at that on this machine. Most jobs need none." : "No thread was at that while it was sampled."}</Empty>;
  }
  return <Flame root={data.data} search={search} label={label} />;
}
