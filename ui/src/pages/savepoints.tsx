/** Savepoints: take one, keep it, let it go, delete it. */

import { useMemo, useState } from "preact/hooks";
import type { JobDetails, SavepointInfo, Savepoints } from "../lib/contract";
import { bytes, duration, plural } from "../lib/format";
import { useJob, useNow } from "../lib/job";
import { useOperations } from "../lib/operations";
import { useQuery } from "../lib/query";
import { href } from "../lib/route";
import { useMay } from "../lib/session";
import { Badge, Button, Card, Empty, Failing, Loading, None, Path, Tag, Time } from "../parts/basics";
import { Meter } from "../parts/bars";
import { Confirm, type Question } from "../parts/dialog";
import { Table, type Column } from "../parts/table";
import { DeleteButton, HoldButton, LabelButton } from "./holding";

export function SavepointsPage({ job }: { job: JobDetails }) {
  const view = useJob();
  const desk = useOperations();
  const may = useMay();
  const now = useNow(view.ahead, view.progress.some((one) => one.is_savepoint) ? 250 : 1000);
  const version = view.version("savepoint-", "checkpoint-") + desk.ended;
  const { data, trouble, reload } = useQuery<Savepoints>(`/jobs/${encodeURIComponent(view.jid)}/savepoints`, { version });
  const columns = useMemo(() => columnsOf(view.jid), [view.jid]);
  const [question, setQuestion] = useState<Question | null>(null);
  const elsewhere = (): void => {
    let target = "";
    setQuestion({
      title: "Take a savepoint to a directory",
      text: (
        <>
          <p>It is kept in the storage, and written there as well: to a directory of the job's machine or a URI, empty or not there yet.</p>
          <label class="field">
            Directory or URI
            <input type="text" spellcheck={false} autoComplete="off" placeholder="/backup/orders-1" onInput={(event) => (target = event.currentTarget.value.trim())} />
          </label>
        </>
      ),
      yes: "Take the savepoint",
      no: "Not now",
      danger: false,
      run: () => void desk.ask({ kind: "savepoint", label: "Savepoint", path: "/savepoints", body: { "target-directory": target } }),
    });
  };
  const take = (
    <span class="buttons">
      <Button disabled={may !== null} busy={desk.busy.has("savepoint")} title={may ?? "Write it to another place as well"} onClick={elsewhere}>
        To a directory
      </Button>
      <Button
        tone="primary"
        icon="save"
        disabled={may !== null}
        busy={desk.busy.has("savepoint")}
        title={may ?? "A checkpoint that is kept and can be carried away"}
        onClick={() => void desk.ask({ kind: "savepoint", label: "Savepoint", path: "/savepoints" })}
      >
        Take a savepoint
      </Button>
    </span>
  );
  return (
    <>
      {question && <Confirm question={question} onClose={() => setQuestion(null)} />}
      {view.progress
        .filter((one) => one.is_savepoint)
        .map((one) => {
          const all = one.acknowledged.length + one.waiting.length;
          return (
            <Card key={one.id} title={`Savepoint ${one.id} is under way`} aside={duration(Math.max(0, Math.round((now - one.trigger_timestamp) / 100) * 100))}>
              <div class="underway-line">
                <Meter value={one.acknowledged.length} of={all} label={`${one.acknowledged.length} of ${all} tasks have acknowledged`} />
                <span>
                  {one.acknowledged.length} of {plural(all, "task")}
                </span>
              </div>
            </Card>
          );
        })}
      <Card title="Savepoints" aside={take} tight>
        {trouble && <Failing trouble={trouble} what="savepoints" retry={reload} />}
        {!data && !trouble && <Loading what="savepoints" />}
        {data && data.savepoints.length === 0 && (
          <Empty title="No savepoint yet">
            A savepoint is a checkpoint that is kept until somebody deletes it, with a copy of its own that can be carried away. {job.live ? "" : "Only a job that runs can take one."}
          </Empty>
        )}
        {data && data.savepoints.length > 0 && <Table label="Savepoints, the newest first" rows={data.savepoints} columns={columns} rowKey={(one) => one.id} rowHeight={42} />}
      </Card>
      {data && data.savepoints.length > 0 && (
        <p class="quiet page-foot">
          Begin at one with <code>headgate run job.py --from ID</code>, or elsewhere with <code>--from PATH</code> of its copy.
        </p>
      )}
    </>
  );
}

function columnsOf(jid: string): Column<SavepointInfo>[] {
  return [
    {
      key: "id",
      head: "ID",
      width: 64,
      sort: (one) => one.id,
      cell: (one) => (
        <a class="strong" href={href("jobs", jid, "checkpoints", one.id)}>
          {one.id}
        </a>
      ),
    },
    {
      key: "state",
      head: "State",
      width: 126,
      cell: (one) => (
        <span class="tags">
          <SavepointState one={one} />
          {one.held && <Tag title="it stays until it is released">held</Tag>}
        </span>
      ),
    },
    { key: "time", head: "Taken", width: 118, sort: (one) => one.latest_ack_timestamp ?? one.trigger_timestamp, cell: (one) => <Time ms={one.latest_ack_timestamp ?? one.trigger_timestamp} /> },
    { key: "duration", head: "Duration", width: 82, end: true, sort: (one) => one.end_to_end_duration, cell: (one) => duration(one.end_to_end_duration) },
    { key: "size", head: "Full size", width: 82, end: true, sort: (one) => one.state_size, cell: (one) => bytes(one.state_size) },
    { key: "label", head: "Label", width: 112, grow: 1, sort: (one) => one.label ?? "", cell: (one) => (one.label ? <span title={one.label}>{one.label}</span> : <None why="nobody calls it anything" />) },
    { key: "path", head: "Copy", width: 170, grow: 3, cell: (one) => (one.external_path ? <Path path={one.external_path} /> : <None why={one.carried_off ? "it was carried off" : "not complete yet"} />) },
    {
      key: "do",
      head: "",
      width: 264,
      end: true,
      cell: (one) => (
        <span class="row-actions">
          {one.status === "COMPLETED" && <LabelButton savepoint={one} />}
          <HoldButton checkpoint={one} small />
          {one.status === "COMPLETED" && <DeleteButton savepoint={one} />}
        </span>
      ),
    },
  ];
}

function SavepointState({ one }: { one: SavepointInfo }) {
  if (one.status === "IN_PROGRESS") return <Badge tone="busy">under way</Badge>;
  if (one.status === "FAILED") return <Badge tone="bad">failed</Badge>;
  if (one.carried_off) {
    return (
      <Badge tone="quiet" title="Its copy was complete, and is not where it was">
        carried off
      </Badge>
    );
  }
  return one.copied ? <Badge tone="ok">complete</Badge> : <Badge tone="busy">copying</Badge>;
}
