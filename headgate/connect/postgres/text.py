"""Rows of PostgreSQL's COPY as text: for columns of types that have no binary form here.

One rule: the server reads each value as it would read it in a query, so any type that has a text form can be written.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.connect.postgres.stream import as_bytes
from headgate.errors import InvalidOption

_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def text_rows(columns: list[pa.Array], names: list[str]) -> memoryview:
    """The rows, a line each."""
    cells = [_cells(array, name) for array, name in zip(columns, names, strict=True)]
    lines = pc.binary_join_element_wise(*cells, "\t") if len(cells) > 1 else cells[0]
    return as_bytes(pc.binary_join_element_wise(lines, "\n", ""))


def _cells(array: pa.Array, name: str) -> pa.Array:
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _hex(array).fill_null("\\N")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # Arrow writes Z behind an instant if it knows no other zone.
        array = array.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_nested(kind):
        raise InvalidOption(
            f"column {name}: {kind} has no form that PostgreSQL reads here: turn it into a text or JSON"
        )
    try:
        cells = array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidOption(f"column {name}: {kind} cannot be written as text ({error}): cast it before") from error
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        for plain, escape in _ESCAPES:
            cells = pc.replace_substring(cells, plain, escape)
    return cells.fill_null("\\N")


def _hex(array: pa.Array) -> pa.Array:
    """Bytes as a backslash, an x and digits; the backslash is escaped."""
    data = array.cast(pa.binary())
    raw = np.frombuffer(as_bytes(data), np.uint8)
    digits = np.empty(2 * len(raw), np.uint8)
    digits[0::2], digits[1::2] = _HEX[raw >> 4], _HEX[raw & 15]
    ends = np.frombuffer(data.buffers()[1], np.int32)[data.offset : data.offset + len(data) + 1]
    buffers = [None, pa.py_buffer(((ends - ends[0]) * 2).astype(np.int32)), pa.py_buffer(digits)]
    plain = pa.Array.from_buffers(pa.string(), len(data), buffers)
    return pc.if_else(data.is_valid(), pc.binary_join_element_wise("\\\\x", plain, ""), None)
