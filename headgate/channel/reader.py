"""The streaming data source through which a task reads a channel.

One rule: an offset is the position on the channel, so a range of offsets always means the same segments. Files are read
as Arrow batches; small ones are packed together, so that a batch of many small files is few pieces of work.

Runs in other processes: the planner half beside the driver, ``read`` on the executors. Both get all they need to know
as options.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructField, StructType

from headgate.channel.gates import Planner
from headgate.channel.segments import Segments
from headgate.core.ids import Batch, ChannelId

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "headgate-channel"
IDLE_WAIT_MS = 250
"""How long a planner waits for its gates, when the query has nothing else to read."""
PARTITION_BYTES = 4 << 20
"""Less than this is not worth a partition of its own."""


def load(
    spark: SparkSession,
    *,
    directory: Path,
    channel: str,
    reader: str,
    generation: int,
    position: Batch,
    gates: str,
    schema: StructType,
    alone: bool,
) -> DataFrame:
    """Read a channel from ``position``. ``alone`` if the query has no sources but channels, so that it may wait."""
    spark.dataSource.register(ChannelSource)
    return (
        spark.readStream.format(FORMAT)
        .schema(StructType([StructField(field.name, field.dataType, field.nullable) for field in schema]))
        .options(
            directory=str(directory),
            channel=channel,
            reader=reader,
            generation=str(generation),
            position=str(position),
            gates=gates,
            wait_ms=str(IDLE_WAIT_MS if alone else 0),
            partitions=str(spark.sparkContext.defaultParallelism),
        )
        .load()
    )


class ChannelSource(DataSource):
    """A channel, for ``spark.readStream``."""

    @classmethod
    def name(cls) -> str:
        """The name under which Spark knows it."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make a reader; Spark calls this in the planner and on every executor."""
        return ChannelReader(dict(self.options), schema)


class Files(InputPartition):
    """Some files of some segments, for one piece of work."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Remember which."""
        self.paths = tuple(paths)


class ChannelReader(DataSourceStreamReader):
    """Plans by position, reads by file."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """``options`` as ``load`` sets them."""
        self._options = options
        self._schema = schema
        self._channel = options["channel"]
        self._segments = Segments(Path(options["directory"]), ChannelId(options["channel"]))
        self._planner: Planner | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query that has read nothing begins."""
        return self._offset(Batch(int(self._options["position"])))

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802, ARG002 - Spark's
        """How far the gate is open. Waits a little when there is nothing new."""
        if self._planner is None:
            options = self._options
            self._planner = Planner(options["gates"], int(options["generation"]), options["reader"], options["channel"])
        position = Batch(int(start["batch"]))
        return self._offset(max(position, self._planner.through(int(self._options["wait_ms"]))))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files of the segments between two positions, packed."""
        entries = self._segments.between(Batch(int(start["batch"])), Batch(int(end["batch"])))
        files = [(str(self._segments.directory / name), size) for entry in entries for name, size in entry.files]
        return [Files(paths) for paths in pack(files, int(self._options["partitions"]))]

    def stop(self) -> None:
        """The query has ended."""
        if self._planner is not None:
            self._planner.close()

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read files, on an executor."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - only executors need it
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - as above

        assert isinstance(partition, Files)
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        for path in partition.paths:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=65_536):
                    yield batch if batch.schema.equals(wanted) else batch.cast(wanted)

    def _offset(self, batch: Batch) -> dict[str, Any]:
        return {"channel": self._channel, "batch": batch}


def pack(files: Sequence[tuple[str, int]], parallelism: int) -> list[list[str]]:
    """Share files out over at most ``parallelism`` heaps of about the same size, none of them needlessly small."""
    total = sum(size for _, size in files)
    count = max(1, min(parallelism, len(files), -(-total // PARTITION_BYTES)))
    heaps: list[tuple[int, list[str]]] = [(0, []) for _ in range(count)]
    for path, size in sorted(files, key=lambda file: -file[1]):
        index = min(range(count), key=lambda heap: heaps[heap][0])
        weight, paths = heaps[index]
        paths.append(path)
        heaps[index] = (weight + size, paths)
    return [paths for _, paths in heaps if paths]
