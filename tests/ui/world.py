"""Jobs as the REST API tells of them, in states that are hard to bring about: for the pages' tests and for pictures.

One rule: every answer is made of the models of the contract, so none can say what the API never would. A world is a
function of time: ``at`` seconds after its beginning it is always the same.
"""

import math
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic import BaseModel

from headgate.serve import models

Data = dict[str, Any]
CYCLE_S = 10.0
"""A checkpoint begins every so often."""
TAKES_S = 3.2
"""The last sink has committed so long after the trigger."""


def blank(model: type[BaseModel], **known: Any) -> Data:
    """An answer in which null is all that is not given."""
    fields = {name: field for name, field in model.model_fields.items() if name not in known}
    missing = {name: None for name, field in fields.items() if field.is_required()}
    return model.model_validate({**missing, **known}).model_dump(mode="json", by_alias=True)


@dataclass(frozen=True)
class Task:
    """A task as it is drawn: what it reads, what it holds, how busy it is."""

    name: str
    operators: tuple[str, ...]
    reads: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    sinks: tuple[tuple[str, str, str], ...] = ()
    stateful: bool = False
    rate: float = 1000.0
    busy: float = 0.4
    pressed: float = 0.05
    state_bytes: int | None = None
    late_s: float = 0.3
    """When its cut is, after the trigger."""
    measured: bool = True
    skew: float | None = None


