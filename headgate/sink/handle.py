"""What a file sink seals for one checkpoint, and its form as text.

One rule: a handle stands on its own and names every file with its size and checksum, relative to the target directory,
so that the directory may be moved and no file can go missing or change unnoticed.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.sink.api import Attempt
from headgate.sink.form import Whose, from_text, number, text, to_text


@dataclass(frozen=True)
class SealedFile:
    """One file. ``path`` begins in the directory of its part, and has the subdirectories of ``partition_by`` in it."""

    path: str
    size: int
    checksum: int | None = None
    """None in what earlier versions of Headgate sealed."""

    def fields(self) -> list[str | int]:
        """As plain data."""
        return [self.path, self.size] if self.checksum is None else [self.path, self.size, self.checksum]


@dataclass(frozen=True)
class SealedPart:
    """What one run wrote for one batch. It has no files if the batch was empty."""

    batch: Batch
    run: Run
    files: tuple[SealedFile, ...]
    beside: tuple[SealedFile, ...] = ()
    """What a commit needs besides the files with rows."""

    def fields(self) -> list[Any]:
        """As plain data."""
        listed = [file.fields() for file in self.files]
        beside = [[file.fields() for file in self.beside]] if self.beside else []
        return [self.batch, self.run, listed, *beside]


@dataclass(frozen=True)
class SealedTransaction:
    """All that one commit puts in place."""

    job: str
    sink: SinkId
    generation: Generation
    checkpoint: CheckpointId
    parts: tuple[SealedPart, ...]
    lanes: int = 0
    """In how many lanes the files are applied, where they are: a repeat must not divide them otherwise."""
    sealed_ms: int = 0
    """When, by the clock of who sealed it. 0 in what earlier versions of Headgate sealed."""

    def attempts(self) -> list[tuple[Attempt, SealedPart]]:
        """The parts, with whose they are."""
        return [(Attempt(self.job, self.sink, self.generation, part.batch, part.run), part) for part in self.parts]

    def to_handle(self) -> str:
        """The text that goes into the checkpoint."""
        whose = Whose(self.job, self.sink, self.generation, self.checkpoint)
        numbers = {"lanes": self.lanes, "sealed_ms": self.sealed_ms}
        given = {name: value for name, value in numbers.items() if value}
        return to_text(whose, {"parts": [part.fields() for part in self.parts], **given})

    @staticmethod
    def from_handle(handle: str) -> "SealedTransaction":
        """Read what ``to_handle`` wrote. Anything else is refused."""

        def read(whose: Whose, fields: Any) -> SealedTransaction:
            parts = tuple(_part(*part) for part in fields["parts"])
            lanes, sealed_ms = number(fields.get("lanes", 0)), number(fields.get("sealed_ms", 0))
            return SealedTransaction(whose.job, whose.sink, whose.generation, whose.checkpoint, parts, lanes, sealed_ms)

        return from_text(handle, read)


def _part(batch: Any, run: Any, files: Any, beside: Any = ()) -> SealedPart:
    sealed = tuple(_file(*file) for file in files)
    return SealedPart(Batch(number(batch)), Run(number(run)), sealed, tuple(_file(*file) for file in beside))


def _file(path: Any, size: Any, checksum: Any = None) -> SealedFile:
    return SealedFile(_inside(path), number(size), None if checksum is None else number(checksum))


def _inside(value: Any) -> str:
    """A path that stays where it begins."""
    path = PurePosixPath(text(value))
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{value!r} leads out of the directory")
    return str(path)
