/** The frame around the pages of one job: its name and state, what may be done with it, and the ways to its pages. */

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { JobDetails } from "../lib/contract";
import { duration, time } from "../lib/format";
import { JobProvider, useJob, useNow } from "../lib/job";
import type { Shortcut } from "../lib/keys";
import { OperationsProvider, useOperations, type Followed } from "../lib/operations";
import { go, href } from "../lib/route";
import { useMay } from "../lib/session";
import { Badge, Button, Failing, Loading, Notice, Time } from "../parts/basics";
import { Confirm, type Question } from "../parts/dialog";
import { Icon, type IconName } from "../parts/icons";
import { JobBadge } from "../parts/states";
import { CheckpointsPage } from "./checkpoints";
import { ConfigurationPage } from "./configuration";
import { DiagnosisPage } from "./diagnosis";
import { EventsPage } from "./events";
import { FlameGraphPage } from "./flamegraph";
import { LogsPage } from "./logs";
import { OverviewPage } from "./overview";
import { RecoveryPage } from "./recovery";
import { SavepointsPage } from "./savepoints";
import { SinksPage } from "./sinks";
import { StatePage } from "./state";

export const PAGES = [
  { id: "", name: "Overview", key: "o" },
  { id: "checkpoints", name: "Checkpoints", key: "c" },
  { id: "savepoints", name: "Savepoints", key: "s" },
  { id: "recovery", name: "Recovery", key: "r" },
  { id: "sinks", name: "Sinks", key: "k" },
  { id: "diagnosis", name: "Diagnosis", key: "d" },
  { id: "events", name: "Events", key: "e" },
  { id: "state", name: "State", key: "b" },
  { id: "flamegraph", name: "Flame graph", key: "g" },
  { id: "configuration", name: "Configuration", key: "f" },
  { id: "logs", name: "Logs", key: "l" },
] as const;

export function jobShortcuts(jid: string): Shortcut[] {
  return PAGES.map(({ id, name, key }) => ({ keys: `g ${key}`, what: name, run: () => (id === "" ? go("jobs", jid) : go("jobs", jid, id)) }));
}

export function JobPages({ jid, rest }: { jid: string; rest: readonly string[] }) {
  return (
    <JobProvider jid={jid}>
      <Frame rest={rest} />
    </JobProvider>
  );
}

function Frame({ rest }: { rest: readonly string[] }) {
  const view = useJob();
  const { details, trouble, jid } = view;
  if (!details) {
    return (
      <main id="main" class="page" tabIndex={-1}>
        <h1>{jid}</h1>
        {trouble ? <Failing trouble={trouble} what={`job ${jid}`} retry={view.retry} /> : <Loading what={`job ${jid}`} lines={8} />}
      </main>
    );
  }
  return (
    <OperationsProvider jid={jid} live={details.live}>
      <Header job={details} />
      <div class="job-frame">
        <Nav jid={jid} current={rest[0] === "tasks" ? "" : (rest[0] ?? "")} job={details} />
        <main id="main" class="page" tabIndex={-1}>
          <Connection />
          <Page job={details} rest={rest} />
        </main>
      </div>
      <Followings />
    </OperationsProvider>
  );
}

function Page({ job, rest }: { job: JobDetails; rest: readonly string[] }) {
  const [page, ...deeper] = rest;
  switch (page) {
    case undefined:
      return <OverviewPage job={job} task={null} />;
    case "tasks":
      return <OverviewPage job={job} task={deeper[0] ?? null} />;
    case "checkpoints":
      return <CheckpointsPage job={job} rest={deeper} />;
    case "savepoints":
      return <SavepointsPage job={job} />;
    case "recovery":
      return <RecoveryPage job={job} rest={deeper} />;
    case "sinks":
      return <SinksPage job={job} />;
    case "diagnosis":
      return <DiagnosisPage />;
    case "events":
      return <EventsPage rest={deeper} />;
    case "state":
      return <StatePage job={job} />;
    case "flamegraph":
      return <FlameGraphPage job={job} rest={deeper} />;
    case "configuration":
      return <ConfigurationPage job={job} />;
    case "logs":
      return <LogsPage job={job} />;
    default:
      return (
        <Notice tone="warn" title={`There is no page ${page}`}>
          <a href={href("jobs", job.jid)}>To the overview</a>
        </Notice>
      );
  }
}

