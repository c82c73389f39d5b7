"""Jobs that prove themselves: every row that comes out says which row went in.

``build`` makes a job of a given shape from plain data, so that a test can make it in its own process, and
``HEADGATE_SHAPE`` (JSON) lets ``headgate run shapes.py`` make the same one in another.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, functions as F  # noqa: N812 - Spark's custom

import headgate as hg


class Counting(hg.Processor):
    """Says of each row the how-manieth of its key it is, by state alone."""

    output = "n bigint, key string, place bigint"

    def open(self, state: Any) -> None:
        self.seen = state.value("seen", "bigint")

    def process(self, key: Any, rows: Iterator[Any], context: hg.Context) -> Iterator[Any]:  # noqa: ARG002
        seen = self.seen.get() or 0
        for row in rows:
            seen += 1
            yield Row(n=row.n, key=key, place=seen)
        self.seen.update(seen)


class CountingColumns(hg.BatchProcessor):
    """The same by columns. Where there is a flag to leave, it fails once, after it has changed state."""

    output = Counting.output

    def __init__(self, flag: str = "") -> None:
        self.flag = flag

    def open(self, state: hg.BatchState) -> None:
        self.seen = state.value("seen", "bigint")

    def process(self, batch: hg.KeyedBatch) -> Any:
        before = self.seen.get().fill_null(0).to_numpy()
        place = np.arange(batch.rows.num_rows) - batch.starts[batch.key_of_row] + before[batch.key_of_row] + 1
        counts = np.diff(batch.starts, append=batch.rows.num_rows)
        self.seen.update(before + counts)
        if self.flag and not Path(self.flag).exists() and before.any():
            Path(self.flag).touch()
            raise hg.ExternalError("this batch does not please")
        yield batch.rows.select(["n", "key"]).append_column("place", pa.array(place))


class Collecting(hg.WindowProcessor):
    """All rows of each window. It fails once, when some windows have come out and others are about to."""

    output = "key string, begins timestamp, numbers array<bigint>"

    def __init__(self, flag: str) -> None:
        self.flag = flag

    def process(self, batch: hg.WindowBatch) -> Any:
        names = ["key", "begins", "numbers"]
        columns = [batch.windows["key"], batch.windows["window_start"], batch.by_window("n")]
        whole = pa.table(columns, names=names)
        yield whole.slice(0, len(batch) // 2)
        if not Path(self.flag).exists() and min(batch.rows["n"].to_pylist()) > 0:
            Path(self.flag).touch()
            raise hg.ExternalError("these windows do not please")
        yield whole.slice(len(batch) // 2)


def build(
    shape: str,
    directory: str,
    *,
    rows: int = 20_000,
    batches: int = 20,
    slow_ms: int = 0,
    left_slow_ms: int = 0,
    fail_at: int | None = None,
    keys: int = 20,
    shared: dict[str, str] | None = None,
    backend: str = "rocksdb",
    name: str = "job",
    **checkpoint: Any,
) -> hg.Job:
    settings: dict[str, Any] = {
        "interval": "1s",
        "storage": f"{directory}/storage",
        "tolerable_failed_checkpoints": 100,
    }
    settings.update(checkpoint)
    job = hg.Job(
        name,
        checkpoint=hg.Checkpointing(**settings),
        restart=hg.restart.fixed_delay(delay="200ms"),
        state_backend=hg.state_backend.rocksdb() if backend == "rocksdb" else hg.state_backend.hashmap(),
        spark_conf={"spark.sql.shuffle.partitions": "2", **(shared or {})},
    )
    source = hg.generator.source(
        rows=rows, rows_per_batch=rows // batches, keys=keys, out_of_order="2s", event_step_ms=20
    )
    rows_in = job.source("rows", source)
    if slow_ms or fail_at is not None:
        rows_in = rows_in.transform("trouble", lambda frame: _trouble(frame, slow_ms, fail_at, f"{directory}/failed"))
    out = f"{directory}/out"
    match shape:
        case "fork":
            rows_in.transform("windows", _windows).sink("in-windows", hg.files.sink(f"{out}/windows"))
            rows_in.sink("plain", hg.files.sink(f"{out}/plain", format="json"))
            firsts = rows_in.transform("firsts", _firsts, new_task=True)
            firsts.sink("once", hg.files.sink(f"{out}/once", format="csv"))
        case "diamond":
            # Each side has a watermark of its own, which goes through its channel: the slower one holds both back.
            left = rows_in.transform("left", lambda frame: _marked(frame, "left", left_slow_ms), new_task=True)
            right = rows_in.transform("right", lambda frame: _marked(frame, "right", 0), new_task=True)
            both = left.union("both", right, new_task=True)
            both.transform("totals", _totals).sink("totals-out", hg.files.sink(f"{out}/totals"))
        case "join":
            left = rows_in.transform("left", lambda frame: _tagged(frame, "left", 0), new_task=True)
            right = rows_in.transform("right", lambda frame: _tagged(frame, "right", 0), new_task=True)
            left.join("pairs", right, _pairs, new_task=True).sink("pairs-out", hg.files.sink(f"{out}/pairs"))
        case "random":
            drawn = rows_in.transform("draw", lambda frame: frame.withColumn("drawn", F.rand()))
            drawn.sink("one", hg.files.sink(f"{out}/one"))
            drawn.sink("two", hg.files.sink(f"{out}/two"))
            drawn.transform("later", lambda frame: frame, new_task=True).sink("three", hg.files.sink(f"{out}/three"))
        case "windows":
            rows_in.transform("windows", _windows).sink("in-windows", hg.files.sink(f"{out}/windows"))
        case "keyed":
            rows_in.process("places", Counting(), key="key").sink("places-out", hg.files.sink(f"{out}/places"))
        case "columns":
            counting = CountingColumns(f"{directory}/failed")
            rows_in.process_batches("places", counting, key="key").sink("places-out", hg.files.sink(f"{out}/places"))
        case "python-windows":
            collecting = Collecting(f"{directory}/failed-windows")
            marked = rows_in.transform("marked", lambda frame: frame.withWatermark("event_time", "5 seconds"))
            marked.sink("plain", hg.files.sink(f"{out}/plain"))
            window = hg.windows.sliding("event_time", "30s", "10s")
            collected = marked.process_windows("collected", collecting, key="key", window=window)
            collected.sink("in-windows", hg.files.sink(f"{out}/windows"))
        case _:
            raise AssertionError(shape)
    return job


def _windows(frame: DataFrame) -> DataFrame:
    return (
        frame.withWatermark("event_time", "5 seconds")
        .groupBy("key", F.window("event_time", "30 seconds"))
        .agg(F.collect_list("n").alias("numbers"))
        .select("key", F.col("window.start").alias("begins"), "numbers")
    )


def _firsts(frame: DataFrame) -> DataFrame:
    return frame.withWatermark("event_time", "5 seconds").dropDuplicates(["n", "event_time"]).select("n", "key", "seq")


def _tagged(frame: DataFrame, tag: str, slow_ms: int) -> DataFrame:
    if slow_ms:
        frame = _trouble(frame, slow_ms, None, "")
    return frame.select("n", "key", "event_time", F.lit(tag).alias("side"))


def _marked(frame: DataFrame, tag: str, slow_ms: int) -> DataFrame:
    return _tagged(frame, tag, slow_ms).withWatermark("event_time", "5 seconds")


def _totals(frame: DataFrame) -> DataFrame:
    return (
        frame.groupBy("side", F.window("event_time", "30 seconds"))
        .agg(F.collect_list("n").alias("numbers"))
        .select("side", "numbers")
    )


def _pairs(left: DataFrame, right: DataFrame) -> DataFrame:
    a = left.withWatermark("event_time", "5 seconds").alias("a")
    b = right.withWatermark("event_time", "5 seconds").alias("b")
    same = F.expr("a.n = b.n and a.event_time = b.event_time")
    return a.join(b, same).select(F.col("a.n").alias("n"))


def _trouble(frame: DataFrame, slow_ms: int, fail_at: int | None, flag: str) -> DataFrame:
    """Work slowly, and fail once at a certain row."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(slow_ms / 1000)
            if fail_at is not None and fail_at in batch.column("n").to_pylist() and not Path(flag).exists():
                Path(flag).touch()
                raise hg.ExternalError(f"row {fail_at} does not please")
            yield batch

    return frame.mapInArrow(work, frame.schema)


if "HEADGATE_SHAPE" in os.environ and __name__ == "__headgate__":
    job = build(**json.loads(os.environ["HEADGATE_SHAPE"]))
