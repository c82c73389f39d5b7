"""How long checkpoints take: as state grows, and under backpressure."""

import statistics
from collections.abc import Sequence
from typing import Any, ClassVar

from bench.case import Case, Contender, Measured, Settings, WrongOutput, scratch
from bench.cases.etl import FLINK_ANYWAY, FLINK_TUNED, worker
from bench.worker import Worker

ROCKSDB = {**FLINK_ANYWAY, "state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}


class Checkpoints(Case):
    """Jobs that run until they are cancelled. What counts is what their coordinators say of each checkpoint."""

    value: ClassVar[str] = "checkpoint_ms"
    unit: ClassVar[str] = "ms"
    also: ClassVar[dict[str, str]] = {"longest_ms": "longest, ms", "checkpoints": "checkpoints"}
    job: ClassVar[str]

    def prepare(self) -> None:
        """Nobody is up yet."""
        self._workers: dict[str, Worker] = {}

    def warm_up(self, contender: Contender) -> None:
        """Start a process for each peer: a contender is another job in it."""
        if contender.peer not in self._workers:
            self._workers[contender.peer] = self.keep(worker(contender, self.logs / f"{contender.peer}.log"))

    def round(self, contender: Contender) -> Measured:
        """Some seconds of checkpoints."""
        with scratch() as where:
            out = where / "out"
            out.mkdir()
            told: dict[str, Any] = {"backend": "rocksdb", **self.size, **contender.settings}
            answer, used = self._workers[contender.peer].ask(self.job, where=str(where), out=str(out), **told)
        took = answer["durations_ms"]
        if not took:
            raise WrongOutput("no checkpoint was completed")
        values = {
            "checkpoint_ms": statistics.median(took),
            "longest_ms": max(took),
            "checkpoints": float(len(took)),
            "cores": used.cpu_s / used.wall_s,
        }
        return Measured(values, used)


class StateSize(Checkpoints):
    """From 50 thousand to 20 million keys in RocksDB, of which 1,000 a second change."""

    name: ClassVar[str] = "state"
    title: ClassVar[str] = (
        "How long a checkpoint takes with more and more keys in RocksDB, 1,000 of them changed a second"
    )
    job: ClassVar[str] = "state"
    full: ClassVar[Settings] = {"seconds": 20}
    quick: ClassVar[Settings] = {"seconds": 5, "most": 500_000}
    rounds_max: ClassVar[int] = 2

    def every(self) -> Sequence[Contender]:
        """Each size in turn."""
        sizes = {"50 k": 50_000, "500 k": 500_000, "5 M": 5_000_000, "20 M": 20_000_000}
        found = []
        for label, keys in sizes.items():
            if keys <= self.size.get("most", keys):
                found.append(Contender(f"Headgate, {label} keys", "headgate", {"conf": {}, "keys": keys}))
                conf = {**ROCKSDB, **FLINK_TUNED}
                found.append(Contender(f"Flink SQL, {label} keys", "flink", {"conf": conf, "keys": keys}))
        return found


class Backpressure(Checkpoints):
    """The last operator sleeps for 0.4 ms a row, in Python."""

    name: ClassVar[str] = "backpressure"
    title: ClassVar[str] = "How long a checkpoint takes under backpressure, aligned and unaligned"
    job: ClassVar[str] = "backpressure"
    full: ClassVar[Settings] = {"settle_s": 15, "seconds": 30}
    quick: ClassVar[Settings] = {"settle_s": 5, "seconds": 6}
    rounds_max: ClassVar[int] = 3

    def every(self) -> Sequence[Contender]:
        """Both, both ways."""
        found = []
        for word, unaligned in (("aligned", False), ("unaligned", True)):
            found.append(Contender(f"Headgate, {word}", "headgate", {"conf": {}, "unaligned": unaligned}))
            found.append(Contender(f"PyFlink, {word}", "flink", {"conf": ROCKSDB, "unaligned": unaligned}))
        return found


class Growth(Checkpoints):
    """From one task to sixteen, each with a source, state and a sink."""

    name: ClassVar[str] = "growth-tasks"
    title: ClassVar[str] = "How long a checkpoint takes with more and more tasks of 100 rows a second"
    job: ClassVar[str] = "tasks"
    also: ClassVar[dict[str, str]] = {**Checkpoints.also, "cores": "cores used"}
    full: ClassVar[Settings] = {"settle_s": 20, "seconds": 20}
    quick: ClassVar[Settings] = {"settle_s": 10, "seconds": 5}
    rounds_max: ClassVar[int] = 2

    def every(self) -> Sequence[Contender]:
        """One, four and sixteen."""
        found = []
        for tasks in (1, 4, 16):
            found.append(Contender(f"Headgate, tasks: {tasks}", "headgate", {"conf": {}, "tasks": tasks}))
            found.append(Contender(f"Flink SQL, pipelines: {tasks}", "flink", {"conf": ROCKSDB, "tasks": tasks}))
        return found
