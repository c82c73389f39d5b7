"""What the JDBC sink seals for one checkpoint, and its form as text.

One rule: a handle says how many rows each attempt wrote, so that none can go missing unnoticed.
"""

import json
from dataclasses import dataclass
from typing import Self

from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.errors import BadStorage
from headgate.sink.api import Attempt

VERSION = 1


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
        fields = {
            "version": VERSION,
            "job": self.job,
            "sink": self.sink,
            "generation": self.generation,
            "checkpoint": self.checkpoint,
            "parts": [[attempt.batch, attempt.run, rows] for attempt, rows in self.parts],
        }
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_handle(cls, handle: str) -> Self:
        """Read what ``to_handle`` wrote. Anything else is refused."""
        try:
            fields = json.loads(handle)
            if (version := fields["version"]) != VERSION:
                raise BadStorage(
                    f"a sealed transaction has format {version!r}, known is {VERSION}: use the Headgate that wrote it"
                )
            job, sink = str(fields["job"]), SinkId(str(fields["sink"]))
            generation = Generation(int(fields["generation"]))
            parts = tuple(
                (Attempt(job, sink, generation, Batch(int(batch)), Run(int(run))), int(rows))
                for batch, run, rows in fields["parts"]
            )
            return cls(job, sink, generation, CheckpointId(int(fields["checkpoint"])), parts)
        except (ValueError, KeyError, TypeError) as error:
            raise BadStorage(
                f"the handle of a sealed transaction cannot be read ({error}): {handle[:80]!r}; "
                "restore the checkpoint's record from a copy"
            ) from error
