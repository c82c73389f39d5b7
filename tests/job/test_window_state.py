"""What is kept of windows, batch by batch, beside a stand-in of Spark's server: both ways, and against a model."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest
from hypothesis import given, settings, strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor_util import (
    TransformWithStateInPandasFuncMode as Mode,
    TransformWithStateInPandasUdfUtils,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from headgate.job import in_windows, pipe
from headgate.job.arrow import arrow_schema
from headgate.job.in_windows import KEY_GROUP, InWindows, _codes
from headgate.job.window import WindowBatch, WindowProcessor
from tests.job.state_server import StateServer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEY = StructType([StructField(KEY_GROUP, LongType()), StructField("window_end", TimestampType())])
ROWS = StructType([StructField("seq", LongType()), StructField("key", StringType()), *KEY.fields])
GROUPS = {"a": 1, "b": 2, "c": 1}
OUTPUT = StructType([StructField("saw", StringType())])
SIZE_MS = 10

Step = tuple[str, int]
"""A key, and the end of a window in ms."""
Line = tuple[int, str, int, datetime]
"""A row: its number, its key, the group of that, and the end of its window."""
Batch = tuple[list[Step], int]
"""Steps, and how far the watermark has come."""


class Told(WindowProcessor):
    """Tells what is in each window."""

    output = OUTPUT

    def __init__(self) -> None:
        self.calls = 0

    def process(self, batch: WindowBatch) -> Iterator[pa.Table]:
        self.calls += 1
        assert batch.rows.column_names == ["window_start", "window_end", "seq", "key"]
        assert batch.windows.column_names == ["window_start", "window_end", "key"]
        for window, seqs in zip(batch, batch.by_window("seq").to_pylist(), strict=True):
            assert window.rows["seq"].to_pylist() == seqs
            assert set(window.rows["key"].to_pylist()) == {window.key}
            assert pc.unique(window.rows["window_end"]).to_pylist() == [window.end]
            assert window.end - window.start == timedelta(milliseconds=SIZE_MS)
            yield pa.table({"saw": [f"{window.key} {(window.end - EPOCH) // timedelta(milliseconds=1)} {seqs}"]})


def made(processor: WindowProcessor) -> InWindows:
    return InWindows(
        processor, ROWS, KEY, OUTPUT, "EventTime", size_ms=SIZE_MS, names=["key"], plain_key=True, whole=False
    )


def rows_of(steps: list[Step], first: int) -> list[Line]:
    """Rows in the order of their groups and windows, each with a number of its own."""
    ordered = sorted(steps, key=lambda step: (GROUPS[step[0]], step[1]))
    return [
        (first + at, key, GROUPS[key], EPOCH + timedelta(milliseconds=end)) for at, (key, end) in enumerate(ordered)
    ]


def as_spark(server: StateServer, rows: list[Line]) -> list[str]:
    """One batch, as Spark's worker runs it."""
    with server.client(KEY) as client:
        util = TransformWithStateInPandasUdfUtils(made(Told()), "EventTime")
        seen: list[Any] = []
        make = Row(*ROWS.names)
        for key, some in groupby(rows, key=lambda row: row[2:]):
            seen += util.transformWithStateUDF(client, Mode.PROCESS_DATA, key, (make(*row) for row in some))
        seen += util.transformWithStateUDF(client, Mode.PROCESS_TIMER, None, iter([]))
        seen += util.transformWithStateUDF(client, Mode.COMPLETE, None, iter([]))
    return sorted(row.saw for row in seen)


def in_one(server: StateServer, rows: list[Line], processor: WindowProcessor) -> list[str]:
    """The same in a whole partition."""
    ours = made(processor)
    ours._whole = True
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, arrow_schema(ROWS, "it"), strict=True)], ROWS.names)
    to = pa.schema([("_0", pa.struct(list(arrow_schema(OUTPUT, "it"))))])
    with server.client(KEY) as client:
        ours.init(StatefulProcessorHandle(client))
        written = ours._run(iter(table.to_batches(3)), to)
        seen = [row["_0"]["saw"] for out in written for row in out.to_pylist()]
        ours.close()
    return sorted(seen)


def left(server: StateServer) -> dict[Any, list[list[int]]]:
    """The rows that wait, as they came."""
    schema = pa.schema([("seq", pa.int64()), ("key", pa.string())])
    return {
        key: [pa.ipc.read_record_batch(pa.py_buffer(raw), schema)["seq"].to_pylist() for raw in raws]
        for (_, key), raws in server.lists.items()
    }


