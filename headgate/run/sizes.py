"""Which batches had which size, and what they took.

One rule: a task is heard on a size only for batches whose rows all came in batches of that size, however many tasks are
between it and the source. ``core.sizing`` judges; here it is kept of which batch that holds, and the size is handed to
Spark.

The first batch of a query may be one that is done again, or is as large as every first one: nothing is learned from it.
Unless its source can tell rows by offsets. Then a size that has not stood yet is judged in the hook already, once the
batch is written, so that each batch on the way to the right size is of another one.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headgate import layout
from headgate.core import sizing
from headgate.core.graph import Graph
from headgate.core.ids import NO_BATCH, Batch, TaskId
from headgate.core.sizing import Sizing
from headgate.errors import HeadgateError
from headgate.task.limits import CannotSize, set_limits

WAITS_MAX = 16
"""Of this many batches of a task it is kept how long they waited: the last one's is asked for."""
Handing = Callable[[StreamingQuery, Sequence[int | None]], None]
Counting = Callable[[TaskId, Sequence[str], Sequence[str]], Sequence[int] | None]
"""Tells the rows of each source between two entries of the offset log, or that it cannot."""


@dataclass
class Sized:
    """A task whose sources let Headgate say how many rows a batch has."""

    sources: tuple[bool, ...]
    """Of each source of the task, in the order in which the query reads them, whether it does."""
    sizing: Sizing
    limits: dict[Batch, int] = field(default_factory=dict)
    """The size of each batch of the present query that is known, of late."""
    others: dict[TaskId, Batch] = field(default_factory=dict)
    """The last batch of each task that had rows of another size. A task that is not here has none of this one yet."""
    handed: int | None = None
    """What the present query was told."""
    last: int = 0
    full: bool = False
    """The rows of the last batch of this size, and whether it had about as many as it might."""
    judged: Batch | None = None
    """The last batch that was judged in the hook."""

    def begin(self) -> None:
        """One of the tasks begins anew: batches are counted from elsewhere."""
        self.limits.clear()
        self.others.clear()
        self.handed = self.judged = None
        self.sizing = sizing.forget_times(self.sizing)

    @property
    def shares(self) -> tuple[int | None, ...]:
        """The rows of a batch, shared out evenly."""
        rows = max(1, self.sizing.rows // sum(self.sources))
        return tuple(rows if each else None for each in self.sources)


class Sizes:
    """The sizes of one process."""

    def __init__(
        self,
        graph: Graph,
        sources: Mapping[TaskId, tuple[bool, ...]],
        target_ms: float,
        warn: Callable[[str], None],
        hand: Handing = set_limits,
        count: Counting = lambda *_: None,
    ) -> None:
        """``sources`` says of each source of a task whether its batches size themselves."""
        self._graph = graph
        self._target_ms = target_ms
        self._warn = warn
        self._hand = hand
        self._count = count
        self._lock = threading.Lock()
        self._waits: dict[TaskId, dict[Batch, float]] = {}
        self._refused = False
        self._sized = {
            task: Sized(each, sizing.sizing_of((task, *_behind(graph, task))))
            for task, each in sources.items()
            if any(each)
        }

    def begin(self, task: TaskId) -> None:
        """A query of a task is about to start."""
        with self._lock:
            for sized in self._sized.values():
                if task in sized.sizing.costs:
                    sized.begin()

    def rows(self, task: TaskId) -> int | None:
        """The present size of a task's batches, if they size themselves."""
        with self._lock:
            sized = self._sized.get(task)
            return None if sized is None or self._refused else sized.sizing.rows

    def resize(self, task: TaskId, directory: Path, query: StreamingQuery, batch: Batch, took_ms: float) -> None:
        """In the hook of a batch that took this long to write: let the next one have the size that is wanted by now."""
        with self._lock:
            sized = self._sized.get(task)
            if sized is None or self._refused:
                return
            if not sized.sizing.stood and sized.judged != batch:
                self._own_in_hook(task, sized, batch, directory, took_ms)
            rows, shares = sized.sizing.rows, sized.shares
            changed = rows != sized.handed
        if changed:
            channels = layout.read_offsets(directory, batch).are_channels()
            if channels.count(False) != len(shares):
                return  # Something has no offset yet, so it cannot be told what it is.
            own = iter(shares)
            try:
                self._hand(query, [None if channel else next(own) for channel in channels])
            except CannotSize as error:
                self._refused = True
                self._warn(
                    f"batches do not size themselves with this Spark, and have {sizing.START_ROWS} rows a source: "
                    f"give rows_per_batch or max_offsets_per_trigger ({error})"
                )
                return
        with self._lock:
            sized.handed = rows
            sized.limits[Batch(batch + 1)] = rows
            for old in [number for number in sized.limits if number < batch]:
                del sized.limits[old]

    def waited(self, task: TaskId, batch: Batch, wait_ms: float) -> None:
        """A batch has waited this long for others, for its readers or for room in a sink."""
        with self._lock:
            waits = self._waits.setdefault(task, {})
            waits[batch] = waits.get(batch, 0.0) + wait_ms
            for old in list(waits)[:-WAITS_MAX]:
                del waits[old]

    def progressed(self, task: TaskId, directory: Path, progress: Any) -> None:
        """Spark says that a batch is over."""
        spent = dict(progress.durationMs) if self._sized else {}
        if "addBatch" not in spent:
            return  # Nothing was done, or nobody wants to know.
        batch = Batch(progress.batchId)
        with self._lock:
            took = took_ms(progress, self._waits.get(task, {}).pop(batch, 0.0))
            for owner, sized in self._sized.items():
                if owner == task:
                    self._own(task, sized, batch, _counts(progress), took)
                elif task in sized.sizing.costs:
                    self._behind(sized, task, batch, directory, took)

    def _own_in_hook(self, task: TaskId, sized: Sized, batch: Batch, directory: Path, took_ms: float) -> None:
        """A batch that reads the sources, and has been written a moment ago."""
        if sized.limits.get(batch, sized.sizing.rows) != sized.sizing.rows:
            return
        try:
            end = layout.read_offsets(directory, batch).of_sources()
            begin = layout.read_offsets(directory, Batch(batch - 1)).of_sources() if batch > 0 else ()
        except (HeadgateError, OSError):
            return  # It is the first one after a restore, or Spark itself is at its log.
        if {len(begin) or len(end), len(end)} != {len(sized.sources)} or layout.NO_OFFSET in (*begin, *end):
            return  # As in resize.
        counts = self._count(task, begin, end)
        if counts is None or sum(counts) > sized.sizing.rows:
            return
        sized.judged = batch
        sized.limits[batch] = sized.sizing.rows
        self._learn(task, sized, batch, counts, took_ms)

    def _own(self, task: TaskId, sized: Sized, batch: Batch, counts: Sequence[int], took: float) -> None:
        """A batch that reads the sources."""
        limit = sized.limits.get(batch)
        if limit is not None and limit == sized.sizing.rows and batch != sized.judged:
            self._learn(task, sized, batch, counts, took)

    def _learn(self, task: TaskId, sized: Sized, batch: Batch, counts: Sequence[int], took: float) -> None:
        sized.others.setdefault(task, Batch(batch - 1))
        own = [(rows, most) for rows, most in zip(counts, sized.shares, strict=False) if most is not None]
        sized.last = sum(rows for rows, _ in own)
        sized.full = any(rows >= sizing.FULL * most for rows, most in own)
        self._judge(sized, task, took)

    def _behind(self, sized: Sized, task: TaskId, batch: Batch, directory: Path, took: float) -> None:
        """A batch that reads what comes from the sources, near or far."""
        if task not in sized.others:
            channels = [channel for channel in self._graph.inputs[task] if channel.upstream in sized.sizing.costs]
            if not all(channel.upstream in sized.others for channel in channels):
                return
            try:
                begun = layout.read_offsets(directory, Batch(batch - 1)).positions()
            except (HeadgateError, OSError):
                return  # The first batch of all.
            if not all(begun.get(channel.id, NO_BATCH) >= sized.others[channel.upstream] for channel in channels):
                return
            sized.others[task] = Batch(batch - 1)
        self._judge(sized, task, took)

    def _judge(self, sized: Sized, task: TaskId, took: float) -> None:
        before = sized.sizing.rows
        sized.sizing = sizing.seen(sized.sizing, self._target_ms, task, sized.last, took, full=sized.full)
        if sized.sizing.rows != before:
            sized.others.clear()


def took_ms(progress: Any, waited_ms: float) -> float:
    """What a batch took, without waiting: for records, for its readers, for room in a sink."""
    spent = progress.durationMs
    return max(1.0, float(spent.get("triggerExecution", 0) - spent.get("latestOffset", 0) - waited_ms))


def _counts(progress: Any) -> list[int]:
    """The rows of each source of a batch, without channels."""
    return [int(one.numInputRows) for one in progress.sources if not layout.is_position(one.endOffset)]


def _behind(graph: Graph, task: TaskId) -> tuple[TaskId, ...]:
    """All tasks that read what a task writes, near or far."""
    found: dict[TaskId, None] = {}
    for channel in graph.outputs[task]:
        found |= dict.fromkeys((channel.downstream, *_behind(graph, channel.downstream)))
    return tuple(found)
