"""The files of a history, by their names.

One rule: a name has one writer. Whoever writes history takes an *epoch* of its own, the number after the highest there
is, by creating its first segment only if there is none; all later ones are its own by their name. So two processes
never write to one file, and what one that has lost the lead still writes stands where its time was.

::

    history/<epoch>-<number>.jsonl          a segment: lines, the oldest first
    history/<epoch>-<number>.<part>.jsonl   a part of a segment, where nothing can be appended to, until it is rolled
    history/<epoch>-<number>.index          its index; can be made anew at any time

Epoch 0 is what earlier releases wrote: ``history.old.jsonl`` and ``history.jsonl``, which get such names when the job
is next run, and ``history/<milliseconds>-<writer>-<number>.jsonl``. Their lines have no checksums.
"""

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headgate.checksums import in_parallel
from headgate.store.api import Entry, Missing, Store
from headgate.store.history.index import LineSpan
from headgate.store.local import reporting

FOLDER = "history"
EARLIER = ("history.old.jsonl", "history.jsonl")
"""What earlier releases wrote into a folder, the older first."""
IN_PLACE = 10**15
"""Where such files stand in the order of epoch 0 as long as they have their old names."""
READ_AT_ONCE = 16
HEAD_BYTES = 16 << 10
"""As much of an index is read to find its header, which is mostly far shorter."""

SegmentKey = tuple[int, int]
"""Epoch and number of a segment: their order is that of the history."""

_NAME = re.compile(r"(\d{6,})-(\d{6,})(?:\.(\d{6,}))?\.(jsonl|index)", re.ASCII)
_OBJECT = re.compile(r"\d{13}-[0-9a-f]{12}-\d{6}\.jsonl", re.ASCII)


@dataclass(frozen=True)
class HistorySegment:
    """One segment as a listing shows it."""

    key: SegmentKey
    parts: tuple[Entry, ...]
    """Its files, in the order of what they hold: one, or parts that nobody has rolled."""
    index: Entry | None = None
    superfluous: tuple[Entry, ...] = ()
    """Parts of a segment that is rolled: what is in them is in the segment."""

    @property
    def size(self) -> int:
        """How many bytes of lines it has."""
        return sum(part.size for part in self.parts)

    @property
    def unchecked(self) -> bool:
        """Whether an earlier release wrote it."""
        return self.key[0] == 0

    @property
    def paths(self) -> list[str]:
        """Every file of it, in the order in which they may go: the rest can be read at any point."""
        others = (*((self.index,) if self.index else ()), *self.superfluous)
        return [entry.path for entry in (*others, *self.parts)]


@dataclass(frozen=True)
class HistoryListing:
    """All segments in their order, and what else is in the folder."""

    segments: tuple[HistorySegment, ...] = ()
    foreign: tuple[str, ...] = ()
    """What nobody knows. It is left alone."""


@dataclass
class Reads:
    """How much was read."""

    calls: int = 0
    size: int = 0

    def add(self, data: bytes) -> bytes:
        """Count what was read, and hand it on."""
        self.calls += 1
        self.size += len(data)
        return data


def segment_path(key: SegmentKey, part: int | None = None) -> str:
    """The file of a segment, or of a part of it."""
    return f"{FOLDER}/{key[0]:06d}-{key[1]:06d}{'' if part is None else f'.{part:06d}'}.jsonl"


def index_path(key: SegmentKey) -> str:
    """The index of a segment."""
    return f"{FOLDER}/{key[0]:06d}-{key[1]:06d}.index"


