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
from pyspark.sql import DataFrame, Row, SparkSession, functions as F  # noqa: N812 - Spark's custom

from headgate import windows
from headgate.errors import InvalidJob
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
                        "zone": zone,
                        "key": name,
                        "start": start,
                        "end": end,
                        "seqs": rows["seq"].to_pylist(),
                        "value": float(total),
                        "same": pc.all(inside).as_py(),
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


@pytest.mark.parametrize(
    "window", [pytest.param(TUMBLING, marks=pytest.mark.long, id="tumbling"), pytest.param(SLIDING, id="sliding")]
)
@pytest.mark.parametrize("pipelined", ["true", pytest.param("false", marks=pytest.mark.long)])
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


def test_spark_has_one_hash_for_what_is_one_key(spark: SparkSession) -> None:
    """Rows of one key are in one group of keys."""
    nan = "CAST('NaN' AS DOUBLE)"
    found = spark.sql(
        f"SELECT hash(0.0D) = hash(-0.0D), hash(0.0F) = hash(-0.0F), hash({nan}) = hash(-{nan})"
    ).collect()
    assert tuple(found[0]) == (True, True, True)


class Ends(WindowProcessor):
    """The rows of each window; its end is the time of what comes out."""

    output = "key string, end timestamp, rows long"
    event_time = "end"

    def process(self, batch: WindowBatch) -> pa.Table:
        lengths = pc.list_value_length(batch.by_window("seq")).cast(pa.int64())
        columns = [batch.windows["key"], batch.windows["window_end"], lengths]
        return pa.table(columns, names=["key", "end", "rows"])


def test_what_windows_give_carries_event_time_on_to_other_windows(spark: SparkSession, tmp_path: Path) -> None:
    """Tens of seconds, then minutes of these, in one query."""
    times = [0, 9.5, 10, 55, 59.999, 60, 61, 130, 300]
    for number, part in enumerate((times[:4], times[4:7], times[7:8], times[8:])):
        rows = [{"key": "a", "seq": 1, "at": START + timedelta(seconds=at)} for at in part]
        write(tmp_path / "in", number, rows)
    spark.conf.set(PIPELINED, "true")
    tens = run_windows(marked(spark, tmp_path / "in"), Ends(), "key", windows.tumbling("at", "10s"))
    minutes = tens.groupBy("key", F.window("end", "1 minute", startTime="1 second")).agg(F.sum("rows").alias("rows"))
    found = run_dry(minutes.select("window.start", "rows"), tmp_path)
    assert sorted(((row.start.timestamp() - START.timestamp()), row.rows) for row in found) == [
        (1.0, 5),
        (61.0, 2),
        (121.0, 1),
    ]


class Broken(WindowProcessor):
    """Goes wrong."""

    output = "key string"

    def process(self, batch: WindowBatch) -> Any:
        raise ValueError(f"window {batch.windows['key'][0]} is broken")


def test_what_goes_wrong_in_a_window_is_told_in_its_own_words(spark: SparkSession, tmp_path: Path) -> None:
    for number, minutes in enumerate((0, 9)):
        write(tmp_path / "in", number, [{"key": "a", "at": START + timedelta(minutes=minutes)}])
    spark.conf.set(PIPELINED, "true")
    with pytest.raises(PySparkException, match="ValueError: window a is broken") as failed:
        run_dry(run_windows(marked(spark, tmp_path / "in"), Broken(), "key", TUMBLING), tmp_path)
    assert "test_windows.py" in str(failed.value), "the user's line"


def test_rows_that_are_not_what_was_kept_are_refused_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, [{"key": "a", "at": START}])
    spark.conf.set(PIPELINED, "true")
    run_dry(run_windows(marked(spark, tmp_path / "in"), Whole(), ["zone", "key"], TUMBLING), tmp_path)
    write(tmp_path / "in", 1, [{"key": "a", "at": START + timedelta(minutes=9)}])
    other = marked(spark, tmp_path / "in").withColumn("value", F.col("value").cast("string"))
    with pytest.raises(
        PySparkException, match=r"STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE|STATE_STORE_INVALID_VALUE_SCHEMA"
    ):
        run_dry(run_windows(other, Whole(), ["zone", "key"], TUMBLING), tmp_path)


@pytest.mark.parametrize(
    ("key", "window", "says"),
    [
        ("name", TUMBLING, "there is no column 'name' among key, zone, seq, value, at, both"),
        ("key", windows.tumbling("when", "1min"), "there is no column 'when' among"),
        (["key", "at"], TUMBLING, "'at' is the column of event time and cannot be a part of the key"),
        (["key", "both"], TUMBLING, "the key 'both' is of type struct<zone:int>: name columns of plain types"),
        ("key", windows.tumbling("seq", "1min"), r"column 'seq' has no watermark, .* rows.withWatermark\('seq', "),
    ],
)
def test_what_can_be_no_window_is_refused(
    spark: SparkSession, tmp_path: Path, key: Any, window: windows.WindowAssigner, says: str
) -> None:
    frame = marked(spark, tmp_path).withColumn("both", F.struct("zone"))
    with pytest.raises(InvalidJob, match=says):
        run_windows(frame, Whole(), key, window)


def test_a_column_with_the_name_of_a_windows_end_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = marked(spark, tmp_path).withColumn("Window_End", F.lit(1))
    with pytest.raises(InvalidJob, match="the stream has a column 'Window_End', as windows do"):
        run_windows(frame, Whole(), "key", TUMBLING)
