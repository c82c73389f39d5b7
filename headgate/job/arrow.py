"""Columns of Arrow, and the values inside Spark that they stand for.

One rule: a value that does not fit its type is refused, never bent. Spark takes what it is given and finds out later,
or not at all; so everything on its way into state or into output goes through a type of Arrow first. Text is not read
as a number, and a number does not lose digits.

Inside Spark a timestamp is a number of microseconds and a date one of days: they go over without a calendar, so no zone
can be lost on the way.
"""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DayTimeIntervalType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate.errors import InvalidJob

Internal = Any
"""A value as Spark has it inside."""

_BY_NUMBER = (TimestampType, TimestampNTZType, DayTimeIntervalType)
_FAMILIES = {
    "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "bytes": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    "boolean": (pa.types.is_boolean,),
    "time": (pa.types.is_timestamp, pa.types.is_date),
    "duration": (pa.types.is_duration,),
    "list": (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    "map": (pa.types.is_map,),
    "struct": (pa.types.is_struct,),
}


def arrow_type(of: DataType, what: str) -> pa.DataType:
    """The type of Arrow for a type of Spark. ``what`` has it, for the refusal of one that there is none for."""
    try:
        return to_arrow_type(of, timezone="UTC")
    except PySparkException as error:
        raise InvalidJob(f"{what} is of type {of.simpleString()}, which cannot be a column of Arrow") from error


def arrow_schema(columns: StructType, what: str) -> pa.Schema:
    """The same for named columns."""
    return pa.schema([(field.name, arrow_type(field.dataType, f"{what} {field.name!r}")) for field in columns.fields])


def as_table(rows: Any, what: str) -> pa.Table:
    """Rows as a table of Arrow, whatever they are in: Arrow, pandas, Polars, or anything else that Arrow can read."""
    match rows:
        case pa.Table():
            return rows
        case pa.RecordBatch():
            return pa.Table.from_batches([rows])
        case _ if _is_of_pandas(rows, "DataFrame"):
            return pa.Table.from_pandas(rows, preserve_index=False)
        case _ if hasattr(rows, "__arrow_c_stream__"):
            return pa.table(rows)
        case _:
            raise InvalidJob(
                f"{what} gave a {type(rows).__name__}: give a table of Arrow, or a DataFrame of pandas or Polars"
            )


def as_column(values: Any, to: pa.DataType, what: str) -> pa.Array:
    """Values as one column of a type, whatever they are in. In pandas NaN stands for nothing, elsewhere for itself."""
    try:
        match values:
            case pa.ChunkedArray() | pa.Array():
                column = values
            case _ if _is_of_pandas(values, "Series", "Index"):
                column = pa.Array.from_pandas(values)
            case np.ndarray():
                column = pa.array(values)
            case _ if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
                column = pa.chunked_array(values) if hasattr(values, "__arrow_c_stream__") else pa.array(values)
            case _:
                listed = list(values)
                for value in listed:
                    _refuse_bent(value, to)
                column = pa.array(listed, to)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        return fitted(column, to)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        (line, *_) = str(error).splitlines() or [type(error).__name__]
        raise InvalidJob(f"{what} does not fit its type {to}: {line}") from error


def _is_of_pandas(value: Any, *classes: str) -> bool:
    """Whether it is of one of these. pandas takes a second to import: whoever has something of it has done so."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, tuple(getattr(pandas, name) for name in classes))


def fitted(column: pa.Array, to: pa.DataType) -> pa.Array:
    """A column as one of another type, if nothing is lost by it. Raises what Arrow does."""
    if column.type == to:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not _alike(column.type, to):
        raise TypeError(f"it is {column.type}")
    if pa.types.is_timestamp(to) and (column.type.tz is None) != (to.tz is None):
        raise TypeError(f"it is {column.type}: one has a zone and the other has none")
    return column.cast(to)


def _refuse_bent(value: Any, to: pa.DataType) -> None:
    """Arrow cuts digits and zones off where it makes columns of plain values, and says nothing."""
    if value is None:
        return
    if pa.types.is_integer(to) and isinstance(value, float):
        raise TypeError(f"{value} is not a whole number")
    if pa.types.is_timestamp(to) and isinstance(value, datetime) and (value.tzinfo is None) != (to.tz is None):
        raise TypeError(f"{value!r}: one has a zone and the other has none")
    if pa.types.is_list(to):
        for item in value:
            _refuse_bent(item, to.value_type)
    elif pa.types.is_map(to):
        for key, item in value.items() if isinstance(value, Mapping) else value:
            _refuse_bent(key, to.key_type)
            _refuse_bent(item, to.item_type)
    elif pa.types.is_struct(to) and isinstance(value, Mapping):
        known = {field.name: field.type for field in _fields(to)}
        for name, item in value.items():
            if name not in known:
                raise TypeError(f"it has no field {name!r}")
            _refuse_bent(item, known[name])


def _alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether both are of one family, all the way down."""
    if pa.types.is_null(one):
        return True
    if pa.types.is_dictionary(one):
        return _alike(one.value_type, other)
    family = _family(one)
    if family is None or family != _family(other):
        return bool(one == other)
    if family == "time":
        return bool(pa.types.is_timestamp(one) == pa.types.is_timestamp(other))
    if family in {"list", "map", "struct"}:
        inner, outer = _fields(one), _fields(other)
        if family == "struct":
            inner, outer = sorted(inner, key=_name), sorted(outer, key=_name)
            if [*map(_name, inner)] != [*map(_name, outer)]:
                return False
        return len(inner) == len(outer) and all(_alike(a.type, b.type) for a, b in zip(inner, outer, strict=True))
    return True


def _family(of: pa.DataType) -> str | None:
    return next((name for name, tests in _FAMILIES.items() if any(test(of) for test in tests)), None)


def _name(field: pa.Field) -> str:
    return str(field.name)


def _fields(of: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(of):
        return [of.key_field, of.item_field]
    return [of.field(at) for at in range(of.num_fields)]


# -- to Spark and back -----------------------------------------------------------------------------------------------


def internals(column: pa.Array, of: DataType) -> list[Internal]:
    """The values of a column as they are inside Spark. It has the type of Arrow for ``of``."""
    match of:
        case TimestampType() | TimestampNTZType() | DayTimeIntervalType():
            return list(column.cast(pa.int64()).to_pylist())
        case DateType():
            return list(column.cast(pa.int32()).to_pylist())
        case StructType():
            parts = [internals(part, field.dataType) for part, field in zip(column.flatten(), of.fields, strict=True)]
            rows = list(zip(*parts, strict=True)) if parts else [()] * len(column)
            return _with_nulls(rows, column)
        case ArrayType():
            items = internals(column.values, of.elementType)
            return _with_nulls([items[a:b] for a, b in _bounds(column)], column)
        case MapType():
            keys, items = internals(column.keys, of.keyType), internals(column.items, of.valueType)
            pairs = list(zip(keys, items, strict=True))
            return _with_nulls([dict(pairs[a:b]) for a, b in _bounds(column)], column)
        case _:
            return list(column.to_pylist())


def from_internals(values: Sequence[Internal], of: DataType, to: pa.DataType) -> pa.Array:
    """The column of these values."""
    match of:
        case TimestampType() | TimestampNTZType() | DayTimeIntervalType():
            return pa.array(values, pa.int64()).cast(to)
        case DateType():
            return pa.array(values, pa.int32()).cast(to)
        case StructType():
            missing = (None,) * len(of.fields)
            rows = [missing if row is None else row for row in values]
            parts = list(zip(*rows, strict=True)) or [()] * len(missing)
            columns = [
                from_internals(part, field.dataType, to.field(at).type)
                for at, (part, field) in enumerate(zip(parts, of.fields, strict=True))
            ]
            mask = pa.array([row is None for row in values], pa.bool_())
            return pa.StructArray.from_arrays(columns, fields=[to.field(at) for at in range(to.num_fields)], mask=mask)
        case ArrayType():
            items = from_internals([item for row in values for item in row or ()], of.elementType, to.value_type)
            return pa.ListArray.from_arrays(_offsets(values), items, type=to)
        case MapType():
            pairs = [pair for row in values for pair in (row or {}).items()]
            keys = from_internals([key for key, _ in pairs], of.keyType, to.key_type)
            items = from_internals([item for _, item in pairs], of.valueType, to.item_type)
            return pa.MapArray.from_arrays(_offsets(values), keys, items, type=to)
        case _:
            return pa.array(values, to)


def _bounds(column: pa.Array) -> list[tuple[int, int]]:
    offsets = column.offsets.to_pylist()
    return list(pairwise(offsets))


def _with_nulls(values: list[Internal], column: pa.Array) -> list[Internal]:
    if not column.null_count:
        return values
    return [value if there else None for value, there in zip(values, column.is_valid().to_pylist(), strict=True)]


def _offsets(values: Sequence[Internal]) -> pa.Array:
    """Where each of these lists begins in all of them together; a missing one begins nowhere."""
    ends = list(accumulate((len(row or ()) for row in values), initial=0))
    starts = [None if row is None else start for row, start in zip(values, ends, strict=False)]
    return pa.array([*starts, ends[-1]], pa.int32())


# -- keys ------------------------------------------------------------------------------------------------------------


def first_rows(keys: Sequence[pa.Array]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where each key begins, in rows that are in the order of their keys."""
    count = len(keys[0])
    other = np.zeros(count, bool)
    other[:1] = True
    for column in keys:
        if count > 1:
            other[1:] |= _unlike_before(column)
    return np.flatnonzero(other).astype(np.int64)


def _unlike_before(column: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each value but the first, whether it is another than the one before. Null is like null, and NaN like NaN."""
    here, before = column.slice(1), column.slice(0, len(column) - 1)
    try:
        unlike = pc.not_equal(here, before)
    except pa.ArrowNotImplementedError:  # Of nested types.
        listed = column.to_pylist()
        return np.fromiter((a != b for a, b in pairwise(listed)), bool, len(listed) - 1)
    if pa.types.is_floating(column.type):
        unlike = pc.and_(unlike, pc.invert(pc.and_(pc.is_nan(here), pc.is_nan(before))))
    if column.null_count:
        unlike = pc.fill_null(unlike, fill_value=False)
        unlike = pc.or_(unlike, pc.not_equal(here.is_null(), before.is_null()))
    return np.asarray(unlike.to_numpy(zero_copy_only=False), bool)
