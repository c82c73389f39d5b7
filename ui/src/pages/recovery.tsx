/** What failed, and how the job came back. */

import { useMemo, useState } from "preact/hooks";
import type { ExceptionEntry, ExceptionInfo, JobDetails, JobExceptions, JobRestarts, RestartInfo } from "../lib/contract";
import { count, duration } from "../lib/format";
import { useJob } from "../lib/job";
import { usePages } from "../lib/paging";
import { total, type Span } from "../lib/phases";
import { href } from "../lib/route";
import { Badge, Button, Card, Copy, Empty, Facts, Failing, Loading, None, Tabs, Tag, Tiles, Time } from "../parts/basics";
import { PhaseBar } from "../parts/bars";
import { Drawer } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { Table, type Column } from "../parts/table";

const EVENTS = ["restart", "task-failed", "task-started", "generation", "restored", "caught-up", "ended"] as const;
const CLASSES: Readonly<Record<string, string>> = {
  user: "only you can put it right: the job, its data, its settings",
  external: "another system failed or was away",
  "lost-executor": "an executor of Spark was lost",
  internal: "a fault in Headgate or in Spark",
};

export function RecoveryPage({ job, rest }: { job: JobDetails; rest: readonly string[] }) {
  const { jid } = useJob();
  const tab = rest[0] === "restarts" ? "restarts" : "exceptions";
  const base = `/jobs/${encodeURIComponent(jid)}`;
  return (
    <>
      <Tiles
        tiles={[
          { name: "Restarts of the job", value: count(job.restarts.job), title: "all tasks went back to the last checkpoint, in the latest execution" },
          { name: "Restarts of tasks", value: count(job.restarts.task), title: "one task went on from its last committed batch, in the latest execution" },
          { name: "Generation", value: count(job.generation) },
          { name: "Last failure", value: job.last_failure ? <Time ms={job.last_failure.at} /> : "–", note: job.last_failure ? (job.last_failure.task ?? "the job") : "none" },
        ]}
      />
      <Tabs
        label="Recovery"
        tabs={[
          { name: "Exceptions", href: href("jobs", jid, "recovery"), current: tab === "exceptions" },
          { name: "Restarts", href: href("jobs", jid, "recovery", "restarts"), current: tab === "restarts" },
        ]}
      />
      {tab === "restarts" ? <Restarts base={base} /> : <Exceptions base={base} />}
    </>
  );
}

function byPosition(one: { position: string }): string {
  return one.position;
}

// -- exceptions ----------------------------------------------------------------------------------------------------

function readExceptions(answer: JobExceptions) {
  return { rows: answer.exceptionHistory.entries, next: answer.next_before };
}

function Exceptions({ base }: { base: string }) {
  const view = useJob();
  const pages = usePages<JobExceptions, ExceptionEntry>(`${base}/exceptions?maxExceptions=20`, readExceptions, byPosition, view.version(...EVENTS));
  if (pages.trouble && !pages.first) return <Failing trouble={pages.trouble} what="exceptions" retry={pages.reload} />;
  if (!pages.first) return <Loading what="exceptions" lines={6} />;
  const { root } = pages.first;
  return (
    <>
      {root && (
        <Card
          title={
            <>
              <Badge tone="bad">root exception</Badge> {root.exceptionName}
            </>
          }
        >
          <ExceptionFacts one={root} />
          <Trace text={root.stacktrace} />
        </Card>
      )}
      <Card title="Exception history" tight>
        {pages.trouble && <Failing trouble={pages.trouble} what="more exceptions" retry={pages.reload} />}
        {pages.rows.length === 0 ? (
          <Empty title="Nothing has failed">As far as the history goes back.</Empty>
        ) : (
          <ul class="exceptions">
            {pages.rows.map((one, index) => (
              <Exception key={one.position} one={one} open={index === 0 && !root} />
            ))}
          </ul>
        )}
        {pages.more && (
          <div class="table-foot">
            <Button tone="plain" busy={pages.loading} onClick={pages.loadMore}>
              Load older ones
            </Button>
          </div>
        )}
      </Card>
    </>
  );
}

