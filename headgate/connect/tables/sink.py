"""The part of a table's sink that does not depend on the table's format.

One rule: the commit that adds files to a table sets the mark of its sink too. So whoever finds the mark at or past a
transaction knows that its files were added, even if they have been compacted or deleted since.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame

from headgate.connect.tables.placing import TableFile, place, temporary_in
from headgate.connect.tables.schema import Fields, columns_of
from headgate.core.ids import Generation
from headgate.errors import BadStorage, ExternalError
from headgate.retry import Retry, RetryPolicy
from headgate.sink.api import AbortScope, Guarantee, StaleGenerations, WriteId
from headgate.sink.committable import StagedCommittable
from headgate.sink.staged import WRITER_OPTIONS, StagedSink, external
from headgate.sink.staging import discard

SCHEMA = "_schema.json"
"""The columns of a part, next to its files. A name with ``_`` in front is not a data file."""
SMALL = 65_536
"""Bytes up to which a file is looked into, to see whether it has any rows."""
CONFLICTS = RetryPolicy(first_s=0.2, longest_s=0.2, jitter=1, tries=60)
"""How often a commit is tried, each time on the newest version of the table, while others commit to it too."""

TABLE_OPTIONS = {
    **WRITER_OPTIONS,
    "compression": "zstd",
    # Not the session's default, which may be INT96: neither format has that.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


class Conflict(Exception):
    """Somebody else has committed to the table since it was read."""


@dataclass(frozen=True)
class Mark:
    """Which commit of which sink. The numbers of one owner only grow."""

    owner: str
    number: int
    notes: Mapping[str, str]
    """The same for people who read the table's history."""


class VersionedTable(ABC):
    """A table, as it was read at one version."""

    @property
    @abstractmethod
    def data(self) -> Path:
        """The directory of its data files."""

    @abstractmethod
    def mark(self, owner: str) -> int:
        """The number of the owner's newest commit; negative if there is none."""

    @abstractmethod
    def check(self, columns: Fields) -> None:
        """Refuse columns that the table cannot take, with a ``UserError`` that names them."""

    @abstractmethod
    def append(self, files: Sequence[TableFile], mark: Mark) -> None:
        """Add files that are in place, and set the mark, in one commit. ``Conflict`` if this version is not newest."""


