"""Keyed state and timers: what a user subclasses, and how it runs on Spark's ``transformWithState``.

One rule: state and time belong to Spark. A processor says what to do with one key's rows; Spark keeps its state,
expires it, fires its timers and makes all of that part of the batch, so a checkpoint holds it.

A processor is pickled and runs in Spark's Python workers. Between two batches it remembers what is in its state and
nothing else. Spark needs RocksDB as the state backend for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    ListState as SparkListState,
    MapState as SparkMapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState as SparkValueState,
)
from pyspark.sql.types import DataType, StructField, StructType

from headgate.errors import InvalidJob
from headgate.job.settings import Duration, duration_ms

K = TypeVar("K")
V = TypeVar("V")

TIME_MODES = {"none": "None", "processing": "ProcessingTime", "event": "EventTime"}


class ValueState(Generic[V]):
    """One value for each key."""

    def __init__(self, spark: SparkValueState) -> None:
        self._spark = spark

    def get(self) -> V | None:
        """The value, or None if there is none or it has expired."""
        row = self._spark.get()
        return None if row is None else row[0]

    def set(self, value: V) -> None:
        """Keep a value. Its time to live begins anew."""
        self._spark.update((value,))

    def clear(self) -> None:
        """Forget the value."""
        self._spark.clear()


class ListState(Generic[V]):
    """A list of values for each key."""

    def __init__(self, spark: SparkListState) -> None:
        self._spark = spark

    def get(self) -> list[V]:
        """The values that have not expired, in the order in which they came."""
        return [row[0] for row in self._spark.get()]

    def append(self, value: V) -> None:
        """Add a value at the end."""
        self._spark.appendValue((value,))

    def set(self, values: Iterable[V]) -> None:
        """Keep these values instead of what was there."""
        rows = [(value,) for value in values]
        if rows:
            self._spark.put(rows)
        else:
            self._spark.clear()

    def clear(self) -> None:
        """Forget all values."""
        self._spark.clear()


class MapState(Generic[K, V]):
    """A map for each key."""

    def __init__(self, spark: SparkMapState) -> None:
        self._spark = spark

    def get(self, key: K) -> V | None:
        """The value under a key of the map, or None if there is none or it has expired."""
        row = self._spark.getValue((key,))
        return None if row is None else row[0]

    def set(self, key: K, value: V) -> None:
        """Keep a value under a key of the map."""
        self._spark.updateValue((key,), (value,))

    def remove(self, key: K) -> None:
        """Forget one key of the map."""
        self._spark.removeKey((key,))

    def items(self) -> Iterator[tuple[K, V]]:
        """All keys of the map, with their values."""
        return ((key[0], value[0]) for key, value in self._spark.iterator())

    def clear(self) -> None:
        """Forget the whole map."""
        self._spark.clear()


class State:
    """Where a processor asks for its state, in ``open``.

    A type is written as in SQL (``"double"``, ``"array<string>"``, ``"struct<at: timestamp, value: double>"``) or
    given as a Spark type. With a ``ttl`` (``"1h"``) a value expires so long after it was last written, and is not seen
    again from then on; this needs ``time = "processing"``.
    """

    def __init__(self, handle: StatefulProcessorHandle, time: str) -> None:
        self._handle = handle
        self._time = time

    def value(self, name: str, of: str | DataType, *, ttl: Duration | None = None) -> ValueState[Any]:
        """One value for each key."""
        return ValueState(self._handle.getValueState(name, _column(of), self._ttl_ms(name, ttl)))

    def list(self, name: str, of: str | DataType, *, ttl: Duration | None = None) -> ListState[Any]:
        """A list of values for each key. Each value has its own time to live."""
        return ListState(self._handle.getListState(name, _column(of), self._ttl_ms(name, ttl)))

    def map(
        self, name: str, key: str | DataType, of: str | DataType, *, ttl: Duration | None = None
    ) -> MapState[Any, Any]:
        """A map for each key. Each value has its own time to live."""
        return MapState(self._handle.getMapState(name, _column(key), _column(of), self._ttl_ms(name, ttl)))

    def _ttl_ms(self, name: str, ttl: Duration | None) -> int | None:
        if ttl is None:
            return None
        if self._time != "processing":
            raise InvalidJob(f"state {name!r} has a ttl, which goes by the clock: set time = 'processing'")
        return duration_ms(ttl, name="ttl", example="1h", least=1)


@dataclass(frozen=True)
class Context:
    """The time of the current batch, and the timers of the current key."""

    processing_ms: int
    """When the batch began; the same for all its rows. -1 where ``time`` is ``"none"``."""
    watermark_ms: int
    """How far event time has come: 0 before the first watermark. -1 where ``time`` is ``"none"``."""
    _handle: StatefulProcessorHandle
    _time: str

    def timer_at(self, at: int | datetime) -> int:
        """Call ``on_timer`` in the first batch at or after this time, and say which it is, in ms.

        By the clock where ``time`` is ``"processing"``, by the watermark where it is ``"event"``. Setting the same
        time twice sets one timer.
        """
        if self._time == "none":
            raise InvalidJob("a timer needs a time to go by: set time = 'processing' or time = 'event'")
        at_ms = at if isinstance(at, int) else round(at.timestamp() * 1_000)
        self._handle.registerTimer(at_ms)
        return at_ms

    def timer_after(self, delay: Duration) -> int:
        """The same, so long after the beginning of this batch, or after the watermark."""
        now_ms = self.watermark_ms if self._time == "event" else self.processing_ms
        return self.timer_at(now_ms + duration_ms(delay, name="delay", example="1min"))

    def cancel_timer(self, at_ms: int) -> None:
        """Drop a timer. One that is not there is no error."""
        self._handle.deleteTimer(at_ms)

    def timers(self) -> list[int]:
        """The times of this key's timers, in ms."""
        return list(self._handle.listTimers())


