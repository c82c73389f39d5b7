"""Processors that work by columns, in Spark's Python worker.

One rule: what it gives is checked before Spark has it: the names of its columns, and their types.
"""

# ruff: noqa: D102 - the methods are Spark's, or those of OnSpark

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

from headgate.errors import InvalidJob
from headgate.job.access import OneKey, Piped, StateAccess
from headgate.job.arrow import arrow_schema, as_column, as_table, from_internals
from headgate.job.batches import BatchProcessor, BatchState, KeyedBatch
from headgate.job.keyed import KeyedProcessor
from headgate.job.partition import Due, Keys, OnSpark, Starts

AT_MS = "at_ms"
"""The column of timers in ``KeyedBatch.rows`` that has their times."""

OUTPUT_ROWS = 100_000
"""Output is handed to Spark in pieces of this many rows."""

SMALL_ROWS, SMALL_TABLES = 10_000, 1_000
"""Tables that are smaller are put together first, at most this many."""


class InColumns(OnSpark):
    """What is the same for all processors that work by columns. Subclasses say what becomes of rows and timers."""

    def __init__(self, processor: KeyedProcessor, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._processor = processor

    @abstractmethod
    def with_rows(
        self, rows: pa.Table, keys: Sequence[pa.Array], starts: Starts, access: StateAccess, times_ms: tuple[int, int]
    ) -> Iterator[pa.RecordBatch]:
        """Rows have come. Those of one key stand together, from ``starts``."""

    @abstractmethod
    def with_timers(
        self,
        keys: Sequence[pa.Array],
        which: np.ndarray[Any, Any],
        at_ms: np.ndarray[Any, Any],
        access: StateAccess,
        times_ms: tuple[int, int],
    ) -> Iterator[pa.RecordBatch]:
        """Timers have come: ``which`` names the key of each by its place, in the order of the keys."""

    def opened(self, handle: StatefulProcessorHandle) -> None:  # noqa: ARG002 - subclasses ask it for state
        self._out = arrow_schema(self._output, "the output")

    def on_rows(self, rows: pa.Table, keys: Keys, starts: Starts) -> Iterator[pa.RecordBatch]:
        return self.with_rows(rows, keys.columns, starts, Piped(self.pipe, keys.raws), self.times_ms)

    def on_due(self, due: Due) -> Iterator[pa.RecordBatch]:
        access = Piped(self.pipe, due.keys.raws)
        order = np.argsort(np.asarray(due.which), kind="stable")
        which, at_ms = np.asarray(due.which)[order], np.asarray(due.at_ms)[order]
        yield from self.with_timers(due.keys.columns, which, at_ms, access, self.times_ms)
        access.drop_timers(due.which, due.at_ms)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        table = pa.Table.from_pylist([row.asDict(recursive=True) for row in rows], schema=self._row_schema)
        columns = self._key_columns(key)
        times_ms = timerValues.getCurrentProcessingTimeInMs(), timerValues.getCurrentWatermarkInMs()
        return _rows(self.with_rows(table, columns, np.zeros(1, np.int64), OneKey(self._handle), times_ms))

    def handleExpiredTimer(  # noqa: N802 - Spark's
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803 - Spark's
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803 - Spark's
    ) -> Iterator[Row]:
        times_ms = timerValues.getCurrentProcessingTimeInMs(), timerValues.getCurrentWatermarkInMs()
        at_ms = np.asarray([expiredTimerInfo.getExpiryTimeInMs()])
        zero = np.zeros(1, np.int64)
        return _rows(self.with_timers(self._key_columns(key), zero, at_ms, OneKey(self._handle), times_ms))

    def close(self) -> None:
        self._processor.close()

    def _key_columns(self, key: Sequence[Any]) -> list[pa.Array]:
        """A key as Spark gives it."""
        return [
            from_internals([field.dataType.toInternal(value)], field.dataType, self._key_schema.field(at).type)
            for at, (value, field) in enumerate(zip(key, self._key_types.fields, strict=True))
        ]

    def _given(self, given: Any) -> Iterator[pa.RecordBatch]:
        """What a processor gives, checked. Spark takes columns by name and fills what it does not find with nulls."""
        name = type(self._processor).__name__
        small: list[pa.Table] = []
        for rows in _tables(given):
            table = as_table(rows, name)
            if sorted(table.column_names) != sorted(self._out.names):
                raise InvalidJob(
                    f"{name} gave the columns {', '.join(table.column_names)}, which do not fit its output "
                    f"({', '.join(self._out.names)}): give exactly these"
                )
            columns = [
                as_column(table[field.name], field.type, f"{name}: column {field.name!r} of its output")
                for field in self._out
            ]
            small.append(pa.table(columns, schema=self._out))
            if sum(each.num_rows for each in small) >= SMALL_ROWS or len(small) >= SMALL_TABLES:
                yield from _together(small)
                small = []
        if small:
            yield from _together(small)


class InBatches(InColumns):
    """A batch processor as Spark calls it."""

    def __init__(self, processor: BatchProcessor, *args: Any, **kwargs: Any) -> None:
        super().__init__(processor, *args, **kwargs)
        self._batches = processor

    def opened(self, handle: StatefulProcessorHandle) -> None:
        super().opened(handle)
        # A worker has no session, and this is the only other way to read a type.
        state = BatchState(handle, self._batches.time, self._client._parse_string_schema)  # noqa: SLF001
        self._now = state.now
        self._batches.open(state)

    def with_rows(
        self, rows: pa.Table, keys: Sequence[pa.Array], starts: Starts, access: StateAccess, times_ms: tuple[int, int]
    ) -> Iterator[pa.RecordBatch]:
        yield from self._given(self._batches.process(self._batch(rows, keys, starts, access, times_ms)))

    def with_timers(
        self,
        keys: Sequence[pa.Array],
        which: np.ndarray[Any, Any],
        at_ms: np.ndarray[Any, Any],
        access: StateAccess,
        times_ms: tuple[int, int],
    ) -> Iterator[pa.RecordBatch]:
        of_timers = [column.take(pa.array(which)) for column in keys]
        rows = pa.table([*of_timers, pa.array(at_ms, pa.int64())], names=[*self._key_types.names, AT_MS])
        starts = np.flatnonzero(np.diff(which, prepend=-1)).astype(np.int64)
        yield from self._given(self._batches.on_timers(self._batch(rows, keys, starts, access, times_ms)))

    def _batch(
        self, rows: pa.Table, keys: Sequence[pa.Array], starts: Starts, access: StateAccess, times_ms: tuple[int, int]
    ) -> KeyedBatch:
        self._now.access, self._now.count = access, len(starts)
        return KeyedBatch(
            rows, pa.table(list(keys), schema=self._key_schema), starts, access, self._batches.time, times_ms
        )


def _together(tables: Sequence[pa.Table]) -> list[pa.RecordBatch]:
    """Tables as Spark gets them."""
    batches: list[pa.RecordBatch] = pa.concat_tables(tables).combine_chunks().to_batches(OUTPUT_ROWS)
    return batches


def _tables(given: Any) -> Iterable[Any]:
    """What was given, as several tables: none, one, or what comes out of a generator."""
    if given is None:
        return ()
    if hasattr(given, "__arrow_c_stream__") or not isinstance(given, Iterable):
        return (given,)
    return given


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Output as Spark's own way takes it."""
    return (Row(**row) for batch in batches for row in batch.to_pylist())