function Nav({ jid, current, job }: { jid: string; current: string; job: JobDetails }) {
  const notes: Readonly<Record<string, ComponentChildren>> = {
    recovery: job.restarts.job + job.restarts.task || undefined,
    checkpoints: job.in_progress.length > 0 ? <Icon name="turning" label="one is under way" /> : undefined,
  };
  return (
    <nav class="job-nav" aria-label="Pages of the job">
      {PAGES.map(({ id, name, key }) => (
        <a key={id} href={id === "" ? href("jobs", jid) : href("jobs", jid, id)} aria-current={id === current ? "page" : undefined} title={`g ${key}`}>
          {name}
          {notes[id] !== undefined && <span class="nav-note">{notes[id]}</span>}
        </a>
      ))}
    </nav>
  );
}

// -- the head of the page ------------------------------------------------------------------------------------------

function Header({ job }: { job: JobDetails }) {
  const view = useJob();
  const now = useNow(view.ahead);
  const start = job["start-time"];
  const runs = job.live && job["end-time"] === null && start !== null;
  return (
    <div class="job-head">
      <div class="job-title">
        <h1>{job.name}</h1>
        <JobBadge job={job} />
        <Live />
      </div>
      <p class="job-facts">
        {job.phase === "new" ? (
          <span>has not begun</span>
        ) : runs ? (
          <span>
            for <strong>{duration(Math.floor((now - start) / 1000) * 1000)}</strong>
          </span>
        ) : (
          <span>
            ended <Time ms={job["end-time"]} />, after <strong>{duration(job.duration)}</strong>
          </span>
        )}
        {start !== null && (
          <span>
            since <Time ms={start} />
          </span>
        )}
        {job.generation !== null && <span>generation {job.generation}</span>}
        {job.leader && (
          <span class="cut" title="who leads it">
            {job.leader}
          </span>
        )}
        {job.spark_ui !== null && (
          <a href={job.spark_ui} target="_blank" rel="noopener noreferrer" title={`${job.spark_ui}: stages, executors and queries, as Spark shows them`}>
            Spark's UI
          </a>
        )}
      </p>
      <Actions job={job} />
    </div>
  );
}

function Live() {
  const { connection, seenAt, retry, details } = useJob();
  switch (connection.state) {
    case "live":
      return details?.live === false ? (
        <Badge tone="quiet" sign="save" title="The job does not run: what is shown is what its storage has, and is kept up to date">
          from its storage
        </Badge>
      ) : (
        <Badge tone="ok" sign="wifi" title="What happens is shown as it happens">
          live
        </Badge>
      );
    case "connecting":
      return <Badge tone="busy">connecting</Badge>;
    case "paused":
      return (
        <Badge tone="quiet" title="Nobody saw this page, so it stopped listening">
          paused
        </Badge>
      );
    default:
      return (
        <button type="button" class="link" onClick={retry} title="Try now">
          <Badge tone="warn">{seenAt === null ? "not connected" : `as of ${time(seenAt)}`}</Badge>
        </button>
      );
  }
}

function Connection() {
  const { connection, seenAt, retry } = useJob();
  const now = useNow(0);
  if (connection.state !== "lost" && connection.state !== "over") return null;
  const over = connection.state === "over";
  const wait = Math.max(0, Math.ceil((connection.retryAt - now) / 1000));
  return (
    <Notice
      tone={over ? "info" : "warn"}
      title={over ? "The process of this job has ended" : "The job does not answer"}
      actions={
        <button type="button" onClick={retry}>
          Try now
        </button>
      }
    >
      <div>{over ? connection.text : connection.trouble.lines.join(" ")}</div>
      <div class="quiet">
        What is shown was true at {time(seenAt)}. {wait > 0 ? `Next try in ${wait} s.` : "Trying."}
      </div>
    </Notice>
  );
}

// -- what may be done ----------------------------------------------------------------------------------------------

