"""Taking a snapshot: naming files, and making those durable that are not.

One rule: the sync part only looks (which files rebuild this batch?), the async part reads each new file once and copies
it if the storage is elsewhere. So a snapshot costs what changed, not what there is; and it can be given up at any file.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, repeat
from operator import is_, itemgetter
from pathlib import Path
from typing import cast

from headgate import layout
from headgate.core.ids import Batch, Generation, TaskId
from headgate.durable import directories, force
from headgate.snapshot.files import FileFacts, measure


class SnapshotCancelled(Exception):
    """The checkpoint was given up while its files were being read."""


@dataclass(frozen=True)
class Group:
    """Files that are named together. A group that is the same object has not changed."""

    names: tuple[str, ...]
    files: dict[str, FileFacts]
    size: int


@dataclass(frozen=True)
class Taken:
    """A snapshot, with what it cost."""

    names: tuple[str, ...]
    groups: tuple[Group, ...]
    new_bytes: int
    new_files: int
    sync_ms: float
    async_ms: float

    @property
    def files(self) -> dict[str, FileFacts]:
        """All its files."""
        return {name: facts for group in self.groups for name, facts in group.files.items()}

    @property
    def total_bytes(self) -> int:
        """Bytes in all its files."""
        return sum(group.size for group in self.groups)

    def state_bytes(self) -> dict[int, dict[int, int]]:
        """For each stateful operator, the bytes of each of its partitions."""
        found: dict[int, dict[int, int]] = {}
        for number, group in enumerate(self.groups):
            # What is in the first group is of all kinds; every other one is the table files of one store.
            parts = [(name, facts.size) for name, facts in group.files.items()] if number == 0 else []
            for name, size in parts or [(group.names[0], group.size)]:
                place = layout.state_place(name)
                if place is not None:
                    operator, partition = place
                    sizes = found.setdefault(operator, {})
                    sizes[partition] = sizes.get(partition, 0) + size
        return found


def task_directory(task: TaskId, generation: Generation) -> str:
    """Where a task's query keeps its files, relative to the job's directory."""
    return f"tasks/{task}/g{generation}"


LOOKED_AT_MAX = 128
"""How many of the files that are known already are looked at again for a checkpoint."""
TAKEN_MAX = 8
"""How many snapshots of a task are remembered, for when they are published."""
FileMark = tuple[int, int, int]
"""What tells whether a file is still the one that was read: its inode, size and time."""


class Snapshots:
    """Takes the snapshots of one process. ``copy_in`` carries a file into the storage if it is elsewhere."""

    def __init__(self, root: Path, copy_in: Callable[[Path, str], None] | None) -> None:
        """``root`` is the job's working directory."""
        self._root = root
        self._home = str(root)
        self._copy_in = copy_in
        self._facts: dict[str, FileFacts] = {}
        """What is known of each file in the storage."""
        self._marks: dict[str, FileMark | None] = {}
        """Which file of the working directory it was read from."""
        self._looked = 0
        self._taken: dict[TaskId, list[tuple[tuple[str, ...], tuple[Group, ...]]]] = {}
        """The last snapshots of each task, the newest first."""
        self._lock = threading.Lock()

    def know(self, table: Mapping[str, FileFacts]) -> None:
        """Files whose facts are known, and which are in the storage already."""
        marks = {name: self._mark(name) for name in table}
        with self._lock:
            self._facts.update(table)
            self._marks.update(marks)

    def forget(self, names: Collection[str], below: Collection[str] = ()) -> None:
        """Files that were deleted, and all that was in the directories ``below``."""
        prefixes = tuple(f"{directory}/" for directory in below)
        with self._lock:
            within = [name for name in self._facts if name.startswith(prefixes)] if prefixes else []
            for name in (*names, *within):
                self._facts.pop(name, None)
                self._marks.pop(name, None)

    def take(self, task: TaskId, generation: Generation, batch: Batch, given_up: threading.Event) -> Taken:
        """The snapshot of a task at a committed batch."""
        begun = time.monotonic()
        where = task_directory(task, generation)
        named = layout.groups_of(self._root / where, batch, f"{where}/")
        looked = time.monotonic()
        names = tuple(chain.from_iterable(named))
        new = self._look_again(names, given_up)
        groups = []
        for each in named:
            group, fresh = self._group(each, given_up)
            groups.append(group)
            new += fresh
        done = time.monotonic()
        taken = Taken(
            names=names,
            groups=tuple(groups),
            new_bytes=sum(self._facts[name].size for name in new),
            new_files=len(new),
            sync_ms=(looked - begun) * 1000,
            async_ms=(done - looked) * 1000,
        )
        self._remember(task, names, taken.groups)
        return taken

    def groups(self, task: TaskId, names: tuple[str, ...]) -> tuple[Group, ...]:
        """The groups of a snapshot that was taken here, or will now be seen to be durable."""
        never = threading.Event()
        self._look_again(names, never)
        for known, groups in self._taken.get(task, ()):
            if known is names:
                return groups
        group, _ = self._group(names, never)
        self._remember(task, names, (group,))
        return (group,)

    def _remember(self, task: TaskId, names: tuple[str, ...], groups: tuple[Group, ...]) -> None:
        with self._lock:
            self._taken[task] = [(names, groups), *self._taken.get(task, ())][:TAKEN_MAX]

    def _group(self, names: tuple[str, ...], given_up: threading.Event) -> tuple[Group, list[str]]:
        """What is known of files that are named together, once they are durable; and which of them are new."""
        with self._lock:
            recent = [group for taken in self._taken.values() for _, groups in taken[:1] for group in groups]
        for group in recent:
            if group.names is names:
                return group, []
        files, new = self.make_durable(names, given_up)
        return Group(names, files, sum(map(itemgetter(0), files.values()))), new

    def _look_again(self, names: tuple[str, ...], given_up: threading.Event) -> list[str]:
        """Files do not change, so those that are known are not looked at again, but for some at a time: where somebody
        changed or removed one all the same, it is noticed after a while.
        """
        changed = self._changed(names)
        if changed:
            with self._lock:
                self._taken.clear()
                for name in changed:
                    self._facts.pop(name, None)
            self.make_durable(changed, given_up)
        return changed

    def make_durable(self, names: Sequence[str], given_up: threading.Event) -> tuple[dict[str, FileFacts], list[str]]:
        """The facts of files, after those that are new have been read, and copied or forced to the disk."""
        found = list(map(self._facts.get, names))
        wanted = list(compress(names, map(is_, found, repeat(None))))
        new: dict[str, FileFacts] = {}
        marks: dict[str, FileMark | None] = {}
        try:
            for name in wanted:
                if given_up.is_set():
                    raise SnapshotCancelled
                mark = self._mark(name)
                facts = measure(self._root / name)
                if self._copy_in is not None:
                    self._copy_in(self._root / name, name)
                new[name], marks[name] = facts, mark
        finally:  # What has been done need not be done again for the next checkpoint.
            if self._copy_in is None:
                paths = [self._root / name for name in new]
                force([*paths, *directories(paths, top=self._root)])
            with self._lock:
                self._facts.update(new)
                self._marks.update(marks)
        files = dict(zip(names, found, strict=True))
        files.update(new)
        return cast("dict[str, FileFacts]", files), list(new)

    def _changed(self, names: Sequence[str]) -> list[str]:
        """Of the next few known files, those that are not what was read."""
        begin = self._looked % len(names) if len(names) > LOOKED_AT_MAX else 0
        self._looked = begin + LOOKED_AT_MAX
        return [
            name
            for name in names[begin : begin + LOOKED_AT_MAX]
            if (seen := self._marks.get(name)) is not None and seen != self._mark(name)
        ]

    def _mark(self, name: str) -> FileMark | None:
        """None if it is not in the working directory. It may be in the storage all the same."""
        try:
            found = os.stat(f"{self._home}/{name}")  # noqa: PTH116 - by far quicker, and there are many
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns
