"""What a PostgreSQL sink seals for one checkpoint, and its form as text.

One rule: a handle names every prepared transaction, down to the attempt of the task. One that a forgotten task prepares
later has another name, and is never committed.
"""

from dataclasses import dataclass
from typing import Any

from headgate.connect.postgres.names import Owner, Part
from headgate.core.ids import Batch, CheckpointId, Generation, Run
from headgate.sink.api import Attempt
from headgate.sink.form import Whose, from_text, number, text, to_text


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
        parts = [[part.batch, part.run, part.partition, part.task_attempt] for part in self.parts]
        whose = Whose(self.owner.job, self.owner.sink, self.generation, self.checkpoint)
        return to_text(whose, {"life": self.owner.life, "schema": self.schema, "parts": parts})

    @staticmethod
    def from_handle(handle: str) -> "Sealed":
        """Read what ``to_handle`` wrote. Anything else is refused."""

        def read(whose: Whose, fields: Any) -> Sealed:
            owner = Owner(whose.job, whose.sink, text(fields["life"]))
            parts = tuple(_part(whose.generation, *part) for part in fields["parts"])
            return Sealed(owner, whose.generation, whose.checkpoint, text(fields["schema"]), parts)

        return from_text(handle, read)


def _part(generation: Generation, batch: Any, run: Any, partition: Any, task_attempt: Any) -> Part:
    return Part(generation, Batch(number(batch)), Run(number(run)), number(partition), number(task_attempt))
