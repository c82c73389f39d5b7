"""What is where in one segment of a history: its index.

One rule: an index says nothing that its segment does not. It is made by taking the lines one by one, it names the bytes
that it covers, and whoever has none, or one that covers less, takes the rest of the lines itself.

It has three parts, each read only by whoever needs it: the *header* (times, how often each event stands there, which
checkpoints completed, failed or are only mentioned, as runs of ids, and where a few lines are that tell a job's
status), the *rows* (where the lines of each checkpoint are) and the *figures* (durations and sizes of the completed
ones, for a summary).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from headgate.errors import BadStorage
from headgate.store import codec
from headgate.store.history.lines import HistoryLine, LinePiece

NumberRun = tuple[int, int]
"""Ids from the first to the last of them, with both."""
LineSpan = tuple[int, int]
"""Offset and length of a line in its segment."""

GENERATION, ENDED, RESTART, FAILED_TASK = "generation", "ended", "restart", "task-failed"
COMPLETED, FAILED, COMMITTED = "checkpoint-completed", "checkpoint-failed", "checkpoint-committed"
MARKS = (GENERATION, ENDED)
"""After one of these, a checkpoint that was under way before has come to nothing."""
LEVELS = ("task", "job")
OF_COMPLETED = ("duration_ms", "pre_commit_ms", "publish_ms")
OF_TASKS = ("total_bytes", "new_bytes", "in_flight_bytes", "files")
OF_COMMITTED = ("commit_ms",)
FIGURES = (*OF_COMPLETED, *OF_COMMITTED, *OF_TASKS)
KINDS_MAX = 64
"""How many kinds of events are counted apart. There are about twenty."""


@dataclass
class SegmentIndex:
    """The index of a segment that is being written, or was read."""

    covered: int = 0
    """How many bytes of the segment are in it."""
    lines: int = 0
    unreadable: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    spans: dict[str, LineSpan] = field(default_factory=dict)
    """Where the last line of a kind is: ``generation``, ``ended``, ``mark``, ``failure``, ``checkpoint``, ``last``."""
    leaders: list[dict[str, Any]] = field(default_factory=list)
    """Who led: ``leader``, ``started_ms`` and ``restarts`` by level. The first may have begun before this segment, and
    has no name if it did. Of those in between nobody asks, and they are not kept."""
    completed: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    mentioned: set[int] = field(default_factory=set)
    savepoints: set[int] = field(default_factory=set)
    rows: dict[int, list[LineSpan]] = field(default_factory=dict)
    figures: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in FIGURES})

    def take(self, piece: LinePiece) -> None:
        """Take in the next line."""
        self.lines += 1
        line, span = piece.line, (piece.offset, piece.length)
        if line is None:
            self.unreadable += 1
            return
        at = line.get("at")
        if type(at) is int:
            self.first_ms = at if self.first_ms is None else self.first_ms
            self.last_ms = at
            self.spans["last"] = span
        event = line.get("event")
        if isinstance(event, str):
            if event in self.counts or len(self.counts) < KINDS_MAX:
                self.counts[event] = self.counts.get(event, 0) + 1
            self._follow(event, line, span)
        checkpoint = line.get("id")
        if type(checkpoint) is int and isinstance(event, str):
            self._checkpoint(checkpoint, event, line, span)

    def take_all(self, found: Iterable[LinePiece], covered: int) -> None:
        """Take in more lines. With them the index covers this much."""
        for piece in found:
            self.take(piece)
        self.covered = covered

    def _follow(self, event: str, line: HistoryLine, span: LineSpan) -> None:
        """What a job's status is made of."""
        if event in MARKS:
            self.spans[event] = self.spans["mark"] = span
        if event == FAILED_TASK or (event == RESTART and line.get("task") is None):
            self.spans["failure"] = span
        if event == COMPLETED:
            self.spans["checkpoint"] = span
        if event == GENERATION and (not self.leaders or self.leaders[-1]["leader"] != line.get("leader")):
            self.leaders.append(_leader(line.get("leader"), line.get("at")))
            del self.leaders[1:-1]
        elif event == RESTART and (level := line.get("level")) in LEVELS:
            if not self.leaders:
                self.leaders.append(_leader(None, None))
            self.leaders[-1]["restarts"][level] += 1

    def _checkpoint(self, checkpoint: int, event: str, line: HistoryLine, span: LineSpan) -> None:
        self.rows.setdefault(checkpoint, []).append(span)
        self.mentioned.add(checkpoint)
        if line.get("kind") == "savepoint":
            self.savepoints.add(checkpoint)
        if event == COMPLETED:
            self.completed.add(checkpoint)
            tasks = line.get("tasks")
            parts = [part for part in tasks.values() if isinstance(part, dict)] if isinstance(tasks, dict) else []
            self._measure(line, OF_COMPLETED)
            if parts:
                sums = {name: sum(_number(part.get(name)) or 0 for part in parts) for name in OF_TASKS}
                self._measure(sums, OF_TASKS)
        elif event == FAILED:
            self.failed.add(checkpoint)
        elif event == COMMITTED:
            self._measure(line, OF_COMMITTED)

    def _measure(self, line: Mapping[str, object], names: Iterable[str]) -> None:
        for name in names:
            if (value := _number(line.get(name))) is not None:
                self.figures[name].append(value)

    def header(self) -> "SegmentHeader":
        """What is read first."""
        return SegmentHeader(
            covered=self.covered,
            lines=self.lines,
            unreadable=self.unreadable,
            first_ms=self.first_ms,
            last_ms=self.last_ms,
            counts=dict(self.counts),
            spans=dict(self.spans),
            leaders=[{**each, "restarts": dict(each["restarts"])} for each in self.leaders],
            completed=runs(self.completed),
            failed=runs(self.failed),
            mentioned=runs(self.mentioned),
            savepoints=runs(self.savepoints),
        )

    def encode(self) -> bytes:
        """The index as a file: its parts in three lines."""
        ids = sorted(self.rows)
        rows = {"ids": ids, "spans": [[part for span in self.rows[each] for part in span] for each in ids]}
        figures = {name: sorted(values) for name, values in self.figures.items()}
        return codec.wrap(vars(self.header())) + codec.wrap(rows) + codec.wrap(figures)


