/** What happened, the newest first; and what was asked for. */

import { useMemo, useState } from "preact/hooks";
import type { JobEvents, Operations, OperationStatus } from "../lib/contract";
import { sentence, toneOf, TYPES } from "../lib/events";
import { count, duration } from "../lib/format";
import { useJob, type JobEvent } from "../lib/job";
import { useOperations } from "../lib/operations";
import { usePages } from "../lib/paging";
import { useQuery } from "../lib/query";
import { href } from "../lib/route";
import { Badge, Button, Card, Copy, Empty, Failing, Loading, Tabs, Time } from "../parts/basics";
import { Drawer } from "../parts/dialog";
import { Table, type Column } from "../parts/table";

export function EventsPage({ rest }: { rest: readonly string[] }) {
  const { jid } = useJob();
  const operations = rest[0] === "operations";
  return (
    <>
      <Tabs
        label="Events"
        tabs={[
          { name: "Events", href: href("jobs", jid, "events"), current: !operations },
          { name: "Operations", href: href("jobs", jid, "events", "operations"), current: operations },
        ]}
      />
      {operations ? <Asked /> : <Happened />}
    </>
  );
}

function read(answer: JobEvents) {
  return { rows: [...(answer.events as unknown as JobEvent[])].reverse(), next: answer.next_before };
}

function keyOf(event: JobEvent): string {
  return event.position ?? `${event.at} ${event.event} ${JSON.stringify(event)}`;
}

function Happened() {
  const view = useJob();
  const [types, setTypes] = useState<readonly string[]>([]);
  const [words, setWords] = useState("");
  const [open, setOpen] = useState<JobEvent | null>(null);
  const query = types.map((type) => `&type=${type}`).join("");
  const pages = usePages<JobEvents, JobEvent>(`/jobs/${encodeURIComponent(view.jid)}/events?limit=200${query}`, read, keyOf, view.events.length === 0 ? 0 : view.version(""));
  const rows = useMemo(() => {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    return pages.rows.filter((one) => {
      const text = `${one.event} ${sentence(one)}`.toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
  }, [pages.rows, words]);
  const columns = useMemo(() => columnsOf(setOpen), []);
  const toggle = (type: string): void => setTypes((before) => (before.includes(type) ? before.filter((one) => one !== type) : [...before, type]));
  return (
    <>
      <div class="toolbar">
        <input type="search" class="filter" placeholder="Filter  /" aria-label="Filter events that are loaded" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
        <details class="menu">
          <summary>{types.length === 0 ? "All types" : types.length === 1 ? types[0] : `${types.length} types`}</summary>
          <div class="menu-body">
            {TYPES.map((type) => (
              <label key={type}>
                <input type="checkbox" checked={types.includes(type)} onChange={() => toggle(type)} /> {type}
              </label>
            ))}
          </div>
        </details>
        {types.length > 0 && (
          <Button tone="plain" onClick={() => setTypes([])}>
            All types
          </Button>
        )}
      </div>
      <Card tight>
        {pages.trouble && <Failing trouble={pages.trouble} what="events" retry={pages.reload} />}
        {!pages.first && !pages.trouble && <Loading what="events" lines={10} />}
        {pages.first && rows.length === 0 && <Empty title={pages.rows.length === 0 ? "Nothing has happened yet" : "No event that is loaded matches"} />}
        {rows.length > 0 && (
          <Table
            label="Events, the newest first"
            rows={rows}
            columns={columns}
            rowKey={keyOf}
            onOpen={setOpen}
            onEnd={pages.more ? pages.loadMore : undefined}
            tall
            footer={
              <>
                <span>{count(rows.length)} shown</span>
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
      {open && (
        <Drawer title={open.event} onClose={() => setOpen(null)}>
          <p>
            <Time ms={open.at} />
          </p>
          <p>{sentence(open)}</p>
          <div class="trace">
            <pre tabIndex={0} aria-label="The event as it was recorded">
              {JSON.stringify(open, null, 2)}
            </pre>
            <Copy text={JSON.stringify(open, null, 2)} what="event" />
          </div>
        </Drawer>
      )}
    </>
  );
}

function columnsOf(open: (event: JobEvent) => void): Column<JobEvent>[] {
  return [
    { key: "time", head: "Time", width: 160, cell: (one) => <Time ms={one.at} /> },
    {
      key: "type",
      head: "Event",
      width: 190,
      cell: (one) => (
        <button type="button" class="link" onClick={() => open(one)}>
          <Badge tone={toneOf(one)}>{one.event}</Badge>
        </button>
      ),
    },
    {
      key: "what",
      head: "What happened",
      width: 320,
      grow: 1,
      cell: (one) => (
        <span class="cut" title={sentence(one)}>
          {sentence(one)}
        </span>
      ),
    },
  ];
}

const OUTCOMES = { done: "ok", failed: "bad", refused: "warn" } as const;

function Asked() {
  const view = useJob();
  const { ended } = useOperations();
  const { data, trouble, reload } = useQuery<Operations>(`/jobs/${encodeURIComponent(view.jid)}/operations`, { version: ended + view.version("") });
  return (
    <Card title="Operations" aside={<span class="quiet">under way, and the last ones that are over, as long as the process lives</span>} tight>
      {trouble && <Failing trouble={trouble} what="operations" retry={reload} />}
      {!data && !trouble && <Loading what="operations" />}
      {data && data.operations.length === 0 && <Empty title="Nothing was asked for">Checkpoints and savepoints that somebody asks for, a stop or a cancel come here.</Empty>}
      {data && data.operations.length > 0 && <Table label="Operations, the newest first" rows={data.operations} columns={OPERATIONS} rowKey={(one) => one["request-id"]} tall />}
    </Card>
  );
}

const OPERATIONS: Column<OperationStatus>[] = [
  { key: "begun", head: "Asked", width: 160, cell: (one) => <Time ms={one.begun_ms} /> },
  {
    key: "kind",
    head: "Operation",
    width: 150,
    cell: (one) => (
      <strong>
        {one.kind}
        {one.checkpoint !== null && ` ${one.checkpoint}`}
      </strong>
    ),
  },
  { key: "outcome", head: "Outcome", width: 120, cell: (one) => (one.outcome === null ? <Badge tone="busy">under way</Badge> : <Badge tone={OUTCOMES[one.outcome]}>{one.outcome}</Badge>) },
  { key: "took", head: "Took", width: 100, end: true, cell: (one) => duration(one.ended_ms === null ? null : one.ended_ms - one.begun_ms) },
  {
    key: "text",
    head: "What the job said",
    width: 300,
    grow: 1,
    cell: (one) => (
      <span class="cut" title={one.operation?.["failure-cause"]?.["stack-trace"] ?? one.text}>
        {one.text}
      </span>
    ),
  },
];
