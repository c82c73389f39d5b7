"""A processor in Spark's Python worker: a whole partition at once where that can be, else key by key.

One rule: what a processor sees is the same both ways. Spark's worker reads a partition as Arrow, makes rows of it and
calls a processor for each key, with a round trip for every touch of state. Here it is handed the partition itself, and
the calls go through a pipe (``headgate.job.pipe``). Where Spark is not the one that is known, or something is not where
it should be, nothing is taken over, and Spark's own way goes on: slower, and with the same outcome.

How it is taken over: Spark's worker unpickles the processor in ``read_udfs``, which has just made the object that reads
the partition and writes the output. For this one partition the reading gives Spark nothing, so Spark's function opens
the processor, finds no rows and no timers, and is done; what is written is ours, between the two. Nothing of this
outlives the partition, and nothing else in the process is changed.
"""

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyspark.sql.streaming.proto.StateMessage_pb2 as messages
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState as At
from pyspark.sql.types import StructType
from pyspark.util import PythonEvalType

from headgate.job import pipe
from headgate.job.arrow import Internal, arrow_schema, first_rows, from_internals, internals
from headgate.job.pipe import Pipe

BYTES_MAX = 64 * 1024 * 1024
"""The most that is in one piece, but for a single key that is larger."""

Starts = np.ndarray[Any, np.dtype[np.int64]]
RunPartition = Callable[[Iterator[pa.RecordBatch], pa.Schema], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Keys:
    """Some keys: as columns, as Spark has them inside, and as they travel."""

    columns: tuple[pa.Array, ...]
    rows: list[tuple[Internal, ...]]
    raws: list[bytes]

    @classmethod
    def of_columns(cls, columns: Sequence[pa.Array], types: StructType) -> "Keys":
        """Keys that came with rows."""
        parts = [internals(column, field.dataType) for column, field in zip(columns, types.fields, strict=True)]
        rows = list(zip(*parts, strict=True))
        return cls(tuple(columns), rows, [pipe.dumps(row) for row in rows])

    @classmethod
    def of_rows(cls, rows: list[tuple[Internal, ...]], types: StructType, schema: pa.Schema) -> "Keys":
        """Keys that came with timers."""
        parts = list(zip(*rows, strict=True))
        columns = (
            from_internals(part, field.dataType, schema.field(at).type)
            for at, (part, field) in enumerate(zip(parts, types.fields, strict=True))
        )
        return cls(tuple(columns), rows, [pipe.dumps(row) for row in rows])


@dataclass(frozen=True)
class Due:
    """Timers that have come, in the order of their times."""

    keys: Keys
    """Each key once."""
    which: list[int]
    """For each timer, the place of its key."""
    at_ms: list[int]


class OnSpark(StatefulProcessor):
    """The side that Spark sees. Subclasses say what a processor is given."""

    piece_rows: ClassVar[int] = 200_000
    """A partition that is larger is taken in pieces. A key is in one piece, whatever its size."""
    keep_types: ClassVar[bool] = False
    """Rows stay as Spark sends them, in its session's zone, and are not made what is promised to all."""

    def __init__(self, rows: StructType, keys: StructType, output: StructType, time_mode: str, *, whole: bool) -> None:
        self._row_types = rows
        self._key_types = keys
        self._output = output
        self._time_mode = time_mode
        self._whole = whole

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._whole = self._whole and pipe.is_known() and take_over(self._run)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the processor. Spark calls it first."""
        self._handle = handle
        self._client = handle._statefulProcessorApiClient  # noqa: SLF001 - nothing else leads to the state
        self._row_schema = None if self.keep_types else arrow_schema(self._row_types, "the column")
        self._key_schema = arrow_schema(self._key_types, "the key")
        if self._whole:
            # Spark would deliver timers one by one: it is told that there are none.
            client: Any = self._client
            client.get_expiry_timers_iterator = _none_expired
        self.opened(handle)

    @abstractmethod
    def opened(self, handle: StatefulProcessorHandle) -> None:
        """Open the processor."""

    @abstractmethod
    def on_rows(self, rows: pa.Table, keys: Keys, starts: Starts) -> Iterator[pa.RecordBatch]:
        """What the processor makes of the rows of some keys. Those of one key stand together, from ``starts``."""

    @abstractmethod
    def on_due(self, due: Due) -> Iterator[pa.RecordBatch]:
        """What the processor makes of timers that have come, which are dropped."""

    def _run(self, batches: Iterator[pa.RecordBatch], to: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All that is to be done in a partition. Spark has opened the processor, and believes there are no rows."""
        self.pipe = Pipe.open(self._client)
        self.times_ms = self._client.get_timestamps(self._time_mode)
        names = self._key_types.names
        any_rows = False
        for rows in whole_keys(batches, self._row_schema, names, self.piece_rows):
            if not any_rows:
                self._client.set_handle_state(At.INITIALIZED)
                any_rows = True
            columns = [one_piece(rows[name]) for name in names]
            starts = first_rows(columns)
            keys = Keys.of_columns([column.take(pa.array(starts)) for column in columns], self._key_types)
            yield from _written(self.on_rows(rows, keys, starts), to)
        if any_rows:
            self._client.set_handle_state(At.DATA_PROCESSED)
        if due := self._due():
            yield from _written(self.on_due(due), to)

    def _due(self) -> Due | None:
        """The timers that have come."""
        if self._time_mode == "None":
            return None
        until_ms = self.times_ms[0] if self._time_mode == "ProcessingTime" else self.times_ms[1]
        request = pipe.timers_expired(until_ms, next(self.pipe.names))
        found: list[tuple[bytes, int]] = []
        more = True
        while more:
            (answer,) = self.pipe.ask([request])
            part, more = pipe.more(messages.StateResponseWithTimer, answer, "timer")
            found += ((timer.key, timer.timestampMs) for timer in part)
        if not found:
            return None
        place = {raw: at for at, raw in enumerate(dict.fromkeys(raw for raw, _ in found))}
        keys = Keys.of_rows(pipe.loads(list(place)), self._key_types, self._key_schema)
        return Due(keys, [place[raw] for raw, _ in found], [at_ms for _, at_ms in found])


def take_over(run: RunPartition) -> bool:
    """Let ``run`` do the work of the partition for which Spark's worker unpickles a processor right now, if it does."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "read_udfs":
        frame = frame.f_back
    if frame is None or Path(frame.f_code.co_filename).parts[-2:] != ("pyspark", "worker.py"):
        return False
    there = frame.f_locals
    stream: Any = there.get("ser")
    rows = PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF
    if there.get("eval_type") != rows or type(stream) is not ArrowStreamSerializer:
        return False
    load, dump = stream.load_stream, stream.dump_stream
    came: list[Iterator[pa.RecordBatch]] = []

    def load_stream(source: Any) -> Iterator[pa.RecordBatch]:
        came.append(load(source))
        return iter(())

    def dump_stream(theirs: Iterator[pa.RecordBatch], sink: Any) -> None:
        dump(_between(theirs, came[0], run), sink)

    vars(stream).update(load_stream=load_stream, dump_stream=dump_stream)
    return True


def _between(
    theirs: Iterator[pa.RecordBatch], came: Iterator[pa.RecordBatch], run: RunPartition
) -> Iterator[pa.RecordBatch]:
    """What is written: ours, after Spark's function has opened the processor and before it closes it."""
    opened = next(theirs)
    yield from run(came, opened.schema)
    yield from theirs


def _none_expired(*_: object) -> Any:
    raise StopIteration


def whole_keys(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema | None, names: Sequence[str], piece_rows: int
) -> Iterator[pa.Table]:
    """The rows of a partition in pieces, each with all rows of its keys. They come in the order of their keys."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    rows_max, size_max = piece_rows, BYTES_MAX
    for batch in batches:
        if not batch.num_rows:
            continue
        pending += [batch] if schema is None else _fitted(batch, schema)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows < rows_max and size < size_max:
            continue
        table = pa.Table.from_batches(pending).combine_chunks()
        cut = int(first_rows([one_piece(table[name]) for name in names])[-1])
        if cut:
            yield table.slice(0, cut).combine_chunks()
        pending = table.slice(cut).to_batches()
        rows, size = table.num_rows - cut, sum(each.nbytes for each in pending)
        rows_max, size_max = rows + piece_rows, size + BYTES_MAX
    if pending:
        yield pa.Table.from_batches(pending).combine_chunks()


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.RecordBatch]:
    """A batch in the types that a processor is promised, whatever zone or width Spark sends."""
    return list(pa.Table.from_batches([batch]).select(schema.names).cast(schema).to_batches())


def one_piece(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _written(batches: Iterator[pa.RecordBatch], to: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Output as Spark reads it: one column that has all the others."""
    (whole,) = to
    fields = [whole.type.field(at) for at in range(whole.type.num_fields)]
    for batch in batches:
        if batch.num_rows:
            columns = [batch.column(field.name) for field in fields]
            yield pa.RecordBatch.from_arrays([pa.StructArray.from_arrays(columns, fields=fields)], schema=to)