@dataclass(frozen=True)
class SegmentHeader:
    """The first part of an index: see ``SegmentIndex`` for what the fields mean."""

    covered: int = 0
    lines: int = 0
    unreadable: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    spans: Mapping[str, LineSpan] = field(default_factory=dict)
    leaders: list[dict[str, Any]] = field(default_factory=list)
    completed: list[NumberRun] = field(default_factory=list)
    failed: list[NumberRun] = field(default_factory=list)
    mentioned: list[NumberRun] = field(default_factory=list)
    savepoints: list[NumberRun] = field(default_factory=list)


def decode_header(data: bytes, where: str) -> SegmentHeader | None:
    """The header, if the data has all of it. ``BadStorage`` if it is damaged."""
    end = data.find(b"\n")
    if end < 0:
        return None
    return _header(codec.unwrap(data[: end + 1], where), where)


def decode_index(data: bytes, where: str) -> SegmentIndex:
    """A whole index, to go on with. ``BadStorage`` if any part of it is damaged or missing."""
    parts = data.splitlines(keepends=True)
    if len(parts) != 3:
        raise BadStorage(f"{where} is damaged: it is cut short; it is made anew when it is deleted")
    header = _header(codec.unwrap(parts[0], where), where)
    figures = codec.unwrap(parts[2], where)
    return SegmentIndex(
        covered=header.covered,
        lines=header.lines,
        unreadable=header.unreadable,
        first_ms=header.first_ms,
        last_ms=header.last_ms,
        counts=dict(header.counts),
        spans=dict(header.spans),
        leaders=header.leaders,
        completed=set(members(header.completed)),
        failed=set(members(header.failed)),
        mentioned=set(members(header.mentioned)),
        savepoints=set(members(header.savepoints)),
        rows=_rows(codec.unwrap(parts[1], where)),
        figures={name: list(figures.get(name, ())) for name in FIGURES},
    )


