"""What a job has to tell of its past: notable events, one JSON object in a line.

One rule: history explains and decides nothing. So it is bounded, it is not flushed to the disk, and a line that a crash
cut short is passed over; the next append begins on a line of its own.

Where the storage is a folder, lines are appended to one file, each append with a single write. Elsewhere nothing can be
appended to, and each append is an object of its own.
"""

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from headgate.store.api import Missing, Store
from headgate.store.local import reporting

FILE_BYTES_MAX = 4 << 20
"""A file longer than this becomes the old one, and the old one before it goes."""
OBJECTS_MAX = 1000
PRUNE_EVERY = 50
"""How many appends of one process between two looks at how many objects there are."""

Lines = Sequence[Mapping[str, object]]


class History(Protocol):
    """The past of one job."""

    def append(self, lines: Lines) -> None:
        """Add events to the end."""

    def read(self) -> list[dict[str, Any]]:
        """All that is kept, the oldest first."""


def open_history(job: Store) -> History:
    """The history in the storage of a job."""
    return ObjectHistory(job) if job.local_root is None else FileHistory(job.local_root)


class FileHistory:
    """``history.jsonl`` in a folder, and the file that it was before."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "history.jsonl"
        self._old = folder / "history.old.jsonl"

    def append(self, lines: Lines) -> None:
        """See ``History.append``."""
        data = _encode(lines)
        if not data:
            return
        with reporting(self._path), self._path.open("ab+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                data = b"\n" + data
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if size + len(data) >= FILE_BYTES_MAX:
                self._rotate(file.fileno())

    def read(self) -> list[dict[str, Any]]:
        """See ``History.read``."""
        with reporting(self._path):
            # The newer first: if it is moved aside meanwhile it is seen twice, which can be told, and not missed.
            newer, moved = _content(self._path)
            older, there = _content(self._old)
        return list(_decode(older if moved == there else older + b"\n" + newer))

    def _rotate(self, handle: int) -> None:
        """Move the file aside, unless somebody else has, or is about to."""
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._path.stat().st_ino == os.fstat(handle).st_ino:
                self._path.replace(self._old)


class ObjectHistory:
    """``history/<milliseconds>-<writer>-<number>.jsonl``, one for each append."""

    def __init__(self, job: Store) -> None:
        self._job = job
        self._writer = uuid4().hex[:12]
        self._appended = 0

    def append(self, lines: Lines) -> None:
        """See ``History.append``."""
        data = _encode(lines)
        if not data:
            return
        now_ms = time.time_ns() // 1_000_000
        self._job.put(f"history/{now_ms:013d}-{self._writer}-{self._appended:06d}.jsonl", data)
        if self._appended % PRUNE_EVERY == 0:
            self._job.delete(*self._paths()[:-OBJECTS_MAX])
        self._appended += 1

    def read(self) -> list[dict[str, Any]]:
        """See ``History.read``."""
        return list(_decode(b"\n".join(self._values())))

    def _paths(self) -> list[str]:
        return sorted(entry.path for entry in self._job.list("history", depth=1))

    def _values(self) -> Iterator[bytes]:
        for path in self._paths():
            try:
                yield self._job.read(path)
            except Missing:  # it went meanwhile
                continue


def _encode(lines: Lines) -> bytes:
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines).encode("ascii")


def _decode(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def _content(path: Path) -> tuple[bytes, int | None]:
    """What is in a file, and which file it is. Nothing, and no file, if it is not there."""
    try:
        with path.open("rb") as file:
            return file.read(), os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return b"", None
