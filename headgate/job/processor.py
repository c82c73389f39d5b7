"""Keyed state and timers: what a user subclasses, and how it runs on Spark's ``transformWithState``.

One rule: state and time belong to Spark. A processor says what to do with one key's rows; Spark keeps its state,
expires it, fires its timers and makes all of that part of the batch, so a checkpoint holds it.

A processor is pickled and runs in Spark's Python workers. Between two batches it remembers what is in its state and
nothing else. Spark needs RocksDB as the state backend for it.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import StringType, StructType

from headgate.errors import InvalidJob
from headgate.job.arrow import arrow_schema, arrow_type
from headgate.job.batches import BatchProcessor, BatchState
from headgate.job.cells import Cursor, WaitingHandle
from headgate.job.in_batches import InBatches
from headgate.job.in_windows import KEY_GROUP, KEY_GROUPS, InWindows
from headgate.job.keyed import Declared, KeyedProcessor, KeyedState, Rehearsal, as_it_is, zoned
from headgate.job.partition import Due, Keys, OnSpark, Starts
from headgate.job.window import WINDOW_END, WINDOW_START, WindowProcessor
from headgate.values import Duration, duration_ms
from headgate.windows import WindowAssigner

OUTPUT_ROWS = 10_000
"""Output is handed to Spark in pieces of this many rows."""

TIME_MODES = {"none": "None", "processing": "ProcessingTime", "event": "EventTime"}

WATERMARK = "spark.watermarkDelayMs"
"""Where Spark notes in a column that it carries event time, and how late rows may be."""

PIPELINED = "spark.sql.headgate.pipelined"
"""A setting of Spark: ``false`` has every call of state wait for its answer, as Spark does it."""


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
        """The same, this long after the beginning of this batch, or after the watermark."""
        now_ms = self.watermark_ms if self._time == "event" else self.processing_ms
        return self.timer_at(now_ms + duration_ms(delay, name="delay", example="1min"))

    def cancel_timer(self, at_ms: int) -> None:
        """Drop a timer. One that is not there is not an error."""
        self._handle.deleteTimer(at_ms)

    def timers(self) -> list[int]:
        """The times of this key's timers, in ms."""
        return list(self._handle.listTimers())


