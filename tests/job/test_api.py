"""Building a job, and every way to build it wrong. ``LINE`` stands for the user's line in a message."""

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, Row

from headgate import restart, state_backend, windows
from headgate.core.restart import ExponentialDelay, NoRestart
from headgate.errors import InvalidJob
from headgate.job.api import Job, JoinOn, Stream
from headgate.job.batches import BatchProcessor, KeyedBatch
from headgate.job.node import Node, NodeKind
from headgate.job.processor import Context, Processor
from headgate.job.settings import Checkpointing
from headgate.job.window import WindowBatch, WindowProcessor
from headgate.sink.api import Guarantee
from headgate.source.api import Source
from tests.job.helpers import NullSink, RateSource

TENS = windows.tumbling("timestamp", "10min")
STORAGE = Checkpointing(storage="file:///data/headgate")


class Echo(Processor):
    output = "value long"

    def process(self, key: Any, rows: Iterator[Row], context: Context) -> Iterator[Row]:
        raise AssertionError(key, rows, context)


class Columns(BatchProcessor):
    output = "value string"

    def process(self, batch: KeyedBatch) -> Any:
        return batch.rows.select(["value"])


class Closed(WindowProcessor):
    output = "value string"

    def process(self, batch: WindowBatch) -> Any:
        return batch.rows.select(["value"])


class ByClock(Closed):
    time = "processing"


class NoOutput(Processor):
    process = Echo.process


class Duck:
    """Has what a sink has, and is none."""

    guarantee = Guarantee.EXACTLY_ONCE

    def describe(self) -> str:
        raise AssertionError


class BadTime(Echo):
    time = "lunar"


def keep(frame: DataFrame) -> DataFrame:
    raise AssertionError(f"called with {frame} while the job is built")


def both(left: DataFrame, right: DataFrame) -> DataFrame:
    raise AssertionError(left, right)


def new_job(name: str = "orders") -> Job:
    return Job(name, checkpoint=STORAGE)


def in_memory() -> Job:
    return Job("orders", checkpoint=STORAGE, state_backend=state_backend.hashmap())


def stream(job: Job | None = None, uid: str = "in") -> Stream:
    return (job or new_job()).source(uid, RateSource())


def test_a_job_is_nodes_in_the_order_in_which_they_were_written_with_their_lines() -> None:
    job = new_job()
    orders = job.source("orders", RateSource())
    other = job.source("other", RateSource())
    parsed = orders.transform("parse", keep)
    totals = parsed.transform("totals", keep, output_mode="update", new_task=True)
    alerts = parsed.process("alerts", Echo(), key="value")
    pairs = parsed.process("pairs", Echo(), key=["value", "timestamp"], new_task=True)
    merged = totals.union("merged", alerts, pairs)
    joined = merged.join("joined", other, both)
    again = joined.join("again", other, on="value", how="left")
    again.sink("out", NullSink())
    nodes = {node.uid: node for node in job.freeze()}
    assert list(nodes) == ["orders", "other", "parse", "totals", "alerts", "pairs", "merged", "joined", "again", "out"]
    assert [node.kind for node in nodes.values()] == [
        *(NodeKind.SOURCE, NodeKind.SOURCE, NodeKind.TRANSFORM, NodeKind.TRANSFORM, NodeKind.PROCESS, NodeKind.PROCESS),
        *(NodeKind.UNION, NodeKind.JOIN, NodeKind.JOIN, NodeKind.SINK),
    ]
    first = int(nodes["orders"].where.removeprefix("test_api.py:"))
    assert [node.where for node in nodes.values()] == [f"test_api.py:{first + offset}" for offset in range(10)]
    assert nodes["totals"] == Node(
        "totals", NodeKind.TRANSFORM, ("parse",), keep, "update", new_task=True, where=f"test_api.py:{first + 3}"
    )
    assert nodes["alerts"].key == "value"
    assert nodes["pairs"].key == ("value", "timestamp")
    assert nodes["merged"].inputs == ("totals", "alerts", "pairs")
    assert (nodes["joined"].inputs, nodes["joined"].what) == (("merged", "other"), both)
    assert nodes["again"].what == JoinOn(("value",), "left")
    assert repr(again) == "Stream('again')"


