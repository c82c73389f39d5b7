"""A streaming data source that counts, as far at a time as it is told.

One rule: an offset is the number of the next row, in the form of Spark's ``rate-micro-batch``, so that a checkpoint of
one goes on with the other. That one counts too, but always by the same number: it does not ask how far it may go.

Runs in other processes: the planner half beside the driver, ``read`` on the executors, which makes the numbers of a
range as Arrow batches.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "headgate-count"
SCHEMA = "n BIGINT"
CHUNK_ROWS = 65_536
IDLE_WAIT_S = 0.08
"""How long a planner that is at the end waits before it says so: Spark asks again at once."""


def load(spark: SparkSession, *, start_rows: int, partitions: int, end: int | None) -> DataFrame:
    """Count from 0 to ``end``: ``start_rows`` in a batch, until Spark says otherwise."""
    spark.dataSource.register(Counting)
    return (
        spark.readStream.format(FORMAT)
        .schema(SCHEMA)
        .options(start_rows=str(start_rows), partitions=str(partitions), end="" if end is None else str(end))
        .load()
    )


class Counting(DataSource):
    """Numbers, for ``spark.readStream``."""

    @classmethod
    def name(cls) -> str:
        """The name under which Spark knows it."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's
        """Make a reader; Spark calls this in the planner and for the executors."""
        return CountingReader(dict(self.options))


class Range(InputPartition):
    """The numbers from ``begin`` up to, not with, ``end``."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end


class CountingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads ranges of numbers."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._start_rows = int(options["start_rows"])
        self._partitions = int(options["partitions"])
        self._end = int(options["end"]) if options["end"] else None
        self._available_now = False

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Before the first number."""
        return _offset(0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What ``latestOffset`` is asked to keep to, until Headgate says otherwise."""
        return ReadMaxRows(self._start_rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Go on as far as the limit allows."""
        begin = int(start["offset"])
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else self._start_rows
        reached = begin + room if self._end is None else max(begin, min(begin + room, self._end))
        if self._available_now:
            self._end, self._available_now = reached, False
        if reached == begin:
            time.sleep(IDLE_WAIT_S)
        return _offset(reached)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """A query is to end with what there is now: that is one batch more, and then none."""
        self._available_now = True

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Share the numbers out evenly."""
        begin, stop = int(start["offset"]), int(end["offset"])
        cuts = [begin + (stop - begin) * part // self._partitions for part in range(self._partitions + 1)]
        return [Range(first, last) for first, last in pairwise(cuts) if first < last]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Make the numbers, on an executor."""
        import numpy as np  # noqa: PLC0415 - only executors need it
        import pyarrow as pa  # noqa: PLC0415 - as above

        assert isinstance(partition, Range)
        for begin in range(partition.begin, partition.end, CHUNK_ROWS):
            numbers = np.arange(begin, min(begin + CHUNK_ROWS, partition.end), dtype=np.int64)
            yield pa.record_batch([pa.array(numbers)], names=["n"])


def _offset(number: int) -> dict[str, int]:
    return {"offset": number, "timestamp": 0}