function Actions({ job }: { job: JobDetails }) {
  const { ask, busy } = useOperations();
  const may = useMay();
  const [question, setQuestion] = useState<Question | null>(null);
  const ending = busy.has("stop") || busy.has("cancel");
  const can = may === null && job.phase !== "closing";
  const why = may ?? (job.phase === "closing" ? "The job is ending" : undefined);
  const sinks = useMemo(() => job.plan.nodes.flatMap((node) => node.sinks.map(({ uid }) => uid)), [job.plan]);

  const stop = (): void => {
    let target = "";
    let drain = false;
    setQuestion({
      title: `Stop ${job.name}?`,
      text: (
        <>
          <p>
            The job takes a savepoint, commits all that it pre-committed, and ends. <code>headgate run</code> goes on from there.
          </p>
          <p>If the savepoint fails, the job runs on.</p>
          <label class="check">
            <input type="checkbox" onChange={(event) => (drain = event.currentTarget.checked)} /> drain it first, for good: no source gives any more,
            all windows come out, and nothing goes on from the savepoint
          </label>
          <details class="abandon">
            <summary>Write it elsewhere as well?</summary>
            <label class="field">
              Directory or URI, empty or not there yet
              <input type="text" spellcheck={false} autoComplete="off" onInput={(event) => (target = event.currentTarget.value.trim())} />
            </label>
          </details>
        </>
      ),
      yes: "Stop with a savepoint",
      no: "Keep it running",
      danger: false,
      run: () => void ask({ kind: "stop", label: "Stop", path: "/stop", body: { ...(drain && { drain }), ...(target && { targetDirectory: target }) } }),
    });
  };
  const cancel = (): void => {
    const abandon = new Set<string>();
    setQuestion({
      title: `Cancel ${job.name}?`,
      text: (
        <>
          <p>The job ends at once, without a checkpoint. What was decided is committed; the rest is thrown away.</p>
          <p>Its checkpoints are deleted, unless the job retains them on cancellation. Savepoints and held checkpoints stay.</p>
          {sinks.length > 0 && (
            <details class="abandon">
              <summary>A sink cannot commit?</summary>
              <p>What it owes is given up, and may be missing there for good. The history names each transaction.</p>
              {sinks.map((sink) => (
                <label key={sink} class="check">
                  <input type="checkbox" onChange={(event) => (event.currentTarget.checked ? abandon.add(sink) : abandon.delete(sink))} /> give up what {sink} owes
                </label>
              ))}
            </details>
          )}
        </>
      ),
      yes: "Cancel the job",
      no: "Keep it running",
      danger: true,
      run: () => void ask({ kind: "cancel", label: "Cancel", path: "/cancel", body: { abandon: [...abandon] } }),
    });
  };
  const action = (icon: IconName, name: string, run: () => void, on: boolean, title: string, working: boolean, tone?: "danger") => (
    <Button icon={icon} disabled={!on} busy={working} title={on ? title : why} onClick={run} {...(tone ? { tone } : {})}>
      {name}
    </Button>
  );
  return (
    <div class="job-actions" role="group" aria-label="What to do with the job">
      {may === "This token only reads" && (
        <a class="read-only" href={href("token")} title="Give the other token to take savepoints, or to stop or cancel the job">
          <Icon name="lock" /> read only
        </a>
      )}
      {action("flag", "Checkpoint", () => void ask({ kind: "checkpoint", label: "Checkpoint", path: "/checkpoints" }), can, "Take a checkpoint now", busy.has("checkpoint"))}
      {action("save", "Savepoint", () => void ask({ kind: "savepoint", label: "Savepoint", path: "/savepoints" }), can, "A checkpoint that is kept and can be carried away", busy.has("savepoint"))}
      {action("stop", "Stop", stop, can && job.isStoppable && !ending, "A savepoint, then the end", busy.has("stop"))}
      {/* Cancelling may be asked for again, to give up what a sink cannot commit. */}
      {action("cancel", "Cancel", cancel, may === null, "End at once", false, "danger")}
      {question && <Confirm question={question} onClose={() => setQuestion(null)} />}
    </div>
  );
}

const SIGNS = { done: "ok", failed: "bad", refused: "warn", lost: "warn" } as const;

function Followings() {
  const { followed, dismiss } = useOperations();
  return (
    <div class="followings" role="log" aria-live="polite" aria-label="Operations">
      {followed.map((one) => (
        <Following key={one.key} one={one} dismiss={() => dismiss(one.key)} />
      ))}
    </div>
  );
}

function Following({ one, dismiss }: { one: Followed; dismiss: () => void }) {
  const now = useNow();
  const tone = one.outcome === null ? "busy" : SIGNS[one.outcome];
  return (
    <div class={`following ${tone}`}>
      <header>
        <Badge tone={tone}>{one.outcome === null ? "under way" : one.outcome === "lost" ? "not known" : one.outcome}</Badge>
        <strong>{one.label}</strong>
        <span class="quiet">{duration(Math.max(0, Math.floor(((one.ended ?? now) - one.begun) / 1000) * 1000))}</span>
        <button type="button" class="plain small" aria-label="Dismiss" title={one.outcome === null ? "It goes on; the page Events has it" : "Dismiss"} onClick={dismiss}>
          <Icon name="cross" />
        </button>
      </header>
      {one.outcome === null && <div class="running-bar" aria-hidden="true" />}
      <p>{one.text}</p>
    </div>
  );
}
