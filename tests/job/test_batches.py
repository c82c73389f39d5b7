"""Keyed state by columns on Spark itself, through the pipe and in Spark's own way, against a model of each key."""

import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import CalendarIntervalType

from headgate.errors import InvalidJob
from headgate.job.batches import BatchProcessor, BatchState, KeyedBatch
from headgate.job.keyed import KeyedState
from headgate.job.processor import PIPELINED, Context, Processor, rehearse, run_processor

START = datetime(2024, 1, 1, 12, tzinfo=UTC)
WAIT_S = 180.0
COLUMNS = "key string, zone int, seq long, value double, at timestamp"


def write(where: Path, number: int, rows: Sequence[dict[str, Any]]) -> None:
    where.mkdir(exist_ok=True)
    file = where / f"{number}.json"
    file.write_text("\n".join(json.dumps(row, default=datetime.isoformat) for row in rows))
    os.utime(file, (number, number))


def stream(spark: SparkSession, where: Path) -> DataFrame:
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(where))


def run_dry(frame: DataFrame, where: Path, name: str = "query") -> list[Row]:
    """What a query gives until nothing is left to do."""
    found: list[Row] = []
    writer = frame.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
    writer = writer.option("checkpointLocation", str(where / name)).trigger(availableNow=True)
    writer.start().awaitTermination()
    return found


def some_rows(batches: int, count: int) -> list[list[dict[str, Any]]]:
    """Rows of keys that come again, some without a name, each with a number of its own."""
    chance = random.Random(7)
    keys: list[str | None] = [None, *(f"k{number}" for number in range(12))]
    found = []
    for batch in range(batches):
        rows = []
        for number in range(count):
            seq = batch * count + number
            key, zone = chance.choice(keys), chance.choice([None, 1, 2])
            value = None if chance.random() < 0.1 else chance.randint(-50, 50) / 4
            rows.append({"key": key, "zone": zone, "seq": seq, "value": value, "at": START + timedelta(seconds=seq)})
        found.append(rows)
    return found


class Everything(BatchProcessor):
    """Every kind of state, told before it is changed."""

    output = (
        "key string, zone int, seqs array<long>, count long, last struct<seq: long, at: timestamp>, "
        "all array<long>, values map<long, double>"
    )

    def open(self, state: BatchState) -> None:
        self.count = state.value("count", "long")
        self.last = state.value("last", "struct<seq: long, at: timestamp>")
        self.all = state.list("all", "long")
        self.values = state.map("values", "long", "double")

    def process(self, batch: KeyedBatch) -> pa.Table:
        seqs = batch.by_key("seq")
        rows = pa.table(
            {
                "key": batch.keys["key"],
                "zone": batch.keys["zone"],
                "seqs": seqs,
                "count": self.count.get(),
                "last": self.last.get(),
                "all": self.all.get(),
                "values": self.values.get(),
            }
        )
        lengths = np.diff(batch.starts, append=batch.rows.num_rows)
        self.count.update(pc.add(pc.fill_null(rows["count"], 0), pa.array(lengths)))
        assert pc.min(self.count.get()).as_py() > 0, "what was written is there at once"
        newest = [max(each, key=lambda row: row["seq"]) for each in self._by_key(batch)]
        odd = [row["seq"] % 5 > 0 for row in newest]
        self.last.update([None if row["seq"] % 3 == 0 else {k: row[k] for k in ("seq", "at")} for row in newest], odd)
        full = pc.greater(pc.list_value_length(rows["all"]), 6).combine_chunks()
        self.all.append(seqs, where=pc.invert(full))
        self.all.put(seqs, where=full)
        self.values.update([{row["seq"] % 7: row["value"] for row in each} for each in self._by_key(batch)])
        self.values.remove([[row["seq"] % 4 for row in each] for each in self._by_key(batch)])
        self.values.clear(where=[row["seq"] % 6 == 0 for row in newest])
        return rows

    @staticmethod
    def _by_key(batch: KeyedBatch) -> list[list[dict[str, Any]]]:
        found: list[list[dict[str, Any]]] = [[] for _ in range(batch.keys.num_rows)]
        for place, row in zip(batch.key_of_row.tolist(), batch.rows.to_pylist(), strict=True):
            found[place].append(row)
        return [sorted(each, key=lambda row: int(row["seq"])) for each in found]


