"""Reading history: a page of it, one checkpoint, a summary, or what has come since.

One rule: what is asked for is read, and not the rest. The headers of all segments say where that is; they are read once
and remembered, since a segment only grows. A segment without an index, as the one that is being written, is read whole
once, and after that only what was added.

Order is that of the segments: by epoch, so that what a process wrote that had lost the lead stands before what its
successor wrote. What cannot be read is in the answer as an event of its own, ``unreadable``.
"""

import re
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from headgate.errors import BadStorage
from headgate.store.api import Missing, Store
from headgate.store.history.files import HistoryFiles, HistoryListing, HistorySegment, SegmentKey
from headgate.store.history.index import (
    FIGURES,
    GENERATION,
    KINDS_MAX,
    LEVELS,
    LineSpan,
    NumberRun,
    SegmentHeader,
    SegmentIndex,
    decode_figures,
    decode_header,
    decode_index,
    decode_rows,
    highest,
    length,
    runs,
    union,
    without,
)
from headgate.store.history.lines import UNREADABLE, HistoryLine, decode_line, ended, pieces, unreadable

WINDOW_BYTES = 64 << 10
"""As much is read first, from the end, to find the newest events."""
NUMBER = re.compile(r"[0-9]{1,20}")
"""A part of a position. No segment is that long, and Python reads no number of thousands of digits."""
LOOKS = 3
"""How often what was pruned or rolled while it was read is looked for anew."""


@dataclass(frozen=True, order=True)
class HistoryPosition:
    """A place in a history: before the line at an offset of a segment."""

    epoch: int
    number: int
    offset: int

    def __str__(self) -> str:
        """As users get it and give it back."""
        return f"{self.epoch}.{self.number}.{self.offset}"

    @staticmethod
    def parse(text: str) -> "HistoryPosition | None":
        """What ``str`` made. None if it did not."""
        parts = text.split(".")
        if len(parts) != 3 or not all(NUMBER.fullmatch(part) for part in parts):
            return None
        return HistoryPosition(int(parts[0]), int(parts[1]), int(parts[2]))


SegmentState = tuple[SegmentKey, int]
"""A segment, and how long it is."""


@dataclass(frozen=True)
class SegmentView:
    """A segment, with what is known of it."""

    segment: HistorySegment
    header: SegmentHeader
    made: SegmentIndex | None = None
    """The index, if it was made here: no file has it, or not all of it."""
    stored: int = 0
    """How many bytes of the segment the index in the storage covers."""

    @property
    def state(self) -> "SegmentState":
        """By this it is told from the same segment when it has grown."""
        return self.segment.key, self.segment.size


