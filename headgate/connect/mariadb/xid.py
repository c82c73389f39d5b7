"""The names of XA transactions: an owner's names in two parts, as XA has them.

One rule: nobody else's name can be taken for ours.

::

    gtrid   hg-<40 digits of a checksum of job, sink and incarnation>-<generation>
    bqual   <batch>-<run>-<partition>-<task attempt>
"""

import re
from dataclasses import dataclass
from typing import Self

FORMAT = 0x4847
"""The number with which ours are marked in the server's list."""
_NAME = re.compile(r"(hg-[0-9a-f]+-[0-9]+)-([0-9]+-[0-9]+-[0-9]+-[0-9]+)")


@dataclass(frozen=True)
class Xid:
    """A transaction's name."""

    gtrid: str
    bqual: str

    @classmethod
    def of(cls, name: str) -> Self:
        """From the name that an owner gives."""
        found = _NAME.fullmatch(name)
        assert found is not None, name
        return cls(found[1], found[2])

    @property
    def name(self) -> str:
        """As the owner knows it."""
        return f"{self.gtrid}-{self.bqual}"

    def __str__(self) -> str:
        """As the server's SQL has it. There is nothing in it that needs an escape."""
        return f"'{self.gtrid}','{self.bqual}',{FORMAT}"
