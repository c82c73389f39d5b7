"""What the XA sink pre-commits for one checkpoint, and its form as text.

One rule: a committable names every transaction, so that none can go missing unnoticed.
"""

from dataclasses import dataclass
from typing import Any

from headgate.connect.mariadb.xid import Xid
from headgate.core.ids import CheckpointId, Generation, SinkId
from headgate.sink.api import WriteId
from headgate.sink.form import Whose, from_text, text, to_text


@dataclass(frozen=True)
class XACommittable:
    """All that one commit shows."""

    job: str
    sink: SinkId
    generation: Generation
    checkpoint: CheckpointId
    parts: tuple[tuple[WriteId, tuple[Xid, ...]], ...]

    def xids(self) -> list[Xid]:
        """The transactions, in the order of batches."""
        return [xid for _, xids in self.parts for xid in xids]

    def to_text(self) -> str:
        """The text that goes into the checkpoint."""
        parts = [[each.batch, each.run, [[xid.gtrid, xid.bqual] for xid in xids]] for each, xids in self.parts]
        return to_text(Whose(self.job, self.sink, self.generation, self.checkpoint), {"parts": parts})

    @staticmethod
    def from_text(committable: str) -> "XACommittable":
        """Read what ``to_text`` wrote. Anything else is refused."""

        def read(whose: Whose, fields: Any) -> XACommittable:
            parts = tuple(
                (whose.write_id(batch, run), tuple(Xid(text(gtrid), text(bqual)) for gtrid, bqual in xids))
                for batch, run, xids in fields["parts"]
            )
            return XACommittable(whose.job, whose.sink, whose.generation, whose.checkpoint, parts)

        return from_text(committable, read)
