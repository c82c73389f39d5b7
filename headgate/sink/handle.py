"""What a file sink seals for one checkpoint, and its form as text.

One rule: a handle stands on its own and names every file with its size, relative to the target directory, so that the
directory may be moved and no file can go missing unnoticed.
"""

import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Self

from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.errors import BadStorage
from headgate.sink.api import Attempt

VERSION = 1


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
        fields = {
            "version": VERSION,
            "job": self.job,
            "sink": self.sink,
            "generation": self.generation,
            "checkpoint": self.checkpoint,
            "parts": parts,
            **({"lanes": self.lanes} if self.lanes else {}),
        }
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_handle(cls, handle: str) -> Self:
        """Read what ``to_handle`` wrote. Anything else is refused."""
        try:
            fields = json.loads(handle)
            version = fields["version"]
            if version == VERSION:
                return cls(
                    job=_text(fields["job"]),
                    sink=SinkId(_text(fields["sink"])),
                    generation=Generation(_number(fields["generation"])),
                    checkpoint=CheckpointId(_number(fields["checkpoint"])),
                    parts=tuple(_part(*part) for part in fields["parts"]),
                    lanes=_number(fields.get("lanes", 0)),
                )
        except (ValueError, KeyError, TypeError) as error:
            raise BadStorage(
                f"the handle of a sealed transaction cannot be read ({error}): {handle[:80]!r}; "
                "restore the checkpoint's record from a copy"
            ) from error
        raise BadStorage(
            f"a sealed transaction has format {version!r}, known is {VERSION}: use the Headgate that wrote it"
        )


def _part(batch: Any, run: Any, files: Any) -> SealedPart:
    sealed = tuple(SealedFile(_inside(path), _number(size)) for path, size in files)
    return SealedPart(Batch(_number(batch)), Run(_number(run)), sealed)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number")
    return value


def _inside(value: Any) -> str:
    """A path that stays where it begins."""
    path = PurePosixPath(_text(value))
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{value!r} leads out of the directory")
    return str(path)
