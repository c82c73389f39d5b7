"""What a file sink pre-commits for one checkpoint, and its form as text.

One rule: a committable stands on its own and names every file with its size and checksum, relative to the target
directory, so that the directory may be moved and no file can go missing or change unnoticed.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.sink.api import WriteId
from headgate.sink.form import Whose, from_text, number, text, to_text


@dataclass(frozen=True)
class CommittableFile:
    """One file. ``path`` begins in the directory of its part, and has the subdirectories of ``partition_by`` in it."""

    path: str
    size: int
    checksum: int | None = None
    """None in what earlier versions of Headgate pre-committed."""

    def fields(self) -> list[str | int]:
        """As plain data."""
        return [self.path, self.size] if self.checksum is None else [self.path, self.size, self.checksum]


@dataclass(frozen=True)
class CommittablePart:
    """What one run wrote for one batch. It has no files if the batch was empty."""

    batch: Batch
    run: Run
    files: tuple[CommittableFile, ...]
    beside: tuple[CommittableFile, ...] = ()
    """What a commit needs besides the files with rows."""

    def fields(self) -> list[Any]:
        """As plain data."""
        listed = [file.fields() for file in self.files]
        beside = [[file.fields() for file in self.beside]] if self.beside else []
        return [self.batch, self.run, listed, *beside]


@dataclass(frozen=True)
class StagedCommittable:
    """All that one commit puts in place."""

    job: str
    sink: SinkId
    generation: Generation
    checkpoint: CheckpointId
    parts: tuple[CommittablePart, ...]
    parallelism: int = 0
    """In how many partitions the files are applied, where they are: a repeat must not divide them otherwise."""
    pre_committed_ms: int = 0
    """When, by the clock of who pre-committed it. 0 in what earlier versions of Headgate pre-committed."""

    def write_ids(self) -> list[tuple[WriteId, CommittablePart]]:
        """The parts, with whose they are."""
        return [(WriteId(self.job, self.sink, self.generation, part.batch, part.run), part) for part in self.parts]

    def to_text(self) -> str:
        """The text that goes into the checkpoint."""
        whose = Whose(self.job, self.sink, self.generation, self.checkpoint)
        numbers = {"parallelism": self.parallelism, "pre_committed_ms": self.pre_committed_ms}
        given = {name: value for name, value in numbers.items() if value}
        return to_text(whose, {"parts": [part.fields() for part in self.parts], **given})

    @staticmethod
    def from_text(committable: str) -> "StagedCommittable":
        """Read what ``to_text`` wrote. Anything else is refused."""

        def read(whose: Whose, fields: Any) -> StagedCommittable:
            parts = tuple(_part(*part) for part in fields["parts"])
            parallelism, pre_committed_ms = (
                number(fields.get("parallelism", 0)),
                number(fields.get("pre_committed_ms", 0)),
            )
            return StagedCommittable(
                whose.job, whose.sink, whose.generation, whose.checkpoint, parts, parallelism, pre_committed_ms
            )

        return from_text(committable, read)


def hash_of(files: Iterable[tuple[int, int | None]]) -> str | None:
    """A sum over files that does not depend on their order, of their sizes and checksums. None if one has none."""
    total = 0
    for size, checksum in files:
        if checksum is None:
            return None
        digest = hashlib.blake2b(b"%d %d" % (size, checksum), digest_size=8).digest()
        total = (total + int.from_bytes(digest, "big")) % (1 << 64)
    return f"files:{total:016x}"


def _part(batch: Any, run: Any, files: Any, beside: Any = ()) -> CommittablePart:
    pre_committed = tuple(_file(*file) for file in files)
    return CommittablePart(
        Batch(number(batch)), Run(number(run)), pre_committed, tuple(_file(*file) for file in beside)
    )


def _file(path: Any, size: Any, checksum: Any = None) -> CommittableFile:
    return CommittableFile(_inside(path), number(size), None if checksum is None else number(checksum))


def _inside(value: Any) -> str:
    """A path that stays where it begins."""
    path = PurePosixPath(text(value))
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{value!r} leads out of the directory")
    return str(path)
