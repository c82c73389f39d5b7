"""What the XA sink seals for one checkpoint, and its form as text.

One rule: a handle names every transaction, so that none can go missing unnoticed.
"""

import json
from dataclasses import dataclass
from typing import Self

from headgate.connect.mariadb.xid import Xid
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.errors import BadStorage
from headgate.sink.api import Attempt

VERSION = 1


@dataclass(frozen=True)
class Sealed:
    """All that one commit shows."""

    job: str
    sink: SinkId
    generation: Generation
    checkpoint: CheckpointId
    parts: tuple[tuple[Attempt, tuple[Xid, ...]], ...]

    def xids(self) -> list[Xid]:
        """The transactions, in the order of batches."""
        return [xid for _, xids in self.parts for xid in xids]

    def to_handle(self) -> str:
        """The text that goes into the checkpoint."""
        parts = [[each.batch, each.run, [[xid.gtrid, xid.bqual] for xid in xids]] for each, xids in self.parts]
        fields = {
            "version": VERSION,
            "job": self.job,
            "sink": self.sink,
            "generation": self.generation,
            "checkpoint": self.checkpoint,
            "parts": parts,
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
                (
                    Attempt(job, sink, generation, Batch(int(batch)), Run(int(run))),
                    tuple(Xid(str(gtrid), str(bqual)) for gtrid, bqual in xids),
                )
                for batch, run, xids in fields["parts"]
            )
            return cls(job, sink, generation, CheckpointId(int(fields["checkpoint"])), parts)
        except (ValueError, KeyError, TypeError) as error:
            raise BadStorage(
                f"the handle of a sealed transaction cannot be read ({error}): {handle[:80]!r}; "
                "restore the checkpoint's record from a copy"
            ) from error
