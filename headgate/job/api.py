"""Jobs and streams: plain calls that make a frozen graph.

One rule: a call either adds one node or is refused, with the line on which the user wrote it. Nothing else happens: no
session is started, no function is called, until the job is run.
"""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from headgate.columns import check_columns
from headgate.core.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart, Strategy
from headgate.core.settings import Mode
from headgate.errors import InvalidJob, InvalidOption
from headgate.job.batches import BatchProcessor
from headgate.job.keyed import KeyedProcessor
from headgate.job.node import Node, NodeKind
from headgate.job.processor import TIME_MODES, Processor
from headgate.job.settings import Checkpointing, History, check_scheme
from headgate.job.window import WindowProcessor
from headgate.metrics.settings import Reporter, reporters
from headgate.needs import refuse_contradiction
from headgate.sink.api import TwoPhaseSink
from headgate.source.api import Source
from headgate.state_backend import StateBackend
from headgate.values import Duration, duration_ms
from headgate.windows import WindowAssigner

if TYPE_CHECKING:  # What runs a job is loaded when one is run.
    from headgate.run.client import JobClient
    from headgate.run.start import Options, Result

OnEvent = Callable[[dict[str, Any]], None]
Transform = Callable[[DataFrame], DataFrame]
Combine = Callable[[DataFrame, DataFrame], DataFrame]

