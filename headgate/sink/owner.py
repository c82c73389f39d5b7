"""Whose transactions they are: the names that a sink's transactions have in another system.

One rule: a name says whose it is (job, sink, incarnation) and which attempt wrote it. So whatever is found in the other
system either parses in full, or is somebody else's, and is left alone.

A system whose names have another form, or less room, has an owner of its own that says how.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote

from headgate.core.ids import Batch, Generation, Run, SinkId
from headgate.sink.api import SinkContext, WriteId
from headgate.sink.partitions import Place

_LABEL_DIGITS = 40


@dataclass(frozen=True)
class Owner:
    """One sink of one job, in one incarnation of its storage. It can be pickled, and goes to executors as it is.

    A name is::

        hg-<40 digits of a checksum of job, sink and incarnation>-<generation>-<batch>-<run>-<partition>-<task attempt>

    letters, digits and hyphens, and below 128 of them whatever the job is called.
    """

    job: str
    sink: SinkId
    incarnation: str

    @classmethod
    def of(cls, context: SinkContext) -> Self:
        """The one that a sink is opened for."""
        return cls(context.job, context.sink, context.incarnation)

    @property
    def digest(self) -> str:
        """A checksum of job, sink and incarnation."""
        return hashlib.sha256(json.dumps([self.job, self.sink, self.incarnation]).encode()).hexdigest()

    @property
    def label(self) -> str:
        """What all names of this owner begin with; a hyphen follows."""
        return f"hg-{self.digest[:_LABEL_DIGITS]}"

    def name(self, write_id: WriteId, place: Place) -> str:
        """The name of what one attempt of Spark at one partition writes for one attempt at a batch."""
        numbers = (*write_id.order, place.partition, place.task_attempt)
        return "-".join([self.label, *map(str, numbers)])

    def whose(self, name: str) -> WriteId | None:
        """The attempt at a batch that a name belongs to. None if it is not this owner's."""
        found = re.fullmatch(rf"{self.label}-([0-9]+)-([0-9]+)-([0-9]+)-[0-9]+-[0-9]+", name)
        return None if found is None else self.write_id(*map(int, found.groups()))

    def own(self, names: Iterable[str]) -> dict[str, WriteId]:
        """Those of these names that are this owner's, with the attempts that they belong to."""
        found = ((name, self.whose(name)) for name in names)
        return {name: write_id for name, write_id in found if write_id is not None}

    def write_id(self, generation: int, batch: int, run: int) -> WriteId:
        """The attempt at a batch with these numbers."""
        return WriteId(self.job, self.sink, Generation(generation), Batch(batch), Run(run))


def escaped(name: str) -> str:
    """A name as part of another. Two names are never escaped to the same, nor can one contain a dot or a slash."""
    return quote(name, safe="").replace(".", "%2E")