class TableSink(StagedSink):
    """A sink that appends to one table. A subclass says how to find and make the table, and ``describe``."""

    _checked = ""
    _beside = (SCHEMA,)
    _tidied: Generation | None = None

    @property
    def guarantee(self) -> Guarantee:
        """Every row once."""
        return Guarantee.EXACTLY_ONCE

    @abstractmethod
    def _table(self) -> VersionedTable | None:
        """The newest version of the table; None if there is no table."""

    @abstractmethod
    def _create(self, columns: Fields) -> None:
        """Make an empty table, unless somebody else has."""

    @abstractmethod
    def _named(self, path: str, prefix: str) -> tuple[str, tuple[str, ...]]:
        """The final name of a staged file, from the table's data directory on, and the partitions it lies in."""

    def publish(self, pre_committed: StagedCommittable) -> None:
        """Put the files in place, and commit them with the mark."""
        mark = self._mark(pre_committed)
        files = self._files(pre_committed, mark.owner)
        if not files:
            return
        retry, verified = Retry(CONFLICTS), False
        while True:
            table = self._table()
            if table is not None and table.mark(mark.owner) >= mark.number:
                return
            try:
                if not verified:
                    self._verify(pre_committed)
                verified = True
                columns = self._columns(pre_committed)
                if table is None:
                    self._create(columns)
                else:
                    table.check(columns)
                    temporary = temporary_in(table.data, mark.owner)
                    place(files, table.data, temporary=temporary, mode=self._directory_mode)
            except FileNotFoundError as error:
                self._refuse_unless_committed(pre_committed, mark, str(error.filename))
                return
            with suppress(Conflict):
                if table is not None:
                    table.append(files, mark)
                    return
            if not retry.again():
                raise ExternalError(
                    f"sink {pre_committed.sink}: others committed to {self.describe()} each of {CONFLICTS.tries} "
                    "times that we tried: it is tried again"
                )

    def abort(self, scope: AbortScope) -> None:
        """Remove the parts that are covered, and copies that somebody did not live to finish.

        For those the table must be opened: once a generation will do.
        """
        super().abort(scope)
        if not isinstance(scope, StaleGenerations) or scope.below == self._tidied:
            return
        if (table := self._table()) is not None:
            with external(f"sink {self._staging.sink}: cannot throw away what is abandoned"):
                discard(temporary_in(table.data, self._owner(self._staging.job, self._staging.sink)))
        self._tidied = scope.below

    def _prepare(self, dataframe: DataFrame) -> DataFrame:
        """Refuse what the table cannot take before it is staged: after the checkpoint it would be too late."""
        schema = dataframe.schema.json()
        if schema != self._checked:
            columns = columns_of(schema)
            self._check(columns)
            if (table := self._table()) is not None:
                table.check(columns)
            self._checked = schema
        return dataframe

    @abstractmethod
    def _check(self, columns: Fields) -> None:
        """Refuse columns that no table of this format can have."""

    def _stage(self, dataframe: DataFrame, part: Path) -> None:
        """Write the rows."""
        dataframe.write.mode("overwrite").options(**TABLE_OPTIONS).parquet(f"file://{part}")

    def _write(self, dataframe: DataFrame, part: Path) -> None:
        prepared = self._prepare(dataframe)
        self._stage(prepared, part)
        (part / SCHEMA).write_text(prepared.schema.json())

    def _has_no_rows(self, file: Path, size: int) -> bool:
        """Spark writes a file for the first partition also if that is empty."""
        if size > SMALL or not file.name.startswith("part-00000-"):
            return size == 0
        return bool(parquet.read_metadata(file).num_rows == 0)

    def _columns(self, pre_committed: StagedCommittable) -> Fields:
        """The columns of all parts together. Those of a part without files do not matter."""
        found: dict[str, dict[str, Any]] = {}
        for write_id, part in pre_committed.write_ids():
            if not part.files:
                continue
            note = self._staging.part(write_id) / SCHEMA
            try:
                columns = columns_of(note.read_text())
            except (ValueError, KeyError, TypeError) as error:
                raise BadStorage(f"sink {pre_committed.sink}: {note} is damaged: restore it from a copy") from error
            for column in columns:
                known = found.setdefault(column["name"], dict(column))
                known["nullable"] |= column["nullable"]
                if known["type"] != column["type"]:
                    raise BadStorage(
                        f"sink {pre_committed.sink}: checkpoint {pre_committed.checkpoint} has batches with other "
                        f"types of column {column['name']}: restart the job from the checkpoint before"
                    )
        return tuple(found.values())

    def _refuse_unless_committed(self, pre_committed: StagedCommittable, mark: Mark, path: str) -> None:
        """What is gone may have been committed by another process since we looked, and then thrown away."""
        table = self._table()
        if table is None or table.mark(mark.owner) < mark.number:
            raise BadStorage(
                f"sink {pre_committed.sink}: {path} is gone, which checkpoint {pre_committed.checkpoint} "
                "pre-committed and nobody has committed: put it back from a copy"
            )

    def _mark(self, pre_committed: StagedCommittable) -> Mark:
        notes = {
            "job": pre_committed.job,
            "sink": pre_committed.sink,
            "generation": str(pre_committed.generation),
            "checkpoint": str(pre_committed.checkpoint),
        }
        return Mark(
            self._owner(pre_committed.job, pre_committed.sink),
            pre_committed.generation << 40 | pre_committed.checkpoint,
            notes,
        )

    def _owner(self, job: str, sink: str) -> str:
        """One for each sink of each incarnation of a job."""
        return hashlib.sha256(json.dumps([job, sink, self._incarnation]).encode()).hexdigest()[:32]

    def _files(self, pre_committed: StagedCommittable, owner: str) -> list[TableFile]:
        found = []
        for write_id, part in pre_committed.write_ids():
            for file in part.files:
                name, partition = self._named(file.path, _prefix(owner, write_id))
                staged = self._staging.part(write_id) / file.path
                found.append(TableFile(staged, name, file.size, partition, file.checksum))
        return found


def rows_in(path: Path) -> int:
    """How many rows a file has. Only its end is read."""
    try:
        return int(parquet.read_metadata(path).num_rows)
    except pa.ArrowInvalid as error:
        raise BadStorage(f"{path} is damaged ({error}): restore it from a copy") from error


def _prefix(owner: str, write_id: WriteId) -> str:
    return f"part-{owner[:16]}-g{write_id.generation}-b{write_id.batch}-r{write_id.run}-"
