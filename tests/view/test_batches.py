"""What Spark says of a batch, from reports of real jobs."""

from typing import Any

import pytest

from headgate.layout import FINAL_WATERMARK_MS
from headgate.view.batches import OPERATORS_MAX, SOURCES_MAX, report, skew
from headgate.view.rocksdb import ROCKSDB
from tests.view.reports import said


def test_a_batch_says_how_long_each_part_of_it_took() -> None:
    seen = report(said("rows", 1))
    assert (seen.batch, seen.rows, seen.took_ms) == (1, 600, 3828)
    assert seen.parts_ms == {
        "latest_offset": 42,
        "get_batch": 1,
        "query_planning": 99,
        "wal_commit": 3,
        "add_batch": 3666,
        "commit_offsets": 1,
    }
    assert (seen.watermark_ms, seen.event_max_ms, seen.operators) == (None, None, ())


def test_a_source_without_offsets_by_partition_has_neither_lag_nor_skew() -> None:
    [source] = report(said("rows", 1)).sources
    assert (source.channel, source.rows, source.lag, source.partitions, source.skew) == (None, 600, None, None, None)


def test_a_channel_says_which_segments_were_read() -> None:
    [source] = report(said("windows", 4)).sources
    assert (source.channel, source.rows, source.begin, source.end) == ("windows.0", 600, 2, 3)


def test_a_topic_says_how_far_behind_the_batch_is_and_how_even_its_partitions_are() -> None:
    first, second, third = (report(said("in", batch)).sources[0] for batch in range(3))
    assert (first.lag, first.partitions, first.skew) == (300, 2, None), "nobody knows where it began"
    assert (second.lag, second.skew) == (100, 1.6)
    assert (third.lag, third.skew) == (0, 1.6)


def test_a_partition_that_the_newest_offsets_do_not_name_counts_nothing() -> None:
    found = said("in", 1)
    found["sources"][0]["latestOffset"] = {"orders": {"1": 90}}
    assert report(found).sources[0].lag == 10
    found["sources"][0]["latestOffset"] = {"orders": {"0": 300, "1": 90}}
    assert report(found).sources[0].lag == 10, "a partition that seems to have gone back makes up for no other"
    found["sources"][0]["latestOffset"] = None
    assert report(found).sources[0].lag is None


def test_the_watermark_of_1970_is_none_and_the_end_of_time_is_the_last() -> None:
    assert report(said("windows", 1)).watermark_ms is None
    assert report(said("windows", 4)).watermark_ms == 1_735_689_630_785
    assert report(said("windows", 4)).event_max_ms == 1_735_689_647_956
    assert report(said("windows", 8)).watermark_ms == FINAL_WATERMARK_MS


def test_an_operator_has_rows_bytes_times_and_the_known_figures_of_rocksdb() -> None:
    [operator] = report(said("firsts", 1)).operators
    assert (operator.name, operator.rows, operator.updated, operator.removed, operator.late) == (
        "dedupe",
        600,
        600,
        0,
        0,
    )
    assert (operator.memory_bytes, operator.partitions) == (2_101_440, 2)
    assert (operator.update_ms, operator.removal_ms, operator.commit_ms) == (118, 28, 15)
    assert set(operator.rocksdb) == {each.name for each in ROCKSDB}
    assert (operator.rocksdb["gets"], operator.rocksdb["puts"], operator.rocksdb["load_ms"]) == (1200, 600, 13)


def test_what_spark_reports_beyond_the_table_is_not_kept() -> None:
    found = said("firsts", 1)
    found["stateOperators"][0]["customMetrics"] |= {f"rocksdbNews{number}": 1 for number in range(1_000)}
    found["stateOperators"] *= 100
    found["sources"] *= 100
    seen = report(found)
    assert (len(seen.operators), len(seen.sources)) == (OPERATORS_MAX, SOURCES_MAX)
    assert len(seen.operators[0].rocksdb) == len(ROCKSDB)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"batchId": 3, "sources": [], "stateOperators": []},
        {"batchId": 3, "eventTime": {"watermark": "soon", "max": 7}, "sources": [{}], "stateOperators": [{}]},
        {"sources": [{"endOffset": "5"}, {"endOffset": {"a": 1}}, {"endOffset": {"a": {"0": "x"}}}]},
        {"sources": [{"endOffset": {"channel": "c", "batch": 4}, "startOffset": "none"}]},
    ],
)
def test_a_report_that_says_less_costs_only_what_it_does_not_say(broken: dict[str, Any]) -> None:
    seen = report(broken)
    assert (seen.batch, seen.rows, seen.took_ms) == (broken.get("batchId", 0), 0, 0)
    assert seen.watermark_ms is None
    assert all(each.lag is None for each in seen.sources)


@pytest.mark.parametrize(
    ("shares", "seen"), [([], None), ([5], None), ([0, 0], None), ([4, 4], 1.0), ([9, 1, 2], 2.25)]
)
def test_skew_is_the_largest_share_by_the_mean(shares: list[int], seen: float | None) -> None:
    assert skew(shares) == seen
