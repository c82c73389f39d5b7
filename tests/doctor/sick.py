"""A job whose past is recorded as that of a real one is: by the recorder, from steps of the core and reports of Spark.

What it says goes into a storage, and is read from there as ``headgate doctor`` reads it.
"""

import copy
from datetime import UTC, datetime
from typing import Any

from headgate.core.graph import Graph
from headgate.core.ids import SinkId, TaskId
from headgate.doctor.cause import Cause, Diagnosis
from headgate.doctor.diagnosis import diagnose
from headgate.doctor.facts import JobFacts
from headgate.doctor.gathering import gather
from headgate.run.past import JobPast
from headgate.store.jobstore import JobStore
from tests.helpers import line
from tests.serve.described import DESCRIBED
from tests.view.reports import said
from tests.view.watched import Watched

EVENT_MS = 1_735_689_600_000
"""2025-01-01: when events begin."""


def described(**changes: dict[str, Any]) -> dict[str, Any]:
    """What the process of the job ``line("a", "b")`` writes down, with some settings changed."""
    found = copy.deepcopy(DESCRIBED)
    found["configuration"]["cores"] = 2
    for part, values in changes.items():
        found[part].update(values)
    return found


class Sick:
    """A job of a source and a reader of it that has the sink ``out``. Each checkpoint is made by ``go``."""

    def __init__(self, store: JobStore, graph: Graph | None = None, **settings: Any) -> None:
        self.store = store
        self.core = Watched(graph or line("a", "b"))
        self.core.now_ms = 1_000_000
        self.described = described(**settings)
        self.files: dict[str, Any] = {}
        self.number = 0
        self.state = 0
        self.core.lead()
        self.core.read()
        self.core.create()
        self.core.start_all()

    def go(
        self,
        *,
        held: dict[str, int] | None = None,
        snapshot: dict[str, dict[str, float]] | None = None,
        pre_commit_ms: int = 10,
        publish_ms: int = 10,
        commit_ms: int = 10,
        tries: int = 0,
        pause_ms: int = 9_000,
    ) -> None:
        """Time passes, a batch goes through all tasks, and a checkpoint is taken.

        ``held``: how long the barrier takes in a task.
        """
        core, held, tasks = self.core, held or {}, list(self.core.state.graph.by_id)
        core.wait(pause_ms)
        self.number += 1
        batch = self.number - 1
        core.tell(core.committed(tasks[0], batch))
        core.ask()
        for task in tasks[1:]:
            core.wait(held.get(task, 20))
            core.tell(core.committed(task, batch, *[batch] * len(core.state.graph.inputs[TaskId(task)])))
        number = core.state.checkpoints.pending[0].id
        for task in tasks:
            core.snapshot(task, number, **{"sync_ms": 3, "async_ms": 5, "files": 9, **(snapshot or {}).get(task, {})})
        core.wait(pre_commit_ms)
        core.note("pre_commit", checkpoint=number, sink="out", ms=float(pre_commit_ms))
        core.make_ready(number)
        core.wait(publish_ms)
        core.create()
        for _ in range(tries):
            core.tell(core.commit_failed(number))
            core.wait(1_000)
        core.wait(commit_ms)
        for sink in core.state.sinks:
            for _, one in core.state.sinks[SinkId(sink)].due:
                core.tell(core.visible(one.checkpoint, sink))

    def batch(
        self,
        task: str,
        *,
        rows: int = 1_000,
        took_ms: int = 100,
        state: int | None = None,
        partitions: int = 2,
        event_ms: int | None = None,
        watermark_ms: int | None = None,
        sources: dict[str, int] | None = None,
    ) -> None:
        """Spark reports a batch of a task, in the shape of a real report."""
        report = said("windows", 4)
        report.update(batchId=self.number, numInputRows=rows)
        report["durationMs"]["triggerExecution"] = took_ms
        self.state = self.state if state is None else state
        [operator] = report["stateOperators"]
        operator.update(numRowsTotal=self.state, numStateStoreInstances=partitions, numShufflePartitions=partitions)
        if state is None:
            report["stateOperators"] = []
        report["eventTime"] = {} if event_ms is None else {"max": iso(event_ms), "watermark": iso(watermark_ms or 0)}
        [source] = report["sources"]
        report["sources"] = [
            {
                **source,
                "numInputRows": each,
                "startOffset": {"channel": name, "batch": self.number - 1},
                "endOffset": {"channel": name, "batch": self.number},
            }
            for name, each in (sources or {"b.0": rows}).items()
        ]
        self.core.note("progress", task=task, value=rows, said=report)

    def look(self) -> Diagnosis:
        """What the doctor says."""
        return diagnose(self.facts())

    def facts(self) -> JobFacts:
        """What is gathered of it."""
        self._write()
        past, now_ms = JobPast(self.store), self.core.now_ms
        view = self.core.recorder.status(now_ms, self.core.state)
        return gather(past, view, self.store.read_description(), self.store.local_root, now_ms)

    def _write(self) -> None:
        """Put what is not there yet into the storage."""
        self.store.put_description(self.described)
        there = len(self.store.read_checkpoint_log())
        for record in list(self.core.store.values())[there:]:
            assert self.store.create_record(record, {"files": self.files, "segments": {}}) is None
        self.store.append_history(self.core.lines)
        self.core.lines.clear()

    def found(self, rule: str) -> Cause:
        """The one finding of a rule."""
        [cause] = [each for each in self.look().causes if each.rule == rule]
        return cause


def rules(seen: Diagnosis) -> set[str]:
    return {each.rule for each in seen.causes}


def iso(ms: int) -> str:
    """As Spark writes times."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
