"""Which columns a row for Kafka has.

One rule: what Kafka cannot take is refused by its column's name before anything is written.

``value`` is the message, and must be there. The other columns may be left out, and each may be null in a row:
``key``, ``topic`` (else the sink's own), ``partition`` (else by the key, as Java's clients choose it), ``timestamp``
(else the time of sending) and ``headers``.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headgate.errors import InvalidOption, UserError

VALUE, KEY, TOPIC, PARTITION, TIMESTAMP, HEADERS = "value", "key", "topic", "partition", "timestamp", "headers"
COLUMNS = (VALUE, KEY, TOPIC, PARTITION, TIMESTAMP, HEADERS)
EARLIEST_MS = 1
"""librdkafka takes 0 for "now", and a broker takes nothing below."""


def check_frame(schema: StructType, *, topic: str | None, who: str = "kafka") -> None:
    """Refuse a DataFrame that cannot be sent. ``topic`` is where rows go that do not name one."""
    check(to_arrow_schema(schema, timezone="UTC"), topic=topic, who=who)


def check(schema: pa.Schema, *, topic: str | None, who: str = "kafka") -> None:
    """Refuse rows that cannot be sent, as ``check_frame``."""
    names = list(schema.names)
    for name in names:
        if name not in COLUMNS:
            raise InvalidOption(
                f"{who}: column {name!r} has no place in a Kafka row: leave it out, or put it into value; "
                f"a row has {', '.join(COLUMNS)}"
            )
        if names.count(name) > 1:
            raise InvalidOption(f"{who}: there are {names.count(name)} columns {name!r}: keep one")
    if VALUE not in names:
        raise InvalidOption(f"{who}: there is no column 'value', which is the message: add it, like to_json(...)")
    if topic is None and TOPIC not in names:
        raise InvalidOption(f"{who}: no topic: name one, or add a column 'topic'")
    for name in names:
        wanted = _wanted(name, schema.field(name).type)
        if wanted:
            raise InvalidOption(
                f"{who}: column {name!r} must be {wanted}, is {schema.field(name).type}: cast it, or leave it out"
            )


def as_binary(array: pa.Array) -> pa.Array:
    """The same bytes, called binary. Nothing is copied."""
    if pa.types.is_string(array.type):
        return array.cast(pa.binary())
    if pa.types.is_large_string(array.type):
        return array.cast(pa.large_binary())
    return array


def partitions(array: pa.Array, count: int, topic: str) -> Any:
    """The partition of each row as 32-bit integers, -1 where the key is to choose."""
    filled = pc.fill_null(pc.cast(array, pa.int64()), -1)
    if pc.any(pc.and_(pc.less(filled, 0), pc.is_valid(array))).as_py():
        raise UserError(f"kafka: a partition of {pc.min(array).as_py()}: give a number from 0, or null")
    largest = pc.max(filled).as_py()
    if largest is not None and largest >= count:
        raise UserError(
            f"kafka: partition {largest} is not there: topic {topic} has {count}: "
            "give a lower number, or add partitions to the topic"
        )
    return filled.to_numpy(zero_copy_only=False).astype("i4")


def milliseconds(array: pa.Array) -> Any:
    """The time of each row in milliseconds since 1970, 0 where there is none."""
    times = pc.cast(pc.cast(array, pa.timestamp("ms", tz=array.type.tz), safe=False), pa.int64())
    if pc.any(pc.less(times, EARLIEST_MS)).as_py():
        raise UserError(
            "kafka: a timestamp that is not after 1970-01-01 00:00:00 UTC: a broker takes none: "
            "give a later one, or null for the time of sending"
        )
    return pc.fill_null(times, 0).to_numpy(zero_copy_only=False)


def _wanted(name: str, given: pa.DataType) -> str:
    """What the column should be; empty if it is."""
    types = pa.types
    match name:
        case "value" | "key":
            return "" if _bytes(given) else "string or binary"
        case "topic":
            return "" if types.is_string(given) or types.is_large_string(given) else "string"
        case "partition":
            return "" if types.is_signed_integer(given) else "an integer"
        case "timestamp":
            return "" if types.is_timestamp(given) else "a timestamp"
        case _:
            return "" if _headers(given) else "array<struct<key: string, value: binary>>"


def _bytes(given: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(given) or types.is_binary(given) or types.is_large_string(given) or types.is_large_binary(given)
    )


def _headers(given: pa.DataType) -> bool:
    if not (pa.types.is_list(given) or pa.types.is_large_list(given)) or not pa.types.is_struct(given.value_type):
        return False
    fields = {field.name: field.type for field in given.value_type}
    return set(fields) == {"key", "value"} and all(_bytes(kind) for kind in fields.values())
