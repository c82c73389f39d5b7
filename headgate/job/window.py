"""Windows by columns: what a user subclasses to work on all rows of a window, when it has closed.

One rule: a row is in the windows in which Spark's own ``window`` puts it, and is late when Spark says so. A window
closes in the batch in which it would come out of ``groupBy(window)``; what it was is then forgotten.

A processor is given all windows that close in a partition of a batch as one table; ``for window in batch`` goes
through them one by one.
"""

from abc import abstractmethod
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.job.keyed import KeyedProcessor
from headgate.job.partition import Starts

WINDOW_START, WINDOW_END = "window_start", "window_end"


class Window(NamedTuple):
    """One window of one key, which has closed."""

    key: Any
    """A plain value where ``key`` is one name, else a tuple."""
    start: datetime
    end: datetime
    """The first moment that is not in it."""
    rows: pa.Table


class WindowBatch:
    """Windows that have closed, with all their rows.

    Rows of one window of one key stand together, in the order of ``windows``. They are tables of Arrow:
    ``rows.to_pandas()`` and ``polars.from_arrow(rows)`` make others of them.
    """

    rows: pa.Table
    """All rows: ``window_start``, ``window_end``, and the columns of the stream. Those of a window in no order."""
    windows: pa.Table
    """Each window of each key once: ``window_start``, ``window_end``, and the columns of the key."""
    starts: Starts
    """The number of each window's first row in ``rows``."""
    watermark_ms: int
    """How far event time has come: no window ends later."""

    def __init__(
        self, rows: pa.Table, windows: pa.Table, starts: Starts, watermark_ms: int, *, plain_key: bool = False
    ) -> None:
        """Made by Headgate."""
        self.rows, self.windows, self.starts, self.watermark_ms = rows, windows, starts, watermark_ms
        self._plain_key = plain_key

    @cached_property
    def window_of_row(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """For each row, the place of its window in ``windows``."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=self.rows.num_rows))

    def by_window(self, column: str) -> pa.ListArray:
        """The values of a column of ``rows``, as a list for each window."""
        offsets = pa.array([*self.starts.tolist(), self.rows.num_rows], pa.int32())
        return pa.ListArray.from_arrays(offsets, self.rows[column].combine_chunks())

    def __len__(self) -> int:
        """How many windows there are."""
        return len(self.starts)

    def __iter__(self) -> Iterator[Window]:
        """The windows, one by one."""
        starts, ends, *keys = (column.to_pylist() for column in self.windows.columns)
        bounds = [*self.starts.tolist(), self.rows.num_rows]
        for place, key in enumerate(zip(*keys, strict=True)):
            rows = self.rows.slice(bounds[place], bounds[place + 1] - bounds[place])
            yield Window(key[0] if self._plain_key else key, starts[place], ends[place], rows)


class WindowProcessor(KeyedProcessor):
    """What to do with all rows of windows that have closed: Flink's ``ProcessWindowFunction``, by columns.

    ::

        class Medians(WindowProcessor):
            output = "user string, window_end timestamp, orders long, median double"

            def process(self, batch):
                amounts = batch.rows.to_pandas().groupby(["user", "window_end"], dropna=False)["amount"]
                return amounts.agg(orders="size", median="median").reset_index()
    """

    time: ClassVar[str] = "event"

    def open(self) -> None:
        """Prepare what ``process`` needs, and keep it in ``self``. Runs before anything else, in every worker."""

    @abstractmethod
    def process(self, batch: WindowBatch) -> Any:
        """Take windows that have closed, and give rows of ``output`` as a table or several: Arrow, pandas or Polars.

        Runs once or more for each partition of a batch in which windows close; a window of a key is in one call, and
        in no other. A batch that fails runs again from the state before it.
        """
