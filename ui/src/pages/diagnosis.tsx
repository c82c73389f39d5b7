/** What is wrong with the job: its cause, what shows it, and the setting to change. */

import type { DiagnosisFinding, JobDiagnosis } from "../lib/contract";
import { count } from "../lib/format";
import { useJob } from "../lib/job";
import { useQuery } from "../lib/query";
import { href } from "../lib/route";
import { Badge, Button, Card, Copy, Empty, Facts, Failing, Loading, Tag, Time, type Tone } from "../parts/basics";

/** Rules speak of what is typical: that changes slowly, and asking costs the job a look into its history. */
const EVERY_MS = 15_000;
const TONES: Readonly<Record<DiagnosisFinding["verdict"], Tone>> = { note: "info", warning: "warn", problem: "bad" };

export function DiagnosisPage() {
  const { jid } = useJob();
  const { data, trouble, reload } = useQuery<JobDiagnosis>(`/jobs/${encodeURIComponent(jid)}/diagnosis`, { every: EVERY_MS });
  if (trouble && !data) return <Failing trouble={trouble} what="the diagnosis" retry={reload} />;
  if (!data) return <Loading what="the diagnosis" lines={6} />;
  return (
    <>
      {trouble && <Failing trouble={trouble} what="a newer diagnosis" retry={reload} />}
      {data.findings.length === 0 ? (
        <Card>
          <Empty title="Nothing found">{count(data.rules.length - data.unknown.length)} rules looked.</Empty>
        </Card>
      ) : (
        data.findings.map((one) => <Finding key={`${one.rule} ${one.evidence}`} jid={jid} one={one} />)
      )}
      <div class="toolbar">
        <span class="quiet">
          As of <Time ms={data.at} />: {count(data.rules.length - data.unknown.length)} rules looked
          {data.unknown.length > 0 && (
            <span title={data.unknown.join(", ")}>
              , {count(data.unknown.length)} {data.unknown.length === 1 ? "has" : "have"} too few facts yet
            </span>
          )}
          .
        </span>
        <span class="grow" />
        <Button onClick={reload}>Look again</Button>
      </div>
    </>
  );
}

function Finding({ jid, one }: { jid: string; one: DiagnosisFinding }) {
  const setting = one.value === "" ? one.setting : `${one.setting} = ${one.value}`;
  return (
    <Card
      title={
        <>
          <Badge tone={TONES[one.verdict]}>{one.verdict}</Badge> {one.name}
        </>
      }
      aside={<Tag title="The rule that found it">{one.rule}</Tag>}
    >
      <p>{one.evidence}</p>
      <p class="quiet">{one.advice}</p>
      <p class="to-change">
        <span class="quiet">Setting</span> <code>{setting}</code> <Copy text={setting} what="the setting" />
      </p>
      <Facts
        facts={[
          one.tasks.length === 0
            ? null
            : {
                name: one.tasks.length === 1 ? "Task" : "Tasks",
                value: one.tasks.map((task, index) => (
                  <span key={task}>
                    {index > 0 && ", "}
                    <a href={href("jobs", jid, "tasks", task)}>{task}</a>
                  </span>
                )),
              },
          one.checkpoints.length === 0
            ? null
            : {
                name: one.checkpoints.length === 1 ? "Checkpoint" : "Checkpoints",
                value: one.checkpoints.map((checkpoint, index) => (
                  <span key={checkpoint}>
                    {index > 0 && ", "}
                    <a href={href("jobs", jid, "checkpoints", String(checkpoint))}>{checkpoint}</a>
                  </span>
                )),
              },
        ]}
      />
    </Card>
  );
}
