"""Functions in Python: keyed state, and all rows of a window. Everyone ends with checkpoints every second.

Contenders have different numbers of rows, so that each works for about as long: PyFlink would take minutes for what
Headgate does in seconds. What must come out of each number is computed with numpy.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.case import Case, Contender, Measured, Settings, WrongOutput, scratch
from bench.cases.etl import FLINK_ANYWAY, HEADGATE_TUNED, worker
from bench.profiling import sampled
from bench.programs.readings import JUMP, ROWS_PER_WINDOW, SENSORS, WINDOW_MS
from bench.reading import json_rows
from bench.worker import Worker

PYFLINK = {
    **FLINK_ANYWAY,
    "state.backend.type": "hashmap",
    "pipeline.object-reuse": "true",
    "python.fn-execution.bundle.size": "100000",
    # Its default is 1,000 keys: with more, each call of a state goes to the JVM and back.
    "python.state.cache-size": "20000",
}
"""The best that was found. RocksDB, which Headgate uses here, makes PyFlink slower."""


class InPython(Case):
    """What both share: rows through a function."""

    value: ClassVar[str] = "rows_per_s"
    unit: ClassVar[str] = "rows/s"
    more_is_better: ClassVar[bool] = True
    also: ClassVar[dict[str, str]] = {"cpu_us_per_row": "CPU µs a row"}
    job: ClassVar[str]
    least: ClassVar[int]
    """Numbers of rows are multiples of this."""
    schema: ClassVar[pa.Schema]
    check: ClassVar[Callable[[pa.Table, int], None]]

    def pyflink(self) -> list[Contender]:
        """PyFlink, with its workers beside the JVM and in it; and as it is."""
        size = {"rows": self.size["pyflink"]}
        return [
            Contender("PyFlink, process mode", "flink", {"conf": PYFLINK, **size}),
            Contender(
                "PyFlink, thread mode", "flink", {"conf": {**PYFLINK, "python.execution-mode": "thread"}, **size}
            ),
            Contender("PyFlink, defaults", "flink", {"conf": FLINK_ANYWAY, **size}),
        ]

    def prepare(self) -> None:
        """Nobody is up yet."""
        self._workers: dict[str, Worker] = {}

    def warm_up(self, contender: Contender) -> None:
        """Start it, and let it see the job once."""
        self._workers[contender.name] = self.keep(worker(contender, self.logs / f"{contender.name}.log"))
        self._ask(contender, max(self.least, contender.settings["rows"] // 10 // self.least * self.least))

    def round(self, contender: Contender) -> Measured:
        """Once through all rows."""
        return self._ask(contender, contender.settings["rows"])

    def profile(self, contender: Contender) -> Settings:
        """A round more, sampled."""
        found: dict[str, Any] = {}
        if contender.name not in self._workers:
            self.warm_up(contender)
        with sampled(self._workers[contender.name].pid, found, "CPU of the JVM in a round more."):
            self._ask(contender, contender.settings["rows"])
        return found

    def _ask(self, contender: Contender, rows: int) -> Measured:
        with scratch() as where:
            out = where / "out"
            out.mkdir()
            told: dict[str, Any] = {"backend": "rocksdb", "interval": "1s", **contender.settings, "rows": rows}
            answer, used = self._workers[contender.name].ask(self.job, where=str(where), out=str(out), **told)
            type(self).check(json_rows(out, self.schema), rows)
        values = {"rows_per_s": rows / answer["wall_s"], "cpu_us_per_row": used.cpu_s / rows * 1e6}
        return Measured(values, used)


def _value(n: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = n * n % 10007 / 1000
    return found


@cache
def _jumps(rows: int) -> np.ndarray[Any, Any]:
    n = np.arange(SENSORS, rows, dtype=np.int64)
    found: np.ndarray[Any, Any] = n[np.abs(_value(n) - _value(n - SENSORS)) > JUMP]
    return found


def check_jumps(found: pa.Table, rows: int) -> None:
    """Every jump, with the values of both readings."""
    found = found.sort_by("n")
    n = found["n"].to_numpy()
    if not np.array_equal(n, _jumps(rows)):
        raise WrongOutput(f"{len(n)} jumps came out, not the {len(_jumps(rows))} that should")
    if not np.array_equal(found["value"].to_numpy(), _value(n)):
        raise WrongOutput("values are wrong")
    if not np.array_equal(found["before"].to_numpy(), _value(n - SENSORS)):
        raise WrongOutput("values before are wrong")
    if not np.array_equal(_number(found["sensor"]), n * 7919 % SENSORS):
        raise WrongOutput("sensors are wrong")


@cache
def _medians(rows: int) -> np.ndarray[Any, Any]:
    windows = []
    for begin in range(0, rows, WINDOW_MS):
        n = np.arange(begin, begin + WINDOW_MS, dtype=np.int64)
        by_sensor = np.argsort(n * 7919 % SENSORS, kind="stable")
        windows.append(np.median(_value(n)[by_sensor].reshape(SENSORS, ROWS_PER_WINDOW), axis=1))
    return np.concatenate(windows)


def check_medians(found: pa.Table, rows: int) -> None:
    """The median of each window of each sensor."""
    place = found["begin_ms"].to_numpy() // WINDOW_MS * SENSORS + _number(found["sensor"])
    order = np.argsort(place)
    if not np.array_equal(place[order], np.arange(rows // ROWS_PER_WINDOW)):
        raise WrongOutput(f"{len(place)} windows came out, not {rows // ROWS_PER_WINDOW}")
    if not np.all(found["rows_in"].to_numpy() == ROWS_PER_WINDOW):
        raise WrongOutput("windows have other numbers of rows than they should")
    if not np.array_equal(found["median"].to_numpy()[order], _medians(rows)):
        raise WrongOutput("medians are wrong")


def _number(sensors: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = pc.cast(pc.utf8_slice_codeunits(sensors, 7), pa.int64()).to_numpy() - SENSORS
    return found


class Keyed(InPython):
    """Jumps of sensors."""

    name: ClassVar[str] = "keyed"
    quickly: ClassVar[Sequence[str] | None] = ("Headgate, by columns", "Headgate, by keys", "PyFlink, thread mode")
    title: ClassVar[str] = "Keyed state in Python: jumps of 10,000 sensors, checkpoints every second"
    full: ClassVar[Settings] = {"columns": 12_000_000, "keys": 1_800_000, "pyflink": 600_000}
    quick: ClassVar[Settings] = {"columns": 1_200_000, "keys": 600_000, "pyflink": 120_000}
    job: ClassVar[str] = "keyed"
    least: ClassVar[int] = SENSORS
    schema: ClassVar[pa.Schema] = pa.schema(
        [("sensor", pa.string()), ("n", pa.int64()), ("value", pa.float64()), ("before", pa.float64())]
    )
    check: ClassVar[Callable[[pa.Table, int], None]] = staticmethod(check_jumps)

    def every(self) -> Sequence[Contender]:
        """Both forms of Headgate."""
        columns, keys = self.size["columns"], self.size["keys"]
        return [
            Contender("Headgate, by columns", "headgate", {"conf": {}, "by": "columns", "rows": columns}),
            Contender("Headgate, by keys", "headgate", {"conf": {}, "by": "keys", "rows": keys}),
            *self.pyflink(),
        ]


class Windows(InPython):
    """Medians of windows."""

    name: ClassVar[str] = "python-windows"
    title: ClassVar[str] = "Windows in Python: medians of 10-minute windows of 10,000 sensors, checkpoints every second"
    full: ClassVar[Settings] = {"headgate": 12_000_000, "pyflink": 600_000}
    quick: ClassVar[Settings] = {"headgate": 1_200_000, "pyflink": 600_000}
    job: ClassVar[str] = "windows"
    least: ClassVar[int] = WINDOW_MS
    schema: ClassVar[pa.Schema] = pa.schema(
        [("sensor", pa.string()), ("begin_ms", pa.int64()), ("rows_in", pa.int64()), ("median", pa.float64())]
    )
    check: ClassVar[Callable[[pa.Table, int], None]] = staticmethod(check_medians)

    def every(self) -> Sequence[Contender]:
        """Headgate by columns, as it is and tuned."""
        rows = {"rows": self.size["headgate"]}
        return [
            Contender("Headgate", "headgate", {"conf": {}, **rows}),
            Contender("Headgate, tuned", "headgate", {"conf": HEADGATE_TUNED, "rows_per_batch": 1_000_000, **rows}),
            *self.pyflink(),
        ]
