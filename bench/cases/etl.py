"""Orders of users to sums of windows, exactly once, with checkpoints every second: what a job is most often.

Everyone counts to the same number, computes the same columns from it, and writes JSON files. What must come out is
computed with numpy, and every row is compared.
"""

import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.case import Case, Contender, Measured, Settings, WrongOutput, scratch
from bench.peers import flink
from bench.profiling import sampled
from bench.programs.orders import STEP_MS, USERS, WINDOW_MS
from bench.reading import json_rows
from bench.worker import Worker
from headgate.task import heap

SCHEMA = pa.schema([("user", pa.string()), ("start", pa.string()), ("orders", pa.int64()), ("total", pa.float64())])
PARTITIONS = "spark.sql.shuffle.partitions"
STATE = "spark.sql.streaming.stateStore"
FLINK_ANYWAY = {
    # Flink's own file says 1. One for each core is what its documentation asks for, and what others do by themselves.
    "parallelism.default": "2",
    "execution.checkpointing.interval": "1 s",
}
FLINK_TUNED = {
    "pipeline.object-reuse": "true",
    "taskmanager.memory.managed.size": "2g",
    "taskmanager.memory.network.max": "256m",
    "execution.checkpointing.incremental": "true",
}
HEADGATE_TUNED = {PARTITIONS: "2", "spark.driver.memory": "4g"}
COLLECTOR = {heap.COLLECTOR: heap.PARALLEL}
"""What Headgate sets by itself, and who tunes plain Spark would set."""
SPARK_STATE = {
    f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
}
MODULES = {"headgate": "headgate_jobs", "flink": "flink", "spark": "spark_jobs"}


def worker(contender: Contender, log: Path) -> Worker:
    """A process of the contender's peer."""
    python = str(flink.find().python) if contender.peer == "flink" else sys.executable
    return Worker([python, "-m", f"bench.programs.{MODULES[contender.peer]}"], log=log)


class Etl(Case):
    """On one state backend."""

    value: ClassVar[str] = "rows_per_s"
    unit: ClassVar[str] = "rows/s"
    more_is_better: ClassVar[bool] = True
    full: ClassVar[Settings] = {"rows": 20_000_000, "warm_up": 4_000_000, "rows_per_batch": 4_000_000}
    quick: ClassVar[Settings] = {"rows": 2_000_000, "warm_up": 200_000, "rows_per_batch": 1_000_000}
    also: ClassVar[dict[str, str]] = {"cpu_us_per_row": "CPU µs a row"}
    backend: ClassVar[str]

    def every(self) -> Sequence[Contender]:
        """Everyone, with all defaults and tuned by hand."""
        tuned = {"rows_per_batch": self.size["rows_per_batch"]}
        flinks = {**FLINK_ANYWAY, "state.backend.type": self.backend}
        found = [
            Contender("Headgate, defaults", "headgate", {"conf": {}}),
            Contender("Flink SQL, defaults", "flink", {"conf": flinks}),
            Contender("Headgate, tuned", "headgate", {"conf": HEADGATE_TUNED, **tuned}),
            Contender("Flink SQL, tuned", "flink", {"conf": {**flinks, **FLINK_TUNED}}),
        ]
        state = SPARK_STATE if self.backend == "rocksdb" else {}
        spark = {"conf": {**HEADGATE_TUNED, **COLLECTOR, **state}, **tuned}
        return [*found, Contender("plain Spark, tuned", "spark", spark), *self.further(state)]

    def further(self, state: Settings) -> list[Contender]:
        """Plain Spark has no size of batches of its own, so with its defaults it gets one of a million rows."""
        return [Contender("plain Spark, defaults", "spark", {"conf": state, "rows_per_batch": 1_000_000})]

    def prepare(self) -> None:
        """Nobody is up yet."""
        self._workers: dict[str, Worker] = {}

    def warm_up(self, contender: Contender) -> None:
        """Start it, and let its JVM see the job once."""
        self._workers[contender.name] = self.keep(worker(contender, self.logs / f"{contender.name}.log"))
        self._ask(contender, self.size["warm_up"])

    def round(self, contender: Contender) -> Measured:
        """Once through all orders."""
        return self._ask(contender, self.size["rows"])

    def profile(self, contender: Contender) -> Settings:
        """A round more, sampled."""
        found: dict[str, Any] = {}
        if contender.name not in self._workers:
            self.warm_up(contender)
        with sampled(self._workers[contender.name].pid, found, "CPU of the JVM in a round more."):
            self._ask(contender, self.size["rows"])
        return found

    def _ask(self, contender: Contender, rows: int) -> Measured:
        with scratch() as where:
            out = where / "out"
            out.mkdir()
            told: dict[str, Any] = {"backend": self.backend, "interval": "1s", **contender.settings, "rows": rows}
            answer, used = self._workers[contender.name].ask("etl", where=str(where), out=str(out), **told)
            compare(json_rows(out, SCHEMA), rows)
        values = {"rows_per_s": rows / answer["wall_s"], "cpu_us_per_row": used.cpu_s / rows * 1e6}
        return Measured(values, used)


class EtlRocks(Etl):
    """State in RocksDB."""

    name: ClassVar[str] = "etl"
    quickly: ClassVar[Sequence[str] | None] = ("Headgate, defaults", "Flink SQL, defaults", "plain Spark, tuned")
    title: ClassVar[str] = "Windows of orders, exactly once, checkpoints every second, RocksDB"
    backend: ClassVar[str] = "rocksdb"


class EtlHashMap(Etl):
    """State in a hash map."""

    name: ClassVar[str] = "etl-hashmap"
    title: ClassVar[str] = "Windows of orders, exactly once, checkpoints every second, hash map"
    backend: ClassVar[str] = "hashmap"

    def further(self, state: Settings) -> list[Contender]:  # noqa: ARG002 - those of the base
        """Once is enough."""
        return []


class Expected:
    """What must come out of the first orders, as numpy sees it."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    @cached_property
    def counts(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Orders and totals by window and user, windows first."""
        n = np.arange(self._rows, dtype=np.int64)
        place = n * STEP_MS // WINDOW_MS * USERS + n * 7919 % USERS
        return np.bincount(place), np.bincount(place, weights=(n * 31 % 12800) / 128)


_EXPECTED: dict[int, Expected] = {}


def compare(found: pa.Table, rows: int) -> None:
    """Every row of it, with what must be. `WrongOutput` says what is wrong."""
    orders, totals = _EXPECTED.setdefault(rows, Expected(rows)).counts
    text = pc.replace_substring(pc.utf8_slice_codeunits(found["start"], 0, 19), "T", " ")
    start_ms = pc.cast(pc.strptime(text, format="%Y-%m-%d %H:%M:%S", unit="s"), pa.int64()).to_numpy() * 1000
    user = pc.cast(pc.utf8_slice_codeunits(found["user"], 5), pa.int64()).to_numpy() - USERS
    place = start_ms // WINDOW_MS * USERS + user
    wanted = np.flatnonzero(orders)
    if len(np.unique(place)) != len(place):
        raise WrongOutput(f"{len(place) - len(np.unique(place))} rows came out twice")
    order = np.argsort(place)
    if not np.array_equal(place[order], wanted):
        raise WrongOutput(f"{len(place)} rows came out, not the {len(wanted)} that should")
    if not np.array_equal(found["orders"].to_numpy()[order], orders[wanted]):
        raise WrongOutput("counts are wrong")
    if not np.array_equal(found["total"].to_numpy()[order], totals[wanted]):
        raise WrongOutput("sums are wrong")
