"""An Iceberg table at one version, through ``pyiceberg``.

One rule: a commit is tried once, on the version that was read. ``pyiceberg`` would try again on a newer one without
asking whether our files are in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headgate.connect.iceberg.catalog import Catalog
from headgate.connect.iceberg.columns import columns_of_table, iceberg_columns, iceberg_schema
from headgate.connect.tables.placing import TableFile, local_directory
from headgate.connect.tables.schema import Fields, compare
from headgate.connect.tables.sink import Conflict, Mark, VersionedTable
from headgate.errors import BadStorage, ExternalError, InvalidOption

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table as LoadedTable
    from pyiceberg.table.name_mapping import MappedField

RETRIES = "commit.retry.num-retries"
MAPPING = "schema.name-mapping.default"
MARK = "headgate.mark."
MERGE = "commit.manifest-merge.enabled"
EXPIRE_AT_ONCE = 20
"""Fewer snapshots than this are not worth a commit of their own."""


@dataclass(frozen=True)
class IcebergTable(VersionedTable):
    """What the catalog answered."""

    catalog: Catalog
    name: str
    at: "LoadedTable"

    @classmethod
    def read(cls, catalog: Catalog, name: str) -> "IcebergTable | None":
        """The newest version; None if the catalog does not have it."""
        from pyiceberg.exceptions import NoSuchTableError, ValidationError  # noqa: PLC0415 - an extra

        try:
            with catalog.asked(f"cannot look for Iceberg table {name}") as opened:
                return cls(catalog, name, opened.load_table(name))
        except NoSuchTableError:
            return None
        except FileNotFoundError as error:
            raise BadStorage(
                f"Iceberg table {name}: {catalog.describe()} knows it, but its metadata is gone ({error}): "
                "restore it from a copy"
            ) from error
        except ValidationError as error:
            raise BadStorage(
                f"Iceberg table {name}: {catalog.describe()} knows it, but its metadata is damaged: "
                "restore it from a copy"
            ) from error
        except OSError as error:
            raise ExternalError(
                f"cannot look for Iceberg table {name}: {error}: see that the catalog is there"
            ) from error

    @classmethod
    def create(cls, catalog: Catalog, name: str, columns: Fields, partition_by: Sequence[str]) -> None:
        """Make an empty table. Somebody else may be doing the same."""
        from pyiceberg.exceptions import TableAlreadyExistsError  # noqa: PLC0415 - an extra
        from pyiceberg.partitioning import PartitionField, PartitionSpec  # noqa: PLC0415
        from pyiceberg.transforms import IdentityTransform  # noqa: PLC0415

        schema = iceberg_schema(columns, where=f"Iceberg table {name}")
        spec = PartitionSpec(
            *(
                PartitionField(schema.find_field(column).field_id, 1000 + index, IdentityTransform(), column)
                for index, column in enumerate(partition_by)
            )
        )
        try:
            with catalog.asked(f"cannot make Iceberg table {name}") as opened:
                opened.create_table(name, schema, partition_spec=spec)
        except TableAlreadyExistsError:
            return

    @property
    def data(self) -> Path:
        """The directory of its data files."""
        return local_directory(self._data, who=f"Iceberg table {self.name}")

    @property
    def _data(self) -> str:
        return self.at.properties.get("write.data.path") or f"{self.at.location()}/data"

    def mark(self, owner: str) -> int:
        """A property of the table."""
        return int(self.at.properties.get(MARK + owner, "-1"))

    def check(self, columns: Fields) -> None:
        """Compare with the current schema, and see that readers will find every column in files without field ids."""
        where = f"Iceberg table {self.name}"
        schema = self.at.schema()
        staged = iceberg_columns(columns, where=where)
        compare(staged, columns_of_table(schema), where=where, show=str)
        mapping = self.at.name_mapping()
        if mapping is None:
            return
        mapped = _mapped(mapping)
        names = {column["name"] for column in staged}
        for name in schema.column_names:
            if name.partition(".")[0] in names and mapped.get(name) != schema.find_field(name).field_id:
                raise InvalidOption(
                    f"{where}: its property {MAPPING} does not have column {name}: readers would not find it in files "
                    "without field ids; add it there"
                )

    def check_partitioned_by(self, partition_by: tuple[str, ...]) -> None:
        """Refuse another partitioning than the table's, and one that cannot be told from files."""
        where = f"Iceberg table {self.name}"
        fields = self.at.spec().fields
        for field in fields:
            if str(field.transform) != "identity":
                raise InvalidOption(
                    f"{where} is partitioned by {field.name} ({field.transform}): only partitions by columns as they "
                    "are can be written; write to another table"
                )
        found = tuple(self.at.schema().find_column_name(field.source_id) or "" for field in fields)
        if found != partition_by:
            raise InvalidOption(
                f"{where} is partitioned by {found!r}, not by {partition_by!r}: give partition_by={found!r}"
            )
        local_directory(self._data, who=where)

    def append(self, files: Sequence[TableFile], mark: Mark) -> None:
        """One commit to the catalog. Of a file only its end is read here."""
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - an extra

        table = self.at
        once = {**table.metadata.properties, RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": once})
        transaction = table.transaction()
        new = {MARK + mark.owner: str(mark.number)}
        if table.name_mapping() is None:
            new[MAPPING] = table.schema().name_mapping.model_dump_json()
        notes = {f"headgate.{name}": value for name, value in mark.notes.items()}
        try:
            with self.catalog.asked(f"cannot commit to Iceberg table {self.name}"):
                transaction.set_properties(new)
                update = transaction.update_snapshot(snapshot_properties=notes)
                merge = table.properties.get(MERGE, "false").lower() == "true"
                with update.merge_append() if merge else update.fast_append() as snapshot:
                    for file in files:
                        snapshot.append_data_file(self._data_file(file))
                transaction.commit_transaction()
        except CommitFailedException as error:
            raise Conflict(str(error)) from error

    def expire(self, notes: Mapping[str, str], before_ms: int) -> int:
        """Let the table forget snapshots that this sink made before a time. How many it forgot.

        Those that a branch or a tag names stay, and so do those of others. One commit for many; where somebody else
        commits at the same moment, it is done another time.
        """
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - an extra

        named = {ref.snapshot_id for ref in self.at.metadata.refs.values()}
        whose = {f"headgate.{name}": notes[name] for name in ("job", "sink")}
        old = [
            snapshot.snapshot_id
            for snapshot in self.at.metadata.snapshots
            if snapshot.timestamp_ms < before_ms
            and snapshot.snapshot_id not in named
            and snapshot.summary is not None
            and all(snapshot.summary.additional_properties.get(name) == value for name, value in whose.items())
        ]
        if len(old) < EXPIRE_AT_ONCE:
            return 0
        try:
            with self.catalog.asked(f"cannot expire snapshots of Iceberg table {self.name}"):
                self.at.maintenance.expire_snapshots().by_ids(old).commit()
        except CommitFailedException:
            return 0
        return len(old)

    def _data_file(self, file: TableFile) -> "DataFile":
        """Size, statistics and partition of a file, from its end."""
        from pyiceberg.io.pyarrow import parquet_file_to_data_file  # noqa: PLC0415 - an extra

        path = f"{self._data}/{file.name}"
        try:
            found = parquet_file_to_data_file(self.at.io, self.at.metadata, path)
        except pa.ArrowInvalid as error:
            raise BadStorage(f"{path} is damaged ({error}): restore it from a copy") from error
        for index, field in enumerate(self.at.spec().fields):
            nulls = found.null_value_counts.get(field.source_id)
            if nulls != (found.record_count if _value(found, index) is None else 0):
                raise InvalidOption(
                    f"Iceberg table {self.name}: the file {path} does not say its value of {field.name}: shorten the "
                    "values, or have the table keep metrics of that column"
                )
        return found


def _mapped(fields: "Iterable[MappedField]", above: str = "") -> dict[str, int | None]:
    """The field ids of all names that a name mapping has."""
    found: dict[str, int | None] = {}
    for field in fields:
        for name in field.names:
            found[above + name] = field.field_id
            found |= _mapped(field.fields, f"{above}{name}.")
    return found


def _value(file: "DataFile", index: int) -> Any:
    return file.partition[index]
