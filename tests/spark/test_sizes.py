"""Whole jobs whose batches size themselves. Spark runs them, and the test says what each batch took."""

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import headgate as hg
from headgate import layout
from headgate.core.ids import Batch, TaskId
from headgate.core.sizing import START_ROWS
from headgate.run import sizes
from headgate.run.sizes import Sizes
from tests.spark.shapes import _trouble

Line = dict[str, Any]
SIZES = (START_ROWS, 8 * START_ROWS, 117_647)
"""What comes of the times below: the first is eight times too short, the second takes 1,700 of 2,500 ms."""


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each batch that reads a source, which takes 100 ms and 20 µs a row. One of a channel takes 1 ms."""
    found: list[int] = []

    def took_ms(progress: Any, _: float) -> float:
        if all(layout.is_position(source.endOffset) for source in progress.sources):
            return 1.0
        found.append(progress.numInputRows)
        return 100 + float(progress.numInputRows) / 50

    def resize(self: Sizes, task: TaskId, directory: Path, query: StreamingQuery, batch: Batch, _: float) -> None:
        ends = [_number(directory, number) for number in (batch - 1, batch)]
        really(self, task, directory, query, batch, 100 + (ends[1] - ends[0]) / 50)

    really = Sizes.resize
    monkeypatch.setattr(sizes, "took_ms", took_ms)
    monkeypatch.setattr(Sizes, "resize", resize)
    return found


def _number(directory: Path, batch: int) -> int:
    """Where a batch of the generator ends. Files have no such number."""
    if batch < 0:
        return 0
    lines = layout.read_offsets(directory, Batch(batch)).of_sources()
    return sum(int(json.loads(line).get("offset", 0)) for line in lines)


def run(
    spark: SparkSession,
    place: Path,
    source: hg.Source,
    on_event: Callable[[Line], None] = lambda _: None,
    fail_at: int | None = None,
) -> hg.JobClient:
    job = hg.Job(
        "job",
        checkpoint=hg.Checkpointing(storage=place / "storage", max_batches_ahead=2),
        restart=hg.restart.fixed_delay(delay="100ms"),
    )
    rows = job.source("rows", source)
    if fail_at is not None:
        rows = rows.transform("trouble", lambda frame: _trouble(frame, 0, fail_at, str(place / "failed")))
    rows.transform("later", lambda frame: frame, new_task=True).sink("out", hg.files.sink(place / "out"))
    return job.start(None, on_event, spark)


def came_out(place: Path, column: str) -> "Counter[Any]":
    files = [path for path in (place / "out").iterdir() if path.suffix == ".parquet"]
    return Counter(value for path in files for value in pq.read_table(path)[column].to_pylist())


def test_the_generator_grows_survives_a_failure_and_a_restore_and_every_row_comes_out_once(
    spark: SparkSession, tmp_path: Path, counts: list[int]
) -> None:
    shown: list[int | None] = []
    client: list[hg.JobClient] = []

    def watch(line: Line) -> None:
        if line["event"] == "progress" and line["tasks"]:
            shown.append(line["tasks"][0]["batch_rows"])

    client.append(run(spark, tmp_path, hg.generator.source(keys=10), watch, fail_at=25_000))
    deadline = time.monotonic() + 240
    while SIZES[2] not in counts:
        assert time.monotonic() < deadline, counts
        with pytest.raises(TimeoutError):
            client[0].wait(timeout=0.2)
    client[0].stop()
    assert client[0].wait(timeout=120).ending == "stopped"
    assert (tmp_path / "failed").exists()
    assert counts[0] == START_ROWS
    assert set(counts) <= set(SIZES)
    assert set(shown) <= {None, *SIZES}
    assert max(shown, key=lambda rows: rows or 0) in SIZES[1:]

    reached = sum(came_out(tmp_path, "n").values())
    del counts[:]
    end = reached + 70_000
    assert run(spark, tmp_path, hg.generator.source(rows=end, keys=10)).wait(timeout=120).ending == "finished"
    assert counts[0] == START_ROWS
    assert came_out(tmp_path, "n") == Counter(range(end))


def test_files_are_read_in_batches_that_grow_and_every_line_comes_out_once(
    spark: SparkSession, tmp_path: Path, counts: list[int]
) -> None:
    lines = tmp_path / "in"
    lines.mkdir()
    for file in range(3):
        numbers = range(file * 100_000, (file + 1) * 100_000)
        (lines / f"{file}.txt").write_text("".join(f"{n}\n" for n in numbers), encoding="utf-8")
    source = hg.files.source(lines, format="text", schema="n STRING", bounded=True)
    assert run(spark, tmp_path, source).wait(timeout=120).ending == "finished"
    assert counts[0] == START_ROWS
    assert SIZES[1] in counts
    assert set(counts[:-1]) <= set(SIZES)
    assert came_out(tmp_path, "n") == Counter(str(n) for n in range(300_000))
