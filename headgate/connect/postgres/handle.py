"""What a PostgreSQL sink seals for one checkpoint, and its form as text.

One rule: a handle names every prepared transaction, down to the attempt of the task. One that a forgotten task prepares
later has another name, and is never committed.
"""

import json
from dataclasses import dataclass
from typing import Any, Self

from headgate.connect.postgres.names import Owner, Part
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.errors import BadStorage
from headgate.sink.api import Attempt

VERSION = 1


@dataclass(frozen=True)
class Sealed:
    """All that one commit shows."""

    owner: Owner
    generation: Generation
    checkpoint: CheckpointId
    schema: str
    """Where the markers of its transactions are."""
    parts: tuple[Part, ...]

    @property
    def gids(self) -> list[str]:
        """The prepared transactions."""
        return [self.owner.gid(part) for part in self.parts]

    @property
    def attempts(self) -> set[Attempt]:
        """Whose they are."""
        return {self.owner.attempt(part) for part in self.parts}

    def to_handle(self) -> str:
        """The text that goes into the checkpoint."""
        fields = {
            "version": VERSION,
            "job": self.owner.job,
            "sink": self.owner.sink,
            "life": self.owner.life,
            "generation": self.generation,
            "checkpoint": self.checkpoint,
            "schema": self.schema,
            "parts": [[part.batch, part.run, part.partition, part.task_attempt] for part in self.parts],
        }
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_handle(cls, handle: str) -> Self:
        """Read what ``to_handle`` wrote. Anything else is refused."""
        try:
            fields = json.loads(handle)
            version = fields["version"]
            if version == VERSION:
                generation = Generation(_number(fields["generation"]))
                return cls(
                    owner=Owner(_text(fields["job"]), SinkId(_text(fields["sink"])), _text(fields["life"])),
                    generation=generation,
                    checkpoint=CheckpointId(_number(fields["checkpoint"])),
                    schema=_text(fields["schema"]),
                    parts=tuple(_part(generation, *part) for part in fields["parts"]),
                )
        except (ValueError, KeyError, TypeError) as error:
            raise BadStorage(
                f"the handle of a sealed transaction cannot be read ({error}): {handle[:80]!r}; "
                "restore the checkpoint's record from a copy"
            ) from error
        raise BadStorage(
            f"a sealed transaction has format {version!r}, known is {VERSION}: use the Headgate that wrote it"
        )


def _part(generation: Generation, batch: Any, run: Any, partition: Any, task_attempt: Any) -> Part:
    return Part(generation, Batch(_number(batch)), Run(_number(run)), _number(partition), _number(task_attempt))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number")
    return value