@dataclass
class World:
    """A job, and all that the API says of it."""

    name: str
    tasks: tuple[Task, ...]
    began_ms: int
    phase: str = "running"
    state: str = "RUNNING"
    live: bool = True
    text: str | None = None
    count: int = 1284
    """How many checkpoints there were when the world begins."""
    every_s: float = CYCLE_S
    guarantee: str | None = "exactly-once"
    because: tuple[str, ...] = ()
    stalled: tuple[str, ...] = ()
    failures: list[Data] = field(default_factory=list)
    restarts: list[Data] = field(default_factory=list)
    findings: list[Data] = field(default_factory=list)
    """What the rules of the diagnosis say, the worst first."""
    savepoint_every: int = 400
    failed: frozenset[int] = frozenset()
    described: bool = True
    storage: str = "hdfs://namenode:8020/streams/production"
    goes_on: bool = True
    spark_ui: bool = False
    """Whether new checkpoints begin."""
    end_ms: int | None = None
    held: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    parts: dict[str, Data] = field(default_factory=dict, repr=False)
    """What was once told stays so, and is told again at once."""

    # -- checkpoints ----------------------------------------------------------------------------------------------

    def last_id(self, at: float) -> int:
        """The newest that is complete."""
        if not self.live or not self.goes_on:
            return self.count
        return self.count + max(0, math.floor((at - TAKES_S) / self.every_s) + 1) if self.tasks else 0

    def trigger_ms(self, number: int) -> int:
        begin = self.end_ms or self.began_ms
        return begin + round((number - self.count - 1) * self.every_s * 1000)

    def progress(self, at: float) -> Data | None:
        since = at % self.every_s
        if not self.live or not self.goes_on or self.phase != "running" or since > TAKES_S:
            return None
        number = self.count + math.floor(at / self.every_s) + 1
        cut = [task.name for task in self.tasks if since >= task.late_s]
        acknowledged = [task.name for task in self.tasks if since >= task.late_s + 0.5]
        waiting = [task.name for task in self.tasks if task.name not in acknowledged]
        return blank(
            models.CheckpointProgress,
            id=number,
            is_savepoint=self.is_savepoint(number),
            trigger_timestamp=self.trigger_ms(number),
            unaligned=False,
            cut=cut,
            acknowledged=acknowledged,
            waiting=waiting,
        )

    def is_savepoint(self, number: int) -> bool:
        return number % self.savepoint_every == 0

    def checkpoint(self, number: int, at: float) -> Data:
        chance = random.Random(f"{self.name} {number}")
        last = self.last_id(at)
        failed = number in self.failed
        slow = chance.choice([1, 1, 1, 1, 1, 1.2, 1.5, 2.4]) * (1 + 0.25 * math.sin(number / 9))
        parts = {} if failed or number > last else {task.name: self.part(task, number, slow) for task in self.tasks}
        ends = [part["end_to_end_duration"] for part in parts.values()]
        pre, publish, commit = (round(chance.uniform(*span) * slow) for span in ((40, 160), (6, 30), (60, 320)))
        took = round(max(ends, default=0)) + pre + publish
        trigger = self.trigger_ms(number)
        savepoint = self.is_savepoint(number)
        kept = not failed and number <= last and (number > last - 3 or savepoint or number in self.held)
        sums = {
            name: sum(part[name] for part in parts.values()) if parts else None
            for name in ("checkpointed_size", "state_size", "persisted_data", "files")
        }
        under_way = number > last
        progress = self.progress(at) if under_way else None
        acknowledged = len(parts) or (len(progress["acknowledged"]) if progress else 1)
        return blank(
            models.CheckpointStatistics,
            id=number,
            status="IN_PROGRESS" if under_way else "FAILED" if failed else "COMPLETED",
            is_savepoint=savepoint,
            checkpoint_type="SAVEPOINT" if savepoint else "CHECKPOINT",
            savepointFormat="NATIVE" if savepoint else None,
            trigger_timestamp=trigger,
            latest_ack_timestamp=trigger + took if parts else None,
            end_to_end_duration=took if parts else None,
            **sums,
            num_subtasks=len(self.tasks),
            num_acknowledged_subtasks=acknowledged,
            tasks=parts,
            external_path=f"{self.storage}/{self.name}/savepoints/{number}" if savepoint and parts else None,
            discarded=not kept and not under_way,
            failure_timestamp=trigger + 9000 if failed else None,
            failure_message="it took longer than 9 s: task user-windows did not acknowledge" if failed else None,
            generation=1 + len([one for one in self.restarts if one["level"] == "job"]),
            unaligned=False,
            pre_commit_ms=pre if parts else None,
            publish_ms=publish if parts else None,
            commit_ms=commit if parts else None,
            retries=2 if slow > 2 and parts else 0 if parts else None,
            restarts=0,
            kept=kept,
            held=number in self.held,
            copied=savepoint and bool(parts),
        )

    def part(self, task: Task, number: int, slow: float) -> Data:
        key = f"{number} {task.name}"
        if key not in self.parts:
            self.parts[key] = self._part(task, number, slow)
        return self.parts[key]

    def _part(self, task: Task, number: int, slow: float) -> Data:
        chance = random.Random(f"{self.name} {number} {task.name}")
        alignment = round(chance.uniform(4, 90) * slow) if len(task.reads) > 1 else 0
        delay = round(task.late_s * 600 * chance.uniform(0.6, 1.2) * slow) + alignment
        full = round((task.state_bytes or 4000) * (0.8 + 0.2 * math.sin(number / 40)))
        begun = delay + round(chance.uniform(0, 60) * slow)
        sync, later = round(chance.uniform(2, 30) * slow, 1), round(chance.uniform(20, 260) * slow, 1)
        return blank(
            models.TaskCheckpointStatistics,
            id=number,
            status="COMPLETED",
            latest_ack_timestamp=self.trigger_ms(number) + round(begun + sync + later),
            end_to_end_duration=round(begun + sync + later, 1),
            start_delay=delay,
            snapshot_start=begun,
            alignment={"duration": alignment, "persisted": 0},
            checkpoint={"sync": sync, "async": later},
            checkpointed_size=round(full * chance.uniform(0.02, 0.09)),
            state_size=full,
            persisted_data=round(chance.uniform(0, 90_000)) if task.reads else 0,
            files=chance.randint(3, 24),
            num_subtasks=1,
            num_acknowledged_subtasks=1,
        )

    # -- the job --------------------------------------------------------------------------------------------------

    def vertex(self, task: Task, at: float) -> Data:
        wave = 1 + 0.18 * math.sin(at / 7 + len(task.name)) + 0.05 * math.sin(at * 1.7)
        rate = round(task.rate * wave, 1) if self.live and self.phase == "running" else None
        busy = min(0.97, task.busy * wave)
        measured = task.measured and rate is not None
        seen = round(task.rate * (at + 5400)) if self.live else None
        stopped = {"restarting": ("INITIALIZING", "restarting")}.get(self.phase, ("RUNNING", "running"))
        status, phase = stopped if self.live else ("CANCELED", "stopped")
        return blank(
            models.Vertex,
            id=task.name,
            name=" → ".join((*task.operators, *(sink for sink, _, _ in task.sinks))),
            status=status,
            phase=phase,
            **{"start-time": self.began_ms - 5_400_000 if self.live else None},
            duration=round((at + 5400) * 1000) if self.live else None,
            parallelism=16 if task.stateful else None,
            run=3 if self.restarts and task.stateful else 1,
            batch=5200 + math.floor(at) if self.live else 5199,
            metrics={
                "read-records": seen,
                "write-records": round(seen * 0.6) if seen else None,
                "read-bytes": seen * 112 if seen else None,
                "write-bytes": seen * 71 if seen else None,
                "accumulated-backpressured-time": round(task.pressed * at * 1000) if self.live else None,
                "accumulated-busy-time": round(task.busy * (at + 5400) * 1000) if self.live else None,
                "accumulated-idle-time": round((1 - task.busy) * (at + 5400) * 1000) if self.live else None,
            },
            rows_per_s=rate,
            lag={
                f"{one}>{task.name}": round(abs(3 * math.sin(at / 5 + len(one)) * (1 + 4 * task.pressed)))
                for one in task.reads
            }
            if self.live
            else {},
            wait_ms=round(task.pressed * at * 1000) if self.live else None,
            batch_rows=round(task.rate / 2) if self.live else None,
            busy_ratio=round(busy, 3) if measured else None,
            backpressured_ratio=round(min(1 - busy, task.pressed), 3) if measured else None,
            idle_ratio=round(max(0.0, 1 - busy - task.pressed), 3) if measured else None,
            **{"backpressure-level": level(task.pressed) if measured else None},
            watermark_ms=self.now_ms(at) - 4000 - 600 * len(task.name) if self.live and task.stateful else None,
            state_rows=(task.state_bytes or 0) // 190 if task.stateful and self.live else None,
            state_bytes=task.state_bytes if self.live else None,
            skew=task.skew if self.live else None,
            skew_of=(task.sources[0] if task.sources else "state 0") if self.live and task.skew else None,
            details={"input_queue": 2} if self.live and task.sources else {},
        )

    def now_ms(self, at: float) -> int:
        return self.began_ms + round(at * 1000)

    def plan(self) -> Data:
        sinks = partial(blank, models.PlanSink)
        nodes = [
            blank(
                models.PlanNode,
                id=task.name,
                operator=task.operators[-1],
                description=" → ".join(task.operators),
                parallelism=16 if task.stateful else None,
                inputs=[
                    blank(
                        models.PlanInput,
                        num=number,
                        id=one,
                        channel=f"{one}>{task.name}",
                        operator=task.operators[0],
                        ship_strategy="CHANNEL",
                        exchange="pipelined",
                    )
                    for number, one in enumerate(task.reads)
                ],
                operators=[
                    blank(
                        models.PlanOperator,
                        uid=uid,
                        kind="source" if uid in task.sources else "transform",
                        inputs=[],
                        stateful=task.stateful and uid == task.operators[-1],
                        on_branch=False,
                        description="kafka topic " + uid if uid in task.sources else "a function of DataFrames",
                        where=f"job.py:{20 + number}",
                    )
                    for number, uid in enumerate(task.operators)
                ],
                sources=list(task.sources),
                sinks=[
                    sinks(
                        uid=uid,
                        guarantee=guarantee,
                        description=what,
                        inputs=[task.operators[-1]],
                        after=[],
                        where=f"job.py:{60 + number}",
                    )
                    for number, (uid, guarantee, what) in enumerate(task.sinks)
                ],
                output_mode="append",
                stateful=task.stateful,
            )
            for task in self.tasks
        ]
        edges = [
            blank(
                models.PlanEdge,
                id=f"{one}>{task.name}",
                source=one,
                target=task.name,
                operator=task.operators[0],
                input=number,
            )
            for task in self.tasks
            for number, one in enumerate(task.reads)
        ]
        described = self.described and bool(self.tasks)
        return blank(
            models.JobGraph,
            jid=self.name,
            name=self.name,
            type="STREAMING",
            guarantee=self.guarantee if described else None,
            because=list(self.because) if described else [],
            state_partitions=16 if described else None,
            nodes=nodes if described else [],
            edges=edges if described else [],
        )

    def summary(self, at: float) -> Data:
        last = self.last_id(at)
        one = self.checkpoint(last, at) if last else None
        total = len(self.tasks)
        running = total if self.live and self.phase == "running" else 0
        start = (self.end_ms or self.began_ms) - 5_400_000 if self.tasks else None
        end = None if self.live else self.end_ms
        return {
            "jid": self.name,
            "name": self.name,
            "state": self.state,
            "phase": self.phase,
            "text": self.text,
            "start-time": start,
            "end-time": end,
            "duration": (end or self.now_ms(at)) - start if start else None,
            "last-modification": self.now_ms(at) if self.live else end,
            "tasks": {
                "total": total,
                "initializing": total - running if self.live else 0,
                "running": running,
                "finished": 0,
                "canceled": 0 if self.live else total,
            },
            "storage": self.storage,
            "live": self.live,
            "last_checkpoint": one
            and {
                "id": last,
                "kind": "savepoint" if one["is_savepoint"] else "checkpoint",
                "completed_ms": one["latest_ack_timestamp"],
                "age_ms": self.now_ms(at) - (one["latest_ack_timestamp"] or 0),
                "duration_ms": one["end_to_end_duration"],
            },
            "restarts": self.restart_counts(),
        }

    def restart_counts(self) -> Data:
        return {level: sum(one["level"] == level for one in self.restarts) for level in ("task", "job")}

    def sink_figures(self, at: float, progress: Data | None) -> list[Data]:
        """Of the first sink of a job that stands still a commit is tried again and again."""
        named = [(task, sink) for task in self.tasks for sink, _, _ in task.sinks]
        done = self.last_id(at)
        found = []
        for place, (task, sink) in enumerate(named):
            stuck = bool(self.stalled) and place == 0
            pre = int(progress is not None and task.name in progress["acknowledged"])
            found.append(
                blank(
                    models.SinkFigures,
                    sink=sink,
                    task=task.name,
                    open_batches=math.floor(at % self.every_s) if not pre else 0,
                    pre_committed=pre,
                    due=3 if stuck else 0,
                    in_doubt=1 if stuck else 0,
                    abandoned=0,
                    full=stuck,
                    pre_commits=done + pre,
                    failed_pre_commits=0,
                    pre_commits_ms=62.0 * done,
                    committed=done,
                    recovered_commits=len(self.restarts),
                    failed_commits=29 if stuck else place,
                    commits_ms=(80.0 + 41 * place) * done,
                )
            )
        return found

    def details(self, at: float) -> Data:
        progress = self.progress(at)
        vertices = [self.vertex(task, at) for task in self.tasks]
        counts: dict[str, int] = {}
        for vertex in vertices:
            counts[vertex["status"]] = counts.get(vertex["status"], 0) + 1
        last = self.failures[0] if self.failures else None
        return blank(
            models.JobDetails,
            **self.summary(at),
            isStoppable=self.live and self.phase == "running",
            now=self.now_ms(at),
            leader="driver-7f9c.example.org/41873" if self.tasks else None,
            generation=1 + self.restart_counts()["job"] if self.tasks else None,
            uptime=round(at * 1000) + 5_400_000 if self.live else None,
            vertices=vertices,
            **{"status-counts": counts},
            plan=self.plan(),
            timestamps={self.state: self.began_ms - 5_400_000} if self.live else {},
            sinks=self.sink_figures(at, progress) if self.live else [],
            spark_ui="http://driver-7f9c.example.org:4040" if self.live and self.spark_ui else None,
            in_progress=[progress] if progress else [],
            last_failure=last
            and {
                "at": last["timestamp"],
                "task": last["taskName"],
                "class": last["failureLabels"].get("class"),
                "message": last["message"],
            },
            stalled=list(self.stalled),
        )


def level(pressed: float) -> str:
    return "ok" if pressed <= 0.1 else "low" if pressed <= 0.5 else "high"
