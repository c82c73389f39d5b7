"""What the tasks of one process have done, and how they stand.

One rule: counts only grow, and a rate is what they grew by within the last few samples; a figure that nobody has
measured is None, never 0. A task costs the same memory however long it runs, and a batch costs the same time.

Folded in the driver loop, and read from any thread: what is read there is replaced, never changed.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.core.graph import Graph
from headgate.core.ids import Batch, ChannelId, Generation, TaskId
from headgate.layout import FINAL_WATERMARK_MS
from headgate.view import busy
from headgate.view.batches import BatchReport, OperatorReport, SourceReport, skew
from headgate.view.busy import Busy
from headgate.view.history import Line
from headgate.view.rocksdb import ROCKSDB

SAMPLES_MAX = 6
"""How many samples of a count are kept: a rate is taken over five of the spans between them."""
SEGMENTS_MAX = 1_024
"""Of this many segments of a channel that nobody has read yet it is known how large they are."""
PARTITIONS_MAX = 64
"""The bytes of single state partitions are shown if an operator has at most this many."""
MOVING = ("rows_in", "rows_out", "bytes_in", "bytes_out")
"""The counts that have a rate."""
NOTED = (
    "rows_in",
    "batches",
    "batch_ms",
    "busy_ratio",
    "backpressured_ratio",
    "python_ratio",
    "watermark_ms",
    "event_time_max_ms",
    "late_rows",
    "lag_records",
    "state_rows",
    "state_bytes",
    "state_partitions",
)
"""What is kept in the history, with each checkpoint: how a task did over days is seen from these."""
STATE_TIMES = ("update_ms", "removal_ms", "commit_ms")
StateSizes = Mapping[int, Mapping[int, int]]
"""For each stateful operator, by its number, the bytes of each of its partitions."""


@dataclass
class _Channel:
    """What has gone over a channel in this generation."""

    generation: Generation | None = None
    last: Batch | None = None
    sizes: dict[Batch, int] = field(default_factory=dict)


@dataclass
class _Operator:
    """One stateful operator, by its place in Spark's list: that is the number of its directory, too."""

    report: OperatorReport
    late: int
    rocksdb: Mapping[str, int]

    @classmethod
    def after(cls, before: "_Operator | None", report: OperatorReport) -> "_Operator":
        known = {} if before is None else before.rocksdb
        figures = {
            each.name: report.rocksdb[each.name] + (known.get(each.name, 0) if each.adds_up else 0)
            for each in ROCKSDB
            if each.name in report.rocksdb
        }
        return cls(report, report.late + (0 if before is None else before.late), figures)


@dataclass
class _Figures:
    counts: dict[str, int | None] = field(default_factory=lambda: {**dict.fromkeys(MOVING), "rows_in": 0})
    wait_ms: float = 0.0
    batch_rows: int | None = None
    batches: int = 0
    batches_ms: int = 0
    last: BatchReport | None = None
    watermark_ms: int | None = None
    event_max_ms: int | None = None
    sources: tuple[tuple[str, SourceReport], ...] = ()
    source_rows: Mapping[str, int] = field(default_factory=dict)
    operators: tuple[_Operator, ...] = ()
    state: StateSizes | None = None
    python_ratio: float | None = None
    busy: Busy = field(default_factory=Busy)
    run_started_ms: int | None = None
    run_ended_ms: int | None = None
    up_ms: int = 0
    """How long runs before this one were up."""
    samples: deque[tuple[int, dict[str, int | None]]] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))


