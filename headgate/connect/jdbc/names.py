"""The names of tables in which rows wait.

One rule: a name says whose table it is and which attempt wrote it, is the same in upper and in lower case, and is short
enough for every database as long as the numbers are.

::

    hg_<12 digits of a checksum of job, sink and incarnation>_<generation>_<batch>_<run>      numbers to the base 36
"""

import re
from dataclasses import dataclass

from headgate.sink.api import WriteId
from headgate.sink.owner import Owner

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class JdbcOwner(Owner):
    """Whose tables they are. There is one for each attempt at a batch, whatever its partitions."""

    @property
    def label(self) -> str:
        """What the names of the owner's tables begin with; an underscore follows."""
        return f"hg_{self.digest[:12]}"

    def stage(self, write_id: WriteId) -> str:
        """The table of an attempt."""
        return "_".join([self.label, *map(_base36, write_id.order)])

    def whose(self, name: str) -> WriteId | None:
        """Whose table this is; None if it is not the owner's."""
        found = re.fullmatch(rf"{self.label}_([0-9a-z]+)_([0-9a-z]+)_([0-9a-z]+)", name.lower())
        return None if found is None else self.write_id(*(int(part, 36) for part in found.groups()))


def _base36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
