"""The names of XA transactions.

One rule: a name says whose transaction it is and which attempt wrote it, and nobody else's name can be taken for ours.

::

    gtrid   hg-<40 digits of a checksum of job, sink and incarnation>-<generation>
    bqual   <batch>-<run>-<partition>-<task attempt>
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Self

from headgate.core.ids import Batch, Generation, Run, SinkId
from headgate.sink.api import SinkContext, WriteId

FORMAT = 0x4847
"""The number with which ours are marked in the server's list."""
_BRANCH = re.compile(rb"(\d+)-(\d+)-(\d+)-(\d+)")


@dataclass(frozen=True)
class Owner:
    """One sink of one incarnation of a job, as its names have it."""

    job: str
    sink: SinkId
    label: str

    @classmethod
    def of(cls, context: SinkContext) -> Self:
        """The owner that a sink works for."""
        text = json.dumps([context.job, context.sink, context.incarnation])
        return cls(context.job, context.sink, "hg-" + hashlib.sha256(text.encode()).hexdigest()[:40])

    def xid(self, write_id: WriteId, partition: int, task_attempt: int) -> "Xid":
        """The name of what one task attempt writes."""
        branch = f"{write_id.batch}-{write_id.run}-{partition}-{task_attempt}"
        return Xid(f"{self.label}-{write_id.generation}", branch)

    def write_id(self, form: int, gtrid: bytes, bqual: bytes) -> WriteId | None:
        """Which attempt has written a transaction of the server's list; None if it is not this owner's."""
        head, branch = f"{self.label}-".encode(), _BRANCH.fullmatch(bqual)
        generation = gtrid.removeprefix(head)
        if form != FORMAT or branch is None or not gtrid.startswith(head) or not generation.isdigit():
            return None
        return WriteId(self.job, self.sink, Generation(int(generation)), Batch(int(branch[1])), Run(int(branch[2])))


@dataclass(frozen=True)
class Xid:
    """A transaction's name."""

    gtrid: str
    bqual: str

    def __str__(self) -> str:
        """As the server's SQL has it. There is nothing in it that needs an escape."""
        return f"'{self.gtrid}','{self.bqual}',{FORMAT}"
