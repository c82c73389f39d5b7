"""Spark's state of one key, with what can wait put off: what a ``Processor`` has in its hands in a whole partition.

One rule: nobody can tell. What is read is what Spark would have given at that moment, and what is written is written in
the order in which it was said, before the partition is done. So:

- a value that is read is read for all keys of the piece, at once;
- a write waits, together with those of other keys, unless it is of a kind that Spark might not take as it is: such a
  write is sent at once, by Spark's own call, as is everything that reads lists, maps or timers;
- a value that is read after it was written is the one that was written, if Spark would give the very same back, and is
  asked for otherwise.
"""

# ruff: noqa: D102 - the methods are Spark's

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate.job import pipe
from headgate.job.pipe import Pipe

WAITING_MAX = 100_000
"""At most this many calls wait before they are sent."""

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_CLASSES: dict[type[DataType], type] = {
    DoubleType: float,
    FloatType: float,
    StringType: str,
    BooleanType: bool,
    BinaryType: bytes,
    TimestampType: dt.datetime,
    TimestampNTZType: dt.datetime,
    DateType: dt.date,
}
_SAME_BACK: tuple[type[DataType], ...] = (*_BITS, DoubleType, StringType, BooleanType)
"""Types whose values Spark gives back as they were given."""

_ASK = object()
"""Stands for a value that only Spark knows."""

CellRow = tuple[Any, ...]


class Cursor:
    """The key that a processor is at, and the calls that wait."""

    def __init__(self, client: StatefulProcessorApiClient) -> None:
        self.client = client
        self.pipe: Pipe
        self.keys: Sequence[bytes] = ()
        """The keys of this piece, as requests."""
        self.place = 0
        self.piece = 0
        """Grows with each piece: what was read for another is of no use."""
        self._waiting: list[bytes] = []
        self._waiting_for: int | None = None
        """The place that the last waiting call is about."""
        self._server_at: int | None = None
        """The place that Spark is at, if it is known."""

    def begin(self, through: Pipe, raws: Sequence[bytes]) -> None:
        """Go over to other keys."""
        self.flush()
        self.pipe = through
        self.keys = [pipe.key(raw) for raw in raws]
        self.piece += 1
        self._server_at = None

    def later(self, call: bytes) -> None:
        """Let a call about this key wait."""
        if self._waiting_for != self.place:
            self._waiting.append(self.keys[self.place])
            self._waiting_for = self.place
        self._waiting.append(call)
        if len(self._waiting) >= WAITING_MAX:
            self.flush()

    def flush(self) -> None:
        """Send all that waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._server_at, self._waiting_for = self._waiting_for, None
            self.pipe.tell(waiting)

    def arrive(self) -> None:
        """See to it that Spark is at this key, and knows all that was said before."""
        self.flush()
        if self._server_at != self.place:
            self.pipe.tell([self.keys[self.place]])
            self._server_at = self.place

    def values(self, name: str) -> list[CellRow | None]:
        """A value state of all keys of this piece."""
        self.flush()
        get = pipe.get(name)
        answers = self.pipe.ask(part for key in self.keys for part in (key, get))
        self._server_at = None
        for answer in filter(None, answers[::2]):
            pipe.checked(answer)
        return pipe.values(answers[1::2])


class WaitingHandle:
    """Spark's handle, as far as a processor uses it, whose states and timers are these."""

    def __init__(self, handle: StatefulProcessorHandle, cursor: Cursor) -> None:
        self._handle = handle
        self._cursor = cursor

    def getValueState(self, stateName: str, schema: StructType, ttlDurationMs: int | None = None) -> Any:  # noqa: N802, N803 - Spark's
        spark = self._handle.getValueState(stateName, schema, ttlDurationMs)
        return _Value(spark, stateName, schema, self._cursor)

    def getListState(self, stateName: str, schema: StructType, ttlDurationMs: int | None = None) -> Any:  # noqa: N802, N803 - Spark's
        spark = self._handle.getListState(stateName, schema, ttlDurationMs)
        return _List(spark, stateName, schema, self._cursor)

    def getMapState(  # noqa: N802 - Spark's
        self,
        stateName: str,  # noqa: N803 - Spark's
        userKeySchema: StructType,  # noqa: N803 - Spark's
        valueSchema: StructType,  # noqa: N803 - Spark's
        ttlDurationMs: int | None = None,  # noqa: N803 - Spark's
    ) -> Any:
        spark = self._handle.getMapState(stateName, userKeySchema, valueSchema, ttlDurationMs)
        return _Map(spark, stateName, userKeySchema, valueSchema, self._cursor)

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803 - Spark's
        self._cursor.later(pipe.timer_register(expiryTimestampMs))

    def deleteTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803 - Spark's
        self._cursor.later(pipe.timer_delete(expiryTimestampMs))

    def listTimers(self) -> Iterator[int]:  # noqa: N802 - Spark's
        self._cursor.arrive()
        return self._handle.listTimers()


