"""Work on rows, where the rows are.

One rule: rows never pass through the driver. What comes back from an executor is one short text for each partition.
"""

import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from headgate.errors import HeadgateError
from headgate.sink.tally import wrote

Item = TypeVar("Item")
Returned = TypeVar("Returned")

_ANSWER = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("answer", StringType()),
        StructField("error", BinaryType()),
        StructField("rows", LongType()),
    ]
)
_SCHEMA = pa.schema([("partition", pa.int32()), ("answer", pa.string()), ("error", pa.binary()), ("rows", pa.int64())])


@dataclass(frozen=True)
class Place:
    """Who writes: the partition of the batch, and Spark's number of the attempt at it, which is never used twice."""

    partition: int
    task_attempt: int


Write = Callable[[Place, Iterator[pa.RecordBatch]], str]
"""Writes the rows of one partition, on an executor. Must be fit for pickling."""


def write_partitions(dataframe: DataFrame, write: Write) -> list[str]:
    """Have ``write`` write every partition, in one action that computes all rows; what it answered, in their order.

    If Spark runs a partition again, the answer is that of the attempt that succeeded. A ``HeadgateError`` that
    ``write`` raises is raised here.
    """
    rows = dataframe.mapInArrow(_Partition(write), _ANSWER).collect()
    for row in rows:
        _raise_again(row["error"])
    wrote(sum(int(row["rows"]) for row in rows))
    return [row["answer"] for row in sorted(rows, key=lambda row: int(row["partition"]))]


def on_executors(items: Sequence[Item], work: Callable[[Item], str]) -> list[str]:
    """Have ``work`` done for each item, each in a task of its own; what it answered, in their order.

    Without a Spark session, as in a tool that only commits, this process does the work.
    """
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001 - for any thread
    if not items or session is None:
        return [work(item) for item in items]
    done = session.sparkContext.parallelize(items, len(items)).map(lambda item: _guarded(lambda: work(item))).collect()
    for _, error in done:
        _raise_again(error)
    return [answer for answer, _ in done]


def side_by_side(
    work: Callable[[int, Sequence[Item]], Collection[Returned]], items: Sequence[Item], parallelism: int
) -> list[Returned]:
    """Divide items among ``parallelism`` threads of this process, and have each work through its share; all results."""
    with ThreadPoolExecutor(parallelism, "headgate-sink") as threads:
        found = threads.map(lambda number: work(number, items[number::parallelism]), range(parallelism))
        return [result for results in found for result in results]


def first_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch] | None:
    """The batches that have rows. None if none has: then nothing needs to be opened for them."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    return None if first is None else chain([first], filled)


class _Partition:
    """What runs on the executor for one partition."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "this runs in a task of Spark"
        place = Place(context.partitionId(), context.taskAttemptId())
        seen = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal seen
            for batch in batches:
                seen += batch.num_rows
                yield batch

        answer, error = _guarded(lambda: self._write(place, counted()))
        values = (place.partition, answer, error, seen)
        columns = [pa.array([value], kind) for value, kind in zip(values, _SCHEMA.types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _guarded(work: Callable[[], str]) -> tuple[str, bytes | None]:
    """Do work whose errors come back as they are, not in the words of Spark, which would try it again for nothing."""
    try:
        return work(), None
    except HeadgateError as error:
        return "", pickle.dumps(error)


def _raise_again(error: bytes | None) -> None:
    if error is not None:
        raise pickle.loads(bytes(error))  # noqa: S301 - our own executors wrote it