class Figures:
    """The tasks of one process."""

    def __init__(self) -> None:
        """Nothing counted yet."""
        self._tasks: dict[TaskId, _Figures] = {}
        self._channels: dict[ChannelId, _Channel] = {}

    # -- what was measured -------------------------------------------------------------------------------------------

    def waited(self, task: TaskId, wait_ms: float) -> None:
        """A batch has waited this long in the hook before it was admitted."""
        self._of(task).wait_ms += wait_ms

    def sized(self, task: TaskId, batch_rows: int | None) -> None:
        """A batch of a task may have this many rows by now, if it sizes itself."""
        self._of(task).batch_rows = batch_rows

    def read(self, task: TaskId, rows: int) -> None:
        """A batch of a task has read this many rows."""
        _grow(self._of(task), "rows_in", rows)

    def batch(self, now_ms: int, task: TaskId, said: BatchReport, graph: Graph, sources: Sequence[str] = ()) -> None:
        """Spark has said what a batch was. ``sources`` are the uids of the task's own sources, in its order."""
        figures = self._of(task)
        figures.batches += 1
        figures.batches_ms += said.took_ms
        figures.busy.over(now_ms, said.batch, said.took_ms)
        figures.watermark_ms = said.watermark_ms or figures.watermark_ms
        if said.event_max_ms is not None:
            figures.event_max_ms = max(said.event_max_ms, figures.event_max_ms or said.event_max_ms)
        own = iter(sources)
        named = tuple((each.channel or next(own, f"source-{n}"), each) for n, each in enumerate(said.sources))
        figures.source_rows = {name: figures.source_rows.get(name, 0) + each.rows for name, each in named}
        figures.sources = named
        before = (*figures.operators, *[None] * len(said.operators))
        if said.operators:  # A batch without a plan, such as one that only moves offsets, says nothing of the state.
            figures.operators = tuple(map(_Operator.after, before, said.operators))
        figures.last = said
        upstream = {channel.id: channel.upstream for channel in graph.inputs.get(task, ())}
        for channel in (each for each in said.sources if each.channel in upstream):
            assert channel.channel is not None, "it is upstream"
            _grow(self._of(upstream[channel.channel]), "rows_out", channel.rows)
            size = self._taken(channel)
            if size is not None:
                _grow(figures, "bytes_in", size)

    def written(self, generation: Generation, task: TaskId, channel: ChannelId, batch: Batch, size: int) -> None:
        """A batch that is committed has put this many bytes into a channel. It may be told again."""
        known = self._channels.setdefault(channel, _Channel())
        if known.generation != generation:
            known.generation, known.last, known.sizes = generation, None, {}
        if known.last is not None and batch <= known.last:
            return
        known.last = batch
        known.sizes[batch] = size
        if len(known.sizes) > SEGMENTS_MAX:
            del known.sizes[next(iter(known.sizes))]
        _grow(self._of(task), "bytes_out", size)

    def state(self, task: TaskId, sizes: StateSizes) -> None:
        """The newest snapshot of a task has these bytes for its state."""
        self._of(task).state = sizes

    def python(self, task: TaskId, ratio: float) -> None:
        """Of the time of a batch such a part went by in Python functions of the user's."""
        self._of(task).python_ratio = ratio

    # -- what a batch is at ------------------------------------------------------------------------------------------

    def began(self, now_ms: int, task: TaskId) -> None:
        """A run of a task is up."""
        self.stopped(now_ms, task)
        figures = self._of(task)
        figures.busy.began(now_ms)
        figures.run_started_ms, figures.run_ended_ms = now_ms, None

    def stopped(self, now_ms: int, task: TaskId) -> None:
        """The run of a task that was up is over, if one was."""
        figures = self._of(task)
        if figures.run_started_ms is not None and figures.run_ended_ms is None:
            figures.run_ended_ms = now_ms
            figures.up_ms += now_ms - figures.run_started_ms

    def entered(self, now_ms: int, task: TaskId, batch: Batch) -> None:
        """A batch has come to the hook."""
        self._of(task).busy.entered(now_ms, batch)

    def admitted(self, now_ms: int, task: TaskId, batch: Batch) -> None:
        """A batch may go on from the hook."""
        self._of(task).busy.admitted(now_ms, batch)

    def held_up(self, task: TaskId, batch: Batch, ms: float) -> None:
        """A batch has waited for room in a sink."""
        self._of(task).busy.held_up(batch, ms)

    def sample(self, now_ms: int) -> None:
        """Take the counts of now, to be compared with."""
        for figures in self._tasks.values():
            figures.samples.append((now_ms, dict(figures.counts)))

    # -- what there is to see ----------------------------------------------------------------------------------------

    def of(self, task: TaskId, now_ms: int) -> Line:
        """A task's figures. Counts are of this process, rates and ratios of late, all others of the last batch."""
        figures = self._tasks.get(task) or _Figures()
        last = figures.last
        ratios = figures.busy.ratios(now_ms)
        busy_ratio, idle_ratio, backpressured_ratio = ratios or (None, None, None)
        watermark_ms = figures.watermark_ms
        ended = watermark_ms is not None and watermark_ms >= FINAL_WATERMARK_MS
        return {
            "rows": figures.counts["rows_in"],
            "rows_per_s": _rate(figures, now_ms, "rows_in"),
            "wait_ms": round(figures.wait_ms),
            "batch_rows": figures.batch_rows,
            **{name: figures.counts[name] for name in MOVING},
            **{f"{name}_per_s": _rate(figures, now_ms, name) for name in MOVING},
            "run_started_ms": figures.run_started_ms,
            "run_ended_ms": figures.run_ended_ms,
            "idle_ms": _idle_ms(figures, now_ms),
            "batches": figures.batches,
            "batches_ms": figures.batches_ms,
            "batch_ms": None if last is None else last.took_ms,
            "batch_parts_ms": {} if last is None else dict(last.parts_ms),
            "busy_ratio": busy_ratio,
            "idle_ratio": idle_ratio,
            "backpressured_ratio": backpressured_ratio,
            "backpressure": None if backpressured_ratio is None else busy.level(backpressured_ratio),
            "python_ratio": figures.python_ratio,
            "watermark_ms": watermark_ms,
            "watermark_lag_ms": None if watermark_ms is None or ended else now_ms - watermark_ms,
            "event_time_max_ms": figures.event_max_ms,
            "late_rows": sum(each.late for each in figures.operators) if figures.operators else None,
            "lag_records": _sum(each.lag for _, each in figures.sources),
            "state_rows": sum(each.report.rows for each in figures.operators) if figures.operators else None,
            "state_bytes": None if not figures.state else sum(sum(each.values()) for each in figures.state.values()),
            "state_memory_bytes": sum(each.report.memory_bytes for each in figures.operators)
            if figures.operators
            else None,
            "state_partitions": max((each.report.partitions for each in figures.operators), default=None),
            "sources": [_source(name, each, figures.source_rows.get(name, 0)) for name, each in figures.sources],
            "state_operators": [
                _operator(number, each, figures.state) for number, each in enumerate(figures.operators)
            ],
        }

    def noted(self, task: TaskId, now_ms: int) -> Line:
        """The figures of a task that go into the history, as far as they are known."""
        figures = self.of(task, now_ms)
        found = {name: figures[name] for name in NOTED if figures[name] is not None}
        if len(figures["sources"]) > 1:  # Which of several gives nothing.
            found["source_rows"] = {each["source"]: each["rows"] for each in figures["sources"]}
        return found

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _of(self, task: TaskId) -> _Figures:
        return self._tasks.setdefault(task, _Figures())

    def _taken(self, read: SourceReport) -> int | None:
        """How large the segments are that a batch has read, and are known here. A channel has one reader."""
        known = None if read.channel is None else self._channels.get(read.channel)
        if known is None or read.end is None:
            return None
        begin = -1 if read.begin is None else read.begin
        taken = [batch for batch in known.sizes if begin < batch <= read.end]
        return sum(known.sizes.pop(batch) for batch in taken)


