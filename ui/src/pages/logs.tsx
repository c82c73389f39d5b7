/** What the processes of the job wrote on the machine that answers. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { JobDetails, JobLogs } from "../lib/contract";
import { bytes, count, px, time } from "../lib/format";
import { useJob } from "../lib/job";
import { useQuery } from "../lib/query";
import { Button, Card, Copy, Empty, Failing, Loading } from "../parts/basics";

const LINES = [100, 300, 1000] as const;
const FOLLOW_MS = 2000;
/** In pixels, as in the style: lines that cannot be seen are not in the document. */
const LINE_HEIGHT = 18;

export function LogsPage({ job }: { job: JobDetails }) {
  const { jid } = useJob();
  const [name, setName] = useState<string | null>(null);
  const [lines, setLines] = useState<number>(300);
  const [follow, setFollow] = useState(job.live);
  const [filter, setFilter] = useState("");
  const path = `/jobs/${encodeURIComponent(jid)}/logs?lines=${lines}${name === null ? "" : `&name=${encodeURIComponent(name)}`}`;
  const { data, trouble, reload } = useQuery<JobLogs>(path, { every: follow ? FOLLOW_MS : 0 });
  const last = useRef<JobLogs | null>(null);
  if (data) last.current = data;
  const seen = data ?? last.current;
  const shown = useMemo(() => (seen?.lines ?? []).filter((line) => line.toLowerCase().includes(filter.toLowerCase())), [seen, filter]);
  if (trouble && !seen) return <Failing trouble={trouble} what="the log" retry={reload} />;
  if (!seen) return <Loading what="the log" lines={12} />;
  if (seen.logs.length === 0) {
    return (
      <Card>
        <Empty title="No log on this machine">The job was never run here. Its log is on the machine that ran it; headgate logs shows it there.</Empty>
      </Card>
    );
  }
  return (
    <>
      <div class="toolbar">
        <select aria-label="Log" value={seen.name ?? ""} onChange={(event) => setName(event.currentTarget.value)}>
          {seen.logs.map((log) => (
            <option key={log.name} value={log.name}>
              {log.running ? "running" : time(log.mtime)} · process {log.pid} · {bytes(log.size)}
            </option>
          ))}
        </select>
        <select aria-label="How many lines" value={lines} onChange={(event) => setLines(Number(event.currentTarget.value))}>
          {LINES.map((number) => (
            <option key={number} value={number}>
              last {number} lines
            </option>
          ))}
        </select>
        <input type="search" class="filter" placeholder="Filter  /" aria-label="Filter lines" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        <label class="check">
          <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} /> Follow
        </label>
        <span class="grow" />
        <Copy text={shown.join("\n")} what="these lines" />
        <Button tone="plain" icon="download" title="Save these lines as a file" onClick={() => save(seen.name ?? "log", shown)}>
          Save
        </Button>
      </div>
      {trouble && <Failing trouble={trouble} what="newer lines" retry={reload} />}
      <Lines lines={shown} follow={follow} filtered={filter !== ""} />
      <p class="quiet page-foot">
        {count(shown.length)} lines of {seen.name}
      </p>
    </>
  );
}

function Lines({ lines, follow, filtered }: { lines: readonly string[]; follow: boolean; filtered: boolean }) {
  const box = useRef<HTMLPreElement>(null);
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(60);
  useEffect(() => {
    const { current } = box;
    if (!current) return;
    setRoom(Math.ceil(current.clientHeight / LINE_HEIGHT));
    if (follow) current.scrollTop = current.scrollHeight;
  }, [lines, follow]);
  const first = Math.max(0, Math.floor(top / LINE_HEIGHT) - 20);
  const last = Math.min(lines.length, first + room + 60);
  if (lines.length === 0) return <Card>{<Empty title={filtered ? "No line matches" : "The log is empty"} />}</Card>;
  return (
    <pre class="log" ref={box} tabIndex={0} aria-label="Lines of the log" onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
      <div style={{ height: px(first * LINE_HEIGHT) }} />
      {lines.slice(first, last).map((line, index) => (
        <div key={first + index} class={`log-line ${levelOf(line)}`}>
          {line === "" ? " " : line}
        </div>
      ))}
      <div style={{ height: px((lines.length - last) * LINE_HEIGHT) }} />
    </pre>
  );
}

function levelOf(line: string): string {
  if (/\b(ERROR|CRITICAL|FATAL)\b|^\s*\w+(Error|Exception):/.test(line)) return "bad";
  return /\bWARN(ING)?\b/.test(line) ? "warn" : "";
}

function save(name: string, lines: readonly string[]): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/plain" }));
  link.download = name.endsWith(".log") ? name : `${name}.log`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
