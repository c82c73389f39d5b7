"""What the JDBC sink seals for one checkpoint, and its form as text.

One rule: a handle says how many rows each attempt wrote, so that none can go missing unnoticed.
"""

from dataclasses import dataclass
from typing import Any

from headgate.core.ids import CheckpointId, Generation, SinkId
from headgate.sink.api import Attempt
from headgate.sink.form import Whose, from_text, number, to_text


@dataclass(frozen=True)
class Sealed:
    """All that one commit takes over."""

    job: str
    sink: SinkId
    generation: Generation
    checkpoint: CheckpointId
    parts: tuple[tuple[Attempt, int], ...]
    """The attempts, with how many rows each wrote."""

    def to_handle(self) -> str:
        """The text that goes into the checkpoint."""
        whose = Whose(self.job, self.sink, self.generation, self.checkpoint)
        return to_text(whose, {"parts": [[attempt.batch, attempt.run, rows] for attempt, rows in self.parts]})

    @staticmethod
    def from_handle(handle: str) -> "Sealed":
        """Read what ``to_handle`` wrote. Anything else is refused."""

        def read(whose: Whose, fields: Any) -> Sealed:
            parts = tuple((whose.attempt(batch, run), number(rows)) for batch, run, rows in fields["parts"])
            return Sealed(whose.job, whose.sink, whose.generation, whose.checkpoint, parts)

        return from_text(handle, read)
