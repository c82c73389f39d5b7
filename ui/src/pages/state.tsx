/** What operators keep: rows of one in a kept checkpoint, by key, or what differs between two. Asked for, and never by itself. */

import { useEffect, useRef, useState } from "preact/hooks";
import { get, isAbort, troubleOf, type Trouble } from "../lib/api";
import type { CheckpointingStatistics, JobDetails, KeptState, StateChange, StateDifference, StateRow, StateRows } from "../lib/contract";
import { count, plural } from "../lib/format";
import { useJob } from "../lib/job";
import { useQuery } from "../lib/query";
import { Badge, Button, Card, Empty, Failing, Field, Loading, type Tone } from "../parts/basics";
import { Table, type Column } from "../parts/table";

const RECENT = 200;
const LIMITS = [50, 200, 1000] as const;

type Answer = { readonly rows: StateRows } | { readonly difference: StateDifference };
type Asked = { readonly state: "nothing" } | { readonly state: "asking" } | { readonly state: "failed"; readonly trouble: Trouble } | { readonly state: "there"; readonly answer: Answer };

export function StatePage({ job }: { job: JobDetails }) {
  const view = useJob();
  const base = `/jobs/${encodeURIComponent(view.jid)}`;
  const known = useQuery<CheckpointingStatistics>(`${base}/checkpoints?limit=${RECENT}&summary=false`, { version: view.version("checkpoint-completed") });
  const kept = (known.data?.history ?? []).filter((one) => one.kept && one.status === "COMPLETED").map(({ id }) => id);
  const [chosen, setChosen] = useState<number | null>(null);
  const checkpoint = chosen ?? kept[0] ?? null;
  const there = useQuery<KeptState>(checkpoint === null ? null : `${base}/state?checkpoint=${checkpoint}`);
  const [name, setName] = useState<string | null>(null);
  const [part, setPart] = useState<string | null>(null);
  const [before, setBefore] = useState<number | null>(null);
  const [key, setKey] = useState("");
  const [limit, setLimit] = useState<number>(LIMITS[0]);
  const [asked, setAsked] = useState<Asked>({ state: "nothing" });
  const asking = useRef<AbortController | null>(null);
  useEffect(() => () => asking.current?.abort(), []);

  if (known.trouble && !known.data) return <Failing trouble={known.trouble} what="the checkpoints" retry={known.reload} />;
  if (!known.data) return <Loading what="the checkpoints" />;
  if (checkpoint === null) {
    return (
      <Card>
        <Empty title="No checkpoint is kept">State is read from checkpoints. There is none to read from yet.</Empty>
      </Card>
    );
  }
  const operators = there.data?.operators ?? [];
  const operator = operators.find((one) => one.name === name) ?? operators[0] ?? null;
  const state = operator?.states.find((one) => one === part) ?? operator?.states[0] ?? null;
  const choices = chosen !== null && !kept.includes(chosen) ? [chosen, ...kept] : kept;

  const show = (): void => {
    if (operator === null || state === null) return;
    asking.current?.abort();
    const controller = new AbortController();
    asking.current = controller;
    const query = new URLSearchParams({ checkpoint: String(checkpoint), operator: operator.name, state, limit: String(limit) });
    for (const one of key.split("&").map((text) => text.trim())) if (one !== "") query.append("key", one);
    if (before !== null) query.set("before", String(before));
    setAsked({ state: "asking" });
    const found: Promise<Answer> =
      before === null
        ? get<StateRows>(`${base}/state/rows?${query}`, controller.signal).then((rows) => ({ rows }))
        : get<StateDifference>(`${base}/state/difference?${query}`, controller.signal).then((difference) => ({ difference }));
    found.then(
      (answer) => setAsked({ state: "there", answer }),
      (error: unknown) => {
        if (!isAbort(error)) setAsked({ state: "failed", trouble: troubleOf(error) });
      },
    );
  };

  return (
    <>
      <form
        class="toolbar state-form"
        onSubmit={(event) => {
          event.preventDefault();
          show();
        }}
      >
        <Field label="Checkpoint">
          <select value={checkpoint} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
            {choices.map((id) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Operator">
          <select value={operator?.name ?? ""} onChange={(event) => setName(event.currentTarget.value)}>
            {operators.map((one) => (
              <option key={one.name} value={one.name}>
                {one.name}
              </option>
            ))}
          </select>
        </Field>
        <Field label="State">
          <select value={state ?? ""} onChange={(event) => setPart(event.currentTarget.value)}>
            {operator?.states.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Compared with">
          <select value={before ?? ""} onChange={(event) => setBefore(event.currentTarget.value === "" ? null : Number(event.currentTarget.value))}>
            <option value="">nothing</option>
            {choices
              .filter((id) => id !== checkpoint)
              .map((id) => (
                <option key={id} value={id}>
                  {id}
                </option>
              ))}
          </select>
        </Field>
        <Field label="Key">
          <input type="search" class="filter" placeholder="user=ann" title="Columns of the key and what they must be, with & between them" value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        </Field>
        <Field label="Rows">
          <select value={limit} onChange={(event) => setLimit(Number(event.currentTarget.value))}>
            {LIMITS.map((number) => (
              <option key={number} value={number}>
                {number}
              </option>
            ))}
          </select>
        </Field>
        <Button tone="primary" disabled={!job.live || state === null} busy={asked.state === "asking"} title={job.live ? "Have the job's Spark read it" : "Only a job that runs can read it here"} onClick={show}>
          {before === null ? "Show rows" : "Compare"}
        </Button>
      </form>
      {there.trouble && <Failing trouble={there.trouble} what={`checkpoint ${checkpoint}`} retry={there.reload} />}
      <Found asked={asked} job={job} has={there.data === null ? null : operators.length > 0} retry={show} />
    </>
  );
}

function Found({ asked, job, has, retry }: { asked: Asked; job: JobDetails; has: boolean | null; retry: () => void }) {
  if (asked.state === "asking") return <Loading what="the state" lines={8} />;
  if (asked.state === "failed") return <Failing trouble={asked.trouble} what="the state" retry={retry} />;
  if (asked.state === "nothing") {
    return (
      <Card>
        {has === false ? (
          <Empty title="No state">None of the job's operators kept any in this checkpoint.</Empty>
        ) : job.live ? (
          <Empty title="Nothing was asked for">Choose an operator. Its state is read from the checkpoint by the job's own Spark, with one core.</Empty>
        ) : (
          <Empty title="The job does not run">headgate state {job.name} reads its state on the command line.</Empty>
        )}
      </Card>
    );
  }
  return "rows" in asked.answer ? <Rows found={asked.answer.rows} /> : <Changes found={asked.answer.difference} />;
}

function Rows({ found }: { found: StateRows }) {
  return (
    <Card title={`${found.operator}, checkpoint ${found.checkpoint}`} aside={<Many number={found.rows.length} more={found.more} what="row" />} tight>
      {found.rows.length === 0 ? <Empty title="No row">No key of this state is like that.</Empty> : <Table label={`State of ${found.operator}`} rows={found.rows} columns={ROWS} rowKey={(row) => `${row.partition} ${text(row.key)} ${text(row.value)}`} />}
    </Card>
  );
}

function Changes({ found }: { found: StateDifference }) {
  return (
    <Card title={`${found.operator}, from checkpoint ${found.before} to ${found.checkpoint}`} aside={<Many number={found.changes.length} more={found.more} what="change" />} tight>
      {found.changes.length === 0 ? <Empty title="Nothing differs">Both have the same keys with the same values.</Empty> : <Table label={`Changes of ${found.operator}`} rows={found.changes} columns={CHANGES} rowKey={(row) => text(row.key)} />}
    </Card>
  );
}

function Many({ number, more, what }: { number: number; more: boolean; what: string }) {
  return <span class="quiet">{more ? `the first ${count(number)} that were found, there are more` : plural(number, what)}</span>;
}

function text(value: unknown): string {
  return value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

function Cell({ value }: { value: unknown }) {
  return (
    <code class="cut" title={typeof value === "object" && value !== null ? JSON.stringify(value, null, 1) : text(value)}>
      {text(value)}
    </code>
  );
}

const TONES: Readonly<Record<StateChange["change"], Tone>> = { added: "ok", removed: "bad", changed: "warn" };
const ROWS: Column<StateRow>[] = [
  { key: "key", head: "Key", width: 150, grow: 3, sort: (row) => text(row.key), cell: (row) => <Cell value={row.key} /> },
  { key: "value", head: "Value", width: 150, grow: 3, sort: (row) => text(row.value), cell: (row) => <Cell value={row.value} /> },
  { key: "partition", head: "Partition", width: 84, end: true, sort: (row) => row.partition, cell: (row) => count(row.partition) },
];
const CHANGES: Column<StateChange>[] = [
  { key: "change", head: "Change", width: 116, sort: (row) => row.change, cell: (row) => <Badge tone={TONES[row.change]} sign={row.change === "added" ? "plus" : row.change === "removed" ? "minus" : "turning"}>{row.change}</Badge> },
  { key: "key", head: "Key", width: 140, grow: 4, sort: (row) => text(row.key), cell: (row) => <Cell value={row.key} /> },
  { key: "before", head: "Before", width: 120, grow: 2, cell: (row) => <Cell value={row.before} /> },
  { key: "after", head: "After", width: 120, grow: 2, cell: (row) => <Cell value={row.after} /> },
];
