"""Writing history: one process, one epoch, one segment after the other.

One rule: what was written is never touched again, and what is let go goes as a whole. A segment that is long
enough is rolled: its index is written, and the next one begins. Then the oldest segments go that are beyond the bounds,
each by one deletion of its lines, after that of its index, without which it can be read as well.

Where the storage is a folder, lines are appended to a file with a single write each time. Elsewhere nothing can be
appended to: a part of a few kilobytes is written anew with each append, and the parts become one segment when it is
rolled. All of this is done by whoever calls: for a job, a thread that nobody waits for. Lines are not flushed to the
disk: history explains and decides nothing.
"""

import contextlib
import errno
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from headgate.durable import replace, sync
from headgate.errors import BadStorage, HeadgateError, InternalError
from headgate.store.api import TEMPORARY, Store
from headgate.store.history.files import EARLIER, FOLDER, IN_PLACE, SegmentKey, index_path, segment_path
from headgate.store.history.index import NumberRun, SegmentIndex, length, union
from headgate.store.history.lines import LinePiece, Lines, decode_line, encode_line
from headgate.store.history.reader import HistoryReader
from headgate.store.local import reporting

SEGMENT_BYTES = 1 << 20
SEGMENTS_AT_LEAST = 8
"""A small bound has smaller segments, so that pruning takes a part and not all."""
INDEX_EVERY_BYTES = 128 << 10
"""The segment that is being written gets an index so often: whoever reads it takes in no more than this."""
PART_BYTES = 32 << 10
EPOCHS_TRIED = 1_000


