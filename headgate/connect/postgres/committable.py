"""What a PostgreSQL sink pre-commits for one checkpoint, and its form as text.

One rule: a committable names every prepared transaction, down to the attempt of the task. One that a forgotten task
prepares later has another name, and is never committed.
"""

from dataclasses import dataclass
from typing import Any

from headgate.connect.postgres.names import Owner, Part
from headgate.core.ids import Batch, CheckpointId, Generation, Run
from headgate.sink.api import WriteId
from headgate.sink.form import Whose, from_text, number, text, to_text


@dataclass(frozen=True)
class PostgresCommittable:
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
    def write_ids(self) -> set[WriteId]:
        """Whose they are."""
        return {self.owner.write_id(part) for part in self.parts}

    def to_text(self) -> str:
        """The text that goes into the checkpoint."""
        parts = [[part.batch, part.run, part.partition, part.task_attempt] for part in self.parts]
        whose = Whose(self.owner.job, self.owner.sink, self.generation, self.checkpoint)
        return to_text(whose, {"incarnation": self.owner.incarnation, "schema": self.schema, "parts": parts})

    @staticmethod
    def from_text(committable: str) -> "PostgresCommittable":
        """Read what ``to_text`` wrote. Anything else is refused."""

        def read(whose: Whose, fields: Any) -> PostgresCommittable:
            owner = Owner(whose.job, whose.sink, text(fields["incarnation"]))
            parts = tuple(_part(whose.generation, *part) for part in fields["parts"])
            return PostgresCommittable(owner, whose.generation, whose.checkpoint, text(fields["schema"]), parts)

        return from_text(committable, read)


def _part(generation: Generation, batch: Any, run: Any, partition: Any, task_attempt: Any) -> Part:
    return Part(generation, Batch(number(batch)), Run(number(run)), number(partition), number(task_attempt))
