"""What the tests of both table formats need."""

import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from headgate.sink.api import SinkContext, TwoPhaseSink
from headgate.sink.staged import StagedSink
from headgate.testing import context_in, pre_commit, write, write_id

ANSWER_SECONDS = 120.0


def opened(sink: TwoPhaseSink, place: Path) -> TwoPhaseSink:
    sink.open(context_in(place))
    return sink


def pre_committed_batch(sink: TwoPhaseSink, spark: SparkSession, batch: int) -> str:
    """Write a batch, and pre-commit it for a checkpoint of its own."""
    write(sink, spark, write_id(batch))
    return pre_commit(sink, batch + 1, write_id(batch))


def pre_committed_by_hand(sink: StagedSink, batch: int) -> str:
    """A batch of one row, staged as Spark would and pre-committed for a checkpoint of its own, without Spark."""
    part = sink._staging.part(write_id(batch))
    part.mkdir(parents=True)
    parquet.write_table(pa.table({"number": [batch], "writer": ["hand"]}), part / "part-00000-x.parquet")
    schema = StructType().add("number", LongType()).add("writer", StringType())
    (part / "_schema.json").write_text(schema.json())
    return pre_commit(sink, batch + 1, write_id(batch))


def staged_files(place: Path) -> list[Path]:
    """What waits, without the notes next to it."""
    staging = context_in(place).staging
    assert staging is not None
    return sorted(path for path in staging.rglob("*.parquet") if not path.name.startswith("."))


def commit_at_once(sink: TwoPhaseSink, place: Path, committable: str, processes: int = 2) -> None:
    """Have several processes commit the same, none of them before all are ready."""
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(processes, timeout=ANSWER_SECONDS)
    started = [
        spawn.Process(target=_commit_together, args=(sink, context_in(place), committable, ready))
        for _ in range(processes)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(ANSWER_SECONDS)
    assert [process.exitcode for process in started] == [0] * processes


def _commit_together(sink: TwoPhaseSink, context: SinkContext, committable: str, ready: Barrier) -> None:
    sink.open(context)
    ready.wait()
    sink.commit(committable)
    sink.close()
