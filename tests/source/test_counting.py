"""The source that counts, without Spark."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headgate.source import counting
from headgate.source.counting import CountingReader


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "IDLE_WAIT_S", 0.0)


def reader(end: int | None = None) -> CountingReader:
    return CountingReader({"start_rows": "10", "partitions": "3", "end": "" if end is None else str(end)})


def at(number: int) -> dict[str, int]:
    return {"offset": number, "timestamp": 0}


def test_it_goes_as_far_as_it_is_told_and_no_further_than_its_end() -> None:
    made = reader(100)
    assert made.initialOffset() == at(0)
    assert made.getDefaultReadLimit() == ReadMaxRows(10)
    assert made.latestOffset(at(0), ReadMaxRows(70)) == at(70)
    assert made.latestOffset(at(70), ReadAllAvailable()) == at(80)
    assert made.latestOffset(at(70), ReadMaxRows(70)) == at(100)
    assert made.latestOffset(at(100), ReadMaxRows(70)) == at(100)
    assert made.latestOffset(at(130), ReadMaxRows(70)) == at(130), "rate-micro-batch counts past the end"


def test_a_query_that_is_to_end_has_one_batch_more() -> None:
    made = reader()
    made.prepareForTriggerAvailableNow()
    assert made.latestOffset(at(5), ReadMaxRows(7)) == at(12)
    assert made.latestOffset(at(12), ReadMaxRows(7)) == at(12)


@pytest.mark.parametrize(("begin", "end"), [(0, 1), (5, 5), (7, 300_000)])
def test_every_number_of_a_range_is_made_once(begin: int, end: int) -> None:
    made = reader()
    parts = made.partitions(at(begin), at(end))
    found = [n for part in parts for batch in made.read(part) for n in batch.column("n").to_pylist()]
    assert found == list(range(begin, end))
    assert len(parts) == min(3, end - begin)