class HistoryReader:
    """The history of one job. Not for several threads at once.

    Answers are about what there was at the last ``look``, so that several of them fit together. Only ``follow`` looks
    by itself.
    """

    def __init__(self, job: Store) -> None:
        """Nothing is read yet."""
        self.files = HistoryFiles(job)
        self.listing = HistoryListing()
        self._known: dict[SegmentKey, SegmentView] = {}
        self._looked = False
        self._figures: dict[SegmentState, dict[str, list[float]]] = {}
        self._together = FiguresTogether()

    # -- what there is ---------------------------------------------------------------------------------------------

    def look(self) -> list[SegmentView]:
        """All segments, as they are now, in their order."""
        for _ in range(LOOKS):
            self.listing = self.files.now()
            try:
                found = [self._view(segment) for segment in self.listing.segments]
            except Missing:  # Something was pruned or rolled meanwhile.
                continue
            break
        else:
            found = list(self._those_there())
        self._known = {view.segment.key: view for view in found}
        self._looked = True
        there = {view.state for view in found}
        self._figures = {state: figures for state, figures in self._figures.items() if state in there}
        return found

    def unindexed(self) -> Iterator[tuple[HistorySegment, SegmentIndex]]:
        """The segments that have no index, or one that does not cover them, with one that does."""
        for view in self._views():
            if view.made is not None and (view.segment.index is None or view.made.covered > view.stored):
                yield view.segment, view.made

    def unreadable(self) -> int:
        """How many lines cannot be read. The last one may still be being written, and is not counted."""
        views = self._views()
        cut_short = sum(view.header.covered < view.segment.size for view in views[:-1])
        return sum(view.header.unreadable for view in views) + cut_short

    def _views(self) -> list[SegmentView]:
        return [self._known[key] for key in sorted(self._known)] if self._looked else self.look()

    # -- events ----------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[HistoryLine]:
        """Every line, the oldest first."""
        views = self._views()
        for view in views:
            for _, line in self._lines(view, last=view is views[-1]):
                yield line

    def events(
        self,
        limit: int,
        *,
        before: HistoryPosition | None = None,
        since_ms: int | None = None,
        types: Collection[str] = (),
    ) -> list[tuple[HistoryPosition, HistoryLine]]:
        """The newest events, the oldest of them first. ``before``: of those that stand before a position."""
        views = self._views()
        found: list[tuple[HistoryPosition, HistoryLine]] = []
        wanted = _Wanted(before, since_ms, types)
        for view in reversed(views):
            if len(found) >= limit:
                break
            if not wanted.may_be_in(view):
                continue
            found = [*self._newest(view, limit - len(found), wanted, last=view is views[-1]), *found]
        return found

    def _newest(
        self, view: SegmentView, limit: int, wanted: "_Wanted", *, last: bool
    ) -> list[tuple[HistoryPosition, HistoryLine]]:
        """The newest lines of a segment that are wanted, read from its end as far back as it takes."""
        window = WINDOW_BYTES
        while True:
            begin = max(0, view.segment.size - window)
            found = [
                (position, line)
                for position, line in self._lines(view, last=last, begin=begin, within=begin > 0)
                if wanted.fits(position, line)
            ]
            if len(found) >= limit or begin == 0:
                return found[-limit:]
            window *= 4

    def end(self) -> dict[SegmentKey, int]:
        """How far there is something to read, in each segment: from here on, ``follow`` tells what comes."""
        return {view.segment.key: view.header.covered for view in self._views()}

    def follow(self, seen: dict[SegmentKey, int]) -> list[tuple[HistoryPosition, HistoryLine]]:
        """What has come since, and note it in ``seen``. Only what is new is read."""
        found: list[tuple[HistoryPosition, HistoryLine]] = []
        for view in self.look():
            key, covered = view.segment.key, view.header.covered
            begin = seen.get(key, 0)
            if covered > begin:
                found += self._lines(view, last=True, begin=begin)
            seen[key] = max(begin, covered)
        for key in [key for key in seen if key not in self._known]:
            del seen[key]
        return found

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def counts(self, kept: Collection[int] = ()) -> dict[str, int]:
        """How many checkpoints there are, by what became of them; ``other`` is under way, or was lost.

        ``kept``: those of which there is a record, and which so are complete, whatever was written here.
        """
        completed, failed, other = self._outcomes(kept)
        savepoints = _all(view.header.savepoints for view in self._views())
        return {
            "completed": length(completed),
            "failed": length(failed),
            "other": length(other),
            "savepoints": length(savepoints),
        }

    def count(self, event: str) -> int:
        """How many events of a kind there are."""
        return sum(view.header.counts.get(event, 0) for view in self._views())

    def unresolved(self, kept: Collection[int] = ()) -> list[int]:
        """Checkpoints that neither completed nor failed, as far as the history and the records say."""
        return highest(self._outcomes(kept)[2], 1 << 62, None)

    def _outcomes(self, kept: Collection[int]) -> tuple[list[NumberRun], list[NumberRun], list[NumberRun]]:
        """Those that completed, those that failed, and all others."""
        views = self._views()
        completed = _all([*(view.header.completed for view in views), runs(kept)])
        failed = without(_all(view.header.failed for view in views), completed)
        known = _all(view.header.mentioned for view in views)
        return completed, failed, without(without(known, completed), failed)

    def ids(self, limit: int, before: int | None = None) -> list[int]:
        """The highest ids of checkpoints below ``before``, the highest first."""
        return highest(_all(view.header.mentioned for view in self._views()), limit, before)

    def newest(self, kept: Collection[int] = ()) -> dict[str, int | None]:
        """The newest checkpoint that completed, the newest savepoint that did, and the newest that failed."""
        completed, failed, _ = self._outcomes(kept)
        savepoints = _all(view.header.savepoints for view in self._views())
        plain = without(completed, savepoints)
        found = {"completed": plain, "savepoint": without(completed, plain), "failed": failed}
        return {name: next(iter(highest(each, 1, None)), None) for name, each in found.items()}

    def lines_of(self, ids: Collection[int]) -> list[HistoryLine]:
        """All that the history says of some checkpoints, in its order.

        With the last line after which those under way before it have come to nothing.
        """
        views = self._views()
        wanted = set(ids)
        mark = next((view for view in reversed(views) if "mark" in view.header.spans), None)
        found: list[HistoryLine] = []
        for view in views:
            here = _overlap(view.header.mentioned, wanted)
            rows = self._rows(view) if here else {}
            spans = {span for number in here for span in rows.get(number, ())}
            if view is mark:
                spans.add(view.header.spans["mark"])
            found += self._read_lines(view, sorted(spans))
        return found

    def figures(self) -> dict[str, list[float]]:
        """The figures of all completed checkpoints, each in order of size.

        They are put together once; what has come since is added. They are good until the next call.
        """
        views = [view for view in self._views() if view.header.completed or view.made]
        if not self._together.goes_on_in(views):
            self._together = FiguresTogether()
        self._together.take(views, self._figures_of)
        return self._together.values

    # -- the job's status ------------------------------------------------------------------------------------------

    def status_lines(self) -> tuple[list[HistoryLine], dict[str, int] | None]:
        """The lines from which a job's status is told, and how often its latest execution was restarted, by level."""
        views = self._views()
        current: dict[str, Any] | None = None
        began: SegmentView | None = None
        for view in views:
            for one in view.header.leaders:
                if current is not None and one["leader"] in (None, current["leader"]):
                    for level in LEVELS:
                        current["restarts"][level] += one["restarts"][level]
                elif one["leader"] is not None:
                    current, began = {**one, "restarts": dict(one["restarts"])}, view
        wanted: dict[SegmentKey, set[LineSpan]] = {}
        for name in (GENERATION, "ended", "failure", "checkpoint", "last"):
            newest = next((each for each in reversed(views) if name in each.header.spans), None)
            if newest is not None:
                wanted.setdefault(newest.segment.key, set()).add(newest.header.spans[name])
        found = [line for view in views for line in self._read_lines(view, sorted(wanted.get(view.segment.key, ())))]
        if current is None or began is None:
            return found, None
        # The first line of this execution, of which only the last one was read.
        first = {"at": current["started_ms"], "event": GENERATION, "leader": current["leader"], "generation": None}
        at = next((number for number, line in enumerate(found) if line.get("event") == GENERATION), 0)
        return [*found[:at], first, *found[at:]], current["restarts"]

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _those_there(self) -> Iterator[SegmentView]:
        for segment in self.listing.segments:
            try:
                yield self._view(segment)
            except Missing:
                continue

    def _view(self, segment: HistorySegment) -> SegmentView:
        known = self._known.get(segment.key)
        if known is not None:
            if known.segment == segment:
                return known
            if known.made is not None and known.made.covered <= segment.size and known.segment.size <= segment.size:
                return self._longer(segment, known.made, known.stored)
        header = self._header(segment)
        if header is not None and header.covered == segment.size:
            return SegmentView(segment, header)
        index = self._index(segment) if header is not None else SegmentIndex()
        return self._longer(segment, index, stored=index.covered)

    def _header(self, segment: HistorySegment) -> SegmentHeader | None:
        """What the index of a segment says. None if there is none that is whole and belongs to it."""
        if segment.index is None:
            return None
        try:
            header = decode_header(self.files.read_index(segment, head=True), segment.index.path)
            if header is None:
                header = decode_header(self.files.read_index(segment), segment.index.path)
        except BadStorage:  # It is made of the segment, and can be made again.
            return None
        return header if header is not None and header.covered <= segment.size else None

    def _index(self, segment: HistorySegment) -> SegmentIndex:
        assert segment.index is not None, "it has a header"
        try:
            return decode_index(self.files.read_index(segment), segment.index.path)
        except (BadStorage, ValueError, KeyError, TypeError):
            return SegmentIndex()

    def _longer(self, segment: HistorySegment, index: SegmentIndex, stored: int = 0) -> SegmentView:
        """Take in what an index does not cover."""
        data = self.files.read(segment, index.covered) if index.covered < segment.size else b""
        whole = ended(data)
        index.take_all(pieces(data[:whole], index.covered, unchecked=segment.unchecked), covered=index.covered + whole)
        return SegmentView(segment, index.header(), index, stored)

    def _rows(self, view: SegmentView) -> Mapping[int, list[LineSpan]]:
        if view.made is None:
            try:
                return decode_rows(self.files.read_index(view.segment), view.segment.paths[0])
            except (BadStorage, Missing, KeyError, ValueError, TypeError):
                return self._anew(view).rows
        return view.made.rows

    def _figures_of(self, view: SegmentView) -> dict[str, list[float]]:
        if view.made is not None:
            return {name: sorted(values) for name, values in view.made.figures.items()}
        if view.state not in self._figures:
            try:
                self._figures[view.state] = decode_figures(self.files.read_index(view.segment), view.segment.paths[0])
            except (BadStorage, Missing):
                self._figures[view.state] = {name: sorted(values) for name, values in self._anew(view).figures.items()}
        return self._figures[view.state]

    def _anew(self, view: SegmentView) -> SegmentIndex:
        """The index of a segment whose own is damaged behind its header."""
        try:
            made = self._longer(view.segment, SegmentIndex()).made
        except Missing:
            made = None
        return made or SegmentIndex()

    def _read_lines(self, view: SegmentView, spans: list[LineSpan]) -> list[HistoryLine]:
        try:
            data = self.files.read_spans(view.segment, spans)
        except Missing:  # Pruned meanwhile.
            return []
        segment = view.segment
        return [
            decode_line(each, unchecked=segment.unchecked)
            or unreadable(segment.parts[0].path, span[0], span[1], view.header.first_ms)
            for each, span in zip(data, spans, strict=True)
        ]

    def _lines(
        self, view: SegmentView, *, last: bool, begin: int = 0, within: bool = False
    ) -> Iterator[tuple[HistoryPosition, HistoryLine]]:
        """The lines of a segment. If it is the last, one that has no end may still get it.

        ``within``: it may begin within a line, which is left out.
        """
        segment = view.segment
        try:
            data = self.files.read(segment, begin)
        except Missing:
            return
        if within:
            first = data.find(b"\n") + 1
            data, begin = data[first:], begin + first
        whole, at, where = ended(data), view.header.first_ms, segment.parts[0].path
        for piece in pieces(data[:whole], begin, unchecked=segment.unchecked):
            position = HistoryPosition(*segment.key, piece.offset)
            if piece.line is None:
                yield position, unreadable(where, piece.offset, piece.length, at)
            else:
                at = piece.line.get("at", at)
                yield position, piece.line
        if whole < len(data) and not last:
            position = HistoryPosition(*segment.key, begin + whole)
            yield position, unreadable(where, begin + whole, len(data) - whole, at)


