"""A Delta table's log, through ``deltalake``.

One rule: a commit is tried once, on the version that was read. Only who reads again knows whether its files are in.
"""

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headgate.connect.tables.placing import TableFile
from headgate.connect.tables.schema import Fields, as_nullable, columns_of, compare
from headgate.connect.tables.sink import Conflict, Mark, VersionedTable, rows_in
from headgate.errors import BadStorage, ExternalError, InvalidOption

if TYPE_CHECKING:
    import deltalake

LOG = "_delta_log"
NULL = "__HIVE_DEFAULT_PARTITION__"

# A file that is added as it is would break what these promise.
_FIELDS = {
    "delta.generationExpression": "a generated column",
    "delta.identity.start": "an identity column",
    "delta.invariants": "a column with an invariant",
}
_COMMIT = re.compile(r"\d{20}\.(json|checkpoint.*\.parquet)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def client() -> Any:
    """The library that writes the log."""
    try:
        import deltalake  # noqa: PLC0415 - an extra: only who writes to Delta tables has it
    except ImportError as error:
        raise InvalidOption("delta needs deltalake: pip install 'headgate[delta]'") from error
    return deltalake


@dataclass(frozen=True)
class DeltaLog(VersionedTable):
    """A Delta table at one version."""

    target: Path
    at: "deltalake.DeltaTable"
    version: int
    """As it was read. A commit may move ``at`` on."""
    seen: tuple[int, int, int] | None
    """What told the file of that version from any other."""

    @classmethod
    def read(cls, target: Path, storage_options: dict[str, str]) -> "DeltaLog | None":
        """The newest version; None if no log is there yet."""
        try:
            begun = any(_COMMIT.fullmatch(entry.name) for entry in (target / LOG).iterdir())
        except FileNotFoundError:
            begun = False
        if not begun:
            return None
        library = client()
        try:
            at = library.DeltaTable(str(target), storage_options=storage_options)
        except (library.exceptions.DeltaError, ValueError, OSError) as error:
            raise BadStorage(
                f"the log of the Delta table in {target} cannot be read ({_line(error)}): restore {LOG} from a copy"
            ) from error
        table = cls.seen_at(target, at)
        table.check_features()
        return table

    @classmethod
    def seen_at(cls, target: Path, at: "deltalake.DeltaTable") -> "DeltaLog":
        """The table at the version that the library has."""
        version = at.version()
        return cls(target, at, version, _commit_file(target, version))

    def newer(self) -> "DeltaLog | None":
        """The newest version, for the price of what was committed since; None if the log must be read anew.

        A table that was made anew in the same place has another file for the version that was read.
        """
        library = client()
        if self.seen is None or _commit_file(self.target, self.version) != self.seen:
            return None
        try:
            self.at.update_incremental()
        except (library.exceptions.DeltaError, ValueError, OSError):
            return None
        table = self.seen_at(self.target, self.at)
        table.check_features()
        return table

    @classmethod
    def create(
        cls, target: Path, columns: Fields, partition_by: Sequence[str], storage_options: dict[str, str]
    ) -> None:
        """Make an empty table. Somebody else may be doing the same."""
        schema = cls.schema(columns, where=f"Delta table in {target}")
        with _translated(f"cannot make the Delta table in {target}"):
            try:
                client().DeltaTable.create(
                    str(target),
                    schema,
                    mode="ignore",
                    partition_by=list(partition_by) or None,
                    storage_options=storage_options,
                )
            except Conflict:
                return

    @classmethod
    def schema(cls, columns: Fields, *, where: str) -> Any:
        """The columns in the words of Delta. Those that Delta does not have are refused."""
        library = client()
        for column in columns:
            try:
                library.Schema.from_json(as_nullable([column]))
            except (library.exceptions.DeltaError, ValueError) as error:
                raise InvalidOption(
                    f"{where} cannot have column {column['name']}, which is {json.dumps(column['type'])}: cast it"
                ) from error
        return library.Schema.from_json(as_nullable(columns))

    @property
    def data(self) -> Path:
        """Data files lie in the table's directory itself."""
        return self.target

    def mark(self, owner: str) -> int:
        """The version of the application transaction."""
        version = self.at.transaction_version(owner)
        return -1 if version is None else version

    def check(self, columns: Fields) -> None:
        """Compare with the schema of this version."""
        compare(columns, columns_of(self.at.schema().to_json()), where=f"Delta table in {self.target}")

    def check_partitioned_by(self, partition_by: tuple[str, ...]) -> None:
        """Refuse another partitioning than the table's."""
        found = tuple(self.at.metadata().partition_columns)
        if found != partition_by:
            raise InvalidOption(
                f"Delta table in {self.target} is partitioned by {found!r}, not by {partition_by!r}: "
                f"give partition_by={found!r}"
            )

    def check_features(self) -> None:
        """Refuse tables that a plain append of files would break."""
        configuration = self.at.metadata().configuration
        for name, value in configuration.items():
            problem = ""
            if name == "delta.columnMapping.mode" and value != "none":
                problem = "column mapping"
            elif name.startswith("delta.constraints."):
                problem = f"the constraint {name.removeprefix('delta.constraints.')}, which nobody would check"
            elif name == "delta.setTransactionRetentionDuration":
                problem = f"{name} set, so that it forgets which transactions were committed"
            elif name == "delta.enableRowTracking" and value == "true":
                problem = "row tracking"
            if problem:
                raise InvalidOption(f"Delta table in {self.target} has {problem}: write to a table without")
        for field in json.loads(self.at.schema().to_json())["fields"]:
            for name, problem in _FIELDS.items():
                if name in field["metadata"]:
                    raise InvalidOption(
                        f"Delta table in {self.target} has {problem}, {field['name']}: write to a table without"
                    )

    def append(self, files: Sequence[TableFile], mark: Mark) -> None:
        """One entry of the log. Of a file only its end is read here."""
        from deltalake.transaction import AddAction  # noqa: PLC0415 - as in ``client``

        library = client()
        now = time.time_ns() // 1_000_000
        actions: list[Any] = [
            AddAction(
                path=file.name,
                size=file.size,
                partition_values=dict(map(_partition, file.partition)),
                modification_time=now,
                data_change=True,
                stats=json.dumps({"numRecords": rows_in(self.target / file.name)}),
            )
            for file in files
        ]
        properties = library.CommitProperties(
            custom_metadata={f"headgate.{name}": value for name, value in mark.notes.items()},
            max_commit_retries=0,
            app_transactions=[library.Transaction(mark.owner, mark.number)],
        )
        with _translated(f"cannot commit to the Delta table in {self.target}"):
            self.at.create_write_transaction(
                actions,
                "append",
                self.at.schema(),
                list(self.at.metadata().partition_columns),
                commit_properties=properties,
            )


def _commit_file(target: Path, version: int) -> tuple[int, int, int] | None:
    """What tells the file of a version from any other; None if it is not there."""
    try:
        found = (target / LOG / f"{version:020d}.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """The errors of the library, as ours."""
    library = client()
    try:
        yield
    except library.exceptions.CommitFailedError as error:
        raise Conflict(_line(error)) from error
    except library.exceptions.DeltaProtocolError as error:
        raise InvalidOption(f"{what}: {_line(error)}: write to a table of a plainer kind") from error
    except library.exceptions.DeltaError as error:
        raise ExternalError(f"{what}: {_line(error)}: see that the file system is there and has room") from error


def _partition(directory: str) -> tuple[str, str | None]:
    """Column and value of ``day=2026-01-31``, as Spark names directories."""
    name, _, value = directory.partition("=")
    return unquote(name), None if value == NULL else unquote(value)


def _line(error: Exception) -> str:
    """The first line of an error, without colours."""
    return _COLOUR.sub("", str(error)).strip().partition("\n")[0]