class HistoryFiles:
    """The history of one job, as files."""

    def __init__(self, job: Store) -> None:
        """Nothing is read yet."""
        self.job = job
        self.reads = Reads()

    def now(self) -> HistoryListing:
        """What there is now."""
        whole: dict[SegmentKey, Entry] = {}
        parts: dict[SegmentKey, dict[int, Entry]] = {}
        indexes: dict[SegmentKey, Entry] = {}
        objects: list[Entry] = []
        foreign: list[str] = []
        for entry in self.job.list(FOLDER, depth=1):
            name = entry.path.removeprefix(f"{FOLDER}/")
            found = _NAME.fullmatch(name)
            if found is not None and not (found[3] and found[4] == "index"):
                key = (int(found[1]), int(found[2]))
                if found[4] == "index":
                    indexes[key] = entry
                elif found[3]:
                    parts.setdefault(key, {})[int(found[3])] = entry
                else:
                    whole[key] = entry
            elif _OBJECT.fullmatch(name):
                objects.append(entry)
            elif not name.startswith("."):
                foreign.append(entry.path)
        segments = [
            HistorySegment(
                key,
                (whole[key],) if key in whole else tuple(each for _, each in sorted(parts[key].items())),
                indexes.get(key),
                tuple(parts.get(key, {}).values()) if key in whole else (),
            )
            for key in {*whole, *parts}
        ]
        segments += [
            HistorySegment((0, IN_PLACE + number), (entry,)) for number, entry in enumerate(self._earlier()) if entry
        ]
        if objects:
            key = (0, IN_PLACE + len(EARLIER))
            segments.append(HistorySegment(key, tuple(sorted(objects, key=lambda each: each.path))))
        return HistoryListing(tuple(sorted(segments, key=lambda each: each.key)), tuple(sorted(foreign)))

    def read(self, segment: HistorySegment, offset: int = 0) -> bytes:
        """The lines of a segment from an offset on. ``Missing`` if it has gone meanwhile, or its parts were rolled."""
        if len(segment.parts) == 1 and self.job.local_root is not None:
            [part] = segment.parts
            path = self.job.local_root / part.path
            with reporting(path), _opened(path) as file:
                file.seek(offset)
                return self.reads.add(file.read() or b"")
        wanted, begin = [], 0
        for part in segment.parts:
            if begin + part.size > offset:
                wanted.append(part)
            begin += part.size
        # A part may have grown since the listing: as much is taken as was listed, so that offsets are what they were.
        data = b"".join(in_parallel(self._read_part, wanted, 1 if self.job.local_root else READ_AT_ONCE))
        return data[len(data) - max(0, begin - offset) :] if wanted else b""

    def read_spans(self, segment: HistorySegment, spans: Sequence[LineSpan]) -> list[bytes]:
        """Some lines of a segment."""
        if not spans:
            return []
        if len(segment.parts) == 1 and self.job.local_root is not None:
            [part] = segment.parts
            path = self.job.local_root / part.path
            with reporting(path), _opened(path) as file:
                return [self.reads.add(os.pread(file.fileno(), size, at)) for at, size in spans]
        data = self.read(segment)
        return [data[offset : offset + size] for offset, size in spans]

    def read_index(self, segment: HistorySegment, *, head: bool = False) -> bytes:
        """The index of a segment, or the beginning of it. Nothing if there is none, ``Missing`` if it has gone."""
        if segment.index is None:
            return b""
        path = segment.index.path
        if head and self.job.local_root is not None:
            with reporting(path), _opened(self.job.local_root / path) as file:
                return self.reads.add(file.read(HEAD_BYTES) or b"")
        return self.reads.add(self.job.read(path))

    def _read_part(self, part: Entry) -> bytes:
        data = self.reads.add(self.job.read(part.path))
        if len(data) < part.size:
            raise Missing(f"{self.job.uri}/{part.path}")
        return data[: part.size]

    def _earlier(self) -> Iterator[Entry | None]:
        for name in EARLIER:
            root = self.job.local_root
            size = None if root is None else _size(root / name)
            yield None if size is None else Entry(name, size)


@contextmanager
def _opened(path: Path) -> Iterator[io.FileIO]:
    try:
        file = io.FileIO(path)
    except (FileNotFoundError, NotADirectoryError):
        raise Missing(str(path)) from None
    with file:
        yield file


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
