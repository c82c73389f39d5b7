"""The same program, key by key in Spark's own way and in a whole partition: nobody can tell the difference."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyspark
from hypothesis import given, settings, strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor_util import (
    TransformWithStateInPandasFuncMode as Mode,
    TransformWithStateInPandasUdfUtils,
)
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from headgate.job import pipe
from headgate.job.arrow import arrow_schema
from headgate.job.batches import BatchProcessor, BatchState, KeyedBatch
from headgate.job.in_batches import InBatches
from headgate.job.keyed import KeyedState
from headgate.job.partition import OnSpark
from headgate.job.processor import Context, Processor, _KeyByKey
from tests.job.state_server import StateServer

ROWS = StructType(
    [StructField("key", StringType()), StructField("does", StringType()), StructField("with", LongType())]
)
KEY = StructType([StructField("key", StringType())])
OUTPUT = StructType([StructField("key", StringType()), StructField("saw", StringType())])

Step = tuple[str, str, int]
Batch = list[Step]


class Program(Processor):
    """Does what its rows say, and tells what it saw."""

    output = OUTPUT
    time = "processing"

    def open(self, state: KeyedState) -> None:
        self.number = state.value("number", LongType())
        self.part = state.value("part", DoubleType())
        self.list = state.list("list", LongType())
        self.map = state.map("map", LongType(), DoubleType())

    def process(self, key: str, rows: Iterator[Row], context: Context) -> Iterator[Row]:
        for row in rows:
            yield Row(key=key, saw=f"{row.does} {self.step(row.does, row['with'], context)!r}")

    def on_timer(self, key: str, at_ms: int, context: Context) -> Iterator[Row]:
        yield Row(key=key, saw=f"timer {at_ms} {self.number.get()} {sorted(context.timers())}")
        self.number.update(at_ms)
        if at_ms % 2:
            context.timer_at(context.processing_ms + at_ms)

    def step(self, does: str, argument: int, context: Context) -> Any:
        steps: dict[str, Callable[[], Any]] = {
            "get": self.number.get,
            "exists": self.number.exists,
            "update": lambda: self.number.update(argument),
            "clear": self.number.clear,
            "get part": self.part.get,
            "exists part": self.part.exists,
            "update part": lambda: self.part.update(argument / 2),
            "wrong part": lambda: self.part.update(argument),
            "no part": lambda: self.part.update(None),
            "list": self.list.get,
            "list exists": self.list.exists,
            "append": lambda: self.list.append_value(argument),
            "append list": lambda: self.list.append_list([argument] * (argument % 3)),
            "wrong item": lambda: self.list.append_value(argument / 2),
            "put": lambda: self.list.put(range(argument % 5)),
            "clear list": self.list.clear,
            "map": lambda: sorted(self.map.iterator()),
            "keys": lambda: sorted(self.map.keys()),
            "map exists": self.map.exists,
            "map get": lambda: self.map.get_value(argument),
            "contains": lambda: self.map.contains_key(argument),
            "map update": lambda: self.map.update_value(argument, argument / 4),
            "wrong entry": lambda: self.map.update_value(argument, argument),
            "remove": lambda: self.map.remove_key(argument),
            "clear map": self.map.clear,
            "timer": lambda: context.timer_at(argument),
            "cancel": lambda: context.cancel_timer(argument),
            "timers": lambda: sorted(context.timers()),
        }
        return steps[does]()


class ByColumns(BatchProcessor):
    """A part of it, by columns: the last row of each key says what to do."""

    output = OUTPUT
    time = "processing"

    def open(self, state: BatchState) -> None:
        self.number = state.value("number", LongType())
        self.list = state.list("list", LongType())
        self.map = state.map("map", LongType(), DoubleType())

    def process(self, batch: KeyedBatch) -> pa.Table:
        before = [self.number.get(), self.list.get(), self.map.get(), batch.timers()]
        does, argument = (batch.by_key(name) for name in ("does", "with"))
        says = [each[-1] for each in does.to_pylist()]
        last = pa.array([each[-1] for each in argument.to_pylist()], pa.int64())
        self.number.update(last, where=["update" in each for each in says])
        self.number.update([None] * len(last), where=["clear" in each for each in says])
        self.list.append(argument, where=["append" in each for each in says])
        self.list.put(argument, where=["put" in each for each in says])
        self.map.update([{each: each / 4} for each in last.to_pylist()], where=["map" in each for each in says])
        self.map.remove([[each] for each in last.to_pylist()], where=["remove" in each for each in says])
        batch.timer_at(last, where=["timer" in each for each in says])
        batch.cancel_timer(last, where=["cancel" in each for each in says])
        saw = [repr((*each, says[at])) for at, each in enumerate(zip(*(c.to_pylist() for c in before), strict=True))]
        return pa.table({"key": batch.keys["key"], "saw": saw})

    def on_timers(self, batch: KeyedBatch) -> pa.Table:
        rows = pa.table([batch.rows["key"], batch.rows["at_ms"].cast(pa.string())], names=["key", "saw"])
        self.list.append(batch.by_key("at_ms"))
        return rows


def on_spark(processor: Program | ByColumns) -> OnSpark:
    if isinstance(processor, Program):
        return _KeyByKey(processor, ROWS, KEY, OUTPUT, "ProcessingTime", plain_key=True, whole=False)
    return InBatches(processor, ROWS, KEY, OUTPUT, "ProcessingTime", whole=False)


def as_spark(server: StateServer, processor: Program | ByColumns, batch: Batch) -> list[str]:
    """One batch, as Spark's worker runs it."""
    with server.client(KEY) as client:
        util = TransformWithStateInPandasUdfUtils(on_spark(processor), "ProcessingTime")
        seen: list[Any] = []
        make = Row(*ROWS.names)
        for key, rows in groupby(batch, key=lambda step: step[0]):
            seen += util.transformWithStateUDF(client, Mode.PROCESS_DATA, (key,), (make(*row) for row in rows))
        seen += util.transformWithStateUDF(client, Mode.PROCESS_TIMER, None, iter([]))
        seen += util.transformWithStateUDF(client, Mode.COMPLETE, None, iter([]))
    return sorted(f"{row.key} {row.saw}" for row in seen)