OUTPUT_MODES = ("append", "update", "complete")
HOWS_SHOWN = ("inner", "left", "right", "outer", "semi")
HOWS = {*HOWS_SHOWN, "cross", "full", "fullouter", "leftouter", "rightouter", "leftsemi", "anti", "leftanti"}
"""What Spark calls the ways to join, without underscores. Which of them it runs on streams it says itself."""
VERBS: dict[type[KeyedProcessor], str] = {
    Processor: "process",
    BatchProcessor: "process_batches",
    WindowProcessor: "process_windows",
}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A name that may stand in any path. A file that begins with a dot or an underscore is hidden from Spark."""

SHOWN_MAX = 60
"""How many characters of a wrong value are shown."""

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


class Job:
    """Sources, operators and sinks that run, fail and recover as one."""

    def __init__(
        self,
        name: str,
        *,
        checkpoint: Checkpointing,
        restart: Strategy | None = None,
        state_backend: StateBackend | None = None,
        spark_conf: Mapping[str, str | bool | float] | None = None,
        master: str | None = None,
        batch_interval: Duration | None = None,
        latency: Duration | None = None,
        history: History | None = None,
        metrics: Reporter | Sequence[Reporter] | None = None,
    ) -> None:
        """Describe a job.

        ``name``: its state is found by it. ``restart``: what to do after a failure; delays that grow, if nothing is
        said. ``state_backend``: where Spark keeps state; in RocksDB, if nothing is said. ``spark_conf`` and ``master``
        are for the Spark session. ``batch_interval``: the time from one batch to the next; as soon as there is data,
        if nothing is said. ``latency``: batches that size themselves stay shorter than this, where they can; a part of
        the checkpoint interval, if nothing is said. ``history``: how much is kept of what happened to the job.
        ``metrics``: who is told the figures of the job, one or several: ``headgate.metrics.prometheus(...)``,
        ``headgate.metrics.opentelemetry(...)``.
        """
        where = _caller()
        _check_name(where, "job", name)
        _need(
            where,
            isinstance(checkpoint, Checkpointing),
            f"checkpoint={_seen(checkpoint)}: give a headgate.Checkpointing",
        )
        strategies = (NoRestart, FixedDelay, FailureRate, ExponentialDelay)
        _need(
            where,
            restart is None or isinstance(restart, strategies),
            f"restart={_seen(restart)} is not a strategy: make one with headgate.restart, as in restart.fixed_delay()",
        )
        _need(
            where,
            state_backend is None or isinstance(state_backend, StateBackend),
            f"state_backend={_seen(state_backend)} is not a state backend: make one with headgate.state_backend, as in "
            "state_backend.rocksdb()",
        )
        _need(
            where,
            history is None or isinstance(history, History),
            f"history={_seen(history)}: give a headgate.History, as in headgate.History(max_checkpoints=10_000)",
        )
        try:
            self.metrics = reporters(metrics)
        except TypeError as error:
            raise InvalidJob(
                f"{where}: metrics={_seen(metrics)}: give what headgate.metrics makes, as in "
                "metrics=headgate.metrics.prometheus(port=9404)"
            ) from error
        self.name = name
        self.checkpoint = checkpoint
        self.history = history or History()
        self.restart: Strategy = restart or ExponentialDelay()
        self.state_backend = state_backend
        self.spark_conf: Mapping[str, str] = MappingProxyType(_conf(where, spark_conf or {}))
        with _at(where):
            refuse_contradiction(
                self.spark_conf, *((state_backend.name, state_backend.conf) if state_backend is not None else ())
            )
            check_scheme(str(checkpoint.storage), self.spark_conf)
        self.master = master
        with _at(where):
            self.batch_interval_ms = (
                None if batch_interval is None else duration_ms(batch_interval, name="batch_interval")
            )
            self.latency_ms = (
                None if latency is None else duration_ms(latency, name="latency", example="500ms", least=1)
            )
        self._draft = _Draft(name, where, None if state_backend is None else state_backend.name)

    def source(self, uid: str, source: Source | None = None) -> "Stream":
        """Begin a stream."""
        where = _caller()
        _check_uid(where, "source", uid)
        if not isinstance(source, Source):
            raise _other_than(where, source, "source", "Source", "headgate.generator.source(...)")
        _need(
            where,
            source.replayable or Mode(self.checkpoint.mode) is not Mode.EXACTLY_ONCE,
            f"source({uid!r}, ...) cannot be read again from an offset, which exactly-once needs: "
            "choose another source, or mode='at-least-once'",
        )
        return self._draft.add(Node(uid, NodeKind.SOURCE, what=source, where=where))

    def run(
        self,
        options: "Options | None" = None,
        on_event: OnEvent | None = None,
        spark: SparkSession | None = None,
    ) -> "Result":
        """Run the job to its end, and say how that was. Raises a ``HeadgateError`` if it could not begin.

        Of a job that failed, ``Result.failure`` says why. ``on_event`` is called with every event, on a thread of its
        own; one that does not return holds up nobody. ``spark``: a session to use, which stays; else one that the
        process has, or one that ends with the job.
        """
        from headgate.run import start  # noqa: PLC0415 - describing a job needs nothing of what runs it

        return start.run(self, options, on_event or _unheard, spark)

    def start(
        self,
        options: "Options | None" = None,
        on_event: OnEvent | None = None,
        spark: SparkSession | None = None,
    ) -> "JobClient":
        """Run the job in a thread of this process, as in a notebook, and return at once. Arguments as for ``run``.

        What is returned says what the job does (``status``), waits for its end (``wait``), which raises what it failed
        of, and ends it (``stop``, ``cancel``). The job ends with the process; the next run goes on.
        """
        from headgate.run.client import JobClient  # noqa: PLC0415 - as above

        return JobClient(self, options, on_event or _unheard, spark)

    def freeze(self) -> tuple[Node, ...]:
        """Check the job as a whole. From here on it stays as it is. Inputs stand before those who read them."""
        return self._draft.freeze()


@dataclass(frozen=True, repr=False)
class Stream:
    """Records on their way. Every call makes another stream, under a uid by which its state is found again."""

    _draft: "_Draft"
    uid: str

    def transform(
        self, uid: str, fn: Transform | None = None, *, output_mode: str = "append", new_task: bool = False
    ) -> "Stream":
        """Send the records through ``fn``, as ``DataFrame.transform`` does; it may keep state.

        ``output_mode`` is Spark's, and only matters where there is state. ``new_task`` begins a query of its own.
        """
        where = _caller()
        _check_uid(where, "transform", uid)
        _need(
            where,
            callable(fn),
            f"transform({uid!r}, ...) needs a function from DataFrame to DataFrame, not {_seen(fn)}",
        )
        _need(
            where,
            output_mode in OUTPUT_MODES,
            f"output_mode={_seen(output_mode)}: choose one of {', '.join(map(repr, OUTPUT_MODES))}",
        )
        return self._add(where, uid, NodeKind.TRANSFORM, fn, output_mode=output_mode, new_task=new_task)

    def process(
        self,
        uid: str,
        processor: Processor | None = None,
        *,
        key: str | Sequence[str] = (),
        new_task: bool = False,
    ) -> "Stream":
        """Send the records through ``processor``, which keeps state for each value of the columns ``key``.

        With a single name the processor gets plain keys, with a sequence of names it gets tuples.
        """
        return self._process("process", uid, processor, Processor, key, new_task=new_task)

    def process_batches(
        self,
        uid: str,
        processor: BatchProcessor | None = None,
        *,
        key: str | Sequence[str] = (),
        new_task: bool = False,
    ) -> "Stream":
        """The same by columns: ``processor`` gets the rows of many keys at once, and their state. It is much faster.

        State is kept in the same way: an operator may change from ``process`` to this, and back, and go on with it.
        """
        return self._process("process_batches", uid, processor, BatchProcessor, key, new_task=new_task)

    def process_windows(
        self,
        uid: str,
        processor: WindowProcessor | None = None,
        *,
        key: str | Sequence[str] = (),
        window: WindowAssigner | None = None,
        new_task: bool = False,
    ) -> "Stream":
        """Keep the rows of each window of each key until it closes, and give ``processor`` all of them at once.

        ``window`` comes from ``headgate.windows``, as in ``windows.tumbling("at", "10min")``; the stream needs a
        watermark on that column. A window closes when the watermark has come to its end. Rows that come later are
        dropped, as by Spark's own windows.
        """
        return self._process("process_windows", uid, processor, WindowProcessor, key, new_task=new_task, window=window)

    def _process(
        self,
        verb: str,
        uid: str,
        processor: object,
        needed: type[KeyedProcessor],
        key: str | Sequence[str],
        *,
        new_task: bool,
        window: WindowAssigner | None = None,
    ) -> "Stream":
        where = _caller()
        _check_uid(where, verb, uid)
        if not isinstance(processor, KeyedProcessor) or not isinstance(processor, needed):
            hint = "".join(f"; it is one for {other}" for of, other in VERBS.items() if isinstance(processor, of))
            raise InvalidJob(
                f"{where}: {verb}({uid!r}, ...) needs a headgate.{needed.__name__}, not {_seen(processor)}{hint}"
            )
        _need(
            where,
            self._draft.state_backend in {None, "rocksdb"},
            f"{verb}({uid!r}, ...) needs the state backend rocksdb, not {self._draft.state_backend}: "
            "Spark keeps this state in no other",
        )
        _need(where, hasattr(processor, "output"), f"{type(processor).__name__} has no output: name its columns there")
        _need(
            where,
            processor.time in TIME_MODES,
            f"{type(processor).__name__}.time is {processor.time!r}: choose one of {', '.join(map(repr, TIME_MODES))}",
        )
        if needed is WindowProcessor:
            _need(
                where,
                isinstance(window, WindowAssigner),
                f"{verb}({uid!r}, ...) has window={_seen(window)}: make one with headgate.windows, as in "
                "window=windows.tumbling('at', '10min')",
            )
            _need(
                where,
                processor.time == "event",
                f"{type(processor).__name__}.time is {processor.time!r}: windows go by event time, leave it out",
            )
        if isinstance(processor.output, str):
            with _at(where):
                check_columns(processor.output, f"{type(processor).__name__}.output")
        names = (key,) if isinstance(key, str) else tuple(key)
        _need(
            where,
            bool(names) and all(map(_is_name, names)),
            f"{verb}({uid!r}, ...) has key={_seen(key)}: name the columns by which state is kept, as in key='user'",
        )
        return self._add(
            where,
            uid,
            NodeKind.PROCESS,
            processor,
            key=key if isinstance(key, str) else names,
            new_task=new_task,
            window=window,
        )

    def union(self, uid: str, *others: "Stream", new_task: bool = False) -> "Stream":
        """Bring streams with the same columns together. Columns are matched by name."""
        where = _caller()
        _check_uid(where, "union", uid)
        _need(where, bool(others), f"union({uid!r}) needs another stream: union({uid!r}, other)")
        return self._add(where, uid, NodeKind.UNION, None, *others, new_task=new_task)

    def join(
        self,
        uid: str,
        other: "Stream | None" = None,
        fn: Combine | None = None,
        *,
        on: str | Sequence[str] = (),
        how: str = "inner",
        new_task: bool = False,
    ) -> "Stream":
        """Join two streams: on columns that both have, or by ``fn``, which gets both DataFrames.

        Without a condition on event time, Spark keeps all rows of both sides for good.
        """
        where = _caller()
        _check_uid(where, "join", uid)
        names = (on,) if isinstance(on, str) else tuple(on)
        _need(
            where,
            callable(fn) if not names else fn is None,
            f"join({uid!r}, ...) needs either a function of two DataFrames or the columns to join on, as in on='user'",
        )
        _need(
            where,
            str(how).lower().replace("_", "") in HOWS,
            f"join({uid!r}, ...) has how={_seen(how)}: choose one of {', '.join(map(repr, HOWS_SHOWN))}",
        )
        return self._add(where, uid, NodeKind.JOIN, fn or JoinOn(names, how), other, new_task=new_task)

    def sink(self, uid: str, sink: TwoPhaseSink | None = None) -> None:
        """Write the records out."""
        where = _caller()
        _check_uid(where, "sink", uid)
        if not isinstance(sink, TwoPhaseSink):
            raise _other_than(where, sink, "sink", "TwoPhaseSink", "headgate.files.sink(...)")
        self._add(where, uid, NodeKind.SINK, sink)

    def _add(
        self,
        where: str,
        uid: str,
        kind: NodeKind,
        what: object,
        *others: "Stream | None",
        output_mode: str = "append",
        new_task: bool = False,
        key: str | tuple[str, ...] | None = None,
        window: WindowAssigner | None = None,
    ) -> "Stream":
        _need(where, isinstance(new_task, bool), f"new_task={_seen(new_task)}: write new_task=True or leave it out")
        inputs = [self.uid]
        for other in others:
            if not isinstance(other, Stream):
                raise InvalidJob(f"{where}: {kind.value}({uid!r}, ...) needs a stream of this job, not {_seen(other)}")
            _need(
                where,
                other._draft is self._draft,  # noqa: SLF001 - its own kind
                f"stream {other.uid!r} belongs to job {other._draft.name!r}, not to {self._draft.name!r}: "  # noqa: SLF001
                "streams of two jobs do not meet",
            )
            inputs.append(other.uid)
        return self._draft.add(Node(uid, kind, tuple(inputs), what, output_mode, new_task, where, key, window))

    def __repr__(self) -> str:
        """The stream by its uid."""
        return f"Stream({self.uid!r})"


@dataclass(frozen=True)
class JoinOn:
    """The plain way to join: on columns that both sides have."""

    names: tuple[str, ...]
    how: str

    def __call__(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Both sides, joined."""
        return left.join(right, list(self.names), self.how)


