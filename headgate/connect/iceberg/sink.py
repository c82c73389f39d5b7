"""Append to an Iceberg table, exactly once.

One rule: Spark writes the data files, and one commit to the catalog, through ``pyiceberg``, adds them and sets the
sink's mark, a property of the table. Snapshots come and expire; the property stays.

If we die before the commit, no reader sees the files; after it, the next commit finds the mark.
"""

import logging
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, sha2, struct, to_json
from pyspark.sql.types import ByteType, ShortType

from headgate.connect.iceberg.catalog import Catalog, client
from headgate.connect.iceberg.columns import iceberg_schema
from headgate.connect.iceberg.table import IcebergTable
from headgate.connect.tables.schema import Fields, check_partition_by, check_partitions
from headgate.connect.tables.sink import TABLE_OPTIONS, TableSink
from headgate.errors import HeadgateError, InvalidOption
from headgate.sink.api import SinkContext, TwoPhaseSink
from headgate.sink.committable import StagedCommittable
from headgate.values import Duration, duration_ms

logger = logging.getLogger("headgate")

PARTITION = "headgate_partition"
"""Staged files of one partition lie in a directory of this name. Unlike Spark's own, it leaves the columns in them."""


def sink(
    table: str,
    *,
    catalog: str | Mapping[str, str],
    partition_by: Sequence[str] = (),
    expire_snapshots: Duration | None = None,
) -> TwoPhaseSink:
    """Append to an Iceberg table, exactly once. Anyone may write to it at the same time.

    ``table``: namespace and name, ``sales.orders``. If there is no table, the first rows make one, with their columns;
    the namespace must be there. Its data must lie in a local or mounted directory, which the driver and, if rows are
    staged on another file system, all executors have.
    ``catalog``: the name of one that ``pyiceberg`` has configured, or its properties, ``{"type": "rest", "uri": ...}``.
    ``partition_by``: the table's partition columns: text, whole numbers, booleans or dates. A table that is there
    already must be partitioned by them as they are (identity): other transforms cannot be told from files.
    ``expire_snapshots``: the table forgets snapshots of this sink that are older than this, ``"5d"``, so that its
    metadata does not grow with every commit; nobody can go back to them then. Those of others and those that a branch
    or a tag names stay. None: all stay, for whoever maintains the table.

    Needs ``pip install 'headgate[iceberg]'``.
    """
    client()
    if type(table) is not str or not re.fullmatch(r"[^.\s]+(\.[^.\s]+)+", table):
        raise InvalidOption(
            f"iceberg: table={table!r} is not a valid name of a table: write namespace and name, 'sales.orders'"
        )
    where = f"iceberg({table})"
    expire_ms = None if expire_snapshots is None else duration_ms(expire_snapshots, name="expire_snapshots")
    columns = check_partition_by(partition_by, where=where)
    return IcebergSink(table, Catalog.of(catalog, where=where), columns, expire_ms)


class IcebergSink(TableSink):
    """What ``sink`` makes."""

    def __init__(
        self, name: str, catalog: Catalog, partition_by: tuple[str, ...], expire_ms: int | None = None
    ) -> None:
        """All checked by ``sink``."""
        self._expire_ms = expire_ms
        self._name = name
        self._catalog = catalog
        self._partition_by = partition_by

    def describe(self) -> str:
        """Table, catalog and partitions."""
        by = f", by {', '.join(self._partition_by)}" if self._partition_by else ""
        return f"Iceberg table {self._name} in {self._catalog.describe()}{by}"

    def close(self) -> None:
        """Let go of the catalog."""
        self._catalog.close()

    def publish(self, pre_committed: StagedCommittable) -> None:
        """As every table; then let go of old snapshots, if that is wanted. The rows are in by then."""
        super().publish(pre_committed)
        if self._expire_ms is None:
            return
        try:
            if (table := self._table()) is not None:
                table.expire(self._mark(pre_committed).notes, time.time_ns() // 1_000_000 - self._expire_ms)
        except HeadgateError as error:
            logger.warning("sink %s: old snapshots are not expired yet: %s", pre_committed.sink, error)

    def _open(self, context: SinkContext) -> None:
        if self._table() is None:
            namespace = self._name.rpartition(".")[0]
            with self._catalog.asked(f"sink {context.sink}") as catalog:
                there = catalog.namespace_exists(namespace)
            if not there:
                raise InvalidOption(
                    f"sink {context.sink}: {self._catalog.describe()} has no namespace {namespace}: create it"
                )

    def _table(self) -> IcebergTable | None:
        found = IcebergTable.read(self._catalog, self._name)
        if found is not None:
            found.check_partitioned_by(self._partition_by)
        return found

    def _create(self, columns: Fields) -> None:
        IcebergTable.create(self._catalog, self._name, columns, self._partition_by)

    def _check(self, columns: Fields) -> None:
        iceberg_schema(columns, where=self.describe())
        check_partitions(columns, self._partition_by, where=self.describe())
        if any(column["name"] == PARTITION for column in columns):
            raise InvalidOption(f"{self.describe()} cannot have a column named {PARTITION}: rename it")

    def _prepare(self, dataframe: DataFrame) -> DataFrame:
        """Iceberg has no whole numbers of less than 32 bits."""
        short = {f.name: col(f"`{f.name}`").cast("int") for f in dataframe.schema if _is_short(f.dataType)}
        return super()._prepare(dataframe.withColumns(short) if short else dataframe)

    def _stage(self, dataframe: DataFrame, part: Path) -> None:
        if not self._partition_by:
            super()._stage(dataframe, part)
            return
        # Two values never have the same directory, and a null has another than an empty text.
        values = to_json(struct(*(col(f"`{name}`") for name in self._partition_by)))
        apart = dataframe.withColumn(PARTITION, sha2(values, 256))
        apart.write.mode("overwrite").partitionBy(PARTITION).options(**TABLE_OPTIONS).parquet(f"file://{part}")

    def _named(self, path: str, prefix: str) -> tuple[str, tuple[str, ...]]:
        *partitions, name = path.split("/")
        which = "".join(f"{directory.partition('=')[2][:32]}-" for directory in partitions)
        return f"{prefix}{which}{name.removeprefix('part-')}", tuple(partitions)


def _is_short(kind: object) -> bool:
    return isinstance(kind, ByteType | ShortType)