function Exception({ one, open }: { one: ExceptionEntry; open: boolean }) {
  return (
    <li>
      <details open={open}>
        <summary>
          <Icon name="right" />
          <span class="exception-head">
            <span class="exception-line">
              <strong>{one.exceptionName}</strong>
              <Labels labels={one.failureLabels} />
            </span>
            <span class="quiet cut">{one.message}</span>
          </span>
          <span class="exception-where">
            <span>{one.taskName ?? "the job"}</span>
            <Time ms={one.timestamp} />
          </span>
        </summary>
        <div class="exception-body">
          <div class="narrow-only">
            <ExceptionFacts one={one} />
          </div>
          {(one.endpoint ?? one.taskManagerId) !== null && <p class="exception-facts wide-only">{one.endpoint ?? one.taskManagerId}</p>}
          <Trace text={one.stacktrace} />
          {one.concurrentExceptions.length > 0 && (
            <>
              <h3>At the same time</h3>
              {one.concurrentExceptions.map((other) => (
                <div key={other.position}>
                  <p>
                    <strong>{other.exceptionName}</strong> in {other.taskName ?? "the job"} <Labels labels={other.failureLabels} />
                  </p>
                  <Trace text={other.stacktrace} />
                </div>
              ))}
            </>
          )}
        </div>
      </details>
    </li>
  );
}

function ExceptionFacts({ one }: { one: ExceptionInfo }) {
  return (
    <p class="exception-facts">
      <Time ms={one.timestamp} /> · {one.taskName === null ? "the job" : `task ${one.taskName}`}
      {(one.endpoint ?? one.taskManagerId) !== null && <> · {one.endpoint ?? one.taskManagerId}</>} <Labels labels={one.failureLabels} />
    </p>
  );
}

function Trace({ text }: { text: string }) {
  return (
    <div class="trace">
      <pre tabIndex={0} aria-label="Stack trace">
        {text}
      </pre>
      <Copy text={text} what="stack trace" />
    </div>
  );
}

function Labels({ labels }: { labels: Record<string, string> }) {
  return (
    <span class="tags">
      {Object.entries(labels).map(([name, value]) => (
        <Tag key={name} title={name === "class" ? (CLASSES[value] ?? name) : name}>
          {name === "class" ? value : `${name} ${value}`}
        </Tag>
      ))}
    </span>
  );
}

// -- restarts ------------------------------------------------------------------------------------------------------

function readRestarts(answer: JobRestarts) {
  return { rows: answer.history, next: answer.next_before };
}

function Restarts({ base }: { base: string }) {
  const view = useJob();
  const pages = usePages<JobRestarts, RestartInfo>(`${base}/restarts?limit=25`, readRestarts, byPosition, view.version(...EVENTS));
  const [open, setOpen] = useState<string | null>(null);
  const scale = useMemo(() => Math.max(1000, ...pages.rows.map((one) => total(spansOf(one) ?? []))), [pages.rows]);
  const columns = useMemo(() => restartColumns(view.jid, scale, setOpen), [view.jid, scale]);
  if (pages.trouble && !pages.first) return <Failing trouble={pages.trouble} what="restarts" retry={pages.reload} />;
  if (!pages.first) return <Loading what="restarts" lines={6} />;
  const chosen = pages.rows.find((one) => one.position === open);
  return (
    <>
      <Card
        title="Restarts"
        tight
        aside={
          <ul class="legend">
            {SPANS.map(({ id, name, what }) => (
              <li key={id} title={what}>
                <span class={`swatch phase ${id}`} aria-hidden="true" />
                {name}
              </li>
            ))}
          </ul>
        }
      >
        {pages.trouble && <Failing trouble={pages.trouble} what="more restarts" retry={pages.reload} />}
        {pages.rows.length === 0 ? (
          <Empty title="No restart yet">As far as the history goes back.</Empty>
        ) : (
          <Table
            label="Restarts, the newest first"
            rows={pages.rows}
            columns={columns}
            rowKey={byPosition}
            chosen={open}
            onOpen={(one) => setOpen(one.position)}
            onEnd={pages.more ? pages.loadMore : undefined}
            tall
            footer={
              pages.more ? (
                <Button tone="plain" busy={pages.loading} onClick={pages.loadMore}>
                  Load older ones
                </Button>
              ) : undefined
            }
          />
        )}
      </Card>
      {chosen && <RestartDrawer one={chosen} jid={view.jid} onClose={() => setOpen(null)} />}
    </>
  );
}

const SPANS = [
  { id: "delay", name: "decide", what: "from the failure to the restart that answers it" },
  { id: "alignment", name: "wait", what: "the delay of the restart strategy" },
  { id: "async", name: "restore", what: "from then until all that went back ran again" },
  { id: "commit", name: "replay", what: "from then until it was where it had been before" },
] as const;

function downtime(one: RestartInfo): number | null {
  const from = one.failed_ms ?? one.timestamp;
  return from === null || one.running_ms === null ? null : one.running_ms - from;
}

