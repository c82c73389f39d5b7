"""All rows of closed windows in Python: as tables and as rows in state, and collected by Spark, on the same rows."""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls it

import headgate as hg
from bench.jobs import scratch
from bench.side_by_side import Clock, Timing, compare
from headgate.job.processor import WATERMARK, run_processor, run_windows

KEYS = 10_000
SHAPES = ((500_000, 2), (100_000, 2), (20_000, 20))
"""Rows in a batch, and batches in a window. A round is a window."""
WINDOW_S = 600
APART_S = 1_000 * WINDOW_S
"""From the first window of a shape to that of the next."""
COLUMNS = "sensor string, seq bigint, value double, at timestamp"
ROW = "struct<seq: bigint, value: double, at: timestamp>"
OUTPUT = "sensor string, rows bigint, total double"


class Totals(hg.WindowProcessor):
    """What is in each window, all windows at once."""

    output = OUTPUT

    def process(self, batch: hg.WindowBatch) -> pa.Table:
        """All windows at once."""
        total = np.add.reduceat(batch.rows["value"].to_numpy(), batch.starts)
        rows = np.diff(batch.starts, append=batch.rows.num_rows)
        return pa.table({"sensor": batch.windows["sensor"], "rows": rows, "total": total})


class EachWindow(hg.WindowProcessor):
    """The same, window by window."""

    output = OUTPUT

    def process(self, batch: hg.WindowBatch) -> pa.Table:
        """One by one."""
        found = [(window.key, window.rows.num_rows, pc.sum(window.rows["value"]).as_py()) for window in batch]
        sensors, rows, totals = zip(*found, strict=True)
        return pa.table({"sensor": sensors, "rows": rows, "total": totals})


class InRows(hg.BatchProcessor):
    """The same with ``process_batches``: each row is an item of a list."""

    output = OUTPUT
    time = "event"

    def open(self, state: hg.BatchState) -> None:
        """The rows of each window."""
        self.rows = state.list("rows", ROW)

    def process(self, batch: hg.KeyedBatch) -> None:
        """Keep them."""
        offsets = pa.array([*batch.starts.tolist(), batch.rows.num_rows], pa.int32())
        kept = batch.rows.select(["seq", "value", "at"]).combine_chunks().to_struct_array().combine_chunks()
        self.rows.append(pa.ListArray.from_arrays(offsets, kept))
        batch.timer_at(batch.keys["window_end"])

    def on_timers(self, batch: hg.KeyedBatch) -> pa.Table:
        """Give them."""
        found = self.rows.get()
        values = found.values.field("value").to_numpy(zero_copy_only=False)
        total = np.add.reduceat(values, found.offsets.to_numpy()[:-1])
        self.rows.clear()
        return pa.table(
            {"sensor": batch.keys["sensor"], "rows": pc.list_value_length(found).cast(pa.int64()), "total": total}
        )


def with_windows(processor: hg.WindowProcessor) -> Callable[[DataFrame], DataFrame]:
    """A window processor on a stream."""
    return lambda frame: run_windows(frame, processor, "sensor", hg.windows.tumbling("at", WINDOW_S))


def in_rows(frame: DataFrame) -> DataFrame:
    """A batch processor that keeps rows, on a stream."""
    ends = frame.withColumn("window_end", F.window("at", f"{WINDOW_S} seconds").getField("end"))
    marked = ends.withMetadata("at", {}).withMetadata("window_end", {WATERMARK: 0})
    return run_processor(marked, InRows(), ["sensor", "window_end"])


def by_spark(frame: DataFrame) -> DataFrame:
    """Spark collects the rows of each window, and a function in Python gets them."""
    rows = F.collect_list(F.struct("seq", "value", "at")).alias("rows")
    closed = frame.groupBy("sensor", F.window("at", f"{WINDOW_S} seconds")).agg(rows).select("sensor", "rows")

    def totals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows: Any = batch["rows"]
            values = rows.flatten().field("value").to_numpy(zero_copy_only=False)
            lengths = pc.list_value_length(rows).to_numpy()
            total: Any = np.add.reduceat(values, np.cumsum(lengths) - lengths) if len(lengths) else []
            yield pa.RecordBatch.from_pydict({"sensor": batch["sensor"], "rows": lengths.astype(int), "total": total})

    return closed.mapInArrow(totals, OUTPUT)


