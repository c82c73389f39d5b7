"""Traces from events: one for each checkpoint, and one for each recovery.

One rule: a span begins and ends when the events say that its phase did, and what they do not say has no span. Pure:
events in, whole traces out. A trace is whole when its last phase is over, or when something else came of it.

A checkpoint's trace goes from its trigger until every sink has committed. Below it are its tasks, each with ``start
delay``, ``alignment``, ``sync`` and ``async``; ``pre-commit`` for each sink; ``publish`` and ``commit``. A recovery's
trace goes from the failure, or the begin of a process that takes a job over, until all is where it was: ``delay``,
``restore``, ``replay``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headgate.view.history import LineView

Attributes = dict[str, str | bool | int | float]

OPEN_MAX = 64
"""At most this many checkpoints under way or uncommitted, and tasks in recovery: beyond, the oldest is let go."""
PHASES = ("start_delay", "alignment", "sync", "async")


@dataclass
class Span:
    """Something that took from one time to another, in milliseconds since 1970."""

    name: str
    start_ms: float
    end_ms: float
    attributes: Attributes = field(default_factory=dict)
    error: str | None = None
    children: list["Span"] = field(default_factory=list)


@dataclass
class _Checkpoint:
    """One that was triggered."""

    span: Span
    completed_ms: int | None = None


class Traces:
    """The traces of one process that are not whole yet."""

    def __init__(self) -> None:
        """None is."""
        self._checkpoints: dict[int, _Checkpoint] = {}
        self._recoveries: dict[str | None, Span] = {}

    def take(self, line: LineView) -> Iterator[Span]:
        """Take in the next event. Gives the roots of traces that are whole by now."""
        match line["event"]:
            case "checkpoint-triggered":
                kind = str(line["kind"])
                about: Attributes = {"headgate.checkpoint.id": line["id"], "headgate.checkpoint.kind": kind}
                span = Span(kind, line["at"], line["at"], about)
                _put(self._checkpoints, line["id"], _Checkpoint(span))
            case "checkpoint-completed" if line["id"] in self._checkpoints:
                _complete(self._checkpoints[line["id"]], line)
            case "checkpoint-committed" if self._has_completed(line["id"]):
                span = self._checkpoints.pop(line["id"]).span
                about = {"headgate.retries": line["retries"]}
                span.children.append(Span("commit", line["at"] - line["commit_ms"], line["at"], about))
                yield _ended(span, line["at"])
            case "checkpoint-failed" if line["id"] in self._checkpoints:
                span = self._checkpoints.pop(line["id"]).span
                span.error = str(line["why"])
                yield _ended(span, line["at"])
            case "generation":
                yield from self._generation(line)
            case "restart":
                yield from self._restart(line)
            case "restored" if (key := _key(line)) in self._recoveries:
                span = self._recoveries[key]
                begun_ms = line["at"] - line["restore_ms"]
                _ended(span, line["at"])
                span.children.append(Span("restore", begun_ms, line["at"]))
                span.attributes["headgate.generation"] = line["generation"]
                if line["level"] == "start":
                    yield self._recoveries.pop(key)
            case "caught-up" if (key := _key(line)) in self._recoveries:
                span = self._recoveries.pop(key)
                span.children.append(Span("replay", line["at"] - line["replay_ms"], line["at"]))
                yield _ended(span, line["at"])
            case "ended":
                yield from self._interrupted(line["at"], "the process ended")
                for one in self._checkpoints.values():  # What was decided is committed by whoever goes on.
                    one.span.error = None if one.completed_ms is not None else "the process ended"
                    yield _ended(one.span, line["at"] if one.completed_ms is None else one.completed_ms)
                self._checkpoints.clear()
            case _:
                pass

    def _has_completed(self, checkpoint: int) -> bool:
        one = self._checkpoints.get(checkpoint)
        return one is not None and one.completed_ms is not None

    def _generation(self, line: LineView) -> Iterator[Span]:
        """A process takes the job over from a checkpoint, unless the job is just going back."""
        if None not in self._recoveries and line["base"] is not None:
            yield from self._interrupted(line["at"], "another generation began")
            about: Attributes = {"headgate.level": "start", "headgate.base": line["base"]}
            self._recoveries[None] = Span("recovery", line["at"], line["at"], about)
        elif None in self._recoveries and line["base"] is not None:
            self._recoveries[None].attributes["headgate.base"] = line["base"]

    def _restart(self, line: LineView) -> Iterator[Span]:
        key = _key(line)
        if key is None:
            yield from self._interrupted(line["at"], "another failure")
        elif None in self._recoveries:
            return
        elif key in self._recoveries:
            span = self._recoveries.pop(key)
            span.error = "another failure"
            yield _ended(span, line["at"])
        about: Attributes = {"headgate.level": line["level"], "headgate.class": line["class"]}
        if line["task"] is not None:
            about["headgate.task"] = line["task"]
        span = Span("recovery", line["at"], line["at"], about | {"headgate.cause": line["cause"]})
        span.children.append(Span("delay", line["at"], line["at"] + line["delay_ms"]))
        _put(self._recoveries, key, span)

    def _interrupted(self, at: int, why: str) -> Iterator[Span]:
        for span in self._recoveries.values():
            span.error = why
            yield _ended(span, at)
        self._recoveries.clear()


def _key(line: LineView) -> str | None:
    """Recoveries of single tasks may be under way beside each other; one of the job is of all."""
    return line["task"] if line["level"] == "task" else None


def _put(where: dict[Any, Any], key: object, value: object) -> None:
    where.pop(key, None)
    where[key] = value
    if len(where) > OPEN_MAX:
        del where[next(iter(where))]


def _ended(span: Span, at_ms: float) -> Span:
    """It cannot end before it began, nor before what is below it."""
    span.end_ms = max(at_ms, span.start_ms, *(child.end_ms for child in span.children), 0)
    return span


def _complete(one: _Checkpoint, line: LineView) -> None:
    span, since_ms = one.span, one.span.start_ms
    one.completed_ms = line["at"]
    span.attributes |= {
        "headgate.generation": line["generation"],
        "headgate.unaligned": line["unaligned"],
        "headgate.duration_ms": line["duration_ms"],
        "headgate.full_size_bytes": sum(part["total_bytes"] for part in line["tasks"].values()),
        "headgate.size_bytes": sum(part["new_bytes"] for part in line["tasks"].values()),
    }
    span.children += [_task(name, part, since_ms) for name, part in line["tasks"].items()]
    for sink, part in line["pre_commits"].items():
        begun_ms = since_ms + part["start_ms"]
        about: Attributes = {"headgate.sink": sink}
        span.children.append(Span("pre-commit", begun_ms, begun_ms + part["ms"], about))
    span.children.append(Span("publish", line["at"] - line["publish_ms"], line["at"]))


def _task(name: str, part: LineView, since_ms: float) -> Span:
    """A task's phases. It waits for the first barrier, then for the last one; its snapshot comes when it can."""
    cut_ms = since_ms + part["start_delay_ms"]
    barrier_ms = cut_ms - part["alignment_ms"]
    snapshot_ms = since_ms + part["snapshot_start_ms"]
    ends = {
        "start delay": (since_ms, barrier_ms),
        "alignment": (barrier_ms, cut_ms),
        "sync": (snapshot_ms, snapshot_ms + part["sync_ms"]),
        "async": (snapshot_ms + part["sync_ms"], snapshot_ms + part["sync_ms"] + part["async_ms"]),
    }
    about: Attributes = {
        "headgate.task": name,
        **{f"headgate.{each}": part[each] for each in ("total_bytes", "new_bytes", "in_flight_bytes", "files")},
    }
    children = [Span(each, begin_ms, end_ms) for each, (begin_ms, end_ms) in ends.items()]
    return Span("task", since_ms, max(end_ms for _, end_ms in ends.values()), about, None, children)
