"""A window processor in Spark's Python worker: rows wait in state until their window closes.

One rule: state is kept for each window of each key, and is gone when the window has closed. The key that Spark knows is
the user's and the end of the window. Under it stands a list with one item for each batch that brought rows: these rows,
as a record batch of Arrow without its schema. A timer at the end of the window closes it.

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
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from headgate.job.access import StateAccess, Variable
from headgate.job.arrow import arrow_schema
from headgate.job.in_batches import InColumns
from headgate.job.partition import BYTES_MAX, Starts
from headgate.job.window import WINDOW_END, WINDOW_START, WindowBatch, WindowProcessor

READ_FIRST, READ_MAX = 100, 10_000
"""Windows that are read at once: at first, before it is known how large they are, and at most."""

ROWS, COLUMNS = "rows", "columns"
"""The names of the states."""


class InWindows(InColumns):
    """A window processor as Spark calls it. The end of the window is the last column of the key."""

    def __init__(self, processor: WindowProcessor, *args: Any, size_ms: int, plain_key: bool, **kwargs: Any) -> None:
        super().__init__(processor, *args, **kwargs)
        self._windows = processor
        self._size_ms = size_ms
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
        which: np.ndarray[Any, Any],  # noqa: ARG002 - a window has one timer, so each key is there once
        at_ms: np.ndarray[Any, Any],  # noqa: ARG002 - the end of the window stands in the key
        access: StateAccess,
        times_ms: tuple[int, int],
    ) -> Iterator[pa.RecordBatch]:
        for first, lists in self._read(len(keys[0]), access):
            of_windows = [column.slice(first, len(lists)) for column in keys]
            yield from self._given(self._windows.process(self._batch(of_windows, lists, times_ms[1])))

    def _read(self, count: int, access: StateAccess) -> Iterator[tuple[int, list[list[bytes]]]]:
        """What was kept of the windows, in pieces that are not too large, and the first window of each. It is gone."""
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

    def _batch(self, keys: Sequence[pa.Array], lists: list[list[bytes]], watermark_ms: int) -> WindowBatch:
        """Windows of these keys, of the rows that were kept of each."""
        blobs = [blob for each in lists for blob in each]
        parts = list(pa.ipc.open_stream(b"".join([self._kept_head, *blobs])))
        kept = pa.Table.from_batches(parts, self._kept).combine_chunks()
        counts = iter([part.num_rows for part in parts])
        lengths = np.asarray([sum(islice(counts, len(each))) for each in lists], np.int64)
        starts = np.cumsum(lengths) - lengths
        *of_user, end = keys
        start = pa.array(end.cast(pa.int64()).to_numpy() - self._size_ms * 1_000).cast(end.type)
        names = [WINDOW_START, WINDOW_END, *self._key_types.names[:-1]]
        windows = pa.table([start, end, *of_user], names=names)
        of_row = pa.array(np.repeat(np.arange(len(lengths)), lengths))
        columns = {name: windows[name].take(of_row) for name in names}
        columns |= {name: kept[name] for name in self._kept.names}
        order = [WINDOW_START, WINDOW_END, *(name for name in self._row_types.names if name != WINDOW_END)]
        rows = pa.table([columns[name] for name in order], names=order)
        return WindowBatch(rows, windows, starts, watermark_ms, plain_key=self._plain_key)


def _closing_ms(ends: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The first watermark that closes each window. One that is not a whole millisecond ends within the next."""
    return np.asarray(-(-ends.cast(pa.int64()).to_numpy() // 1_000), np.int64)
