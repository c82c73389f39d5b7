"""What a file sink seals for one checkpoint, and its form as text.

One rule: a handle stands on its own and names every file with its size, relative to the target directory, so that the
directory may be moved and no file can go missing unnoticed.
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


@dataclass(frozen=True)
class SealedPart:
    """What one run wrote for one batch. It has no files if the batch was empty."""

    batch: Batch
    run: Run
    files: tuple[SealedFile, ...]


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

    def attempts(self) -> list[tuple[Attempt, SealedPart]]:
        """The parts, with whose they are."""
        return [(Attempt(self.job, self.sink, self.generation, part.batch, part.run), part) for part in self.parts]

    def to_handle(self) -> str:
        """The text that goes into the checkpoint."""
        parts = [[part.batch, part.run, [[file.path, file.size] for file in part.files]] for part in self.parts]
        whose = Whose(self.job, self.sink, self.generation, self.checkpoint)
        return to_text(whose, {"parts": parts, **({"lanes": self.lanes} if self.lanes else {})})

    @staticmethod
    def from_handle(handle: str) -> "SealedTransaction":
        """Read what ``to_handle`` wrote. Anything else is refused."""

        def read(whose: Whose, fields: Any) -> SealedTransaction:
            parts = tuple(_part(*part) for part in fields["parts"])
            lanes = number(fields.get("lanes", 0))
            return SealedTransaction(whose.job, whose.sink, whose.generation, whose.checkpoint, parts, lanes)

        return from_text(handle, read)


def _part(batch: Any, run: Any, files: Any) -> SealedPart:
    sealed = tuple(SealedFile(_inside(path), number(size)) for path, size in files)
    return SealedPart(Batch(number(batch)), Run(number(run)), sealed)


def _inside(value: Any) -> str:
    """A path that stays where it begins."""
    path = PurePosixPath(text(value))
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{value!r} leads out of the directory")
    return str(path)
