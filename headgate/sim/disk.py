"""What the queries have made durable: working directories, segments, state files.

One rule: what is here survives every crash, and nothing is here that a query has not written. A batch's outputs count
once the batch is committed. Rows are ``(source, number, path, tag)``: the path tells how a row came, and the tag is
drawn anew by every attempt, so that two attempts of one batch never look the same.
"""

from dataclasses import dataclass

SimRow = tuple[int, int, int, int]

KEYS = 4
"""How many keys the records of one source have, one after the other."""
FULL_EVERY = 4
"""Every this many batches a task's state is written in full; between them only what changed."""


@dataclass(frozen=True, slots=True)
class TaskImage:
    """A task's state after a committed batch, with the sums of all it ever took in and gave out."""

    batch: int
    run: int
    offset: int
    """Records read of the task's own source."""
    positions: tuple[int, ...]
    taken: tuple[int, ...]
    """For each input channel, the sum over all rows consumed."""
    skipped: tuple[int, ...]
    """For each input channel, the sum over all rows that were left out (at-most-once)."""
    read: int
    """The sum over all records read of the source, and left out."""
    given: int
    """The sum over all rows ever put out."""
    files: tuple[str, ...]
    """The files that rebuild this state."""
    kept: tuple[SimRow, ...] = ()
    """Rows in windows that are open: they come out with the next batch. Only in worlds with windows."""
    over: bool = False
    """Time has come to its end: whatever is read now comes too late."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A batch whose input range is written down. A replay takes the same range."""

    batch: int
    offset: int
    positions: tuple[int, ...]
    over: bool = False
    """Time is at its end: all windows close."""


class Work:
    """The working directory of one task in one generation."""

    __slots__ = ("committed", "images", "planned")

    def __init__(self, image: TaskImage) -> None:
        """Begin from a restored image."""
        self.committed = image
        self.images = {image.batch: image}
        self.planned: Planned | None = None


class Disk:
    """Everything durable that is not in the store of records or in a sink."""

    def __init__(self) -> None:
        """Begin empty."""
        self.works: dict[tuple[int, str], Work] = {}
        self.segments: dict[tuple[int, str], dict[int, list[SimRow]]] = {}
        self.gates: dict[tuple[int, str], int] = {}
        self.files: dict[str, tuple[int, str, int]] = {}
        """Every file by name: its generation, its task or channel, and its batch."""
        self.stored: dict[str, None] = {}
        """Those that stand in the storage as well as in the working directory."""

    def commit(
        self, generation: int, task: str, outputs: tuple[str, ...], image: TaskImage, rows: list[SimRow]
    ) -> None:
        """Spark commits a batch: state, outputs and progress at once."""
        work = self.works[generation, task]
        work.committed = image
        work.images[image.batch] = image
        work.planned = None
        self.files[image.files[-1]] = (generation, task, image.batch)
        for channel in outputs:
            self.segments.setdefault((generation, channel), {})[image.batch] = rows
            self.files[f"{channel}/{generation}/{image.batch}"] = (generation, channel, image.batch)

    def next_files(self, generation: int, task: str, before: tuple[str, ...], batch: int) -> tuple[str, ...]:
        """The files that rebuild a state, given those of the batch before."""
        if batch % FULL_EVERY == 0:
            return (f"{task}/{generation}/{batch}.full",)
        return (*before, f"{task}/{generation}/{batch}.delta")

    def rehome(self, old: tuple[int, str], new: tuple[int, str], after: int, through: int) -> list[str]:
        """Link the segments in flight into a new generation; return the names of those that are missing."""
        missing: list[str] = []
        source = self.segments.get(old, {})
        target = self.segments.setdefault(new, {})
        for batch in range(after + 1, through + 1):
            name = f"{old[1]}/{old[0]}/{batch}"
            if name not in self.files or batch not in source:
                missing.append(name)
                continue
            target[batch] = source[batch]
            self.files[f"{new[1]}/{new[0]}/{batch}"] = (new[0], new[1], batch)
        return missing

    def delete(self, name: str) -> None:
        """Delete a file. A segment's rows go with it."""
        self.stored.pop(name, None)
        entry = self.files.pop(name, None)
        if entry is not None and (entry[0], entry[1]) in self.segments:
            self.segments[entry[0], entry[1]].pop(entry[2], None)

    def lose(self) -> None:
        """The working directory is gone. What is left is in the storage."""
        for name in [name for name in self.files if name not in self.stored]:
            self.delete(name)


def key_of(row: SimRow) -> tuple[int, int, int]:
    """Under what a row is written where rows have keys: its source, its path, and one of a few numbers."""
    return row[0], row[2], row[1] % KEYS


def weigh(rows: list[SimRow]) -> int:
    """The sum that stands for a multiset of rows."""
    return sum(map(hash, rows))
