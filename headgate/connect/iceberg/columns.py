"""The columns of rows in the words of Iceberg.

One rule: every type has one counterpart or is refused. Nothing is widened in silence.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from headgate.connect.tables.schema import Fields
from headgate.errors import InvalidOption

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def iceberg_schema(columns: Fields, *, where: str) -> Any:
    """A schema in which every column may be null."""
    from pyiceberg.schema import Schema  # noqa: PLC0415 - an extra: only who writes to Iceberg tables has it

    return Schema(*_fields(columns, count(1), where))


def columns_of_table(schema: Any) -> Fields:
    """A table's columns, with types to be compared with those of ``iceberg_columns``."""
    return [
        {"name": field.name, "type": shape(field.field_type), "nullable": not field.required} for field in schema.fields
    ]


def iceberg_columns(columns: Fields, *, where: str) -> Fields:
    """The columns of rows, with types as Iceberg shows them."""
    fields = iceberg_schema(columns, where=where).fields
    return [
        {"name": field.name, "type": shape(field.field_type), "nullable": column["nullable"]}
        for field, column in zip(fields, columns, strict=True)
    ]


def shape(kind: Any) -> str:
    """A type without ids, and without what may be null within it."""
    from pyiceberg import types  # noqa: PLC0415 - as above

    match kind:
        case types.StructType():
            return f"struct<{', '.join(f'{field.name}: {shape(field.field_type)}' for field in kind.fields)}>"
        case types.ListType():
            return f"list<{shape(kind.element_type)}>"
        case types.MapType():
            return f"map<{shape(kind.key_type)}, {shape(kind.value_type)}>"
        case _:
            return str(kind)


def _fields(columns: Sequence[Any], ids: Iterator[int], where: str) -> list[Any]:
    from pyiceberg.types import NestedField  # noqa: PLC0415 - as above

    fields = []
    for column in columns:
        kind = _type(column["type"], ids, f"{where} cannot have column {column['name']}")
        fields.append(NestedField(next(ids), column["name"], kind, required=False))
    return fields


def _type(kind: Any, ids: Iterator[int], where: str) -> Any:
    from pyiceberg import types  # noqa: PLC0415 - as above

    match kind:
        case {"type": "struct", "fields": fields}:
            return types.StructType(*_fields(fields, ids, where))
        case {"type": "array", "elementType": element}:
            return types.ListType(next(ids), _type(element, ids, where), element_required=False)
        case {"type": "map", "keyType": key, "valueType": value}:
            return types.MapType(
                next(ids), _type(key, ids, where), next(ids), _type(value, ids, where), value_required=False
            )
        case str() if match := _DECIMAL.fullmatch(kind):
            return types.DecimalType(int(match[1]), int(match[2]))
    simple = {
        "string": types.StringType,
        "integer": types.IntegerType,
        "long": types.LongType,
        "float": types.FloatType,
        "double": types.DoubleType,
        "boolean": types.BooleanType,
        "binary": types.BinaryType,
        "date": types.DateType,
        "timestamp": types.TimestamptzType,
        "timestamp_ntz": types.TimestampType,
    }
    if isinstance(kind, str) and kind in simple:
        return simple[kind]()
    raise InvalidOption(f"{where}, which has {json.dumps(kind)} in it: cast it")
