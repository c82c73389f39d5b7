"""The names of tables in which rows wait.

One rule: a name says whose table it is and which attempt wrote it, is the same in upper and in lower case, and is short
enough for every database as long as the numbers are.

::

    hg_<12 digits of a checksum of job, sink and incarnation>_<generation>_<batch>_<run>      numbers to the base 36
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Self

from headgate.core.ids import Batch, Generation, Run, SinkId
from headgate.sink.api import SinkContext, WriteId

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Owner:
    """One sink of one incarnation of a job, as its names have it."""

    job: str
    sink: SinkId
    key: str
    """A checksum of job, sink and incarnation, whole."""

    @classmethod
    def of(cls, context: SinkContext) -> Self:
        """The owner that a sink works for."""
        text = json.dumps([context.job, context.sink, context.incarnation])
        return cls(context.job, context.sink, hashlib.sha256(text.encode()).hexdigest())

    @property
    def prefix(self) -> str:
        """What the names of the owner's tables begin with."""
        return f"hg_{self.key[:12]}_"

    def stage(self, write_id: WriteId) -> str:
        """The table of an attempt."""
        return self.prefix + "_".join(map(_base36, (write_id.generation, write_id.batch, write_id.run)))

    def write_id(self, table: str) -> WriteId | None:
        """Whose table this is; None if it is not the owner's."""
        match = re.fullmatch(rf"{self.prefix}([0-9a-z]+)_([0-9a-z]+)_([0-9a-z]+)", table.lower())
        if match is None:
            return None
        generation, batch, run = (int(part, 36) for part in match.groups())
        return WriteId(self.job, self.sink, Generation(generation), Batch(batch), Run(run))


def _base36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
