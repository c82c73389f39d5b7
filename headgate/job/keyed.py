"""The state of one key, as a processor sees it.

One rule: what comes out is what went in. Spark hands a timestamp back without its zone, in the local time of the
worker, while the rows of a batch carry one; here every timestamp has its zone, so the two can be compared. (The hour
that a zone has twice in autumn cannot be told apart: let workers run in UTC.)

Names are Spark's own, in Python's spelling; values are plain, where Spark has rows of one column.
"""

from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ListState as SparkListState,
    MapState as SparkMapState,
    StatefulProcessorHandle,
    ValueState as SparkValueState,
)
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, TimestampType

from headgate.errors import InvalidJob
from headgate.values import Duration, duration_ms

K = TypeVar("K")
V = TypeVar("V")

Zoned = Callable[[Any], Any]
"""Gives every timestamp in a value its zone."""


class ValueState(Generic[V]):
    """One value for each key."""

    def __init__(self, spark: SparkValueState, zoned: Zoned) -> None:
        self._spark = spark
        self._zoned = zoned

    def exists(self) -> bool:
        """Whether there is a value that has not expired."""
        return self._spark.exists()

    def get(self) -> V | None:
        """The value, or None if there is none or it has expired."""
        row = self._spark.get()
        return None if row is None else self._zoned(row[0])

    def update(self, value: V) -> None:
        """Keep a value. Its time to live begins anew."""
        self._spark.update((value,))

    def clear(self) -> None:
        """Forget the value."""
        self._spark.clear()


class ListState(Generic[V]):
    """A list of values for each key."""

    def __init__(self, spark: SparkListState, zoned: Zoned) -> None:
        self._spark = spark
        self._zoned = zoned

    def exists(self) -> bool:
        """Whether there is a value that has not expired."""
        return self._spark.exists()

    def get(self) -> list[V]:
        """The values that have not expired, in the order in which they came."""
        return [self._zoned(row[0]) for row in self._spark.get()]

    def put(self, values: Iterable[V]) -> None:
        """Keep these values instead of what was there."""
        rows: list[tuple[Any, ...]] = [(value,) for value in values]
        if rows:
            self._spark.put(rows)
        else:
            self._spark.clear()

    def append_value(self, value: V) -> None:
        """Add a value at the end."""
        self._spark.appendValue((value,))

    def append_list(self, values: Iterable[V]) -> None:
        """Add values at the end, in their order."""
        rows: list[tuple[Any, ...]] = [(value,) for value in values]
        if rows:
            self._spark.appendList(rows)

    def clear(self) -> None:
        """Forget all values."""
        self._spark.clear()


class MapState(Generic[K, V]):
    """A map for each key. What goes over it reads it whole first, so that it may be changed meanwhile."""

    def __init__(self, spark: SparkMapState, key_zoned: Zoned, zoned: Zoned) -> None:
        self._spark = spark
        self._key_zoned = key_zoned
        self._zoned = zoned

    def exists(self) -> bool:
        """Whether there is a key that has not expired."""
        return self._spark.exists()

    def get_value(self, key: K) -> V | None:
        """The value under a key of the map, or None if there is none or it has expired."""
        row = self._spark.getValue((key,))
        return None if row is None else self._zoned(row[0])

    def contains_key(self, key: K) -> bool:
        """Whether the map has a key that has not expired."""
        return self._spark.containsKey((key,))

    def update_value(self, key: K, value: V) -> None:
        """Keep a value under a key of the map. Its time to live begins anew."""
        self._spark.updateValue((key,), (value,))

    def iterator(self) -> Iterator[tuple[K, V]]:
        """All keys of the map that have not expired, with their values."""
        return iter([(self._key_zoned(key[0]), self._zoned(value[0])) for key, value in self._spark.iterator()])

    def keys(self) -> Iterator[K]:
        """All keys of the map that have not expired."""
        return iter([self._key_zoned(key[0]) for key in self._spark.keys()])  # noqa: SIM118 - a map state is not a dict

    def values(self) -> Iterator[V]:
        """All values of the map that have not expired."""
        return iter([self._zoned(value[0]) for value in self._spark.values()])

    def remove_key(self, key: K) -> None:
        """Forget one key of the map."""
        self._spark.removeKey((key,))

    def clear(self) -> None:
        """Forget the whole map."""
        self._spark.clear()


class StateDeclarations:
    """What is the same for all that ask for state: how types and times are written."""

    def __init__(self, handle: StatefulProcessorHandle, time: str, parse: Callable[[str], DataType]) -> None:
        self._handle = handle
        self._time = time
        self._parse = parse

    def _column(self, of: str | DataType) -> StructType:
        """State of one column, which is how Spark keeps it."""
        column = self._parse(f"value {of}") if isinstance(of, str) else StructType([StructField("value", of)])
        assert isinstance(column, StructType)
        return column

    def _ttl_ms(self, name: str, ttl: Duration | None) -> int | None:
        if ttl is None:
            return None
        if self._time != "processing":
            raise InvalidJob(f"state {name!r} has a ttl, which goes by the clock: set time = 'processing'")
        return duration_ms(ttl, name="ttl", example="1h", least=1)