def decode_rows(data: bytes, where: str) -> dict[int, list[LineSpan]]:
    """Where the lines of each checkpoint are."""
    return _rows(codec.unwrap(_part(data, 1, where), where))


def decode_figures(data: bytes, where: str) -> dict[str, list[float]]:
    """The figures of the completed checkpoints, each in order of size."""
    return codec.unwrap(_part(data, 2, where), where)


# -- runs of ids -----------------------------------------------------------------------------------------------------


def runs(ids: Iterable[int]) -> list[NumberRun]:
    """Ids as runs, in their order."""
    found: list[NumberRun] = []
    for each in sorted(ids):
        if found and each == found[-1][1] + 1:
            found[-1] = (found[-1][0], each)
        else:
            found.append((each, each))
    return found


def members(given: Iterable[NumberRun]) -> Iterable[int]:
    """The ids in some runs."""
    return (each for first, last in given for each in range(first, last + 1))


def union(given: Iterable[NumberRun]) -> list[NumberRun]:
    """Runs that may overlap, as runs that do not, in their order."""
    found: list[NumberRun] = []
    for first, last in sorted(given):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def length(given: list[NumberRun]) -> int:
    """How many ids are in runs that do not overlap."""
    return sum(last - first + 1 for first, last in given)


def without(given: list[NumberRun], taken: list[NumberRun]) -> list[NumberRun]:
    """The ids of the one that are not in the other. Both as ``union`` gives them."""
    found: list[NumberRun] = []
    rest = iter([*taken, (1 << 62, 1 << 62)])
    hole = next(rest)
    for first, last in given:
        begin = first
        while hole[1] < begin:
            hole = next(rest)
        while hole[0] <= last:
            if begin < hole[0]:
                found.append((begin, hole[0] - 1))
            begin = hole[1] + 1
            if hole[1] > last:
                break
            hole = next(rest)
        if begin <= last:
            found.append((begin, last))
    assert all(one[1] < two[0] for one, two in pairwise(found)), "runs stay apart"
    return found


def highest(given: list[NumberRun], limit: int, below: int | None) -> list[int]:
    """The highest ids below a bound, the highest first. As ``union`` gives them."""
    found: list[int] = []
    for first, last in reversed(given):
        top = last if below is None else min(last, below - 1)
        found.extend(range(top, max(first, top - (limit - len(found)) + 1) - 1, -1))
        if len(found) >= limit:
            break
    return found


# -- helpers ---------------------------------------------------------------------------------------------------------


def _leader(name: object, at: object) -> dict[str, Any]:
    started = at if type(at) is int else None
    return {
        "leader": name if isinstance(name, str) else None,
        "started_ms": started,
        "restarts": dict.fromkeys(LEVELS, 0),
    }


def _number(value: object) -> float | None:
    """A figure, if it is one that can be written and compared."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < float(1 << 62) else None  # neither endless nor not a number


def _header(body: Mapping[str, Any], where: str) -> SegmentHeader:
    try:
        return SegmentHeader(
            **{
                **body,
                "spans": {name: (int(span[0]), int(span[1])) for name, span in body["spans"].items()},
                **{
                    name: [(int(run[0]), int(run[1])) for run in body[name]]
                    for name in ("completed", "failed", "mentioned", "savepoints")
                },
            }
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise BadStorage(f"{where} is not an index of this Headgate ({error}): it is made anew if deleted") from error


def _rows(body: Mapping[str, Any]) -> dict[int, list[LineSpan]]:
    return {
        number: list(zip(flat[::2], flat[1::2], strict=True))
        for number, flat in zip(body["ids"], body["spans"], strict=True)
    }


def _part(data: bytes, which: int, where: str) -> bytes:
    parts = data.splitlines(keepends=True)
    if len(parts) <= which:
        raise BadStorage(f"{where} is damaged: it is cut short; it is made anew if deleted")
    return parts[which]
