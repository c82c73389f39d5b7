"""Keyed state and timers on Spark itself. The session's zone is not the machine's, so a lost zone would show."""

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import DoubleType, StructType

from headgate.errors import InvalidJob, InvalidOption
from headgate.job.keyed import KeyedState, zoned
from headgate.job.processor import Context, Processor, run_processor

START = datetime(2024, 1, 1, 12, tzinfo=UTC)
WAIT_S = 180.0


def minute(number: float) -> datetime:
    return START + timedelta(minutes=number)


def readings(spark: SparkSession, where: Path, *batches: Sequence[tuple[str, float, float]]) -> DataFrame:
    """A stream of (sensor, value, minute), one batch for each file."""
    where.mkdir()
    for number, batch in enumerate(batches):
        file = where / f"{number}.json"
        rows = [{"sensor": s, "value": v, "at": minute(at).isoformat()} for s, v, at in batch]
        file.write_text("\n".join(map(json.dumps, rows)))
        os.utime(file, (number, number))
    columns = "sensor string, value double, at timestamp"
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(str(where))


def run_dry(frame: DataFrame, where: Path) -> list[Row]:
    """What a query gives until nothing is left to do."""
    writer = frame.writeStream.format("memory").queryName(where.name).option("checkpointLocation", str(where / "query"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return frame.sparkSession.table(where.name).collect()


def run_until(frame: DataFrame, where: Path, count: int) -> list[Row]:
    """The first rows that a query gives: one that goes by the clock is never done."""
    writer = frame.writeStream.format("memory").queryName(where.name).option("checkpointLocation", str(where / "query"))
    query = writer.start()
    try:
        deadline = time.monotonic() + WAIT_S
        while len(rows := frame.sparkSession.table(where.name).collect()) < count:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, rows
            time.sleep(0.2)
    finally:
        query.stop()
    return rows


class AnomalyDetector(Processor):
    """A jump of more than 5 between two readings of a sensor is an alert; then the sensor is left alone for a while."""

    output = "sensor string, value double, last double, at timestamp"
    time = "processing"

    def open(self, state: KeyedState) -> None:
        self.last = state.value("last-value", "double", ttl="1h")
        self.quiet = state.value("quiet", "timestamp", ttl="1h")

    def process(self, key: str, rows: Iterator[Row], context: Context) -> Iterator[Row]:
        last, quiet = self.last.get(), self.quiet.get()
        for row in sorted(rows, key=lambda row: row.at):
            if last is not None and abs(row.value - last) > 5.0 and quiet is None:
                yield Row(sensor=key, value=row.value, last=last, at=row.at)
                quiet = row.at
                self.quiet.update(quiet)
                context.timer_after("1ms")
            last = row.value
        self.last.update(last)

    def on_timer(self, key: str, at_ms: int, context: Context) -> None:  # noqa: ARG002 - as the base has it
        self.quiet.clear()


def test_a_detector_alerts_once_and_again_when_its_timer_has_come(spark: SparkSession, tmp_path: Path) -> None:
    frame = readings(
        spark,
        tmp_path / "in",
        [("a", 20.0, 0), ("a", 30.0, 1), ("a", 40.0, 2), ("b", 20.0, 0)],
        [("c", 1.0, 3)],
        [("a", 41.0, 4), ("b", 26.0, 4), ("c", 2.0, 4)],
        [("a", 20.0, 5)],
    )
    rows = run_until(run_processor(frame, AnomalyDetector(), "sensor"), tmp_path, 3)
    assert sorted((row.sensor, row.value, row["last"], row.at.astimezone(UTC)) for row in rows) == [
        ("a", 20.0, 41.0, minute(5)),
        ("a", 30.0, 20.0, minute(1)),
        ("b", 26.0, 20.0, minute(4)),
    ]


class Remember(Processor):
    """Every kind of state, read before it is written."""

    output = (
        "key string, value double, short double, all array<double>, by string, zones string, timers long, "
        "by_timer boolean"
    )
    time = "processing"

    def open(self, state: KeyedState) -> None:
        self.value = state.value("value", DoubleType(), ttl="1h")
        self.short = state.value("short", "double", ttl="1ms")
        self.all = state.list("all", "double")
        self.by = state.map("by", "timestamp", "struct<n: long, at: timestamp>")
        self.times = state.list("times", "array<timestamp>")

    def process(self, key: tuple[str, float], rows: Iterator[Row], context: Context) -> Iterable[Row]:
        value, short, everything = self.value.get(), self.short.get(), self.all.get()
        before = [f"{at.astimezone(UTC):%H:%M}={n.n}" for at, n in sorted(self.by.iterator())]
        for row in rows:
            self.value.update(row.value)
            self.short.update(row.value)
            if row.value % 2:
                self.all.append_value(row.value)
            else:
                self.all.append_list([row.value])
            self.all.append_list([])
            seen = self.by.get_value(row.at)
            assert seen is None or seen.at == row.at
            self.by.update_value(row.at, (1 if seen is None else seen.n + 1, row.at))
            self.times.put([[row.at]])
            assert self.value.exists()
            assert self.all.exists()
            assert self.by.exists()
            assert self.by.contains_key(row.at)
            assert row.at in self.by.keys()  # noqa: SIM118 - Spark's name; a map state is not a dict
            assert {n.at for n in self.by.values()} == {*self.by.keys()} == {at for at, _ in self.by.iterator()}
            if row.value < 0:
                self.value.clear()
                self.all.put([])
                self.by.remove_key(row.at)
                assert not self.value.exists()
                assert not self.all.exists()
                assert not self.by.contains_key(row.at)
        ((at,),) = self.times.get()
        zones = f"{at.astimezone(UTC):%H:%M}"
        first = context.timer_after("1ms")
        dropped = context.timer_at(datetime.now(UTC) + timedelta(hours=1))
        assert max(context.timers()) == dropped
        context.cancel_timer(dropped)
        assert first in context.timers()
        assert context.processing_ms > 0
        return [
            Row(
                key=key[0],
                value=value,
                short=short,
                all=everything,
                by=" ".join(before),
                zones=zones,
                timers=len(context.timers()),
                by_timer=False,
            )
        ]

    def on_timer(self, key: tuple[str, float], at_ms: int, context: Context) -> Iterable[Row]:
        assert at_ms <= context.processing_ms
        yield Row(
            key=key[0],
            value=self.value.get(),
            short=None,
            all=self.all.get(),
            by="",
            zones="",
            timers=at_ms,
            by_timer=True,
        )


def test_state_is_there_in_the_next_batch_unless_it_was_cleared_or_has_expired(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = readings(
        spark,
        tmp_path / "in",
        [("a", 1.0, 0), ("b", 5.0, 0)],
        [("a", 2.0, 0)],
        [("a", 3.0, 1), ("b", -1.0, 0)],
        [("a", 4.0, 2), ("b", 6.0, 1)],
    ).withColumnRenamed("sensor", "key")
    rows = run_until(run_processor(frame, Remember(), ["key"]), tmp_path, 14)
    by_rows = [row for row in rows if not row.by_timer]
    seen = {key: [(r.value, r.short, r["all"], r.by, r.zones) for r in by_rows if r.key == key] for key in "ab"}
    assert seen["a"] == [
        (None, None, [], "", "12:00"),
        (1.0, None, [1.0], "12:00=1", "12:00"),
        (2.0, None, [1.0, 2.0], "12:00=2", "12:01"),
        (3.0, None, [1.0, 2.0, 3.0], "12:00=2 12:01=1", "12:02"),
    ]
    assert seen["b"] == [
        (None, None, [], "", "12:00"),
        (5.0, None, [5.0], "12:00=1", "12:00"),
        (None, None, [], "", "12:01"),
    ]
    by_timers = [row for row in rows if row.by_timer]
    assert {row.key for row in by_timers} == {"a", "b"}
    assert len({(row.key, row.timers) for row in by_timers}) == len(by_timers), "a timer comes once"


class Silence(Processor):
    """Says when a sensor has been silent for five minutes of event time."""

    output = StructType.fromJson(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": of, "nullable": True, "metadata": {}}
                for name, of in (("sensor", "string"), ("until", "timestamp"), ("known_ms", "long"))
            ],
        }
    )
    time = "event"

    def open(self, state: KeyedState) -> None:
        self.last = state.value("last", "timestamp")

    def process(self, key: str, rows: Iterator[Row], context: Context) -> None:  # noqa: ARG002 - as the base has it
        last = max([*(row.at for row in rows), *filter(None, [self.last.get()])])
        for at_ms in context.timers():
            context.cancel_timer(at_ms)
        context.timer_at(last + timedelta(minutes=5))
        self.last.update(last)

    def on_timer(self, key: str, at_ms: int, context: Context) -> Iterator[Row]:
        assert round(minute(0).timestamp() * 1_000) < at_ms <= context.watermark_ms
        last = self.last.get()
        assert last is not None
        without_zone = last.replace(microsecond=1).astimezone().replace(tzinfo=None)
        yield Row(sensor=key, until=without_zone, known_ms=context.watermark_ms)
        self.last.clear()


def test_an_event_time_timer_comes_when_the_watermark_has_passed_it(spark: SparkSession, tmp_path: Path) -> None:
    frame = readings(
        spark,
        tmp_path / "in",
        [("a", 1.0, 0), ("b", 1.0, 0)],
        [("a", 1.0, 4)],
        [("c", 1.0, 7)],
        [("c", 1.0, 8)],
    ).withWatermark("at", "1 minute")
    rows = run_dry(run_processor(frame, Silence(), "sensor"), tmp_path)
    ms = round(minute(6).timestamp() * 1_000)
    found = [(row.sensor, row.until.astimezone(UTC), row.known_ms) for row in rows]
    assert found == [("b", minute(0) + timedelta(microseconds=1), ms)], "a is silent until 4, and the watermark is at 7"


class Slip(AnomalyDetector):
    def process(self, key: str, rows: Iterator[Row], context: Context) -> Iterator[Row]:  # noqa: ARG002 - as the base
        for row in rows:
            yield Row(sensr=key, value=row.value, last=0.0, at=row.at)


def test_a_slip_of_the_pen_fails_the_batch_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    frame = run_processor(readings(spark, tmp_path / "in", [("a", 1.0, 0)]), Slip(), "sensor")
    with pytest.raises(
        StreamingQueryException,
        match=r"Slip yielded Row\(sensr='a', .* does not fit its output \(sensor, value, last, at\): yield Row\(name",
    ):
        run_dry(frame, tmp_path)


def test_a_processor_says_what_to_do_with_rows() -> None:
    with pytest.raises(TypeError, match=r"abstract method '?process"):
        Processor()  # type: ignore[abstract]


@pytest.mark.parametrize(
    ("of", "value", "after"),
    [
        ("at timestamp, n long", Row(n=1, at=None), Row(n=1, at=None)),
        (
            "at array<timestamp>",
            Row(at=[START.replace(tzinfo=None)]),
            Row(at=[START.replace(tzinfo=None).astimezone()]),
        ),
        (
            "m map<string, struct<at: timestamp>>",
            Row(m={"x": {"at": START.replace(tzinfo=None)}, "y": None}),
            Row(m={"x": {"at": START.replace(tzinfo=None).astimezone()}, "y": None}),
        ),
        ("m map<timestamp, long>", Row(m={START: 1}), Row(m={START: 1})),
        ("m map<timestamp, long>", Row(m=None), Row(m=None)),
        ("a array<timestamp>", Row(a=None), Row(a=None)),
    ],
)
def test_timestamps_get_their_zone_wherever_they_are(spark: SparkSession, of: str, value: Row, after: Row) -> None:
    assert spark.version
    zone = zoned(StructType.fromDDL(of))
    assert zone is not None
    assert zone(value) == after
    assert zone(value).__fields__ == after.__fields__


@pytest.mark.parametrize(
    "of", ["n long", "m map<string, long>", "a array<double>, s struct<x: timestamp_ntz, d: date>"]
)
def test_what_has_no_timestamp_is_left_as_it_is(spark: SparkSession, of: str) -> None:
    assert spark.version
    assert zoned(StructType.fromDDL(of)) is None


def test_a_wrong_delay_is_refused_as_any_duration_is() -> None:
    handle: Any = None
    context = Context(processing_ms=1, watermark_ms=1, _handle=handle, _time="processing")
    with pytest.raises(InvalidOption, match="delay='soon' is not a valid duration"):
        context.timer_after("soon")
    with pytest.raises(InvalidJob, match="a timer needs a time"):
        Context(processing_ms=-1, watermark_ms=-1, _handle=handle, _time="none").timer_at(5)
