"""From columns of Arrow to fields of PostgreSQL's binary COPY.

One rule: the type of the table's column decides; a value either fits it exactly or is refused. What has no binary form
here goes as text, with the whole COPY.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.connect.postgres.numeric import numeric
from headgate.connect.postgres.stream import Field, Fixed, NullMask, Varying, as_bytes, lay_out
from headgate.connect.postgres.table import ColumnType
from headgate.errors import UserError

Encode = Callable[[pa.Array], Field]

EPOCH_DAYS = 10_957
"""From 1970 to 2000, where PostgreSQL begins to count."""
EPOCH_US = EPOCH_DAYS * 86_400_000_000
TEXTS = frozenset({"text", "varchar", "bpchar", "name", "citext", "json", "xml"})
_INTEGERS = {"int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64()}
_INTEGER_DECIMAL = pa.decimal128(19, 0)
_INTERVAL = np.dtype([("us", ">i8"), ("days", ">i4"), ("months", ">i4")])
_ARRAY = np.dtype([("dimensions", ">i4"), ("nulls", ">i4"), ("type", ">u4"), ("length", ">i4"), ("first", ">i4")])
_UUID_DIGITS = 32
_HEX = np.full(256, 255, np.uint8)
for _digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
    _HEX[np.frombuffer(_digits, np.uint8)] = np.arange(16)


def encoder(kind: pa.DataType, column: ColumnType) -> Encode | None:
    """What encodes arrays of an Arrow type for a column. None if there is no binary form."""
    types, name = pa.types, column.name
    if column.element is not None:
        listed = types.is_list(kind) or types.is_large_list(kind)
        return _array(column, encoder(kind.value_type, column.element)) if listed else None
    texts = types.is_string(kind) or types.is_large_string(kind)
    bytes_ = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if (texts and (name in TEXTS or column.is_enum)) or (bytes_ and name == "bytea"):
        return _varying
    match name:
        case "jsonb" if texts:
            return _jsonb
        case "uuid" if texts:
            return _uuid
        case "bool" if types.is_boolean(kind):
            return lambda array: _fixed(array.cast(pa.uint8()), "u1")
        case "int2" | "int4" | "int8" if types.is_integer(kind):
            return lambda array: _fixed(array.cast(_INTEGERS[name]), f">i{name[3:]}")
        case "float8" if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
            return lambda array: _fixed(array.cast(pa.float64(), safe=False), ">f8")
        case "float4" if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
            return _real
        case "numeric" if types.is_decimal128(kind):
            return _numeric
        case "numeric" if types.is_integer(kind) and not types.is_uint64(kind):
            return lambda array: _numeric(array.cast(_INTEGER_DECIMAL))
        case "timestamptz" | "timestamp" if types.is_timestamp(kind) and (kind.tz is not None) == (name != "timestamp"):
            return _timestamp
        case "date" if types.is_date32(kind):
            return lambda array: _fixed(array.cast(pa.int32()), ">i4", -EPOCH_DAYS)
        case "time" if types.is_time64(kind):
            return lambda array: _fixed(array.cast(pa.time64("us"), safe=False).cast(pa.int64()), ">i8")
        case "interval" if types.is_duration(kind):
            return _interval
        case _:
            return None


def _nulls(array: pa.Array) -> NullMask:
    if array.null_count == 0:
        return None
    found: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return found


def _values(array: pa.Array) -> NDArray[Any]:
    """Numbers, with zeros for nulls."""
    filled = array.fill_null(0) if array.null_count else array
    found: NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return found


def _fixed(array: pa.Array, kind: str, shift: int = 0) -> Field:
    values = _values(array)
    return Fixed(values + shift if shift else values, np.dtype(kind), _nulls(array))


def _real(array: pa.Array) -> Field:
    wide = _values(array.cast(pa.float64(), safe=False))
    with np.errstate(over="ignore"):
        values = wide.astype(np.float32)
    if (lost := np.isinf(values) & np.isfinite(wide)).any():
        raise UserError(f"{wide[lost][0]!r} is too large for a column of type real")
    return Fixed(values, np.dtype(">f4"), _nulls(array))


def _numeric(array: pa.Array) -> Field:
    values, kind = numeric(array)
    return Fixed(values, kind, _nulls(array))


def _timestamp(array: pa.Array) -> Field:
    return _fixed(array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()), ">i8", -EPOCH_US)


def _interval(array: pa.Array) -> Field:
    values = np.zeros(len(array), _INTERVAL)
    values["us"] = _values(array.cast(pa.duration("us")).cast(pa.int64()))
    return Fixed(values, _INTERVAL, _nulls(array))


def _filled(array: pa.Array) -> pa.Array:
    data = array.cast(pa.binary())
    return data.fill_null(b"") if data.null_count else data


def _varying(array: pa.Array) -> Field:
    return Varying(_filled(array), _nulls(array))


def _jsonb(array: pa.Array) -> Field:
    version = np.ones(len(array), np.dtype("u1"))
    return Varying(_filled(array), _nulls(array), version)


def _uuid(array: pa.Array) -> Field:
    plain = pc.replace_substring(array, "-", "")
    wrong = pc.not_equal(pc.binary_length(plain), _UUID_DIGITS)
    nulls = _nulls(array)
    if pc.any(wrong).as_py():
        raise UserError(f"{array.filter(wrong)[0].as_py()!r} is not a valid uuid")
    data = _filled(plain.fill_null("0" * _UUID_DIGITS))
    digits = _HEX[np.frombuffer(as_bytes(data), np.uint8)].reshape(-1, _UUID_DIGITS)
    if (wrong_rows := (digits > 15).any(axis=1)).any():
        raise UserError(f"{array[int(np.argmax(wrong_rows))].as_py()!r} is not a valid uuid")
    values = digits[:, 0::2] << 4 | digits[:, 1::2]
    return Fixed(values, np.dtype(("u1", (16,))), nulls)


def _array(column: ColumnType, element: Encode | None) -> Encode | None:
    """Arrays of one dimension: the elements of all rows are laid out at once, and cut where a row's own end."""
    if element is None:
        return None
    inner = element

    def encode(array: pa.Array) -> Field:
        flat = array.flatten()
        lengths = _values(array.value_lengths()).astype(np.int32)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
        cuts, data = np.zeros(len(ends), np.int32), pa.py_buffer(b"")
        if len(flat):
            _, offsets, data = lay_out([inner(flat)], len(flat), counted=False).buffers()
            cuts = np.frombuffer(offsets, np.int32)[ends]
        buffers = [None, pa.py_buffer(cuts), data]
        head = np.empty(len(array), _ARRAY)
        head["dimensions"], head["first"], head["type"] = 1, 1, column.element_oid
        head["nulls"], head["length"] = int(flat.null_count > 0), lengths
        return Varying(pa.Array.from_buffers(pa.binary(), len(array), buffers), _nulls(array), head)

    return encode