@dataclass(eq=False)
class _Draft:
    """The nodes of a job while it is being written."""

    name: str
    where: str
    state_backend: str | None = None
    nodes: dict[str, Node] = field(default_factory=dict)
    """By uid, whatever its case: some file systems do not tell A from a."""
    frozen: bool = False

    def add(self, node: Node) -> Stream:
        _need(node.where, not self.frozen, f"job {self.name!r} is being run and cannot be changed any more")
        there = self.nodes.get(node.uid.lower())
        if there is not None:
            same = "taken" if there.uid == node.uid else f"too much like {there.uid!r}"
            raise InvalidJob(f"{node.where}: uid {node.uid!r} is {same} ({there.where}): give each a name of its own")
        self.nodes[node.uid.lower()] = node
        return Stream(self, node.uid)

    def freeze(self) -> tuple[Node, ...]:
        nodes = tuple(self.nodes.values())
        _need(self.where, bool(nodes), f"job {self.name!r} has no source: begin with job.source('name', ...)")
        read = {uid for node in nodes for uid in node.inputs}
        for node in nodes:
            _need(
                node.where,
                node.kind is NodeKind.SINK or node.uid in read,
                f"stream {node.uid!r} leads to no sink: give it one with .sink('name', ...), or leave it out",
            )
        self.frozen = True
        return nodes


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Let a refusal show the user's line."""
    try:
        yield
    except InvalidOption as error:
        raise InvalidJob(f"{where}: {error}") from error


