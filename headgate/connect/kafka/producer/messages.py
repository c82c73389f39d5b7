"""Which columns a row for Kafka has, and how a batch of rows becomes the structures that librdkafka reads.

One rule: what Kafka cannot take is refused by its column's name before anything is written, and of what it takes no
bytes pass through Python. Columns stay where Arrow has them; only addresses and lengths are computed, by numpy, and
librdkafka copies from there.

``value`` is the message, and must be there. The other columns may be left out, and each may be null in a row:
``key``, ``topic`` (else the sink's own), ``partition`` (else by the key, as Java's clients choose it), ``timestamp``
(else the time of sending) and ``headers``.

What ``build`` makes holds addresses into the batch: keep it together with ``keep`` until it was sent.
"""

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headgate.connect.kafka.producer.native import (
    F_COPY,
    FIELD,
    MESSAGE,
    NO_PARTITION,
    V_FLAGS,
    V_HEADER,
    V_KEY,
    V_PARTITION,
    V_TIMESTAMP,
    V_TOPIC_HANDLE,
    V_VALUE,
)
from headgate.errors import InvalidOption, UserError

VALUE, KEY, TOPIC, PARTITION, TIMESTAMP, HEADERS = "value", "key", "topic", "partition", "timestamp", "headers"
COLUMNS = (VALUE, KEY, TOPIC, PARTITION, TIMESTAMP, HEADERS)
EARLIEST_MS = 1
"""librdkafka takes 0 for "now", and a broker takes nothing below."""

_SOMEWHERE = ctypes.create_string_buffer(1)
SOMEWHERE = ctypes.addressof(_SOMEWHERE)
"""An address for bytes of which there are none. Null would mean that there is no value."""
FIXED = 6
"""The fields that every message of ``Singly`` has, before its headers."""


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


@dataclass(frozen=True)
class Together:
    """Messages that one call takes: an array of ``rd_kafka_message_t``."""

    messages: Any
    partitioned: bool
    keep: tuple[Any, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.messages)

    def size(self, index: int) -> int:
        """The bytes of one message, key and value."""
        return int(self.messages["len"][index]) + int(self.messages["key_len"][index])


@dataclass(frozen=True)
class Singly:
    """Messages with a timestamp or headers, which librdkafka takes one by one: arrays of ``rd_kafka_vu_t``."""

    fields: Any
    starts: Any
    counts: Any
    sizes: Any
    keep: tuple[Any, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.starts)

    def size(self, index: int) -> int:
        """The bytes of one message, key and value."""
        return int(self.sizes[index])


def build(batch: pa.RecordBatch, *, handle: int, topic: str, partition_count: int) -> Together | Singly:
    """The messages of a batch for one topic. A column ``topic`` is not looked at."""
    names = set(batch.schema.names)
    value = as_binary(batch.column(VALUE))
    key = as_binary(batch.column(KEY)) if KEY in names else None
    values, value_sizes = located(value)
    keys, key_sizes = located(key) if key is not None else (0, 0)
    chosen = partitions(batch.column(PARTITION), partition_count, topic) if PARTITION in names else NO_PARTITION
    keep: tuple[Any, ...] = (batch, value, key)
    if not names & {TIMESTAMP, HEADERS}:
        messages = np.zeros(batch.num_rows, dtype=MESSAGE)
        messages["partition"] = chosen
        messages["payload"], messages["len"] = values, value_sizes
        messages["key"], messages["key_len"] = keys, key_sizes
        return Together(messages, PARTITION in names, keep)
    headers = _headers(batch.column(HEADERS)) if HEADERS in names else None
    counts = np.full(batch.num_rows, FIXED, dtype="u8")
    if headers is not None:
        counts += headers.counts
    starts = np.cumsum(counts) - counts
    fields = np.zeros(int(counts.sum()), dtype=FIELD)
    fields["vtype"] = V_HEADER
    _put(fields, starts, V_TOPIC_HANDLE, pointer=handle)
    _put(fields, starts + 1, V_PARTITION, small=chosen)
    _put(fields, starts + 2, V_VALUE, pointer=values, size=value_sizes)
    _put(fields, starts + 3, V_KEY, pointer=keys, size=key_sizes)
    _put(fields, starts + 4, V_FLAGS, small=F_COPY)
    _put(fields, starts + 5, V_TIMESTAMP, number=milliseconds(batch.column(TIMESTAMP)) if TIMESTAMP in names else 0)
    if headers is not None:
        rest = np.ones(len(fields), dtype=bool)
        for index in range(FIXED):
            rest[starts + index] = False
        fields["name"][rest] = headers.names
        fields["value"][rest] = headers.values
        fields["value_size"][rest] = headers.sizes
        keep = (*keep, headers)
    return Singly(fields, starts, counts, value_sizes + key_sizes, keep)


def located(array: pa.Array) -> tuple[Any, Any]:
    """Where the bytes of each row are, and how many. A null is at 0."""
    rows = len(array)
    if not rows:
        return np.zeros(0, "u8"), np.zeros(0, "u8")
    _, offsets, data = array.buffers()
    width = "i8" if pa.types.is_large_binary(array.type) else "i4"
    edges = np.frombuffer(offsets, dtype=width)[array.offset : array.offset + rows + 1].astype("u8")
    base = data.address if data is not None and data.size else SOMEWHERE
    pointers, lengths = edges[:-1] + np.uint64(base), np.diff(edges)
    if array.null_count:
        absent = pc.is_null(array).to_numpy(zero_copy_only=False)
        pointers[absent] = 0
        lengths[absent] = 0
    return pointers, lengths


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
            return "" if _are_bytes(given) else "string or binary"
        case "topic":
            return "" if types.is_string(given) or types.is_large_string(given) else "string"
        case "partition":
            return "" if types.is_signed_integer(given) else "an integer"
        case "timestamp":
            return "" if types.is_timestamp(given) else "a timestamp"
        case _:
            return "" if _are_headers(given) else "array<struct<key: string, value: binary>>"


def _are_bytes(given: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(given) or types.is_binary(given) or types.is_large_string(given) or types.is_large_binary(given)
    )


def _are_headers(given: pa.DataType) -> bool:
    if not (pa.types.is_list(given) or pa.types.is_large_list(given)) or not pa.types.is_struct(given.value_type):
        return False
    fields = {field.name: field.type for field in given.value_type}
    return set(fields) == {"key", "value"} and all(_are_bytes(kind) for kind in fields.values())


@dataclass(frozen=True)
class _Headers:
    counts: Any
    names: Any
    values: Any
    sizes: Any
    keep: tuple[Any, ...] = field(repr=False)


def _headers(column: pa.Array) -> _Headers:
    """All headers of a batch, one after the other. librdkafka wants the end of a name marked by a zero byte."""
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype("u8")
    items = column.flatten()
    names = as_binary(pc.struct_field(items, "key"))
    values = as_binary(pc.struct_field(items, "value"))
    if items.null_count or names.null_count:
        raise UserError("kafka: a header without a key: give every header a key")
    if pc.any(pc.match_substring(names, b"\0")).as_py():
        raise UserError("kafka: a header's key has a zero byte in it: librdkafka cannot send that: take it out")
    ended = pc.binary_join_element_wise(names, pa.scalar(b"", names.type), pa.scalar(b"\0", names.type))
    pointers, lengths = located(values)
    return _Headers(counts, located(ended)[0], pointers, lengths.astype("i8"), (values, ended))


def _put(fields: Any, where: Any, vtype: int, **parts: Any) -> None:
    fields["vtype"][where] = vtype
    for name, value in parts.items():
        fields[name][where] = value