class Processor(ABC):
    """What to do with the rows of one key, given what is remembered of it.

    ::

        class Jumps(Processor):
            output = "sensor string, value double, before double"
            time = "processing"

            def open(self, state):
                self.last = state.value("last", "double", ttl="1h")

            def process(self, sensor, rows, context):
                last = self.last.get()
                for row in rows:
                    if last is not None and abs(row.value - last) > 5:
                        yield Row(sensor=sensor, value=row.value, before=last)
                    last = row.value
                self.last.set(last)
    """

    output: ClassVar[str | StructType]
    """The columns that it yields, as in SQL (``"sensor string, value double"``) or as a Spark type."""
    time: ClassVar[str] = "none"
    """What timers and time to live go by: ``"none"``, ``"processing"`` (the clock) or ``"event"`` (the watermark)."""
    event_time: ClassVar[str] = ""
    """The column of ``output`` that carries event time on, for a watermark further down; only with ``"event"``."""

    def open(self, state: State) -> None:
        """Ask for state and keep it in ``self``. Runs before anything else, in every worker and once more on the driver.

        The names and types of state must be the same each time: they are checked against what is stored.
        """

    @abstractmethod
    def process(self, key: Any, rows: Iterator[Row], context: Context) -> Iterable[Row] | None:
        """Take one key's rows of one batch, and yield rows of ``output`` by name. Runs once for each key in a batch.

        Rows come in no certain order. A batch that fails runs again from the state before it.
        """

    def on_timer(self, key: Any, at_ms: int, context: Context) -> Iterable[Row] | None:
        """A timer has come: once, after the rows of the batch. It is gone afterwards."""

    def close(self) -> None:
        """Let go of what ``open`` opened. Runs at the end of each partition of a batch that succeeds."""


def run_processor(
    frame: DataFrame, processor: Processor, key: str | Sequence[str], output_mode: str = "append"
) -> DataFrame:
    """The stream of what ``processor`` yields for ``frame``, keyed by the columns ``key``."""
    output = _struct(processor.output)
    columns = [key] if isinstance(key, str) else list(key)
    return frame.groupBy(*columns).transformWithState(
        statefulProcessor=_OnSpark(processor, plain_key=isinstance(key, str), columns=tuple(output.names)),
        outputStructType=output,
        outputMode=output_mode,
        timeMode=TIME_MODES[processor.time],
        eventTimeColumnName=processor.event_time,
    )


class _OnSpark(StatefulProcessor):
    """A processor as Spark calls it."""

    def __init__(self, processor: Processor, *, plain_key: bool, columns: tuple[str, ...]) -> None:
        self._processor = processor
        self._plain_key = plain_key
        self._columns = columns

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._processor.open(State(handle, self._processor.time))

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        return self._checked(self._processor.process(self._key(key), rows, self._context(timerValues)))

    def handleExpiredTimer(  # noqa: N802 - Spark's
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803 - Spark's
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803 - Spark's
    ) -> Iterator[Row]:
        at_ms = expiredTimerInfo.getExpiryTimeInMs()
        return self._checked(self._processor.on_timer(self._key(key), at_ms, self._context(timerValues)))

    def close(self) -> None:
        self._processor.close()

    def _key(self, key: tuple[Any, ...]) -> Any:
        return key[0] if self._plain_key else tuple(key)

    def _context(self, times: TimerValues) -> Context:
        return Context(
            times.getCurrentProcessingTimeInMs(),
            times.getCurrentWatermarkInMs(),
            self._handle,
            self._processor.time,
        )

    def _checked(self, rows: Iterable[Row] | None) -> Iterator[Row]:
        """Spark takes columns by name and fills what it does not find with nulls: a slip of the pen must not pass."""
        for row in rows or ():
            names = getattr(row, "__fields__", None)
            if names is None or sorted(names) != sorted(self._columns):
                raise InvalidJob(
                    f"{type(self._processor).__name__} yielded {row!r}, which does not fit its output "
                    f"({', '.join(self._columns)}): yield Row(name=value, ...) with exactly these names"
                )
            yield row


def _column(of: str | DataType) -> str | StructType:
    """State of one column, as Spark wants it."""
    return f"value {of}" if isinstance(of, str) else StructType([StructField("value", of)])


def _struct(output: str | StructType) -> StructType:
    columns = StructType.fromDDL(output) if isinstance(output, str) else output
    if not isinstance(columns, StructType):
        raise InvalidJob(f"output {output!r} names no columns: write 'sensor string, value double' for example")
    return columns
