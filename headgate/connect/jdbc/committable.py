"""What the JDBC sink pre-commits for one checkpoint, and its form as text.

One rule: a committable says how many rows each attempt wrote, so that none can go missing unnoticed.
"""

from dataclasses import dataclass
from typing import Any

from headgate.core.ids import CheckpointId, Generation, SinkId
from headgate.sink.api import WriteId
from headgate.sink.form import Whose, from_text, number, to_text


@dataclass(frozen=True)
class JdbcCommittable:
    """All that one commit takes over."""

    job: str
    sink: SinkId
    generation: Generation
    checkpoint: CheckpointId
    parts: tuple[tuple[WriteId, int], ...]
    """The attempts, with how many rows each wrote."""

    def to_text(self) -> str:
        """The text that goes into the checkpoint."""
        whose = Whose(self.job, self.sink, self.generation, self.checkpoint)
        return to_text(whose, {"parts": [[write_id.batch, write_id.run, rows] for write_id, rows in self.parts]})

    @staticmethod
    def from_text(committable: str) -> "JdbcCommittable":
        """Read what ``to_text`` wrote. Anything else is refused."""

        def read(whose: Whose, fields: Any) -> JdbcCommittable:
            parts = tuple((whose.write_id(batch, run), number(rows)) for batch, run, rows in fields["parts"])
            return JdbcCommittable(whose.job, whose.sink, whose.generation, whose.checkpoint, parts)

        return from_text(committable, read)
