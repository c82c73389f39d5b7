"""Rows that are made up: the same ones, however they are read."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from headgate import generator
from headgate.core.sizing import START_ROWS
from headgate.errors import BadStorage, InvalidOption
from headgate.generator import Generator
from headgate.source import generator as under_test
from tests.source.streams import Stream


def all_rows(spark: SparkSession, source: Generator, rows: int) -> list[Row]:
    """The first rows of a generator, by the same expressions, without a stream."""
    return sorted(source._columns(spark.range(rows).toDF("n")).collect())


def test_a_stream_gives_the_same_rows_in_any_batches_and_after_a_crash_and_a_stop(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path)
    stream.run(generator.source(rows=5000, rows_per_batch=700, keys=7, skew=0.25, out_of_order=2), crash_in=2)
    before = sorted(stream.batches[2])
    stream.run(
        generator.source(rows=5000, rows_per_batch=333, keys=7, skew=0.25, out_of_order=2, partitions=3),
        until=lambda s: 4 in s.batches,
    )
    assert stream.entered.count(2) == 2
    assert sorted(stream.batches[2]) == before
    assert len(stream.batches[4]) == 333
    source = generator.source(rows=5000, rows_per_second=10_000, keys=7, skew=0.25, out_of_order=2, event_step_ms=1)
    stream.run(source)
    assert sorted(stream.rows) == all_rows(spark, source, 5000)
    assert [row.n for row in sorted(stream.rows)] == list(range(5000))


def test_batches_that_size_themselves_go_on_where_fixed_ones_were_and_the_other_way_round(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path)
    given: dict[str, Any] = {"rows": 25_000, "keys": 7}
    stream.run(generator.source(**given, rows_per_batch=700), until=lambda s: 1 in s.batches)
    first = max(int(path.name) for path in (tmp_path / "offsets").glob("[0-9]*")) + 1
    stream.run(generator.source(**given), crash_in=first + 1)
    again = sorted(stream.batches[first + 1])
    stream.run(generator.source(**given, rows_per_batch=3_000))
    assert len(stream.batches[first]) == START_ROWS
    assert sorted(stream.batches[first + 1]) == again
    assert [row.n for row in sorted(stream.rows)] == list(range(25_000))


@pytest.mark.parametrize("size", [{"rows_per_batch": 700}, {}])
def test_in_a_session_without_our_jar_spark_counts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: dict[str, Any]
) -> None:
    monkeypatch.setattr(under_test, "COUNTING", "headgate.source.Missing")
    source = generator.source(rows=3_000, keys=7, **size)
    stream = Stream(spark, tmp_path)
    stream.run(source)
    assert [row.n for row in sorted(stream.rows)] == list(range(3_000))
    assert not source.is_still_at_end


def test_a_generator_of_no_rows_ends(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.run(generator.source(rows=0))
    assert stream.rows == []


def test_a_rate_is_rows_a_batch_times_batches_a_second(spark: SparkSession, tmp_path: Path) -> None:
    source = generator.source(rows_per_second=5000)
    assert source.trigger_ms == 200
    stream = Stream(spark, tmp_path)
    stream.run(source, until=lambda s: 3 in s.batches)
    assert {len(stream.batches[batch]) for batch in (0, 1, 2)} == {1000}


@pytest.mark.parametrize(("rate", "interval_ms"), [(1000, 200), (8, 250), (6, 500), (7, 1000), (1, 1000)])
def test_the_interval_gives_whole_rows(rate: int, interval_ms: int) -> None:
    assert generator.source(rows_per_second=rate).trigger_ms == interval_ms


@pytest.mark.parametrize(
    ("keys", "skew", "seed"),
    [(1, 0.0, 0), (2, 0.0, 1), (10, 0.0, 5), (100, 0.0, -3), (2, 0.5, 0), (2, 0.9, 7), (10, 0.3, -8), (37, 0.111, 2)],
)
def test_seq_counts_the_rows_of_a_key_without_a_gap_and_counts_knows_how_many(
    spark: SparkSession, keys: int, skew: float, seed: int
) -> None:
    source = generator.source(keys=keys, skew=skew, seed=seed)
    seqs: dict[str, list[int]] = {}
    for row in all_rows(spark, source, 1234):
        assert {key: len(found) for key, found in seqs.items()} == source.counts(row.n)
        seqs.setdefault(row.key, []).append(row.seq)
    assert all(found == list(range(len(found))) for found in seqs.values())
    assert len(seqs) == keys


def test_without_skew_all_keys_have_the_same_and_neighbours_differ(spark: SparkSession) -> None:
    rows = all_rows(spark, generator.source(keys=50), 5000)
    assert set(Counter(row.key for row in rows).values()) == {100}
    assert rows[0].key != rows[1].key
    assert [row.key for row in rows[:50]] != [row.key for row in rows[50:100]]


def test_a_skew_gives_the_first_key_its_share_and_the_others_the_same(spark: SparkSession) -> None:
    counts = Counter(row.key for row in all_rows(spark, generator.source(keys=11, skew=0.6), 10_000))
    assert counts.pop("key-000000") == 6000
    assert set(counts.values()) == {400}


def test_events_are_late_by_up_to_the_bound_and_really_out_of_order(spark: SparkSession) -> None:
    start = datetime(2024, 2, 3, tzinfo=UTC)
    source = generator.source(out_of_order="500ms", start=start, event_step_ms=2)
    expected = (start + timedelta(milliseconds=2 * n) for n in range(2000))
    late = [
        on_time - row.event_time.astimezone(UTC)
        for on_time, row in zip(expected, all_rows(spark, source, 2000), strict=True)
    ]
    assert timedelta() <= min(late) < timedelta(milliseconds=5)
    assert timedelta(milliseconds=495) < max(late) <= timedelta(milliseconds=500)


def test_without_out_of_order_events_follow_the_rate_from_the_start(spark: SparkSession) -> None:
    rows = all_rows(spark, generator.source(rows_per_second=4, start="2024-01-01T00:00:00"), 5)
    assert [row.event_time.astimezone(UTC).isoformat() for row in rows[::4]] == [
        "2024-01-01T00:00:00+00:00",
        "2024-01-01T00:00:01+00:00",
    ]


def test_values_differ_between_seeds_and_add_up_exactly_in_any_order(spark: SparkSession) -> None:
    values = [row.value for row in all_rows(spark, generator.source(), 1000)]
    assert values != [row.value for row in all_rows(spark, generator.source(seed=1), 1000)]
    assert sum(values) == sum(sorted(values))
    assert 0 <= min(values) < 5
    assert 95 < max(values) < 100


def test_a_bounded_generator_ends_when_all_rows_are_out() -> None:
    source = generator.source(rows=100)
    assert not source.ended(json.dumps({"offset": 99, "timestamp": 0}))
    assert source.ended(json.dumps({"offset": 100, "timestamp": 0}))
    assert not generator.source().ended(json.dumps({"offset": 100, "timestamp": 0}))


@pytest.mark.parametrize("offset", ['{"file": "a"}', "[]", "3"])
def test_an_offset_of_another_source_is_refused(offset: str) -> None:
    with pytest.raises(BadStorage, match="not one of a generator"):
        generator.source(rows=1).ended(offset)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": -1}, "rows is -1"),
        ({"rows_per_second": 0}, "rows_per_second is 0"),
        ({"keys": 0}, "keys is 0"),
        ({"partitions": 0}, "partitions is 0"),
        ({"skew": 1.0}, "skew=1.0"),
        ({"skew": -0.1}, "skew=-0.1"),
        ({"skew": 0.005}, "even share"),
        ({"skew": 0.5, "keys": 1}, "2 keys"),
        ({"out_of_order": "soon"}, "out_of_order is 'soon'"),
        ({"out_of_order": -1}, "out_of_order is -1"),
        ({"start": "yesterday"}, "start is 'yesterday'"),
        ({"event_step_ms": -1}, "event_step_ms is -1"),
    ],
)
def test_an_option_that_cannot_hold_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        generator.source(**options)


def test_counts_of_an_endless_generator_need_a_number() -> None:
    with pytest.raises(InvalidOption, match="say how many"):
        generator.source().counts()


def test_a_generator_says_what_it_is() -> None:
    source = generator.source(rows=5, rows_per_second=10, keys=4, skew=0.5)
    assert source.describe() == "generator: 5 rows, 10 a second, 4 keys, 50 % of them one key's"
    assert generator.source(rows_per_batch=9).describe() == "generator: rows without end, 100 keys"
    assert generator.source().describe() == "generator: rows without end, in batches that size themselves, 100 keys"
    assert source.replayable
