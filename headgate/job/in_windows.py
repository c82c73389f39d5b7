"""A window processor in Spark's Python worker: rows wait in state until their window closes.

One rule: what is kept of a window is gone when it has closed. Nobody looks at the rows of one key before that, so they
are not kept by key: keys are divided into groups, as Flink divides them, and what Spark knows as the key is the group
and the end of the window. Under it stands a list with one item for each batch that brought rows: these rows, as a
record batch of Arrow without its schema. A timer at the end of the window closes it; then rows are put in the order of
their keys. So a batch costs a few calls of state for each group, however many keys it has.

Rows that come too late never get here: the end of their window carries the watermark, so Spark drops them, as it does
for its own windows.

The schema of what is kept stands in a state of its own, which is never written: Spark checks it when the job goes on,
and refuses rows that are not what they were.
"""

# ruff: noqa: D102 - the methods are those of InColumns

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from headgate.job.access import StateAccess, Variable
from headgate.job.arrow import arrow_schema
from headgate.job.in_batches import InColumns
from headgate.job.partition import BYTES_MAX, Starts
from headgate.job.window import WINDOW_END, WINDOW_START, WindowBatch, WindowProcessor

READ_FIRST, READ_MAX = 100, 10_000
"""Groups that are read at once: at first, before it is known how large they are, and at most."""

KEY_GROUP = "__key_group"
KEY_GROUPS = 256
"""The number of groups. State is found by it: with another, rows of one window would be in two places."""

ROWS, COLUMNS = "rows", "columns"
"""The names of the states."""


class InWindows(InColumns):
    """A window processor as Spark calls it. The key is the group of keys, and the end of the window."""

    def __init__(
        self, processor: WindowProcessor, *args: Any, size_ms: int, names: Sequence[str], plain_key: bool, **kwargs: Any
    ) -> None:
        super().__init__(processor, *args, **kwargs)
        self._windows = processor
        self._size_ms = size_ms
        self._names = list(names)
        self._plain_key = plain_key

    def opened(self, handle: StatefulProcessorHandle) -> None:
        super().opened(handle)
        of_key = set(self._key_types.names)
        kept = StructType([field for field in self._row_types.fields if field.name not in of_key])
        self._kept = arrow_schema(kept, "the column")
        self._kept_head = self._kept.serialize().to_pybytes()
        handle.getValueState(COLUMNS, kept)
        spark = handle.getListState(ROWS, StructType([StructField("value", BinaryType())]))
        self._rows = Variable(ROWS, "list", BinaryType(), None, spark)
        self._windows.open()

    def with_rows(
        self,
        rows: pa.Table,
        keys: Sequence[pa.Array],
        starts: Starts,
        access: StateAccess,
        times_ms: tuple[int, int],  # noqa: ARG002 - rows wait, whatever the time
    ) -> Iterator[pa.RecordBatch]:
        batch = pa.concat_batches(rows.select(self._kept.names).to_batches())
        bounds = [*starts.tolist(), rows.num_rows]
        blobs = [[batch.slice(start, end - start).serialize().to_pybytes()] for start, end in pairwise(bounds)]
        # A timer that is set again makes Spark write a warning, for each window in each batch.
        new = [place for place, there in enumerate(access.exist(self._rows)) if not there]
        access.append(self._rows, range(len(blobs)), blobs)
        access.set_timers(new, _closing_ms(keys[-1])[new].tolist())
        yield from ()

    def with_timers(
        self,
        keys: Sequence[pa.Array],
        which: np.ndarray[Any, Any],  # noqa: ARG002 - there is one timer for each
        at_ms: np.ndarray[Any, Any],  # noqa: ARG002 - the end of the window stands in the key
        access: StateAccess,
        times_ms: tuple[int, int],
    ) -> Iterator[pa.RecordBatch]:
        for first, lists in self._read(len(keys[0]), access):
            ends = keys[-1].slice(first, len(lists))
            yield from self._given(self._windows.process(self._batch(ends, lists, times_ms[1])))

    def _read(self, count: int, access: StateAccess) -> Iterator[tuple[int, list[list[bytes]]]]:
        """What was kept, in pieces that are not too large, and where each begins. It is gone."""
        first, step = 0, READ_FIRST
        found: list[list[bytes]] = []
        size = 0
        while first + len(found) < count:
            at = first + len(found)
            which = range(at, min(at + step, count))
            came = access.lists(self._rows, which)
            access.clear(self._rows, which)
            found += came
            size += sum(len(blob) for each in came for blob in each)
            step = max(1, min(READ_MAX, BYTES_MAX * len(found) // max(1, size)))
            if size >= BYTES_MAX:
                yield first, found
                first, found, size = first + len(found), [], 0
        if found:
            yield first, found

    def _batch(self, ends: pa.Array, lists: list[list[bytes]], watermark_ms: int) -> WindowBatch:
        """What was kept of some key groups in windows that end then, window by window of each key."""
        parts = list(pa.ipc.open_stream(b"".join([self._kept_head, *(blob for each in lists for blob in each)])))
        kept = pa.Table.from_batches(parts, self._kept).combine_chunks()
        counts = iter([part.num_rows for part in parts])
        of_group = np.repeat(np.arange(len(lists)), [sum(islice(counts, len(each))) for each in lists])
        # Groups stand in the order of their windows' ends, and a key is in one group: this is by window, then by key.
        codes = _codes([kept[name] for name in self._names], of_group)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1)).astype(np.int64)
        end = ends.take(pa.array(of_group[order]))
        start = pa.array(end.cast(pa.int64()).to_numpy() - self._size_ms * 1_000).cast(end.type)
        of_rows = kept.take(pa.array(order))
        rows = pa.table([start, end, *of_rows.columns], names=[WINDOW_START, WINDOW_END, *of_rows.column_names])
        windows = rows.select([WINDOW_START, WINDOW_END, *self._names]).take(pa.array(starts))
        return WindowBatch(rows, windows, starts, watermark_ms, plain_key=self._plain_key)


def _codes(keys: Sequence[pa.ChunkedArray], codes: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number for each row, the same for rows whose keys are the same, and whose ``codes`` were. It keeps their order.

    As Spark has it, null is like null, NaN like NaN, and zero like minus zero.
    """
    for key in keys:
        column = key
        if pa.types.is_floating(key.type):
            nan = pa.scalar(float("nan"), key.type)
            column = pc.if_else(pc.is_nan(key), nan, pc.add(key, pa.scalar(0.0, key.type)))
        found = column.combine_chunks().dictionary_encode(null_encoding="encode")
        _, codes = np.unique(codes * max(1, len(found.dictionary)) + found.indices.to_numpy(), return_inverse=True)
    return np.asarray(codes, np.int64)


def _closing_ms(ends: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The first watermark that closes each window. One that is not a whole millisecond ends within the next."""
    return np.asarray(-(-ends.cast(pa.int64()).to_numpy() // 1_000), np.int64)