def test_a_stream_of_windows_knows_its_windows_and_its_key() -> None:
    job = new_job()
    closed = stream(job).process_windows("closed", Closed(), key="value", window=TENS, new_task=True)
    closed.sink("out", NullSink())
    node = job.freeze()[1]
    assert (node.kind, node.key, node.window, node.new_task) == (NodeKind.PROCESS, "value", TENS, True)


def test_a_job_keeps_what_it_was_given_and_has_defaults_for_the_rest() -> None:
    plain = new_job()
    assert (plain.name, plain.checkpoint, plain.restart) == ("orders", STORAGE, ExponentialDelay())
    assert (plain.state_backend, plain.master, plain.batch_interval_ms, dict(plain.spark_conf)) == (
        None,
        None,
        None,
        {},
    )
    given: dict[str, str | bool | float] = {"spark.cores.max": 4, "spark.eventLog.enabled": True, "spark.x": "y"}
    full = Job(
        "orders",
        checkpoint=STORAGE,
        restart=restart.none(),
        spark_conf=given,
        master="local[2]",
        batch_interval="500ms",
    )
    given["spark.cores.max"] = 8
    assert dict(full.spark_conf) == {"spark.cores.max": "4", "spark.eventLog.enabled": "true", "spark.x": "y"}
    assert (full.restart, full.master, full.batch_interval_ms) == (NoRestart(), "local[2]", 500)


def test_a_job_is_frozen_once_and_the_same_each_time() -> None:
    job = new_job()
    stream(job).sink("out", NullSink())
    assert job.freeze() == job.freeze()


def test_a_source_that_cannot_be_read_again_is_for_a_job_that_is_not_exactly_once() -> None:
    job = Job("orders", checkpoint=Checkpointing(storage="/data", mode="at-least-once"))
    assert job.source("in", RateSource(again=False)).uid == "in"


def unfinished() -> None:
    job = new_job()
    stream(job).transform("half", keep)
    job.freeze()


def foreign() -> None:
    stream(uid="mine").union("u", stream(new_job("other"), "theirs"))


def frozen() -> None:
    job = new_job()
    inward = stream(job)
    inward.sink("out", NullSink())
    job.freeze()
    inward.sink("late", NullSink())


def twice() -> None:
    stream(uid="in").transform("in", keep)


def twice_but_for_case() -> None:
    stream(uid="in").transform("In", keep)


def anything(value: object) -> Any:
    """What a type checker would refuse as well."""
    return value