class KeyedState(StateDeclarations):
    """Where a processor asks for its state, in ``open``.

    A type is written as in SQL (``"double"``, ``"array<string>"``, ``"struct<at: timestamp, value: double>"``) or
    given as a Spark type. With a ``ttl`` (``"1h"``) a value expires this long after it was last written, and is not
    seen again from then on; this needs ``time = "processing"``.
    """

    def value(self, name: str, of: str | DataType, *, ttl: Duration | None = None) -> ValueState[Any]:
        """One value for each key."""
        column = self._column(of)
        return ValueState(self._handle.getValueState(name, column, self._ttl_ms(name, ttl)), _zoned(column))

    def list(self, name: str, of: str | DataType, *, ttl: Duration | None = None) -> ListState[Any]:
        """A list of values for each key. Each value has its own time to live."""
        column = self._column(of)
        return ListState(self._handle.getListState(name, column, self._ttl_ms(name, ttl)), _zoned(column))

    def map(
        self, name: str, key: str | DataType, of: str | DataType, *, ttl: Duration | None = None
    ) -> MapState[Any, Any]:
        """A map for each key. Each value has its own time to live."""
        keys, column = self._column(key), self._column(of)
        spark = self._handle.getMapState(name, keys, column, self._ttl_ms(name, ttl))
        return MapState(spark, _zoned(keys), _zoned(column))


class KeyedProcessor(ABC):
    """What all processors have, whether they work key by key or by columns."""

    output: ClassVar[str | StructType]
    """The columns that it yields, as in SQL (``"sensor string, value double"``) or as a Spark type."""
    time: ClassVar[str] = "none"
    """What timers and time to live go by: ``"none"``, ``"processing"`` (the clock) or ``"event"`` (the watermark)."""
    event_time: ClassVar[str] = ""
    """The column of ``output`` that carries event time on, for a watermark further down; only with ``"event"``."""

    def close(self) -> None:  # noqa: B027 - one may have nothing to let go
        """Let go of what ``open`` opened. Runs at the end of each partition of a batch that succeeds."""


class Declared(NamedTuple):
    """A state that a processor asks for."""

    name: str
    kind: str
    """As Spark calls it."""
    value: StructType
    key: StructType | None = None
    """Of a map, the columns of its keys."""
    ttl: bool = False


class Rehearsal(StatefulProcessorHandle):
    """Stands in for Spark where a processor is opened only to see whether it can be: its state is never used."""

    def __init__(self) -> None:
        self.declared: dict[str, Declared] = {}

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> Any:  # noqa: D102, N802, N803 - Spark's
        self._declare(Declared(stateName, "ValueState", schema, None, ttlDurationMs is not None))

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> Any:  # noqa: D102, N802, N803 - Spark's
        self._declare(Declared(stateName, "ListState", schema, None, ttlDurationMs is not None))

    def getMapState(  # noqa: D102, N802 - Spark's
        self,
        stateName: str,  # noqa: N803 - Spark's
        userKeySchema: Any,  # noqa: N803 - Spark's
        valueSchema: Any,  # noqa: N803 - Spark's
        ttlDurationMs: int | None = None,  # noqa: N803 - Spark's
    ) -> Any:
        self._declare(Declared(stateName, "MapState", valueSchema, userKeySchema, ttlDurationMs is not None))

    def _declare(self, one: Declared) -> None:
        if one.name in self.declared:
            raise InvalidJob(f"state {one.name!r} is asked for twice: give each a name of its own")
        self.declared[one.name] = one


def zoned(of: DataType) -> Zoned | None:
    """How values of a type get their zones; None where nothing in them is a timestamp. Values without one are local."""
    match of:
        case TimestampType():
            return lambda at: at.astimezone() if at is not None and at.tzinfo is None else at
        case ArrayType():
            each = zoned(of.elementType)
            return (lambda values: None if values is None else [*map(each, values)]) if each else None
        case MapType():
            key, value = zoned(of.keyType), zoned(of.valueType)
            if not key and not value:
                return None
            key, value = key or as_it_is, value or as_it_is
            return lambda pairs: None if pairs is None else {key(k): value(v) for k, v in pairs.items()}
        case StructType():
            fields = {field.name: zone for field in of.fields if (zone := zoned(field.dataType))}
            return (lambda row: None if row is None else _by_name(fields, row)) if fields else None
        case _:
            return None


def as_it_is(value: Any) -> Any:
    """A value without timestamps keeps what it is."""
    return value


def _zoned(column: StructType) -> Zoned:
    return zoned(column.fields[0].dataType) or as_it_is


def _by_name(fields: Mapping[str, Zoned], row: Row | dict[str, Any]) -> Row | dict[str, Any]:
    """A struct is a row, or a dictionary; either way its values have names."""
    values = row if isinstance(row, dict) else row.asDict()
    after = {name: fields.get(name, as_it_is)(value) for name, value in values.items()}
    return after if isinstance(row, dict) else Row(**after)