def in_one(server: StateServer, processor: Program | ByColumns, batch: Batch, batch_rows: int) -> list[str]:
    """The same in a whole partition."""
    ours = on_spark(processor)
    ours._whole = True
    columns = list(zip(*batch, strict=True)) or [(), (), ()]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, arrow_schema(ROWS, "it"), strict=True)], ROWS.names)
    to = pa.schema([("_0", pa.struct(list(arrow_schema(OUTPUT, "it"))))])
    with server.client(KEY) as client:
        ours.init(StatefulProcessorHandle(client))
        written = ours._run(iter(table.to_batches(batch_rows)), to)
        seen = [row["_0"] for out in written for row in out.to_pylist()]
        ours.close()
    return sorted(f"{row['key']} {row['saw']}" for row in seen)


DOES = (
    *("get", "exists", "update", "clear", "get part", "exists part", "update part", "wrong part", "no part"),
    *("list", "list exists", "append", "append list", "wrong item", "put", "clear list"),
    *("map", "keys", "map exists", "map get", "contains", "map update", "wrong entry", "remove", "clear map"),
    *("timer", "cancel", "timers"),
)
STEPS = st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(DOES), st.integers(0, 7))
BATCHES = st.lists(st.lists(STEPS, max_size=25).map(lambda steps: sorted(steps, key=lambda step: step[0])), max_size=3)


def compare(processor: type[Program | ByColumns], batches: list[Batch], batch_rows: int, *, many: bool) -> None:
    theirs, ours = StateServer(), StateServer()
    pipe._trials[pyspark.__version__] = many
    for number, batch in enumerate(batches):
        theirs.now_ms = ours.now_ms = 3 * number
        assert in_one(ours, processor(), batch, batch_rows) == as_spark(theirs, processor(), batch)
        assert (ours.values, ours.lists, ours.timers) == (theirs.values, theirs.lists, theirs.timers)
        assert [*filter(None, ours.maps.values())] == [*filter(None, theirs.maps.values())]


@given(BATCHES, st.integers(1, 10), st.booleans())
@settings(deadline=None, max_examples=40)
def test_a_program_by_keys_sees_and_leaves_the_same_both_ways(
    batches: list[Batch], batch_rows: int, many: bool
) -> None:
    compare(Program, batches, batch_rows, many=many)


@given(BATCHES, st.integers(1, 10), st.booleans())
@settings(deadline=None, max_examples=40)
def test_a_program_by_columns_sees_and_leaves_the_same_both_ways(
    batches: list[Batch], batch_rows: int, many: bool
) -> None:
    compare(ByColumns, batches, batch_rows, many=many)