REFUSALS: list[tuple[Callable[[], object], str]] = [
    # Names
    (lambda: new_job("my job"), "LINE: job 'my job' cannot be a file name: use letters and digits, then also"),
    (lambda: new_job(""), "LINE: job '' cannot be a file name"),
    (lambda: new_job(anything(None)), "LINE: job None cannot be a file name"),
    (lambda: stream(uid="a/b"), "LINE: uid 'a/b' cannot be a file name"),
    (lambda: stream(uid=""), "LINE: uid '' cannot be a file name"),
    (lambda: stream(uid="_hidden"), "LINE: uid '_hidden' cannot be a file name"),
    (lambda: stream(uid=".."), "LINE: uid '..' cannot be a file name"),
    (lambda: stream(uid="x" * 101), r"LINE: uid 'x{59}\.\.\. cannot be a file name"),
    (lambda: stream(uid="a\n"), r"LINE: uid 'a\\n' cannot be a file name"),
    # No uid
    (
        lambda: stream().transform(anything(keep)),
        r"LINE: transform has no uid: begin with a name, .*, as in transform\('keep', ...\)",
    ),
    (
        lambda: stream().transform(anything(lambda f: f)),
        r"LINE: transform has no uid: .* as in transform\('name', ...\)",
    ),
    (lambda: stream().process(anything(Echo()), key="x"), r"LINE: process has no uid: .* as in process\('name', ...\)"),
    (lambda: stream().sink(anything(NullSink())), r"LINE: sink has no uid: .* as in sink\('name', ...\)"),
    (lambda: new_job().source(anything(RateSource())), r"LINE: source has no uid: .* as in source\('name', ...\)"),
    (lambda: stream().union(anything(stream())), r"LINE: union has no uid"),
    (lambda: stream().join(anything(None)), r"LINE: join has no uid"),
    # Twice
    (twice, r"LINE: uid 'in' is taken \(test_api.py:\d+\): give each a name of its own"),
    (twice_but_for_case, r"LINE: uid 'In' is too much like 'in' \(test_api.py:\d+\)"),
    # Things of another kind
    (lambda: new_job().source("in"), r"LINE: None is not a source: give one, as in headgate.generator.source\(...\)"),
    (lambda: new_job().source("in", anything(NullSink())), r"LINE: NullSink\(.*\) is not a source"),
    (lambda: new_job().source("in", anything(RateSource)), r"LINE: <class '.*RateSource'> is not a source"),
    (lambda: stream().sink("out", anything(RateSource())), r"LINE: RateSource\(.*\) is not a sink: give one, as in"),
    (lambda: stream().sink("out", anything(print)), "LINE: <built-in function print> is not a sink"),
    (
        lambda: stream().sink("out", anything(Duck())),
        r"LINE: .*Duck object.* is not a sink: give one, .*; a class of yours inherits from headgate.TwoPhaseSink",
    ),
    (
        lambda: new_job().source("in", RateSource(again=False)),
        r"LINE: source\('in', ...\) cannot be read again from an offset, which exactly-once needs: choose",
    ),
    (
        lambda: stream(in_memory()).process("x", Echo(), key="k"),
        r"LINE: process\('x', ...\) needs the state backend rocksdb, not hashmap",
    ),
    (
        lambda: stream().transform("x"),
        r"LINE: transform\('x', ...\) needs a function from DataFrame to DataFrame, not None",
    ),
    (lambda: stream().transform("x", anything("y")), r"LINE: transform\('x', ...\) needs a function .*, not 'y'"),
    (
        lambda: stream().process("x", anything(keep), key="k"),
        r"LINE: process\('x', ...\) needs a headgate.Processor, not",
    ),
    (lambda: stream().process("x", anything(Echo), key="k"), r"LINE: process\('x', ...\) needs a headgate.Processor"),
    (
        lambda: stream().process("x", anything(Columns()), key="k"),
        r"LINE: process\('x', ...\) needs a headgate.Processor, not .*; it is one for process_batches",
    ),
    (
        lambda: stream().process_batches("x", anything(Echo()), key="k"),
        r"LINE: process_batches\('x', ...\) needs a headgate.BatchProcessor, not .*; it is one for process$",
    ),
    (lambda: stream().process_batches("x"), r"LINE: process_batches\('x', ...\) needs .*BatchProcessor, not None$"),
    (lambda: stream().process_batches("x", Columns()), r"LINE: process_batches\('x', ...\) has key=\(\): name the"),
    (
        lambda: stream(in_memory()).process_batches("x", Columns(), key="k"),
        r"LINE: process_batches\('x', ...\) needs the state backend rocksdb, not hashmap",
    ),
    (
        lambda: stream().process_windows("x", anything(Columns()), key="k", window=TENS),
        r"LINE: process_windows\('x', ...\) needs a headgate.WindowProcessor, not .*; it is one for process_batches$",
    ),
    (
        lambda: stream().process_batches("x", anything(Closed()), key="k"),
        r"LINE: process_batches\('x', ...\) needs a headgate.BatchProcessor, not .*; it is one for process_windows$",
    ),
    (
        lambda: stream().process_windows("x", Closed(), key="k"),
        r"LINE: process_windows\('x', ...\) has window=None: make one with headgate.windows, as in window=windows.tumb",
    ),
    (
        lambda: stream().process_windows("x", Closed(), key="k", window=anything("10min")),
        r"LINE: process_windows\('x', ...\) has window='10min': make one with headgate.windows",
    ),
    (
        lambda: stream().process_windows("x", ByClock(), key="k", window=TENS),
        "LINE: ByClock.time is 'processing': windows go by event time, leave it out",
    ),
    (lambda: stream().process_windows("x", Closed(), window=TENS), r"LINE: process_windows\('x', ...\) has key=\(\): "),
    (
        lambda: stream(in_memory()).process_windows("x", Closed(), key="k", window=TENS),
        r"LINE: process_windows\('x', ...\) needs the state backend rocksdb, not hashmap",
    ),
    (lambda: stream().process("x", NoOutput(), key="k"), "LINE: NoOutput has no output: name its columns there"),
    (lambda: stream().process("x", BadTime(), key="k"), "LINE: BadTime.time is 'lunar': choose one of 'none', 'proc"),
    (lambda: stream().process("x", Echo()), r"LINE: process\('x', ...\) has key=\(\): name the columns"),
    (lambda: stream().process("x", Echo(), key=""), r"LINE: process\('x', ...\) has key='': name the columns"),
    (lambda: stream().process("x", Echo(), key=["a", anything(1)]), r"LINE: .* has key=\['a', 1\]: name the columns"),
    (
        lambda: stream().transform("x", keep, output_mode="all"),
        "LINE: output_mode='all': choose one of 'append', 'update', 'c",
    ),
    (
        lambda: stream().transform("x", keep, new_task=anything(1)),
        "LINE: new_task=1: write new_task=True or leave it out",
    ),
    (lambda: stream().union("u"), r"LINE: union\('u'\) needs another stream: union\('u', other\)"),
    (lambda: stream().union("u", anything("x")), r"LINE: union\('u', ...\) needs a stream of this job, not 'x'"),
    (lambda: stream().join("j", fn=both), r"LINE: join\('j', ...\) needs a stream of this job, not None"),
    (
        lambda: stream().join("j", stream()),
        r"LINE: join\('j', ...\) needs either a function of two DataFrames or the col",
    ),
    (lambda: stream().join("j", stream(), both, on="x"), r"LINE: join\('j', ...\) needs either"),
    (foreign, "LINE: stream 'theirs' belongs to job 'other', not to 'orders': streams of two jobs do not meet"),
    # The job as a whole
    (lambda: new_job().freeze(), r"LINE: job 'orders' has no source: begin with job.source\('name', ...\)"),
    (unfinished, r"LINE: stream 'half' leads to no sink: give it one with .sink\('name', ...\), or leave it out"),
    (frozen, "LINE: job 'orders' is being run and cannot be changed any more"),
    # Options of the job
    (lambda: Job("x", checkpoint=anything("/data")), "LINE: checkpoint='/data': give a headgate.Checkpointing"),
    (
        lambda: Job("x", checkpoint=STORAGE, restart=anything("always")),
        "LINE: restart='always' is not a strategy: make one",
    ),
    (
        lambda: Job("x", checkpoint=STORAGE, state_backend=anything("rocksdb")),
        "LINE: state_backend='rocksdb' is not a state backend",
    ),
    (lambda: Job("x", checkpoint=STORAGE, batch_interval="x"), "LINE: batch_interval='x' is not a valid duration"),
    (
        lambda: Job("x", checkpoint=STORAGE, spark_conf=anything({"a": None})),
        "LINE: spark_conf has 'a': None: give text",
    ),
]


@pytest.mark.parametrize(("build", "message"), REFUSALS)
def test_what_cannot_be_is_refused_with_the_users_line(build: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        build()
    assert re.match(message.replace("LINE", r"test_api\.py:\d+"), str(refused.value)), str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_line_is_the_users_own_and_not_that_of_a_helper_inside_headgate() -> None:
    job = new_job()
    with pytest.raises(InvalidJob) as refused:
        job.source("in", cast("Source", None))
    assert refused.traceback[0].lineno + 1 == int(re.findall(r"test_api\.py:(\d+)", str(refused.value))[0])
