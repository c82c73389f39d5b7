"""Keyed state in Python: by rows and by columns, with calls pipelined and in Spark's own way, on the same rows."""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

import headgate as hg
from bench.jobs import scratch
from bench.side_by_side import Clock, Timing, compare
from headgate.job.processor import PIPELINED, run_processor

KEYS = 10_000
SIZES = (20_000, 100_000, 500_000)
JUMP = 5.0
OUTPUT = "sensor string, seq bigint, value double, before double"


class ByRows(hg.Processor):
    """A jump between two readings of a sensor."""

    output = OUTPUT

    def open(self, state: hg.KeyedState) -> None:
        """One value for each sensor."""
        self.last = state.value("last", "double")

    def process(self, key: str, rows: Iterator[Row], context: hg.Context) -> Iterator[Row]:  # noqa: ARG002 - the base's
        """Key by key."""
        last = self.last.get()
        for row in sorted(rows, key=lambda row: int(row.seq)):
            if last is not None and abs(row.value - last) > JUMP:
                yield Row(sensor=key, seq=row.seq, value=row.value, before=last)
            last = row.value
        self.last.update(last)


class ByColumns(hg.BatchProcessor):
    """The same."""

    output = OUTPUT

    def open(self, state: hg.BatchState) -> None:
        """One value for each sensor."""
        self.last = state.value("last", "double")

    def process(self, batch: hg.KeyedBatch) -> pa.Table:
        """All keys at once."""
        seq, value = (batch.rows[name].to_numpy() for name in ("seq", "value"))
        order = np.lexsort((seq, batch.key_of_row))
        before = np.empty(len(value))
        before[1:] = value[order][:-1]
        before[batch.starts] = self.last.get().to_numpy(zero_copy_only=False)
        ends = np.append(batch.starts[1:], len(value)) - 1
        self.last.update(value[order][ends])
        hit = np.flatnonzero(np.abs(value[order] - before) > JUMP)
        return batch.rows.take(pa.array(order[hit])).append_column("before", pa.array(before[hit]))


class _Query:
    """A query that works on a file whenever it is given one."""

    def __init__(self, spark: SparkSession, where: Path, processor: Any, *, pipelined: bool) -> None:
        self._inbox = where / "in"
        self._inbox.mkdir(parents=True)
        self._done = threading.Semaphore(0)
        self.jumps = 0
        frame = spark.readStream.schema("sensor string, seq bigint, value double").option("maxFilesPerTrigger", 1)
        spark.conf.set(PIPELINED, str(pipelined).lower())
        out = run_processor(frame.parquet(str(self._inbox)), processor, "sensor")
        writer = out.writeStream.foreachBatch(self._batch).option("checkpointLocation", str(where / "query"))
        self.query = writer.start()

    def _batch(self, frame: DataFrame, _: int) -> None:
        clock = Clock()
        self.jumps += frame.count()
        self._seen = clock.read(0)
        self._done.release()

    def feed(self, file: Path, rows: int) -> Timing:
        """What one batch took, without the query's own rounds before and after it."""
        os.link(file, self._inbox / file.name)
        while not self._done.acquire(timeout=1):
            if not self.query.isActive:
                raise RuntimeError(str(self.query.exception()))
        return Timing(self._seen.wall_s, self._seen.cpu_s, rows)


def keyed(spark: SparkSession, sizes: Sequence[int] = SIZES, rounds: int = 3) -> None:
    """Rows a second and CPU seconds, in batches of several sizes."""
    spark.conf.set("spark.sql.streaming.pollingDelay", "1s")
    with scratch() as where:
        contenders = {
            "process, as Spark does it": _Query(spark, where / "a", ByRows(), pipelined=False),
            "process": _Query(spark, where / "b", ByRows(), pipelined=True),
            "process_batches": _Query(spark, where / "c", ByColumns(), pipelined=True),
            "process_batches, as Spark does it": _Query(spark, where / "d", ByColumns(), pipelined=False),
        }
        (where / "files").mkdir()
        number = itertools.count()
        for size in sizes:
            made = [_file(where / "files", next(number), size) for _ in range(rounds)]
            turns = {name: iter(made) for name in contenders}

            def work(name: str, size: int = size, turns: dict[str, Iterator[Path]] = turns) -> Callable[[], Timing]:
                return lambda: contenders[name].feed(next(turns[name]), size)

            title = f"keyed state, {KEYS:,} keys, batches of {size:,} rows"
            compare(title, "rows", {name: work(name) for name in contenders}, rounds=rounds)
            if len({each.jumps for each in contenders.values()}) != 1:
                raise RuntimeError(f"not the same: {[each.jumps for each in contenders.values()]}")
        for each in contenders.values():
            each.query.stop()


def _file(where: Path, number: int, size: int) -> Path:
    """Readings of sensors, in no order."""
    chance = np.random.default_rng(number)
    sensors = np.char.add("sensor-", chance.integers(0, KEYS, size).astype(str))
    table = pa.table(
        {
            "sensor": pa.array(sensors),
            "seq": pa.array(number * 10_000_000 + np.arange(size)),
            "value": pa.array(np.round(20 + chance.normal(0, 1.6, size), 3)),
        }
    )
    file = where / f"{number:05d}.parquet"
    pq.write_table(table, file, row_group_size=max(1, size // 8))
    os.utime(file, (time.time() - 100_000 + number,) * 2)
    return file