@dataclass(frozen=True)
class HistoryBounds:
    """How much history is kept. What is beyond either goes, the oldest segments first."""

    max_checkpoints: int = 100_000
    max_bytes: int = 256 << 20
    max_segments: int = 2_000
    """Every process begins one: a job that is started again and again has many short ones."""
    segment_bytes: int = SEGMENT_BYTES
    """How long a segment is when it is rolled, if the bounds are not so small that it must be shorter."""

    def is_full(self, index: SegmentIndex) -> bool:
        """Whether a segment is to be rolled."""
        return (
            index.covered >= min(self.segment_bytes, self.max_bytes // SEGMENTS_AT_LEAST)
            or len(index.mentioned) > self.max_checkpoints // SEGMENTS_AT_LEAST
        )


class HistoryWriter:
    """Writes the history of one job for one process. Nothing is touched before the first line."""

    def __init__(self, job: Store, bounds: HistoryBounds | None = None) -> None:
        self._job = job
        self._reader = HistoryReader(job)
        self._one_at_a_time = threading.Lock()
        self._bounds = bounds or HistoryBounds()
        self._active: _File | _Parts | None = None
        self._epoch: int | None = None
        self._number = 0
        self._index = SegmentIndex()
        self._indexed = 0

    def append(self, lines: Lines) -> None:
        """Add events to the end. If it raises, some of them may be there, each once."""
        encoded = [encode_line(line) for line in lines]
        if encoded:
            with self._one_at_a_time:
                self._append(encoded, b"".join(encoded))

    def _append(self, encoded: list[bytes], data: bytes) -> None:
        if self._active is not None and not self._active.is_ours():  # Somebody has deleted it, or written into it.
            self._leave()
        if self._active is None:
            self._begin(data)
        else:
            try:
                self._active.append(data)
            except BaseException:
                if not self._active.undo():
                    self._leave()
                raise
        self._remember(encoded)
        if self._bounds.is_full(self._index):
            self._roll()
        elif self._index.covered - self._indexed >= INDEX_EVERY_BYTES:
            self._indexed = self._index.covered
            with contextlib.suppress(HeadgateError, OSError):
                self._write_index()

    def _begin(self, data: bytes) -> None:
        """Begin a segment with these lines."""
        first = self._epoch is None
        for _ in range(EPOCHS_TRIED):
            epoch = self._next_epoch() if self._epoch is None else self._epoch
            key = (epoch, self._number + 1)
            made = _begin(self._job, key, data)
            if made is not None:
                self._active, self._epoch, self._number = made, epoch, key[1]
                self._index, self._indexed = SegmentIndex(), 0
                break
            if self._epoch is not None:
                self._number += 1
        else:
            raise InternalError(f"{self._job.uri}/{FOLDER} has a new segment whenever one is begun")
        if first:
            with contextlib.suppress(HeadgateError, OSError):  # It saves time, and nothing depends on it.
                self._settle()

    def _next_epoch(self) -> int:
        carry_over(self._job)
        return 1 + max((segment.key[0] for segment in self._reader.files.now().segments), default=0)

    def _remember(self, encoded: list[bytes]) -> None:
        offset = self._index.covered
        for data in encoded:
            self._index.take(LinePiece(offset, len(data) - 1, decode_line(data[:-1])))
            offset += len(data)
        self._index.covered = offset

    def _leave(self) -> None:
        """Begin another segment with the next line. Whoever reads this one finds out by itself what is in it."""
        if self._active is not None:
            self._active.close()
        self._active = None

    def _roll(self) -> None:
        assert self._active is not None, "it has just been written to"
        active, self._active = self._active, None
        key = (self._epoch or 0, self._number)
        try:
            active.roll()
            self._write_index()
            active.rolled()
        except (HeadgateError, OSError):
            return  # The lines are there. Readers do without the rest, and the next process makes it good.
        finally:
            active.close()
        with contextlib.suppress(HeadgateError, OSError):
            prune(self._reader, self._bounds, keep=key)

    def _write_index(self) -> None:
        """Nothing depends on it, and it can be made anew: it need be whole, and not on the disk."""
        path = index_path((self._epoch or 0, self._number))
        if self._job.local_root is None:
            self._job.put(path, self._index.encode())
        else:
            with reporting(path):
                replace(self._job.local_root / path, self._index.encode(), prefix=TEMPORARY, flush=False)

    def _settle(self) -> None:
        """Make indexes for what earlier processes left without, and let go what is too much."""
        mine = (self._epoch or 0, self._number)
        for segment, index in self._reader.unindexed():
            if segment.key < mine and segment.key[1] < IN_PLACE:
                self._job.put(index_path(segment.key), index.encode())
        prune(self._reader, self._bounds, keep=mine)


def prune(reader: HistoryReader, bounds: HistoryBounds, keep: SegmentKey) -> None:
    """Let go the oldest segments that are beyond the bounds, but not ``keep`` and what comes after it."""
    job = reader.files.job
    kept: list[NumberRun] = []
    size = 0
    found = reader.look()
    first = len(found)
    for number, one in reversed(list(enumerate(found))):
        size += one.segment.size + (one.segment.index.size if one.segment.index else 0)
        kept = union((*kept, *one.header.mentioned))
        beyond = (
            size > bounds.max_bytes
            or length(kept) > bounds.max_checkpoints
            or len(found) - number > bounds.max_segments
        )
        if beyond and one.segment.key < keep:
            break
        first = number
    for one in found[:first]:
        job.delete(*one.segment.paths)
    for one in found[first:]:
        job.delete(*(part.path for part in one.segment.superfluous))


def carry_over(job: Store) -> None:
    """Give files of earlier releases a name among the segments. A rename: they are there once, whatever happens."""
    root = job.local_root
    if root is None:
        return
    now_ms = time.time_ns() // 1_000_000
    for number, name in enumerate(EARLIER):
        target = root / segment_path((0, now_ms + number))
        with reporting(root / name), contextlib.suppress(FileNotFoundError):
            if (root / name).is_file():
                target.parent.mkdir(exist_ok=True, mode=root.stat().st_mode & 0o777)
                (root / name).rename(target)


# -- the segment that is written ---------------------------------------------------------------------------------------


def _begin(job: Store, key: SegmentKey, data: bytes) -> "_File | _Parts | None":
    """Create a segment with its first lines. None if its name is taken."""
    if job.local_root is None:
        if not job.create_if_absent(segment_path(key, 1), data):
            return None
        return _Parts(job, key, data)
    if not job.create_if_absent(segment_path(key), data):
        return None
    return _File(job.local_root / segment_path(key), len(data))


class _File:
    """A file that is appended to."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        with reporting(path):
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def is_ours(self) -> bool:
        """Whether it still has its name, and just what was written here."""
        try:
            found = os.fstat(self._handle)
        except OSError:
            return False
        return found.st_nlink > 0 and found.st_size == self._size

    def append(self, data: bytes) -> None:
        with reporting(self._path):
            if os.write(self._handle, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(data)

    def undo(self) -> bool:
        """Take back a line that was written in part. False if that fails: nothing may follow it then."""
        try:
            os.ftruncate(self._handle, self._size)
        except OSError:
            return False
        return True

    def roll(self) -> None:
        with reporting(self._path):
            sync(self._path)

    def rolled(self) -> None:
        pass

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._handle)


class _Parts:
    """A few objects, of which the last is written anew with each append."""

    def __init__(self, job: Store, key: SegmentKey, data: bytes) -> None:
        self._job = job
        self._key = key
        self._done: list[bytes] = []
        self._last = data

    def is_ours(self) -> bool:
        return True

    def append(self, data: bytes) -> None:
        longer = self._last + data
        if len(self._last) >= PART_BYTES:
            self._job.put(segment_path(self._key, len(self._done) + 2), data)
            self._done.append(self._last)
            self._last = data
        else:
            self._job.put(segment_path(self._key, len(self._done) + 1), longer)
            self._last = longer

    def undo(self) -> bool:
        """Whether a write that failed had its effect, now or later, nobody knows: that part is not written again."""
        return False

    def roll(self) -> None:
        if not self._job.create_if_absent(segment_path(self._key), b"".join((*self._done, self._last))):
            raise BadStorage(f"{self._job.uri}/{segment_path(self._key)} was written by somebody else")

    def rolled(self) -> None:
        self._job.delete(*(segment_path(self._key, number + 1) for number in range(len(self._done) + 1)))

    def close(self) -> None:
        pass
