"""Taking a snapshot: naming files, and making those durable that are not.

One rule: the sync part only looks (which files rebuild this batch?), the async part reads each new file once and copies
it if the storage is elsewhere. So a snapshot costs what changed, not what there is; and it can be given up at any file.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from headgate import layout
from headgate.core.ids import Batch, Generation, TaskId
from headgate.snapshot.files import FileFacts, directories, force, measure


class GivenUp(Exception):
    """The checkpoint was given up while its files were being read."""


@dataclass(frozen=True)
class Taken:
    """A snapshot, with what it cost."""

    files: dict[str, FileFacts]
    new_bytes: int
    new_files: int
    sync_ms: float
    async_ms: float

    @property
    def total_bytes(self) -> int:
        """Bytes in all its files."""
        return sum(facts.size for facts in self.files.values())


def task_directory(task: TaskId, generation: Generation) -> str:
    """Where a task's query keeps its files, relative to the job's directory."""
    return f"tasks/{task}/g{generation}"


Mark = tuple[int, int, int]
"""What tells whether a file is still the one that was read: its inode, size and time."""


class Snapshots:
    """Takes the snapshots of one process. ``copy_in`` carries a file into the storage if it is elsewhere."""

    def __init__(self, root: Path, copy_in: Callable[[Path, str], None] | None) -> None:
        """``root`` is the job's working directory."""
        self._root = root
        self._copy_in = copy_in
        self._facts: dict[str, tuple[FileFacts, Mark | None]] = {}
        """What is known of each file in the storage, and which file of the working directory it was read from."""
        self._lock = threading.Lock()

    def know(self, table: Mapping[str, FileFacts]) -> None:
        """Files whose facts are known, and which are in the storage already."""
        known = {name: (facts, self._mark(name)) for name, facts in table.items()}
        with self._lock:
            self._facts.update(known)

    def forget(self, names: Collection[str], below: Collection[str] = ()) -> None:
        """Files that were deleted, and all that was in the directories ``below``."""
        prefixes = tuple(f"{directory}/" for directory in below)
        with self._lock:
            for name in (*names, *(name for name in self._facts if name.startswith(prefixes))):
                self._facts.pop(name, None)

    def take(self, task: TaskId, generation: Generation, batch: Batch, given_up: threading.Event) -> Taken:
        """The snapshot of a task at a committed batch."""
        begun = time.monotonic()
        where = task_directory(task, generation)
        names = [f"{where}/{name}" for name in layout.files_of(self._root / where, batch)]
        looked = time.monotonic()
        files, new = self.make_durable(names, given_up)
        done = time.monotonic()
        return Taken(
            files=files,
            new_bytes=sum(files[name].size for name in new),
            new_files=len(new),
            sync_ms=(looked - begun) * 1000,
            async_ms=(done - looked) * 1000,
        )

    def make_durable(self, names: list[str], given_up: threading.Event) -> tuple[dict[str, FileFacts], list[str]]:
        """The facts of files, after those that are new have been read, and copied or forced to the disk."""
        files: dict[str, FileFacts] = {}
        new: dict[str, Mark | None] = {}
        try:
            for name in names:
                facts, seen = self._facts.get(name, (None, None))
                mark = self._mark(name)
                if facts is None or (seen is not None and seen != mark):
                    if given_up.is_set():
                        raise GivenUp
                    facts = measure(self._root / name)
                    if self._copy_in is not None:
                        self._copy_in(self._root / name, name)
                    new[name] = mark
                files[name] = facts
        finally:  # What has been done need not be done again for the next checkpoint.
            if self._copy_in is None:
                paths = [self._root / name for name in new]
                force((*paths, *directories(self._root, paths)))
            with self._lock:
                self._facts.update({name: (files[name], mark) for name, mark in new.items()})
        return files, list(new)

    def _mark(self, name: str) -> Mark | None:
        """None if it is not in the working directory. It may be in the storage all the same."""
        try:
            found = (self._root / name).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns
