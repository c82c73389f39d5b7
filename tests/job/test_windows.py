"""Windows by columns on Spark itself, against what Spark's own ``groupBy(window)`` gives of the same rows."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, functions as F

from headgate import windows
from headgate.errors import InvalidJob
from headgate.job import in_windows
from headgate.job.processor import PIPELINED, run_windows
from headgate.job.window import WindowBatch, WindowProcessor
from tests.job.test_batches import START, run_dry, stream, write

DELAY = timedelta(seconds=60)
TUMBLING = windows.tumbling("at", "1min", offset="7s")
SLIDING = windows.sliding("at", "90s", "30s")


def some_rows(batches: int, count: int) -> list[list[dict[str, Any]]]:
    """Rows in some disorder: each batch is about a minute, some rows are late, and some have no time at all."""
    chance = random.Random(11)
    keys: list[str | None] = [None, *(f"k{number}" for number in range(5))]
    found = []
    for batch in range(batches):
        rows: list[dict[str, Any]] = []
        for number in range(count):
            seconds = batch * 60 + chance.uniform(0, 60) - chance.choice([0, 0, 0, 30, 90, 150, 240])
            at = START + timedelta(microseconds=round(seconds * 1_000_000))
            if chance.random() < 0.2:
                at = at.replace(second=at.second // 30 * 30, microsecond=0)
            row = {"key": chance.choice(keys), "zone": chance.choice([None, 1]), "seq": batch * count + number}
            value = None if chance.random() < 0.1 else float(chance.randint(-9, 9))
            rows.append({**row, "value": value, "at": None if chance.random() < 0.05 else at})
        found.append(rows)
    return found


OUTPUT = "zone int, key string, start timestamp, end timestamp, seqs array<long>, value double, same boolean"


class Whole(WindowProcessor):
    """What is in each window, all windows at once."""

    output = OUTPUT

    def process(self, batch: WindowBatch) -> pa.Table:
        assert pc.max(batch.windows["window_end"]).as_py().timestamp() * 1_000 <= batch.watermark_ms
        assert batch.rows.column_names == ["window_start", "window_end", "key", "zone", "seq", "value", "at"]
        of_window = batch.windows.take(pa.array(batch.window_of_row))
        assert all(batch.rows[name].equals(of_window[name]) for name in of_window.column_names)
        sums = [sum(filter(None, each)) for each in batch.by_window("value").to_pylist()]
        return pa.table(
            {
                "zone": batch.windows["zone"],
                "key": batch.windows["key"],
                "start": batch.windows["window_start"],
                "end": batch.windows["window_end"],
                "seqs": batch.by_window("seq"),
                "value": pa.array(sums, pa.float64()),
                "same": pa.repeat(pa.scalar(value=True), len(batch)),
            }
        )


class OneByOne(WindowProcessor):
    """The same, window by window."""

    output = OUTPUT

    def process(self, batch: WindowBatch) -> Iterator[pa.Table]:
        for key, start, end, rows in batch:
            inside = pc.and_(pc.less_equal(start, rows["at"]), pc.less(rows["at"], end))
            total = pc.sum(rows["value"], min_count=0).as_py()
            zone, name = key
            yield pa.Table.from_pylist(
                [
                    {
                        **{"zone": zone, "key": name, "start": start, "end": end, "value": float(total)},
                        **{"seqs": rows["seq"].to_pylist(), "same": pc.all(inside).as_py()},
                    }
                ],
                schema=pa.schema(
                    [
                        *[("zone", pa.int32()), ("key", pa.string()), ("start", pa.timestamp("us", "UTC"))],
                        *[("end", pa.timestamp("us", "UTC")), ("seqs", pa.list_(pa.int64()))],
                        *[("value", pa.float64()), ("same", pa.bool_())],
                    ]
                ),
            )


def marked(spark: SparkSession, where: Path) -> DataFrame:
    return stream(spark, where).withWatermark("at", f"{DELAY.seconds} seconds")


def by_spark(spark: SparkSession, where: Path, window: windows.WindowAssigner) -> DataFrame:
    """What Spark's own windows give."""
    size, slide, offset = (f"{each} milliseconds" for each in (window.size_ms, window.slide_ms, window.offset_ms))
    grouped = marked(spark, where).groupBy("zone", "key", F.window("at", size, slide, offset))
    total = F.coalesce(F.sum("value"), F.lit(0.0)).alias("value")
    return grouped.agg(F.collect_list("seq").alias("seqs"), total).select(
        *("zone", "key", "window.start", "window.end", "seqs", "value", F.expr("true").alias("same"))
    )


def told(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return sorted(((r.zone, r.key, r.start, r.end, sorted(r.seqs), r.value, r.same) for r in rows), key=repr)


@pytest.mark.parametrize("window", [TUMBLING, SLIDING], ids=["tumbling", "sliding"])
@pytest.mark.parametrize("pipelined", ["true", "false"])
def test_windows_are_those_of_spark_with_the_same_rows_and_the_same_late_ones(
    spark: SparkSession, tmp_path: Path, window: windows.WindowAssigner, pipelined: str
) -> None:
    for number, rows in enumerate(some_rows(4, 80)):
        write(tmp_path / "in", number, rows)
    spark.conf.set(PIPELINED, pipelined)
    processor = Whole() if pipelined == "true" else OneByOne()
    ours = run_dry(run_windows(marked(spark, tmp_path / "in"), processor, ["zone", "key"], window), tmp_path)
    theirs = run_dry(by_spark(spark, tmp_path / "in", window), tmp_path, "theirs")
    assert told(ours) == told(theirs)
    counts = Counter(seq for row in ours for seq in row.seqs)
    assert max(counts.values()) == window.size_ms // window.slide_ms
    assert len(counts) < 4 * 80, "some rows were late"
