"""The columns of staged rows, and how they are compared with a table's.

One rule: a table takes rows whose every column it has, under the same name and with the same type; it may have more,
if those may be null. Nothing is cast in silence.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.errors import InvalidOption

Fields = Sequence[Mapping[str, Any]]
"""Columns in the JSON form of Spark's schemas: ``name``, ``type`` and ``nullable``."""

PARTITION_TYPES = frozenset({"string", "byte", "short", "integer", "long", "boolean", "date"})
"""What a table may be partitioned by: types whose text is the same for every reader."""


def columns_of(schema: str) -> Fields:
    """The columns of a schema that Spark wrote as JSON."""
    fields = json.loads(schema)["fields"]
    return tuple({"name": str(f["name"]), "type": plain(f["type"]), "nullable": bool(f["nullable"])} for f in fields)


def plain(kind: Any) -> Any:
    """A type without what differs from batch to batch: whether something within it may be null, and comments."""
    if not isinstance(kind, dict):
        return kind
    match kind["type"]:
        case "struct":
            fields = [{"name": f["name"], "type": plain(f["type"]), **NULLABLE} for f in kind["fields"]]
            return {"type": "struct", "fields": fields}
        case "array":
            return {"type": "array", "elementType": plain(kind["elementType"]), "containsNull": True}
        case "map":
            inner = {"keyType": plain(kind["keyType"]), "valueType": plain(kind["valueType"])}
            return {"type": "map", **inner, "valueContainsNull": True}
        case _:
            return kind


NULLABLE: Mapping[str, Any] = {"nullable": True, "metadata": {}}


def as_nullable(columns: Fields) -> str:
    """The schema, as JSON, of a table for these columns: all may be null."""
    fields = [{"name": column["name"], "type": column["type"], **NULLABLE} for column in columns]
    return json.dumps({"type": "struct", "fields": fields})


def compare(staged: Fields, table: Fields, *, where: str, show: Callable[[Any], str] = json.dumps) -> None:
    """Refuse columns that a table cannot take. Types are compared as they are given."""
    wanted = {column["name"]: column for column in table}
    problems = []
    for column in staged:
        name = column["name"]
        if name not in wanted:
            problems.append(f"it has no column {name}")
        elif column["type"] != wanted[name]["type"]:
            problems.append(f"{name} is {show(wanted[name]['type'])} there and {show(column['type'])} in the job")
        elif column["nullable"] and not wanted[name]["nullable"]:
            problems.append(f"{name} may not be null there, and may be in the job")
    given = {column["name"] for column in staged}
    missing = [name for name, column in wanted.items() if name not in given and not column["nullable"]]
    problems += [f"the job does not write its column {name}, which may not be null" for name in missing]
    if problems:
        raise InvalidOption(f"{where} cannot take the job's rows: {'; '.join(problems)}: change the rows or the table")


def check_partitions(columns: Fields, partition_by: Sequence[str], *, where: str) -> None:
    """Refuse partition columns that are not there, or of a type whose text is not one for all readers."""
    types = {column["name"]: column["type"] for column in columns}
    for name in partition_by:
        if name not in types:
            raise InvalidOption(f"{where}: partition_by names {name}, the rows have {', '.join(types)}: choose one")
        if not isinstance(types[name], str) or types[name] not in PARTITION_TYPES:
            raise InvalidOption(
                f"{where}: a table cannot be partitioned by {name}, which is {json.dumps(types[name])}: "
                f"choose a column that is {', '.join(sorted(PARTITION_TYPES))}"
            )
    if partition_by and len(partition_by) == len(types):
        raise InvalidOption(f"{where}: partition_by names every column: leave one for the files")


def check_partition_by(partition_by: object, *, where: str) -> tuple[str, ...]:
    """Column names, as a user gave them."""
    if isinstance(partition_by, str) or not isinstance(partition_by, Sequence):
        raise InvalidOption(f"{where}: partition_by takes column names, like ('day',); got {partition_by!r}")
    names = tuple(partition_by)
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise InvalidOption(f"{where}: partition_by takes column names, like ('day',); got {partition_by!r}")
    return names