def _grow(figures: _Figures, name: str, by: int) -> None:
    figures.counts[name] = (figures.counts[name] or 0) + by


def _rate(figures: _Figures, now_ms: int, name: str) -> float | None:
    if not figures.samples or now_ms <= figures.samples[0][0]:
        return None
    since_ms, counts = figures.samples[0]
    now = figures.counts[name]
    return None if now is None else round((now - (counts[name] or 0)) * 1000 / (now_ms - since_ms), 1)


def _idle_ms(figures: _Figures, now_ms: int) -> int | None:
    """For how long runs were up and no batch was at work, as far as is known. None if no run has been up."""
    if figures.run_started_ms is None:
        return None
    up_ms = figures.up_ms + (now_ms - figures.run_started_ms if figures.run_ended_ms is None else 0)
    return max(0, up_ms - figures.batches_ms - figures.busy.under_way_ms(now_ms))


def _sum(values: Any) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _source(name: str, read: SourceReport, rows: int) -> Line:
    return {
        "source": name,
        "channel": read.channel is not None,
        "rows": rows,
        "lag_records": read.lag,
        "partitions": read.partitions,
        "skew": read.skew,
    }


def _operator(number: int, operator: _Operator, state: StateSizes | None) -> Line:
    report = operator.report
    sizes = None if state is None else state.get(number)
    return {
        "operator": number,
        "name": report.name,
        "rows": report.rows,
        "bytes": None if sizes is None else sum(sizes.values()),
        "memory_bytes": report.memory_bytes,
        "updated": report.updated,
        "removed": report.removed,
        "late_rows": operator.late,
        "partitions": report.partitions,
        **{name: getattr(report, name) for name in STATE_TIMES},
        "partition_bytes_max": None if not sizes else max(sizes.values()),
        "partition_bytes": [] if not sizes or len(sizes) > PARTITIONS_MAX else [sizes[each] for each in sorted(sizes)],
        "skew": None if not sizes else skew(list(sizes.values())),
        "rocksdb": dict(operator.rocksdb),
    }


NOT_KNOWN: Line = {
    name: [] if isinstance(value, list) else {} if isinstance(value, dict) else None
    for name, value in Figures().of(TaskId(""), 0).items()
}
"""The figures of a task that does not run."""
