"""Rows as the text that the server loads.

One rule: columns are worked on as a whole, and every value that the server gets is exactly the one that Spark had, or
the server refuses it.
"""

import binascii
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types

from headgate.errors import UserError

_TEXT = pa.large_binary()
ByteOffsets = np.ndarray[tuple[int], np.dtype[np.int64]]

SPARK_TYPES = (
    types.BooleanType,
    types.NumericType,
    types.StringType,
    types.BinaryType,
    types.DateType,
    types.TimestampType,
    types.TimestampNTZType,
)
"""What can be written; ``CharType`` and ``VarcharType`` come as strings."""


def load_lines(batch: pa.RecordBatch) -> memoryview:
    r"""The rows for ``LOAD DATA``: tabs between values, a line feed at the end, backslash as escape, ``\N`` is null."""
    columns = [_load_value(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    rows = pc.binary_join_element_wise(*columns, _scalar("\t"), null_handling="replace", null_replacement="\\N")
    return _content(pc.binary_join_element_wise(rows, _scalar(""), _scalar("\n")))


def insert_chunks(batch: pa.RecordBatch, most: int) -> list[bytes]:
    """The rows for ``INSERT ... VALUES``, in pieces of at most this many bytes, or of one row."""
    columns = [_sql_value(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    rows = pc.binary_join_element_wise(*columns, _scalar(","), null_handling="replace", null_replacement="NULL")
    lines = pc.binary_join_element_wise(_scalar("("), rows, _scalar("),"), _scalar(""))
    ends = _ends(lines)
    content, chunks, start, row = _content(lines), [], 0, 0
    while row < len(ends):
        row = max(row + 1, int(np.searchsorted(ends, start + most, side="right")))
        end = int(ends[row - 1])
        chunks.append(bytes(content[start : end - 1]))  # without the last comma
        start = end
    return chunks


def load_target(schema: pa.Schema, quote: Callable[[str], str]) -> str:
    """Which column takes which value of a line, for ``LOAD DATA``."""
    places, settings = [], []
    for index, field in enumerate(schema):
        column = quote(field.name)
        if _is_binary(field.type):
            places.append(f"@v{index}")
            settings.append(f"{column} = UNHEX(@v{index})")
        elif pa.types.is_boolean(field.type):
            places.append(f"@v{index}")
            settings.append(f"{column} = CAST(@v{index} AS UNSIGNED)")
        else:
            places.append(column)
    return f"({', '.join(places)})" + (f" SET {', '.join(settings)}" if settings else "")


def _load_value(name: str, column: pa.Array) -> pa.Array:
    if _is_binary(column.type):
        return _hexadecimal(column)
    return _escaped(column, "\t\n") if _is_text(column.type) else _plain(name, column)


def _sql_value(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if _is_binary(kind):
        return _between("X'", _hexadecimal(column))
    if _is_text(kind):
        return _between("'", _escaped(column, "'"))
    value = _plain(name, column)
    number = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return value if number or pa.types.is_decimal(kind) else _between("'", value)


def _plain(name: str, column: pa.Array) -> pa.Array:
    """A number or a time as text that needs no escape."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_floating(kind):
        if not pc.all(pc.is_finite(column)).as_py() and pc.any(pc.invert(pc.is_finite(column))).as_py():
            raise UserError(f"column {name} has NaN or an infinity, for which MariaDB has no value: write null instead")
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us"))  # of UTC, whatever zone it is shown in
    return column.cast(pa.large_string()).cast(_TEXT)


def _escaped(column: pa.Array, special: str) -> pa.Array:
    column = column.cast(_TEXT)
    for character in ("\\", "\0", *special):
        if pc.any(pc.match_substring(column, character)).as_py():
            letter = {"\t": "t", "\n": "n", "\0": "0"}.get(character, character)
            column = pc.replace_substring(column, pattern=character, replacement="\\" + letter)
    return column


def _between(begin: str, column: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_scalar(begin), column, _scalar("'"), _scalar(""))


def _hexadecimal(column: pa.Array) -> pa.Array:
    column = column.cast(_TEXT)
    offsets = _offsets(column)
    content = binascii.hexlify(_content(column))
    starts = pa.py_buffer(((offsets - offsets[0]) * 2).tobytes())
    nulls = pc.is_valid(column).buffers()[1] if column.null_count else None
    return pa.Array.from_buffers(_TEXT, len(column), [nulls, starts, pa.py_buffer(content)])


def _offsets(column: pa.Array) -> ByteOffsets:
    if not len(column):
        none: ByteOffsets = np.zeros(1, np.int64)
        return none
    offsets: ByteOffsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    return offsets


def _ends(column: pa.Array) -> ByteOffsets:
    """Where each value ends in ``_content``."""
    offsets = _offsets(column)
    ends: ByteOffsets = offsets[1:] - offsets[0]
    return ends


def _content(column: pa.Array) -> memoryview:
    """All values, one after the other, without a copy."""
    offsets, data = _offsets(column), column.buffers()[2]
    return memoryview(b"") if data is None else memoryview(data)[int(offsets[0]) : int(offsets[-1])]


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text.encode(), _TEXT)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