def model(batches: Sequence[Sequence[dict[str, Any]]]) -> list[tuple[Any, ...]]:
    """The same, key by key, in plain Python."""
    kept: dict[Any, dict[str, Any]] = defaultdict(lambda: {"count": None, "last": None, "all": [], "values": {}})
    told = []
    for batch in batches:
        keys: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for row in batch:
            keys[row["key"], row["zone"]].append(row)
        for key, rows in keys.items():
            state, seqs = kept[key], [row["seq"] for row in rows]
            told.append((*key, sorted(seqs), state["count"], state["last"], sorted(state["all"]), {**state["values"]}))
            state["count"] = (state["count"] or 0) + len(rows)
            newest = max(rows, key=lambda row: int(row["seq"]))
            if newest["seq"] % 5:
                state["last"] = None if newest["seq"] % 3 == 0 else (newest["seq"], newest["at"])
            state["all"] = seqs if len(state["all"]) > 6 else state["all"] + seqs
            for row in rows:
                state["values"][row["seq"] % 7] = row["value"]
            for row in rows:
                state["values"].pop(row["seq"] % 4, None)
            if newest["seq"] % 6 == 0:
                state["values"].clear()
    return sorted(told, key=repr)


def told(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    def last(row: Row) -> Any:
        return None if row["last"] is None else (row["last"].seq, row["last"].at.astimezone(UTC))

    return sorted(
        ((r.key, r.zone, sorted(r.seqs), r["count"], last(r), sorted(r["all"]), r["values"]) for r in rows), key=repr
    )


@pytest.mark.parametrize("pipelined", ["true", "false"])
def test_state_by_columns_is_what_a_model_of_each_key_says(spark: SparkSession, tmp_path: Path, pipelined: str) -> None:
    batches = some_rows(3, 60)
    for number, rows in enumerate(batches):
        write(tmp_path / "in", number, rows)
    spark.conf.set(PIPELINED, pipelined)
    frame = run_processor(stream(spark, tmp_path / "in"), Everything(), ["key", "zone"])
    assert told(run_dry(frame, tmp_path)) == model(batches)


class Silence(BatchProcessor):
    """Says of each sensor that was silent for three, four and five minutes of event time since when it is."""

    output = "key string, at_ms long, since timestamp, timers int"
    time = "event"

    def open(self, state: BatchState) -> None:
        self.last = state.value("last", "timestamp")

    def process(self, batch: KeyedBatch) -> None:
        before = self.last.get()
        times = [max(filter(None, [*came, last])) for came, last in zip(*self._came(batch, before), strict=True)]
        for minutes in (3, 4, 5):
            batch.cancel_timer(pc.add(before, pa.scalar(timedelta(minutes=minutes))))
            batch.timer_at([round((last + timedelta(minutes=minutes)).timestamp() * 1_000) for last in times])
        batch.timer_at(START + timedelta(days=9))
        batch.cancel_timer(START + timedelta(days=9))
        self.last.update(times)
        assert set(pc.list_value_length(batch.timers()).to_pylist()) == {3}

    def on_timers(self, batch: KeyedBatch) -> Iterator[pa.Table]:
        assert pc.max(batch.rows["at_ms"]).as_py() <= batch.watermark_ms
        since = self.last.get().take(pa.array(batch.key_of_row))
        timers = pc.list_value_length(batch.timers()).take(pa.array(batch.key_of_row))
        yield pa.table([*batch.rows.columns, since, pc.min_element_wise(timers, 1)], names=self.names)

    names = ("key", "at_ms", "since", "timers")

    @staticmethod
    def _came(batch: KeyedBatch, before: pa.Array) -> tuple[list[list[datetime]], list[datetime | None]]:
        return batch.by_key("at").to_pylist(), before.to_pylist()


@pytest.mark.parametrize("pipelined", ["true", "false"])
def test_timers_by_columns_come_once_when_the_watermark_has_passed_them(
    spark: SparkSession, tmp_path: Path, pipelined: str
) -> None:
    came: list[list[tuple[str, float]]] = [[("a", 0), ("b", 0)], [("a", 4)], [("c", 7)], [("c", 8.5)]]
    for number, batch in enumerate(came):
        rows = [{"key": key, "seq": number, "at": START + timedelta(minutes=at)} for key, at in batch]
        write(tmp_path / "in", number, rows)
    spark.conf.set(PIPELINED, pipelined)
    frame = stream(spark, tmp_path / "in").withWatermark("at", "1 minute")
    told = run_dry(run_processor(frame, Silence(), "key"), tmp_path)
    minutes = sorted((row.key, round(row.at_ms - START.timestamp() * 1_000) // 60_000) for row in told)
    # The watermark comes to 7.5: all three of b have passed, and of a, which is silent since 4, one.
    assert minutes == [("a", 7), ("b", 3), ("b", 4), ("b", 5)]
    assert {(row.key, row.since.astimezone(UTC), row.timers) for row in told} == {
        ("a", START + timedelta(minutes=4), 1),
        ("b", START, 1),
    }


class Briefly(BatchProcessor):
    """What is left of two values in the next batch, one of which lives for a moment only."""

    output = "key string, long double, short double"
    time = "processing"

    def open(self, state: BatchState) -> None:
        self.long = state.value("long", "double", ttl="1h")
        self.short = state.value("short", "double", ttl="1ms")

    def process(self, batch: KeyedBatch) -> pa.Table:
        assert batch.processing_ms > 0
        rows = pa.table({"key": batch.keys["key"], "long": self.long.get(), "short": self.short.get()})
        for state in (self.long, self.short):
            state.update(pc.list_element(batch.by_key("value"), 0))
        return rows


def test_a_value_that_has_expired_is_not_seen_again(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / "in", number, [{"key": key, "value": number + 0.5} for key in ("a", "b")])
    spark.conf.set(PIPELINED, "true")
    found: list[Row] = []
    frame = run_processor(stream(spark, tmp_path / "in"), Briefly(), "key")
    writer = frame.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "query")).start()
    deadline = time.monotonic() + WAIT_S
    while len(found) < 4:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    query.stop()
    after = sorted((row.key, row.long, row.short) for row in found if row.long is not None)
    assert after == [("a", 0.5, None), ("b", 0.5, None)]


class ByKey(Processor):
    """How many rows of a key there were, and which."""

    output = "key string, count long, all array<long>, last timestamp"

    def open(self, state: KeyedState) -> None:
        self.count = state.value("count", "long")
        self.last = state.value("last", "timestamp")
        self.all = state.list("all", "long")
        self.values = state.map("values", "long", "double")

    def process(self, key: str, rows: Iterator[Row], context: Context) -> Iterator[Row]:  # noqa: ARG002 - the base's
        some = list(rows)
        count = (self.count.get() or 0) + len(some)
        self.count.update(count)
        assert self.count.get() == count
        self.last.update(max(row.at for row in some))
        self.all.append_list([row.seq for row in some])
        for row in some:
            self.values.update_value(row.seq, row.value)
        assert self.values.get_value(some[0].seq) == some[0].value
        yield Row(key=key, count=count, all=self.all.get(), last=self.last.get())


class ByColumns(BatchProcessor):
    """The same."""

    output = ByKey.output

    def open(self, state: BatchState) -> None:
        self.count = state.value("count", "long")
        self.last = state.value("last", "timestamp")
        self.all = state.list("all", "long")
        self.values = state.map("values", "long", "double")

    def process(self, batch: KeyedBatch) -> pa.Table:
        lengths = pa.array(np.diff(batch.starts, append=batch.rows.num_rows))
        self.count.update(pc.add(self.count.get().fill_null(0), lengths))
        self.last.update([max(each) for each in batch.by_key("at").to_pylist()])
        self.all.append(batch.by_key("seq"))
        pairs = zip(batch.by_key("seq").to_pylist(), batch.by_key("value").to_pylist(), strict=True)
        self.values.update([dict(zip(seqs, values, strict=True)) for seqs, values in pairs])
        assert pc.list_value_length(self.all.get()).equals(self.count.get().cast(pa.int32()))
        columns = [batch.keys["key"], self.count.get(), self.all.get(), self.last.get()]
        return pa.table(columns, names=["key", "count", "all", "last"])


def test_every_way_goes_on_with_the_state_that_another_left(spark: SparkSession, tmp_path: Path) -> None:
    """A checkpoint of a processor that ran in Spark's own way is one for all."""
    batches = some_rows(5, 40)
    ways = [(ByKey(), "false"), (ByKey(), "true"), (ByColumns(), "true"), (ByColumns(), "false"), (ByKey(), "true")]
    seen: dict[Any, list[int]] = defaultdict(list)
    for number, ((processor, pipelined), rows) in enumerate(zip(ways, batches, strict=True)):
        write(tmp_path / "in", number, rows)
        spark.conf.set(PIPELINED, pipelined)
        found = run_dry(run_processor(stream(spark, tmp_path / "in"), processor, "key"), tmp_path)
        for row in rows:
            seen[row["key"]].append(row["seq"])
        newest = {row["key"]: row["at"] for row in rows}
        assert sorted(
            ((r.key, r["count"], sorted(r["all"]), r["last"].astimezone(UTC)) for r in found), key=repr
        ) == sorted(((key, len(seen[key]), seen[key], at) for key, at in newest.items()), key=repr), (number, pipelined)


class Wrong(BatchProcessor):
    """Goes wrong in a way of its own."""

    output = "key string, n long"

    def __init__(self, way: str) -> None:
        self.way = way

    def open(self, state: BatchState) -> None:
        self.count = state.value("count", "long")

    def process(self, batch: KeyedBatch) -> Any:
        match self.way:
            case "raises":
                raise ValueError("reading 17 is broken")
            case "text":
                self.count.update(pa.array(["1"] * batch.keys.num_rows))
            case "many":
                self.count.update([1, 2, 3, 4])
            case "timer":
                batch.timer_at(5)
            case "columns":
                yield pa.table({"key": batch.keys["key"], "m": [1] * batch.keys.num_rows})
            case "output":
                yield pa.table({"key": batch.keys["key"], "n": ["1"] * batch.keys.num_rows})
            case _:
                yield {"key": "a", "n": 1}


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("raises", "ValueError: reading 17 is broken"),
        ("text", "state 'count' does not fit its type int64: it is string"),
        ("many", "state 'count': 4 values for "),
        ("timer", "a timer needs a time to go by"),
        ("columns", r"Wrong gave the columns key, m, which do not fit its output \(key, n\): give exactly these"),
        ("output", "Wrong: column 'n' of its output does not fit its type int64: it is string"),
        ("rows", "Wrong gave a dict: give a table of Arrow, or a DataFrame"),
    ],
)
def test_what_goes_wrong_is_told_in_its_own_words(spark: SparkSession, way: str, says: str) -> None:
    spark.conf.set(PIPELINED, "true")
    frame = spark.createDataFrame([("a", 1), ("b", 2)], "key string, n long")
    with pytest.raises(PySparkException, match=says) as failed:
        run_processor(frame, Wrong(way), "key").collect()
    if way in {"raises", "text", "many", "timer"}:
        assert "test_batches.py" in str(failed.value), "the user's line"


def test_what_a_state_cannot_be_is_refused_when_the_job_is_described() -> None:
    class Odd(BatchProcessor):
        output = "key string"

        def open(self, state: BatchState) -> None:
            state.value("last", CalendarIntervalType())

        def process(self, batch: KeyedBatch) -> None: ...

    with pytest.raises(InvalidJob, match="state 'last' is of type interval, which cannot be a column of Arrow"):
        rehearse(Odd())
