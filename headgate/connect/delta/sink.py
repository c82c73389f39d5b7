"""Append to a Delta table, exactly once.

One rule: Spark writes the data files, and the table's log, which ``deltalake`` writes, gets one entry for each commit:
the files and the application transaction (``txn``) of this sink, whose version only grows.

If we die before the entry, no reader sees the files; after it, the next commit finds the application transaction.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from headgate.connect.delta.table import DeltaLog, client
from headgate.connect.tables.placing import local_directory
from headgate.connect.tables.schema import Fields, check_partition_by, check_partitions
from headgate.connect.tables.sink import TABLE_OPTIONS, TableSink
from headgate.errors import InvalidOption
from headgate.sink.api import SinkContext, TwoPhaseSink
from headgate.sink.staging import HIDDEN


def sink(
    path: str | os.PathLike[str],
    *,
    partition_by: Sequence[str] = (),
    storage_options: Mapping[str, str] | None = None,
) -> TwoPhaseSink:
    """Append to the Delta table in the directory ``path``, exactly once. Anyone may write to it at the same time.

    ``path``: a local or mounted directory, plain or as ``file:`` URI. If there is no table, the first rows make one,
    with their columns. It must be one that the driver and, if rows are staged on another file system, all executors
    have.
    ``partition_by``: the table's partition columns: text, whole numbers, booleans or dates.
    ``storage_options``: for ``deltalake``, such as ``mount_allow_unsafe_rename`` for a mounted object store.

    Refused are tables that a plain append of files could break: with column mapping, generated or identity columns,
    constraints, or an expiry of application transactions. Needs ``pip install 'headgate[delta]'``.
    """
    client()
    target = local_directory(os.fspath(path), who="delta")
    where = f"delta({target})"
    options = dict(storage_options or {})
    for name, value in options.items():
        if type(value) is not str:
            raise InvalidOption(f"{where}: storage_options takes texts, {name!r} is a {type(value).__name__}: quote it")
    return DeltaSink(target, check_partition_by(partition_by, where=where), options)


class DeltaSink(TableSink):
    """What ``sink`` makes."""

    _kept: tuple[int, DeltaLog] | None = None

    def __init__(self, target: Path, partition_by: tuple[str, ...], storage_options: dict[str, str]) -> None:
        """All checked by ``sink``."""
        self._target = target
        self._partition_by = partition_by
        self._storage_options = storage_options

    def describe(self) -> str:
        """Place and partitions."""
        by = f", by {', '.join(self._partition_by)}" if self._partition_by else ""
        return f"Delta table in {self._target}{by}"

    def _open(self, context: SinkContext) -> None:
        who = f"sink {context.sink}"
        try:
            if self._target.exists() and not self._target.is_dir():
                raise InvalidOption(f"{who}: {self._target} is a file: give the directory of a table")
            self._target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidOption(
                f"{who}: cannot make {error.filename}: {error.strerror}: give a directory that can be written"
            ) from error
        if not os.access(self._target, os.R_OK | os.W_OK | os.X_OK):
            raise InvalidOption(f"{who}: cannot write in {self._target}: change its permissions, or give another")
        if self._table() is None and (other := self._something_else()):
            raise InvalidOption(
                f"{who}: {self._target} is not a Delta table and not empty, it has {other}: give another directory"
            )

    def _something_else(self) -> str:
        """A name in the directory that a table which is not made yet does not have."""
        names = (entry.name for entry in self._target.iterdir())
        return next((name for name in names if name not in ("_delta_log", HIDDEN)), "")

    def _table(self) -> DeltaLog | None:
        """The log as this thread read it last, with what was committed since; read whole only if there is none."""
        thread = threading.get_ident()
        kept = self._kept
        table = kept[1].newer() if kept is not None and kept[0] == thread else None
        if table is None:
            table = DeltaLog.read(self._target, self._storage_options)
        self._kept = None if table is None else (thread, table)
        if table is not None:
            table.check_partitioned_by(self._partition_by)
        return table

    def __getstate__(self) -> dict[str, object]:
        """What was read of the log stays behind."""
        return {**super().__getstate__(), "_kept": None}

    def _create(self, columns: Fields) -> None:
        DeltaLog.create(self._target, columns, self._partition_by, self._storage_options)

    def _check(self, columns: Fields) -> None:
        where = self.describe()
        check_partitions(columns, self._partition_by, where=where)
        for column in columns:
            if set(column["name"]) & set(" ,;{}()\n\t="):
                raise InvalidOption(f"{where} cannot have a column named {column['name']!r}: rename it")
        DeltaLog.schema(columns, where=where)

    def _stage(self, dataframe: DataFrame, part: Path) -> None:
        writer = dataframe.write.mode("overwrite").partitionBy(*self._partition_by)
        writer.options(**TABLE_OPTIONS).parquet(f"file://{part}")

    def _named(self, path: str, prefix: str) -> tuple[str, tuple[str, ...]]:
        *partitions, name = path.split("/")
        return "/".join((*partitions, prefix + name.removeprefix("part-"))), tuple(partitions)