class _WindowQuery:
    """A query that works on a file whenever it is given one."""

    def __init__(self, spark: SparkSession, where: Path, work: Callable[[DataFrame], DataFrame]) -> None:
        self._inbox = where / "in"
        self._inbox.mkdir(parents=True)
        self._done = threading.Semaphore(0)
        self.seen: list[tuple[int, int]] = []
        frame = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(self._inbox))
        out = work(frame.withWatermark("at", "0 seconds"))
        writer = out.writeStream.foreachBatch(self._batch).option("checkpointLocation", str(where / "query"))
        self.query = writer.start()

    def _batch(self, frame: DataFrame, _: int) -> None:
        clock = Clock()
        rows, total = frame.agg(F.sum("rows"), F.round(F.sum("total"))).collect()[0]
        self.seen.append((rows or 0, total or 0))
        self._took = clock.read(0)
        self._done.release()

    def feed(self, file: Path) -> Timing:
        """What one batch took."""
        os.link(file, self._inbox / file.name)
        while not self._done.acquire(timeout=1):
            if not self.query.isActive:
                raise RuntimeError(str(self.query.exception()))
        return self._took


def windows(spark: SparkSession, shapes: Sequence[tuple[int, int]] = SHAPES, rounds: int = 3) -> None:
    """Rows a second and CPU seconds, in batches of several sizes."""
    spark.conf.set("spark.sql.streaming.pollingDelay", "1s")
    # Windows close in the batch that comes next, not in one of their own, so that each file is one batch.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    with scratch() as where:
        contenders = {
            "process_windows": _WindowQuery(spark, where / "a", with_windows(Totals())),
            "process_windows, one by one": _WindowQuery(spark, where / "b", with_windows(EachWindow())),
            "process_batches, a list of rows": _WindowQuery(spark, where / "c", in_rows),
            "collect_list, mapInArrow": _WindowQuery(spark, where / "d", by_spark),
        }
        (where / "files").mkdir()
        number = itertools.count()
        for shape, (size, batches) in enumerate(shapes):
            lasts_s = WINDOW_S // batches
            times = itertools.count(shape * APART_S, lasts_s)
            made = [
                _file(where / "files", next(number), size, next(times), lasts_s) for _ in range(batches * (rounds + 1))
            ]
            turns = {name: iter(made) for name in contenders}

            def window(
                name: str, size: int = size, turns: dict[str, Iterator[Path]] = turns, n: int = batches
            ) -> Timing:
                took = [contenders[name].feed(next(turns[name])) for _ in range(n)]
                return Timing(sum(each.wall_s for each in took), sum(each.cpu_s for each in took), n * size)

            for name in contenders:
                window(name)
            title = f"windows in Python, {KEYS:,} keys, batches of {size:,} rows, {batches} batches a window"
            compare(title, "rows", {name: partial(window, name) for name in contenders}, rounds=rounds)
            if len({tuple(each.seen) for each in contenders.values()}) != 1:
                raise RuntimeError(f"not the same: {[each.seen for each in contenders.values()]}")
        for each in contenders.values():
            each.query.stop()
    spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")


def _file(where: Path, number: int, size: int, begins_s: int, lasts_s: int) -> Path:
    """Readings of sensors within some seconds, in no order."""
    chance = np.random.default_rng(number)
    at = begins_s * 1_000_000 + chance.integers(0, lasts_s * 1_000_000, size)
    table = pa.table(
        {
            "sensor": pa.array(np.char.add("sensor-", chance.integers(0, KEYS, size).astype(str))),
            "seq": pa.array(number * 10_000_000 + np.arange(size)),
            "value": pa.array(np.round(20 + chance.normal(0, 1.6, size), 3)),
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
        }
    )
    file = where / f"{number:05d}.parquet"
    pq.write_table(table, file, row_group_size=max(1, size // 8))
    os.utime(file, (time.time() - 100_000 + number,) * 2)
    return file
