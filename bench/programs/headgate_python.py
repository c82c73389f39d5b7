"""Processors of Headgate: jumps of sensors with keyed state, and medians of windows."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

import headgate as hg
from bench.programs.readings import JUMP

OUTPUT = "sensor string, n bigint, value double, before double"


class JumpsByKeys(hg.Processor):
    """A jump between two readings of a sensor."""

    output = OUTPUT

    def open(self, state: hg.KeyedState) -> None:
        """One value for each sensor."""
        self.last = state.value("last", "double")

    def process(self, key: str, rows: Iterator[Row], context: hg.Context) -> Iterator[Row]:  # noqa: ARG002 - the base's
        """One sensor."""
        last = self.last.get()
        for row in sorted(rows, key=lambda row: int(row.n)):
            if last is not None and abs(row.value - last) > JUMP:
                yield Row(sensor=key, n=row.n, value=row.value, before=last)
            last = row.value
        self.last.update(last)


class JumpsByColumns(hg.BatchProcessor):
    """The same, all sensors at once."""

    output = OUTPUT

    def open(self, state: hg.BatchState) -> None:
        """One value for each sensor."""
        self.last = state.value("last", "double")

    def process(self, batch: hg.KeyedBatch) -> pa.Table:
        """All rows of the sensors, which stand together."""
        n, value = (batch.rows[name].to_numpy() for name in ("n", "value"))
        order = np.lexsort((n, batch.key_of_row))
        before = np.empty(len(value))
        before[1:] = value[order][:-1]
        before[batch.starts] = self.last.get().to_numpy(zero_copy_only=False)
        self.last.update(value[order][np.append(batch.starts[1:], len(value)) - 1])
        hit = np.flatnonzero(np.abs(value[order] - before) > JUMP)
        found = batch.rows.select(["sensor", "n", "value"]).take(pa.array(order[hit]))
        return found.append_column("before", pa.array(before[hit]))


class Medians(hg.WindowProcessor):
    """The median of each window, all windows at once."""

    output = "sensor string, begin_ms bigint, rows_in bigint, median double"

    def process(self, batch: hg.WindowBatch) -> pa.Table:
        """All rows of the windows, which stand together."""
        value = batch.rows["value"].to_numpy()
        value = value[np.lexsort((value, batch.window_of_row))]
        rows = np.diff(batch.starts, append=len(value))
        median = (value[batch.starts + (rows - 1) // 2] + value[batch.starts + rows // 2]) / 2
        begin_ms = batch.windows["window_start"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        return pa.table({"sensor": batch.windows["sensor"], "begin_ms": begin_ms, "rows_in": rows, "median": median})