def _unheard(_: dict[str, Any]) -> None:
    """Nobody listens."""


def _caller() -> str:
    """The nearest line that is not ours: that is where the user is."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return "?" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _check_uid(where: str, verb: str, uid: object) -> None:
    if not isinstance(uid, str):
        hint = getattr(uid, "__name__", "name")
        example = f"{verb}('{hint if NAME.fullmatch(hint) else 'name'}', ...)"
        raise InvalidJob(
            f"{where}: {verb} has no uid: begin with a name, by which its state is found again, as in {example}"
        )
    _check_name(where, "uid", uid)


def _check_name(where: str, noun: str, name: object) -> None:
    _need(
        where,
        isinstance(name, str) and NAME.fullmatch(name) is not None,
        f"{noun} {_seen(name)} cannot be a file name: use letters and digits, then also '.', '_' and '-', at most 100",
    )


def _other_than(where: str, part: object, noun: str, base: str, example: str) -> InvalidJob:
    """The refusal of what was given as a source or a sink."""
    inherit = "" if part is None or isinstance(part, type) else f"; a class of yours inherits from headgate.{base}"
    return InvalidJob(f"{where}: {_seen(part)} is not a {noun}: give one, as in {example}{inherit}")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _seen(value: object) -> str:
    """A value in a message of one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _conf(where: str, conf: Mapping[Any, object]) -> dict[str, str]:
    """Settings of Spark as Spark writes them."""
    text: dict[str, str] = {}
    for name, value in conf.items():
        plain = isinstance(name, str) and isinstance(value, (str, bool, int, float))
        _need(where, plain, f"spark_conf has {_seen(name)}: {_seen(value)}: give text, a number, True or False")
        text[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return text


def _need(where: str, holds: bool, message: str) -> None:  # noqa: FBT001 - a condition, not a flag
    if not holds:
        raise InvalidJob(f"{where}: {message}")
