"""Keyed state by columns: a processor that is given the rows and the state of many keys at once.

One rule: everything of a key is in one call, and a column has one item for each key, in the order of the keys. How many
keys a call is about is Spark's and Headgate's business: all of a partition as a rule, one alone in the worst case. Code
that is right for one key and for many is right.
"""

from abc import abstractmethod
from datetime import datetime
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, LongType, MapType

from headgate.errors import InvalidJob
from headgate.job.access import StateAccess, Variable
from headgate.job.arrow import arrow_type, as_column, from_internals, internals
from headgate.job.keyed import KeyedProcessor, StateDeclarations
from headgate.job.partition import Starts
from headgate.values import Duration, duration_ms

Column = Any
"""One item for each key: an array of Arrow, numpy, pandas or Polars, or a list."""


class KeyedBatch:
    """The rows of some keys in one batch, and their timers.

    Rows of one key stand together, the keys in the order of ``keys``. They are tables of Arrow: ``rows.to_pandas()``
    and ``polars.from_arrow(rows)`` make others of them.
    """

    rows: pa.Table
    """All rows of these keys in this batch. In ``on_timers``, the timers: the key's columns, and ``at_ms``."""
    keys: pa.Table
    """Each key once, under the names of its columns."""
    starts: Starts
    """The number of each key's first row in ``rows``."""
    processing_ms: int
    """When the batch began; the same for all its rows. -1 where ``time`` is ``"none"``."""
    watermark_ms: int
    """How far event time has come: 0 before the first watermark. -1 where ``time`` is ``"none"``."""

    def __init__(
        self,
        rows: pa.Table,
        keys: pa.Table,
        starts: Starts,
        access: StateAccess,
        time: str,
        times_ms: tuple[int, int],
    ) -> None:
        """Made by Headgate."""
        self.rows, self.keys, self.starts = rows, keys, starts
        self.processing_ms, self.watermark_ms = times_ms
        self._access = access
        self._time = time

    @cached_property
    def key_of_row(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """For each row, the place of its key in ``keys``: ``state[batch.key_of_row]`` is the state for each row."""
        lengths = np.diff(self.starts, append=self.rows.num_rows)
        return np.repeat(np.arange(len(self.starts)), lengths)

    def by_key(self, column: str) -> pa.ListArray:
        """The values of a column of ``rows``, as a list for each key."""
        offsets = pa.array([*self.starts.tolist(), self.rows.num_rows], pa.int32())
        return pa.ListArray.from_arrays(offsets, self.rows[column].combine_chunks())

    def timer_at(self, at: int | datetime | Column, where: Column = None) -> None:
        """Set a timer for each key: ``on_timers`` has it in the first batch at or after its time.

        One time for all keys, or one for each: milliseconds or timestamps; where there is none, no timer is set. By the
        clock where ``time`` is ``"processing"``, by the watermark where it is ``"event"``. Setting the same time twice
        sets one timer. ``where`` says for which keys, as booleans.
        """
        which, at_ms = self._timers_at(at, where)
        self._access.set_timers(which, at_ms)

    def timer_after(self, delay: Duration, where: Column = None) -> None:
        """The same, this long after the beginning of this batch, or after the watermark."""
        now_ms = self.watermark_ms if self._time == "event" else self.processing_ms
        self.timer_at(now_ms + duration_ms(delay, name="delay", example="1min"), where)

    def cancel_timer(self, at: int | datetime | Column, where: Column = None) -> None:
        """Drop a timer of each key. One that is not there is not an error."""
        which, at_ms = self._timers_at(at, where)
        self._access.drop_timers(which, at_ms)

    def timers(self) -> pa.ListArray:
        """The times of each key's timers, in ms."""
        return from_internals(self._access.timers(), _TIMES, _ARROW_TIMES)

    def _timers_at(self, at: Any, where: Column) -> tuple[list[int], list[int]]:
        if self._time == "none":
            raise InvalidJob("a timer needs a time to go by: set time = 'processing' or time = 'event'")
        count = self.keys.num_rows
        if isinstance(at, datetime):
            at = round(at.timestamp() * 1_000)
        if isinstance(at, int):
            which = _which(where, count, "where")
            return which, [at] * len(which)
        column = _timer_column(at)
        _same_length(column, count, "timers")
        valid = column.is_valid().to_pylist()
        which = [place for place in _which(where, count, "where") if valid[place]]
        return which, cast("list[int]", column.take(pa.array(which, pa.int64())).to_pylist())


class ValueColumn:
    """One value for each key."""

    def __init__(self, of: Variable, now: "Now") -> None:
        """Made by ``BatchState``."""
        self._of = of
        self._type = arrow_type(of.of, f"state {of.name!r}")
        self._now = now

    def get(self) -> pa.Array:
        """The values: null where there is none, or it has expired."""
        return from_internals(self._now.access.values(self._of), self._of.of, self._type)

    def update(self, values: Column, where: Column = None) -> None:
        """Keep these values, whose time to live begins anew. A null forgets what was there.

        ``where`` says for which keys, as booleans; the others stay as they are. What has not changed need not be
        written, and writing is most of the cost.
        """
        column, which = self._now.aligned(values, self._type, where, f"state {self._of.name!r}")
        if column.null_count:
            there = column.is_valid().to_pylist()
            self._now.access.clear(self._of, [place for place in which if not there[place]])
            which = [place for place in which if there[place]]
        chosen = column if len(which) == len(column) else column.take(pa.array(which, pa.int64()))
        self._now.access.update(self._of, which, internals(chosen, self._of.of))

    def clear(self, where: Column = None) -> None:
        """Forget the values."""
        self._now.access.clear(self._of, _which(where, self._now.count, "where"))


class ListColumn:
    """A list of values for each key."""

    def __init__(self, of: Variable, now: "Now") -> None:
        """Made by ``BatchState``."""
        self._of = of
        self._lists = ArrayType(of.of)
        self._type = arrow_type(self._lists, f"state {of.name!r}")
        self._now = now

    def get(self) -> pa.ListArray:
        """The lists, in the order in which values came, without those that have expired. None is an empty one."""
        return from_internals(self._now.access.lists(self._of), self._lists, self._type)

    def put(self, lists: Column, where: Column = None) -> None:
        """Keep these lists instead of what was there. An empty one, or a null, forgets what was there."""
        which, found = self._given(lists, where)
        self._now.access.clear(self._of, [place for place, each in zip(which, found, strict=True) if not each])
        full = [(place, each) for place, each in zip(which, found, strict=True) if each]
        self._now.access.put(self._of, [place for place, _ in full], [each for _, each in full])

    def append(self, lists: Column, where: Column = None) -> None:
        """Add these lists at the end of what is there. ``KeyedBatch.by_key`` makes lists of rows."""
        which, found = self._given(lists, where)
        full = [(place, each) for place, each in zip(which, found, strict=True) if each]
        self._now.access.append(self._of, [place for place, _ in full], [each for _, each in full])

    def clear(self, where: Column = None) -> None:
        """Forget the lists."""
        self._now.access.clear(self._of, _which(where, self._now.count, "where"))

    def _given(self, lists: Column, where: Column) -> tuple[list[int], list[Any]]:
        column, which = self._now.aligned(lists, self._type, where, f"state {self._of.name!r}")
        return which, internals(column.take(pa.array(which, pa.int64())), self._lists)


class MapColumn:
    """A map for each key."""

    def __init__(self, of: Variable, now: "Now") -> None:
        """Made by ``BatchState``."""
        assert of.key_of is not None
        self._of = of
        self._maps = MapType(of.key_of, of.of)
        self._keys = ArrayType(of.key_of)
        self._type = arrow_type(self._maps, f"state {of.name!r}")
        self._key_type = arrow_type(self._keys, f"state {of.name!r}")
        self._now = now

    def get(self) -> pa.MapArray:
        """The maps, without what has expired. None is an empty one."""
        return from_internals([dict(each) for each in self._now.access.maps(self._of)], self._maps, self._type)

    def update(self, maps: Column, where: Column = None) -> None:
        """Keep what is in these maps, beside what is there under other keys of the map."""
        column, which = self._now.aligned(maps, self._type, where, f"state {self._of.name!r}")
        found = internals(column.take(pa.array(which, pa.int64())), self._maps)
        full = [(place, list(each.items())) for place, each in zip(which, found, strict=True) if each]
        self._now.access.update_maps(self._of, [place for place, _ in full], [each for _, each in full])

    def remove(self, keys: Column, where: Column = None) -> None:
        """Forget some keys of each map: a list for each key."""
        column, which = self._now.aligned(keys, self._key_type, where, f"state {self._of.name!r}")
        found = internals(column.take(pa.array(which, pa.int64())), self._keys)
        full = [(place, each) for place, each in zip(which, found, strict=True) if each]
        self._now.access.remove(self._of, [place for place, _ in full], [each for _, each in full])

    def clear(self, where: Column = None) -> None:
        """Forget the whole maps."""
        self._now.access.clear(self._of, _which(where, self._now.count, "where"))


class BatchState(StateDeclarations):
    """Where a batch processor asks for its state, in ``open``: as ``KeyedState``, and kept in the same way.

    A processor may become a batch processor, or the other way round, and go on with its state.
    """

    def __init__(self, *args: Any) -> None:
        """Made by Headgate."""
        super().__init__(*args)
        self.now = Now()

    def value(self, name: str, of: str | DataType, *, ttl: Duration | None = None) -> ValueColumn:
        """One value for each key."""
        column = self._column(of)
        spark = self._handle.getValueState(name, column, self._ttl_ms(name, ttl))
        return ValueColumn(Variable(name, "value", column.fields[0].dataType, None, spark), self.now)

    def list(self, name: str, of: str | DataType, *, ttl: Duration | None = None) -> ListColumn:
        """A list of values for each key. Each value has its own time to live."""
        column = self._column(of)
        spark = self._handle.getListState(name, column, self._ttl_ms(name, ttl))
        return ListColumn(Variable(name, "list", column.fields[0].dataType, None, spark), self.now)

    def map(self, name: str, key: str | DataType, of: str | DataType, *, ttl: Duration | None = None) -> MapColumn:
        """A map for each key. Each value has its own time to live."""
        keys, column = self._column(key), self._column(of)
        spark = self._handle.getMapState(name, keys, column, self._ttl_ms(name, ttl))
        return MapColumn(Variable(name, "map", column.fields[0].dataType, keys.fields[0].dataType, spark), self.now)


class BatchProcessor(KeyedProcessor):
    """What to do with the rows of many keys, given what is remembered of each: a ``Processor`` by columns.

    ::

        class Jumps(BatchProcessor):
            output = "sensor string, value double, before double"
            time = "processing"

            def open(self, state):
                self.last = state.value("last", "double", ttl="1h")

            def process(self, batch):
                rows = batch.rows.to_pandas()
                value = rows.groupby("sensor", sort=False, dropna=False)["value"]
                rows["before"] = value.shift()
                rows.loc[batch.starts, "before"] = self.last.get().to_numpy(zero_copy_only=False)
                self.last.update(value.last())
                yield rows.loc[(rows.value - rows.before).abs() > 5, ["sensor", "value", "before"]]
    """

    def open(self, state: BatchState) -> None:
        """Ask for state, and keep it in ``self``. Runs before anything else: in every worker, and on the driver too.

        The names and types of state must be the same each time: they are checked against what is stored.
        """

    @abstractmethod
    def process(self, batch: KeyedBatch) -> Any:
        """Take the rows of some keys, and give rows of ``output`` as a table or several: Arrow, pandas or Polars.

        Runs once or more for each partition of a batch; a key is in one call. A batch that fails runs again from the
        state before it.
        """

    def on_timers(self, batch: KeyedBatch) -> Any:
        """Timers have come: once each, after all rows of the batch. They are gone afterwards."""


class Now:
    """The keys that a processor is at."""

    access: StateAccess
    count: int

    def aligned(self, values: Column, to: pa.DataType, where: Column, what: str) -> tuple[pa.Array, list[int]]:
        """A column with one item for each key, and the places of the keys that are meant."""
        column = as_column(values, to, what)
        _same_length(column, self.count, what)
        return column, _which(where, self.count, what)


_TIMES = ArrayType(LongType())
_ARROW_TIMES = pa.list_(pa.int64())


def _which(where: Column, count: int, what: str) -> list[int]:
    """The places of the keys that are meant; all, if nothing is said."""
    if where is None:
        return list(range(count))
    mask = as_column(where, pa.bool_(), f"{what}: where")
    _same_length(mask, count, f"{what}: where")
    return cast("list[int]", pc.indices_nonzero(mask).to_pylist())


def _timer_column(at: Column) -> pa.Array:
    """Times as milliseconds."""
    column = at if isinstance(at, pa.Array | pa.ChunkedArray) else pa.array(at)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            raise InvalidJob("the times of timers have no zone: give timestamps that have one, or milliseconds")
        column = column.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    return as_column(column, pa.int64(), "the times of timers")


def _same_length(column: pa.Array, count: int, what: str) -> None:
    if len(column) != count:
        raise InvalidJob(
            f"{what}: {len(column)} values for {count} keys: give one for each, in the order of batch.keys"
        )
