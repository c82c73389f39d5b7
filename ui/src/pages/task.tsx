/** All that is known of one task, beside the graph. */

import type { PlanNode, Vertex } from "../lib/contract";
import { bytes, count, duration, percent, rate } from "../lib/format";
import { Badge, Empty, Facts, None, Tag, Time, type Tone } from "../parts/basics";
import { RatioBar } from "../parts/bars";
import { Drawer } from "../parts/dialog";
import { GuaranteeBadge, TaskBadge } from "../parts/states";
import { Skew, Watermark, wholeSeconds } from "./overview";

const LEVELS: Readonly<Record<string, readonly [Tone, string]>> = {
  ok: ["ok", "at most 10 % of the time"],
  low: ["warn", "at most half of the time"],
  high: ["bad", "more than half of the time"],
};

export function TaskDrawer({ id, task, node, onClose }: { id: string; task: Vertex | null; node: PlanNode | null; onClose: () => void }) {
  return (
    <Drawer title={<span>Task {id}</span>} onClose={onClose}>
      {!task && !node && <Empty title={`There is no task ${id}`}>It may have been one of an earlier release of the job.</Empty>}
      {task && <Figures task={task} />}
      {node && <Plan node={node} />}
      {task && Object.keys(task.details).length > 0 && (
        <>
          <h3>Else</h3>
          <Facts facts={Object.entries(task.details).map(([name, value]) => ({ name, value: typeof value === "object" ? <code class="wrap">{JSON.stringify(value)}</code> : String(value) }))} />
        </>
      )}
    </Drawer>
  );
}

function Figures({ task }: { task: Vertex }) {
  const level = task["backpressure-level"];
  const [tone, what] = LEVELS[level ?? ""] ?? ["quiet", "nobody measures it"];
  return (
    <>
      <p class="drawer-lead">
        <TaskBadge task={task} /> <span class="quiet">{task.name}</span>
      </p>
      <h3>Time</h3>
      <RatioBar task={task} />
      <Facts
        facts={[
          { name: "Busy", value: percent(task.busy_ratio) },
          { name: "Backpressured", title: "it waits for those who read it", value: percent(task.backpressured_ratio) },
          { name: "Idle", value: percent(task.idle_ratio) },
          {
            name: "Backpressure",
            value: level ? (
              <Badge tone={tone} title={what}>
                {level.toUpperCase()}
              </Badge>
            ) : (
              <None why={what} />
            ),
          },
          { name: "Waited for readers", title: "since the process began", value: duration(task.wait_ms) },
          { name: "Was busy", title: "what its batches took besides, since the process began", value: duration(wholeSeconds(task.metrics["accumulated-busy-time"])) },
          { name: "Was idle", title: "without a batch at work, since the process began", value: duration(wholeSeconds(task.metrics["accumulated-idle-time"])) },
          { name: "Up since", title: "its last run", value: <Time ms={task["start-time"]} /> },
          { name: "Up for", value: duration(wholeSeconds(task.duration)) },
          task["end-time"] === null ? null : { name: "Ended", title: "its last run", value: <Time ms={task["end-time"]} /> },
        ]}
      />
      <h3>Data</h3>
      <Facts
        facts={[
          { name: "Rows", value: rate(task.rows_per_s) },
          { name: "Records read", value: count(task.metrics["read-records"]) },
          { name: "Records written", value: count(task.metrics["write-records"]) },
          { name: "Bytes read", value: bytes(task.metrics["read-bytes"]) },
          { name: "Bytes written", value: bytes(task.metrics["write-bytes"]) },
          { name: "Last batch", title: "the last one that was committed", value: task.batch < 0 ? <None why="none yet" /> : count(task.batch) },
          { name: "Rows in a batch", title: "at most, by now", value: count(task.batch_rows) },
          { name: "Watermark", value: <Watermark ms={task.watermark_ms} /> },
          { name: "Run", title: "how often its query was started in this generation", value: count(task.run) },
        ]}
      />
      <h3>State and partitions</h3>
      <Facts
        facts={[
          { name: "Partitions", value: task.parallelism === null ? <None why="no state, or not known yet" /> : count(task.parallelism) },
          { name: "Rows", value: count(task.state_rows) },
          { name: "Size", value: bytes(task.state_bytes) },
          {
            name: "Skew",
            title: "the largest partition by the mean, of the source or the state that is most uneven",
            value: (
              <>
                <Skew task={task} />
                {task.skew_of !== null && <span class="quiet"> of {task.skew_of}</span>}
              </>
            ),
          },
        ]}
      />
      {Object.keys(task.lag).length > 0 && (
        <>
          <h3>Lag</h3>
          <Facts facts={Object.entries(task.lag).map(([channel, batches]) => ({ name: channel, value: `${count(batches)} batches` }))} />
        </>
      )}
    </>
  );
}

function Plan({ node }: { node: PlanNode }) {
  return (
    <>
      <h3>Operators</h3>
      <ul class="operators">
        {node.operators.map((operator) => (
          <li key={operator.uid}>
            <strong>{operator.uid}</strong> <Tag>{operator.kind}</Tag> {operator.stateful && <Tag title="it keeps state">state</Tag>}{" "}
            {operator.on_branch && <Tag title="between the fork at the end of the task and a sink">branch</Tag>}
            <div class="quiet">{operator.description}</div>
            <code class="quiet wrap">{operator.where}</code>
          </li>
        ))}
      </ul>
      {node.inputs.length > 0 && (
        <>
          <h3>Inputs</h3>
          <ul class="operators">
            {node.inputs.map((input) => (
              <li key={input.channel}>
                <strong>{input.id}</strong> into {input.operator} <Tag title="segments on disk, and barriers">{input.ship_strategy.toLowerCase()}</Tag>
                <div class="quiet">{input.channel}</div>
              </li>
            ))}
          </ul>
        </>
      )}
      {node.sinks.length > 0 && (
        <>
          <h3>Sinks</h3>
          <ul class="operators">
            {node.sinks.map((sink) => (
              <li key={sink.uid}>
                <strong>{sink.uid}</strong> <GuaranteeBadge guarantee={sink.guarantee} />
                <div class="quiet">{sink.description}</div>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