class _Value:
    def __init__(self, spark: ValueState, name: str, schema: StructType, cursor: Cursor) -> None:
        self._spark, self._name, self._schema, self._cursor = spark, name, schema, cursor
        of = schema.fields[0].dataType
        self._fits = fits(of)
        self._same_back = isinstance(of, _SAME_BACK)
        self._converted = of.fromInternal if of.needConversion() else None
        self._clear = pipe.clear("value", name)
        self._piece = -1
        self._read: list[CellRow | None] | None = None
        self._written: dict[int, Any] = {}

    def exists(self) -> bool:
        written = self._of_this_piece().get(self._cursor.place, self)
        if written is self:
            return self._before() is not None
        return written is not None

    def get(self) -> CellRow | None:
        written = self._of_this_piece().get(self._cursor.place, self)
        if written is self:
            row = self._before()
            return row if row is None or self._converted is None else (self._converted(row[0]),)
        if written is _ASK:
            self._cursor.arrive()
            return self._spark.get()
        return written  # type: ignore[no-any-return]

    def update(self, value: CellRow) -> None:
        if self._fits(value[0]):
            raw = self._cursor.client._serialize_to_bytes(self._schema, value)  # noqa: SLF001 - as Spark's own call
            self._cursor.later(pipe.update(self._name, raw))
            self._of_this_piece()[self._cursor.place] = value if self._same_back else _ASK
        else:
            self._cursor.arrive()
            self._spark.update(value)
            self._of_this_piece()[self._cursor.place] = _ASK

    def clear(self) -> None:
        self._cursor.later(self._clear)
        self._of_this_piece()[self._cursor.place] = None

    def _of_this_piece(self) -> dict[int, Any]:
        if self._piece != self._cursor.piece:
            self._piece, self._read, self._written = self._cursor.piece, None, {}
        return self._written

    def _before(self) -> CellRow | None:
        """What was there when the piece began."""
        if self._read is None:
            self._read = self._cursor.values(self._name)
        return self._read[self._cursor.place]


class _List:
    def __init__(self, spark: ListState, name: str, schema: StructType, cursor: Cursor) -> None:
        self._spark, self._name, self._schema, self._cursor = spark, name, schema, cursor
        self._fits = fits(schema.fields[0].dataType)
        self._clear = pipe.clear("list", name)

    def exists(self) -> bool:
        self._cursor.arrive()
        return self._spark.exists()

    def get(self) -> Iterator[CellRow]:
        self._cursor.arrive()
        return self._spark.get()

    def put(self, values: list[CellRow]) -> None:
        if not self._later(pipe.list_put, values):
            self._spark.put(values)

    def appendValue(self, value: CellRow) -> None:  # noqa: N802 - Spark's
        if not self._later(pipe.list_append, [value]):
            self._spark.appendValue(value)

    def appendList(self, values: list[CellRow]) -> None:  # noqa: N802 - Spark's
        if not self._later(pipe.list_append, values):
            self._spark.appendList(values)

    def clear(self) -> None:
        self._cursor.later(self._clear)

    def _later(self, call: Callable[[str, Sequence[bytes]], bytes], values: list[CellRow]) -> bool:
        if not all(self._fits(value[0]) for value in values):
            self._cursor.arrive()
            return False
        dumps = self._cursor.client._serialize_to_bytes  # noqa: SLF001 - as Spark's own call
        self._cursor.later(call(self._name, [dumps(self._schema, value) for value in values]))
        return True


class _Map:
    def __init__(self, spark: MapState, name: str, keys: StructType, values: StructType, cursor: Cursor) -> None:
        self._spark, self._name, self._keys, self._values, self._cursor = spark, name, keys, values, cursor
        self._key_fits = fits(keys.fields[0].dataType)
        self._fits = fits(values.fields[0].dataType)
        self._clear = pipe.clear("map", name)

    def updateValue(self, key: CellRow, value: CellRow) -> None:  # noqa: N802 - Spark's
        if self._key_fits(key[0]) and self._fits(value[0]):
            dumps = self._cursor.client._serialize_to_bytes  # noqa: SLF001 - as Spark's own call
            self._cursor.later(pipe.map_update(self._name, dumps(self._keys, key), dumps(self._values, value)))
        else:
            self._cursor.arrive()
            self._spark.updateValue(key, value)

    def removeKey(self, key: CellRow) -> None:  # noqa: N802 - Spark's
        if self._key_fits(key[0]):
            dumps = self._cursor.client._serialize_to_bytes  # noqa: SLF001 - as Spark's own call
            self._cursor.later(pipe.map_remove(self._name, dumps(self._keys, key)))
        else:
            self._cursor.arrive()
            self._spark.removeKey(key)

    def clear(self) -> None:
        self._cursor.later(self._clear)

    def __getattr__(self, name: str) -> Any:
        """All that reads."""
        if name.startswith("_"):
            raise AttributeError(name)
        self._cursor.arrive()
        return getattr(self._spark, name)


def fits(of: DataType) -> Callable[[Any], bool]:
    """Whether Spark takes a value of this type for what it is, without a second thought. Of None it is not known."""
    if type(of) in _BITS:
        least, most = -(1 << _BITS[type(of)] - 1), (1 << _BITS[type(of)] - 1) - 1
        return lambda value: type(value) is int and least <= value <= most
    if type(of) in _CLASSES:
        of_class = _CLASSES[type(of)]
        return lambda value: type(value) is of_class
    match of:
        case ArrayType():
            each = fits(of.elementType)
            return lambda values: type(values) is list and all(map(each, values))
        case MapType():
            key, item = fits(of.keyType), fits(of.valueType)
            return lambda pairs: type(pairs) is dict and all(key(k) and item(v) for k, v in pairs.items())
        case StructType():
            fields = [fits(field.dataType) for field in of.fields]
            count = len(fields)
            return lambda row: (
                type(row) is tuple and len(row) == count and all(fit(v) for fit, v in zip(fields, row, strict=True))
            )
        case _:
            return lambda _: False