def model(kept: dict[Step, list[int]], rows: list[Line], watermark_ms: int) -> list[str]:
    """What closes in a batch; the rest is kept."""
    for seq, key, _, end in rows:
        kept.setdefault((key, (end - EPOCH) // timedelta(milliseconds=1)), []).append(seq)
    closed = [step for step in kept if step[1] <= watermark_ms]
    return sorted(f"{key} {end} {kept.pop((key, end))}" for key, end in closed)


ENDS = st.integers(-3, 6).map(lambda number: number * 5)
STEPS = st.lists(st.tuples(st.sampled_from("abc"), ENDS), max_size=12)
BATCHES = st.lists(st.tuples(STEPS, st.integers(0, 30)), max_size=4)


@given(BATCHES, st.booleans())
@settings(deadline=None, max_examples=20)
def test_every_row_comes_out_once_when_its_window_closes_and_nothing_stays(batches: list[Batch], many: bool) -> None:
    theirs, ours = StateServer(), StateServer()
    kept: dict[Step, list[int]] = {}
    pipe._trials[pyspark.__version__] = many
    first = 0
    for steps, watermark_ms in [*batches, ([], 1_000)]:
        theirs.watermark_ms = ours.watermark_ms = watermark_ms
        rows = rows_of(steps, first)
        first += len(rows)
        wanted = model(kept, rows, watermark_ms)
        assert in_one(ours, rows, Told()) == wanted
        assert as_spark(theirs, rows) == wanted
        assert (left(ours), ours.timers) == (left(theirs), theirs.timers)
        assert len(ours.timers) == len(ours.lists) == len({(GROUPS[key], end) for key, end in kept})
    assert not ours.lists
    assert not ours.timers
    assert not ours.values


@pytest.mark.parametrize(("bytes_max", "calls"), [(1, 4), (1_000_000, 1)])
def test_windows_that_are_too_large_for_one_call_come_in_several(
    monkeypatch: pytest.MonkeyPatch, bytes_max: int, calls: int
) -> None:
    server, processor = StateServer(), Told()
    rows = rows_of([(key, end) for key in "abc" for end in (5, 10) for _ in range(4)], 0)
    assert in_one(server, rows, processor) == []
    monkeypatch.setattr(in_windows, "BYTES_MAX", bytes_max)
    monkeypatch.setattr(in_windows, "READ_FIRST", 1)
    server.watermark_ms = 10
    assert in_one(server, [], processor) == model({}, rows, 10)
    assert processor.calls == calls
    assert not server.lists


def test_a_window_that_ends_within_a_millisecond_closes_with_the_next() -> None:
    server = StateServer()
    rows = [(0, "a", 1, EPOCH + timedelta(microseconds=5_001))]
    server.watermark_ms = 5
    assert in_one(server, rows, Told()) == []
    server.watermark_ms = 6
    assert in_one(server, [], Told()) == ["a 5 [0]"]


@pytest.mark.parametrize(
    ("keys", "codes"),
    [
        ([["a", "b", None, "a", None]], [0, 1, 2, 0, 2]),
        ([[0.0, -0.0, float("nan"), None, -float("nan")]], [0, 0, 1, 2, 1]),
        ([[1, 1, 2, 2, 1], ["x", None, "x", None, "x"]], [0, 1, 2, 3, 0]),
        ([[True, None, False, True, None]], [0, 1, 2, 0, 1]),
        ([[b"", b"1", None, b"", b"1"]], [0, 1, 2, 0, 1]),
    ],
)
def test_keys_are_the_same_where_spark_says_so(keys: list[list[Any]], codes: list[int]) -> None:
    columns = [pa.chunked_array([pa.array(each, from_pandas=False)]) for each in keys]
    assert _codes(columns, np.zeros(5, np.int64)).tolist() == codes
    before = np.asarray([0, 0, 0, 1, 1])
    assert len(set(_codes(columns, before).tolist())) == len(set(zip(codes, before.tolist(), strict=True)))
    assert np.all(np.diff(before[np.argsort(_codes(columns, before), kind="stable")]) >= 0), "what was before is first"


def test_no_rows_have_no_codes() -> None:
    assert _codes([pa.chunked_array([], pa.string())], np.zeros(0, np.int64)).tolist() == []