@dataclass(frozen=True)
class _Wanted:
    """Which events are asked for."""

    before: HistoryPosition | None
    since_ms: int | None
    types: Collection[str]

    def may_be_in(self, view: SegmentView) -> bool:
        key, header = view.segment.key, view.header
        if self.before is not None and key > (self.before.epoch, self.before.number):
            return False
        if self.types and UNREADABLE not in self.types and not any(kind in header.counts for kind in self.types):
            return len(header.counts) >= KINDS_MAX
        return self.since_ms is None or header.last_ms is None or header.last_ms >= self.since_ms

    def fits(self, position: HistoryPosition, line: HistoryLine) -> bool:
        at = line.get("at")
        return (
            (self.before is None or position < self.before)
            and (not self.types or line.get("event") in self.types)
            and (self.since_ms is None or not isinstance(at, int) or at >= self.since_ms)
        )


class FiguresTogether:
    """The figures of several segments, each in order of size: of those that do not change, and of one that grows."""

    def __init__(self) -> None:
        """None yet."""
        self.values: dict[str, list[float]] = merged([])
        self._states: list[SegmentState] = []
        """The segments of which all figures are here."""
        self._growing: SegmentIndex | None = None
        """The one after these, and how many of its figures are here."""
        self._taken: dict[str, int] = {}

    def goes_on_in(self, views: Sequence[SegmentView]) -> bool:
        """Whether nothing that is here has gone or has become something else."""
        count = len(self._states)
        if [view.state for view in views[:count]] != self._states:
            return False
        return self._growing is None or any(view.made is self._growing for view in views[count : count + 1])

    def take(self, views: Sequence[SegmentView], figures_of: Callable[[SegmentView], dict[str, list[float]]]) -> None:
        """Take in what these have more."""
        fresh = views[len(self._states) :]
        if self._growing is not None:
            fresh = fresh[1:]
            for name, values in self.values.items():
                for value in self._growing.figures[name][self._taken[name] :]:
                    insort(values, value)
        if fresh:
            self.values = merged([self.values, *map(figures_of, fresh)])
        self._growing = views[-1].made if views else None
        self._states = [view.state for view in (views if self._growing is None else views[:-1])]
        self._taken = {name: 0 if self._growing is None else len(self._growing.figures[name]) for name in FIGURES}


def merged(parts: Sequence[Mapping[str, list[float]]]) -> dict[str, list[float]]:
    """Figures that are each in order, as one."""
    # What is in order already is merged, not sorted anew: Python's sort sees to that.
    return {name: sorted(chain.from_iterable(part.get(name, ()) for part in parts)) for name in FIGURES}


def _all(given: Iterable[list[NumberRun]]) -> list[NumberRun]:
    return union(run for each in given for run in each)


def _overlap(given: list[NumberRun], wanted: set[int]) -> list[int]:
    """Those that are wanted and in the runs."""
    if not given:
        return []
    low, high = given[0][0], given[-1][1]
    near = sorted(each for each in wanted if low <= each <= high)
    found: list[int] = []
    at = 0
    for each in near:
        while at < len(given) and given[at][1] < each:
            at += 1
        if at < len(given) and given[at][0] <= each:
            found.append(each)
    return found