class Processor(KeyedProcessor):
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
                self.last.update(last)
    """

    def open(self, state: KeyedState) -> None:
        """Ask for state, and keep it in ``self``. Runs before anything else: in every worker, and on the driver too.

        The names and types of state must be the same each time: they are checked against what is stored.
        """

    @abstractmethod
    def process(self, key: Any, rows: Iterator[Row], context: Context) -> Iterable[Row] | None:
        """Take one key's rows of one batch, and yield rows of ``output`` by name. Runs once for each key in a batch.

        Rows come in no certain order. A batch that fails runs again from the state before it.
        """

    def on_timer(self, key: Any, at_ms: int, context: Context) -> Iterable[Row] | None:
        """A timer has come: once, after the rows of the batch. It is gone afterwards."""


def rehearse(processor: KeyedProcessor) -> list[Declared]:
    """Open a copy of a processor to see whether it can be: what fails in Spark's own worker is hard to read.

    Returns the state that it asks for.
    """
    rehearsal = Rehearsal()
    match copy(processor):
        case BatchProcessor() as one:
            one.open(BatchState(rehearsal, processor.time, StructType.fromDDL))
        case Processor() as one:
            one.open(KeyedState(rehearsal, processor.time, StructType.fromDDL))
        case WindowProcessor():
            pass  # Its state depends on the rows, and is not its own.
        case other:
            raise AssertionError(f"no such processor: {other!r}")
    return list(rehearsal.declared.values())


def run_processor(
    frame: DataFrame, processor: KeyedProcessor, key: str | Sequence[str], output_mode: str = "append"
) -> DataFrame:
    """The stream of what ``processor`` yields for ``frame``, keyed by the columns ``key``."""
    columns = [key] if isinstance(key, str) else list(key)
    output = _struct(processor.output)
    # A key that is not a column by itself, such as a field of a struct, is one that only Spark finds.
    plain = all(frame.columns.count(name) == 1 for name in columns)
    whole = plain and frame.sparkSession.conf.get(PIPELINED, "true") != "false"
    shape = (frame.schema, frame.select(*columns).schema, output, TIME_MODES[processor.time])
    on_spark: OnSpark
    if isinstance(processor, BatchProcessor):
        on_spark = InBatches(processor, *shape, whole=whole)
    else:
        assert isinstance(processor, Processor)
        on_spark = _KeyByKey(processor, *shape, plain_key=isinstance(key, str), whole=whole)
    return frame.groupBy(*columns).transformWithState(
        statefulProcessor=on_spark,
        outputStructType=output,
        outputMode=output_mode,
        timeMode=TIME_MODES[processor.time],
        eventTimeColumnName=processor.event_time,
    )


def run_windows(
    frame: DataFrame, processor: WindowProcessor, key: str | Sequence[str], window: WindowAssigner
) -> DataFrame:
    """The stream of what ``processor`` gives for the windows of ``frame`` that close, keyed by the columns ``key``.

    The watermark moves from the column of event time to the end of the window, as in Spark's own windows: what decides
    whether a row is late is whether its window is still open.
    """
    columns = [key] if isinstance(key, str) else list(key)
    _check_windows(frame, columns, window)
    output = _struct(processor.output)
    delay_ms = frame.schema[window.time].metadata[WATERMARK]
    size, slide, offset = (f"{each} milliseconds" for each in (window.size_ms, window.slide_ms, window.offset_ms))
    of_row = F.window(F.col(_quoted(window.time)), size, slide, offset)
    named = frame.withColumn(WINDOW_END, of_row.getField("end"))
    for field in frame.schema.fields:
        if WATERMARK in field.metadata:
            rest = {name: value for name, value in field.metadata.items() if name != WATERMARK}
            named = named.withMetadata(field.name, rest)
    named = named.withMetadata(WINDOW_END, {WATERMARK: delay_ms})
    whole = frame.sparkSession.conf.get(PIPELINED, "true") != "false"
    of_key = F.hash(*(F.col(_quoted(name)) for name in columns))
    named = named.withColumn(KEY_GROUP, F.pmod(of_key, F.lit(KEY_GROUPS)))
    keys = [KEY_GROUP, WINDOW_END]
    shape = (named.schema, named.select(*keys).schema, output, TIME_MODES[processor.time])
    on_spark = InWindows(
        processor, *shape, size_ms=window.size_ms, names=columns, plain_key=isinstance(key, str), whole=whole
    )
    return named.groupBy(*keys).transformWithState(
        statefulProcessor=on_spark,
        outputStructType=output,
        outputMode="append",
        timeMode=TIME_MODES[processor.time],
        eventTimeColumnName=processor.event_time,
    )


def _check_windows(frame: DataFrame, key: Sequence[str], window: WindowAssigner) -> None:
    """Refuse what would go wrong in a worker, or be hard to read."""
    for name in (window.time, *key):
        if frame.columns.count(name) != 1:
            raise InvalidJob(f"there is no column {name!r} among {', '.join(frame.columns)}")
    if window.time in key:
        raise InvalidJob(f"{window.time!r} is the column of event time and cannot be a part of the key")
    if taken := [name for name in frame.columns if name.lower() in {WINDOW_START, WINDOW_END, KEY_GROUP}]:
        raise InvalidJob(f"the stream has a column {taken[0]!r}, as windows do: give it another name before")
    for name in key:
        of = frame.schema[name].dataType
        # Whether two of these are one key, only Spark can tell.
        collated = isinstance(of, StringType) and not of.isUTF8BinaryCollation()
        if collated or pa.types.is_nested(arrow_type(of, f"the key {name!r}")):
            raise InvalidJob(f"the key {name!r} is of type {of.simpleString()}: name columns of plain types")
    if WATERMARK not in frame.schema[window.time].metadata:
        raise InvalidJob(
            f"column {window.time!r} has no watermark, so no window would ever close: declare one before, "
            f"as in rows.withWatermark({window.time!r}, '1 minute')"
        )


def _quoted(name: str) -> str:
    """A name that has no other meaning to Spark."""
    return "`" + name.replace("`", "``") + "`"


class _KeyByKey(OnSpark):
    """A processor as Spark calls it."""

    piece_rows = 50_000
    keep_types = True

    def __init__(self, processor: Processor, *args: Any, plain_key: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._processor = processor
        self._plain_key = plain_key

    def opened(self, handle: StatefulProcessorHandle) -> None:
        self._names = sorted(self._output.names)
        self._zoned = zoned(self._output) or as_it_is
        self._zoned_keys = [zoned(field.dataType) or as_it_is for field in self._key_types.fields]
        self._out = arrow_schema(self._output, "the output")
        self._cursor = Cursor(self._client)
        ours: Any = WaitingHandle(handle, self._cursor) if self._whole else handle
        self._ours: StatefulProcessorHandle = ours
        # A worker has no session, and this is the only other way to read a type.
        self._processor.open(KeyedState(ours, self._processor.time, self._client._parse_string_schema))  # noqa: SLF001

    def on_rows(self, rows: pa.Table, keys: Keys, starts: Starts) -> Iterator[pa.RecordBatch]:
        self._cursor.begin(self.pipe, keys.raws)
        context = Context(*self.times_ms, self._ours, self._processor.time)
        make = Row(*rows.column_names)
        columns = [column.to_pylist() for column in rows.columns]
        ends = [*starts.tolist()[1:], rows.num_rows]
        named = zip(*(column.to_pylist() for column in keys.columns), strict=True)

        def each() -> Iterator[Row]:
            for place, (start, end, key) in enumerate(zip(starts.tolist(), ends, named, strict=True)):
                self._cursor.place = place
                of_key = (make(*values) for values in zip(*(column[start:end] for column in columns), strict=True))
                yield from self._checked(self._processor.process(self._key(key), of_key, context))

        yield from self._in_batches(each())
        self._cursor.flush()

    def on_due(self, due: Due) -> Iterator[pa.RecordBatch]:
        self._cursor.begin(self.pipe, due.keys.raws)
        context = Context(*self.times_ms, self._ours, self._processor.time)

        def each() -> Iterator[Row]:
            for place, at_ms in zip(due.which, due.at_ms, strict=True):
                self._cursor.place = place
                key = self._key(tuple(self._key_types.fromInternal(due.keys.rows[place])))
                yield from self._checked(self._processor.on_timer(key, at_ms, context))
                self._ours.deleteTimer(at_ms)

        yield from self._in_batches(each())
        self._cursor.flush()

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
        values = tuple(zone(value) for zone, value in zip(self._zoned_keys, key, strict=True))
        return values[0] if self._plain_key else values

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
            names = getattr(row, "__fields__", ())
            if sorted(names) != self._names:
                raise InvalidJob(
                    f"{type(self._processor).__name__} yielded {row!r}, which does not fit its output "
                    f"({', '.join(self._output.names)}): yield Row(name=value, ...) with exactly these names"
                )
            yield self._zoned(row)

    def _in_batches(self, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
        """Output as Arrow, made in the way in which Spark makes it."""
        while some := list(islice(rows, OUTPUT_ROWS)):
            yield pa.RecordBatch.from_pylist([row.asDict(recursive=True) for row in some], schema=self._out)


def _struct(output: str | StructType) -> StructType:
    columns = StructType.fromDDL(output) if isinstance(output, str) else output
    if not isinstance(columns, StructType):
        raise InvalidJob(f"output {output!r} names no columns: write 'sensor string, value double' for example")
    return columns
