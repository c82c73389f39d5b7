"""How metrics are read: from the status of a job, and from what its events add up to.

One rule: where the status knows nothing (null), there is no sample.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headgate.metrics.totals import CLASSES, EventTotals
from headgate.view.batches import PARTS
from headgate.view.history import LineView

Labels = tuple[str, ...]

STATES = (
    *("starting", "running", "restarting", "closing", "finished", "stopped", "cancelled", "failed", "deposed"),
    *("interrupted", "crashed", "damaged", "unknown", "new"),
)
"""The second row is of jobs that no process runs."""


@dataclass(frozen=True)
class Facts:
    """What metrics are read from."""

    status: LineView
    told: EventTotals


class Sample(NamedTuple):
    """A value, and the values of the metric's labels."""

    labels: Labels
    value: float


ReadSamples = Callable[[Facts], Iterator[Sample]]


def number(*path: str, per: int = 1) -> ReadSamples:
    """A figure of the status, inside of what ``path`` names."""

    def read(facts: Facts) -> Iterator[Sample]:
        value: Any = facts.status
        for name in path:
            value = None if value is None else value.get(name)
        if value is not None:
            yield Sample((), _in_unit(value, per))

    return read


def of_tasks(name: str, per: int = 1) -> ReadSamples:
    """A figure of each task."""

    def read(facts: Facts) -> Iterator[Sample]:
        for task in facts.status["tasks"]:
            if task.get(name) is not None:
                yield Sample((task["task"],), _in_unit(task[name], per))

    return read


def of_each(inside: str, what: str, name: str, per: int = 1) -> ReadSamples:
    """A figure of each source or operator of each task."""

    def read(facts: Facts) -> Iterator[Sample]:
        for task in facts.status["tasks"]:
            for part in task[inside]:
                if part.get(name) is not None:
                    yield Sample((task["task"], str(part[what])), _in_unit(part[name], per))

    return read


def of_rocksdb(name: str, per: int) -> ReadSamples:
    """A figure of RocksDB, of each operator."""

    def read(facts: Facts) -> Iterator[Sample]:
        for task in facts.status["tasks"]:
            for operator in task["state_operators"]:
                if name in operator["rocksdb"]:
                    yield Sample((task["task"], str(operator["operator"])), _in_unit(operator["rocksdb"][name], per))

    return read


def partitions(facts: Facts) -> Iterator[Sample]:
    """The bytes of each partition of each operator that has few enough."""
    for task in facts.status["tasks"]:
        for operator in task["state_operators"]:
            for number, size in enumerate(operator["partition_bytes"]):
                yield Sample((task["task"], str(operator["operator"]), str(number)), size)


def batch_parts(facts: Facts) -> Iterator[Sample]:
    """The parts of the last batch of each task."""
    for task in facts.status["tasks"]:
        for name in PARTS.values():
            if name in task["batch_parts_ms"]:
                yield Sample((task["task"], name), task["batch_parts_ms"][name] / 1000)


def channel_lags(facts: Facts) -> Iterator[Sample]:
    """How far each task is behind on its channels."""
    for task in facts.status["tasks"]:
        for channel, behind in task["lag"].items():
            yield Sample((task["task"], channel), behind)


def of_sinks(name: str, per: int = 1) -> ReadSamples:
    """A figure of each sink."""

    def read(facts: Facts) -> Iterator[Sample]:
        for sink in facts.status["sinks"]:
            yield Sample((sink["sink"],), _in_unit(sink[name], per))

    return read


def states(facts: Facts) -> Iterator[Sample]:
    """1 for the state that the job is in."""
    for state in STATES:
        yield Sample((state,), float(facts.status["state"] == state))


def state_times(name: str) -> ReadSamples:
    """A time in each state that the job was in."""

    def read(facts: Facts) -> Iterator[Sample]:
        for state, spell in facts.status["states"].items():
            if state in STATES:
                yield Sample((state,), spell[name] / 1000)

    return read


def restored_at(facts: Facts) -> Iterator[Sample]:
    """When the job last went on from a checkpoint."""
    if facts.told.restored_at_ms is not None:
        yield Sample((), facts.told.restored_at_ms / 1000)


def of_completed(name: str, per: int = 1) -> ReadSamples:
    """A figure of the last checkpoint that this process has seen complete."""

    def read(facts: Facts) -> Iterator[Sample]:
        line = facts.told.completed
        if line is not None:
            parts = line["tasks"].values()
            value = line[name] if name in line else sum(part[name] for part in parts)
            yield Sample((), _in_unit(value, per))

    return read


def checkpoint_phases(facts: Facts) -> Iterator[Sample]:
    """What came after the snapshots of the last checkpoint."""
    line, commit_ms = facts.told.completed, facts.told.commit_ms
    if line is not None:
        yield Sample(("pre_commit",), line["pre_commit_ms"] / 1000)
        yield Sample(("publish",), line["publish_ms"] / 1000)
    if commit_ms is not None:
        yield Sample(("commit",), commit_ms / 1000)


def of_checkpoint_tasks(names: Mapping[str, str], per: int) -> ReadSamples:
    """Figures of each task in that checkpoint, each under the word that is its label."""

    def read(facts: Facts) -> Iterator[Sample]:
        line = facts.told.completed
        for task, part in ({} if line is None else line["tasks"]).items():
            for word, name in names.items():
                yield Sample((task, word), _in_unit(part[name], per))

    return read


def counted(name: str) -> ReadSamples:
    """Counts of events, by their labels."""

    def read(facts: Facts) -> Iterator[Sample]:
        for key, count in dict(getattr(facts.told, name)).items():
            yield Sample((key,) if isinstance(key, str) else key, count)

    return read


def last_ms(name: str) -> ReadSamples:
    """What the last recovery of each level took, in one of its parts."""

    def read(facts: Facts) -> Iterator[Sample]:
        for level, ms in dict(getattr(facts.told, name)).items():
            yield Sample((level,), ms / 1000)

    return read


def total(name: str, per: int = 1) -> ReadSamples:
    """A sum over events."""

    def read(facts: Facts) -> Iterator[Sample]:
        yield Sample((), _in_unit(getattr(facts.told, name), per))

    return read


def failures(facts: Facts) -> Iterator[Sample]:
    """Failures of each task, by who must act."""
    counted = {(task["task"], kind): 0 for task in facts.status["tasks"] for kind in CLASSES}
    counted |= dict(facts.told.failures)
    yield from (Sample(labels, count) for labels, count in counted.items())


def stalled(facts: Facts) -> Iterator[Sample]:
    """How many things stand still."""
    yield Sample((), len(facts.status["stalled"]))


def in_progress(facts: Facts) -> Iterator[Sample]:
    """How many checkpoints are under way."""
    yield Sample((), len(facts.status["pending"]))


def _in_unit(value: float, per: int) -> float:
    """Divided, since 3828 ms times 0.001 is a little more than 3.828 s."""
    return value / per