/** What a restart took, part by part. Null while nothing runs again. */
function spansOf(one: RestartInfo): Span[] | null {
  const all = downtime(one);
  if (all === null || one.timestamp === null || one.running_ms === null) return null;
  const decide = Math.max(0, one.timestamp - (one.failed_ms ?? one.timestamp));
  const wait = Math.min(one.delay_ms ?? 0, Math.max(0, one.running_ms - one.timestamp));
  const parts = [decide, wait, one.restore_ms ?? Math.max(0, all - decide - wait), one.replay_ms ?? 0];
  return SPANS.map(({ id, name }, index) => ({ phase: id, name, ms: parts[index] ?? 0 }));
}

function RestartBar({ one, scale }: { one: RestartInfo; scale: number }) {
  const spans = spansOf(one);
  return spans === null ? <None why="it does not run again yet" /> : <PhaseBar spans={spans} scale={scale} />;
}

function RestartDrawer({ one, jid, onClose }: { one: RestartInfo; jid: string; onClose: () => void }) {
  const spans = spansOf(one);
  const again = one.running_ms === null ? "it does not run again yet" : "another failure came between, or an earlier release did not write it down";
  return (
    <Drawer title={`Restart of ${whose(one)}`} onClose={onClose}>
      <p class="drawer-lead">
        {one.class && <Tag title={CLASSES[one.class] ?? ""}>{one.class}</Tag>} {one.cause}
      </p>
      <h3>Time</h3>
      <RestartBar one={one} scale={Math.max(1, total(spans ?? []))} />
      <Facts
        facts={[
          { name: "Failed", title: "when it was taken in; how long it took to be noticed nobody records", value: <Time ms={one.failed_ms} /> },
          { name: "Decide", title: SPANS[0].what, value: duration(spans?.[0]?.ms) },
          { name: "Wait", title: SPANS[1].what, value: duration(one.delay_ms) },
          { name: "Restore", title: SPANS[2].what, value: one.restore_ms === null ? <None why={again} /> : duration(one.restore_ms) },
          { name: "Ran again", value: one.running_ms === null ? <None why={again} /> : <Time ms={one.running_ms} /> },
          { name: "Replay", title: SPANS[3].what, value: one.replay_ms === null ? <None why="it has not caught up yet, or another failure came between" /> : duration(one.replay_ms) },
          { name: "Down for", title: "from the failure until it ran again", value: duration(downtime(one)) },
          { name: "Back to", value: one.checkpoint === null ? <None why={one.level === "task" ? "only the task restarted" : "nothing"} /> : <a href={href("jobs", jid, "checkpoints", one.checkpoint)}>checkpoint {one.checkpoint}</a> },
        ]}
      />
      <h3>Stack trace</h3>
      {one.stacktrace === null ? <p class="quiet">None was recorded.</p> : <Trace text={one.stacktrace} />}
    </Drawer>
  );
}

function whose(one: RestartInfo): string {
  return one.level === "job" ? "the whole job" : `task ${one.task}`;
}

function restartColumns(jid: string, scale: number, open: (position: string) => void): Column<RestartInfo>[] {
  return [
    { key: "time", head: "Time", width: 130, cell: (one) => <Time ms={one.timestamp} /> },
    { key: "level", head: "What", width: 130, grow: 1, cell: (one) => (one.level === "job" ? <strong>the whole job</strong> : <span class="cut">task {one.task}</span>) },
    { key: "class", head: "Class", width: 110, cell: (one) => (one.class ? <Tag title={CLASSES[one.class] ?? ""}>{one.class}</Tag> : <None />) },
    {
      key: "cause",
      head: "Cause",
      width: 220,
      grow: 3,
      cell: (one) => (
        <button type="button" class="link cause" title={`${one.cause}: the stack trace, and how long each part took`} onClick={() => open(one.position)}>
          {one.cause}
        </button>
      ),
    },
    {
      key: "checkpoint",
      head: "Back to",
      title: "the checkpoint that the job went back to",
      width: 80,
      end: true,
      cell: (one) => (one.checkpoint === null ? <None why={one.level === "task" ? "only the task restarted" : "nothing"} /> : <a href={href("jobs", jid, "checkpoints", one.checkpoint)}>{one.checkpoint}</a>),
    },
    { key: "down", head: "Down for", title: "from the failure until it ran again", width: 96, end: true, cell: (one) => duration(downtime(one)) },
    { key: "bar", head: "Decide, wait, restore, replay", width: 200, grow: 2, cell: (one) => <RestartBar one={one} scale={scale} /> },
  ];
}
