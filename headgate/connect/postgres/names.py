"""The names that a sink's transactions and sessions have in PostgreSQL.

One rule: a name says whose it is (job, sink, incarnation) and which attempt of which task made it (generation, batch,
run, partition, task attempt). So whatever is found on a server either parses in full, or is somebody else's.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote

from headgate.core.ids import Batch, Generation, Run, SinkId
from headgate.sink.api import SinkContext, WriteId

PREFIX = "headgate"
NAME_MAX = 36
"""Bytes that the name of a job, a sink or an incarnation may have here: three of them and five numbers stay below
200."""
_HEAD = 19
_DIGITS = 16
_TAIL = re.compile(r":g(\d+):b(\d+):r(\d+):p(\d+):a(\d+)")
_SESSION = re.compile(r":g(\d+):b(\d+):r(\d+)")


@dataclass(frozen=True)
class Part:
    """What one attempt of Spark at one partition writes for one attempt at a batch: one prepared transaction."""

    generation: Generation
    batch: Batch
    run: Run
    partition: int
    task_attempt: int


@dataclass(frozen=True)
class Owner:
    """Whose names they are: one sink of one job, in one incarnation of its storage."""

    job: str
    sink: SinkId
    incarnation: str

    @classmethod
    def of(cls, context: SinkContext) -> Self:
        """The one that a sink is opened for."""
        return cls(context.job, context.sink, context.incarnation)

    @property
    def any_incarnation(self) -> str:
        """What the names of every incarnation of this sink begin with."""
        return f"{PREFIX}:{escaped(self.job)}:{escaped(self.sink)}:"

    @property
    def name(self) -> str:
        """What all names of this incarnation begin with; a colon follows."""
        return self.any_incarnation + escaped(self.incarnation)

    def gid(self, part: Part) -> str:
        """The identifier of a prepared transaction."""
        return f"{self.name}:g{part.generation}:b{part.batch}:r{part.run}:p{part.partition}:a{part.task_attempt}"

    def part(self, gid: str) -> Part | None:
        """The one that has this identifier. None if it is not this owner's."""
        if not gid.startswith(self.name) or (found := _TAIL.fullmatch(gid, len(self.name))) is None:
            return None
        generation, batch, run, partition, task_attempt = (int(number) for number in found.groups())
        return Part(Generation(generation), Batch(batch), Run(run), partition, task_attempt)

    def write_id(self, part: Part) -> WriteId:
        """The attempt at a batch that a part belongs to."""
        return WriteId(self.job, self.sink, part.generation, part.batch, part.run)

    @property
    def session(self) -> str:
        """What the names of all sessions of this incarnation begin with. They have room for less, so it is a digest."""
        return f"{PREFIX}:{_digest(self.name)}"

    def session_of(self, write_id: WriteId) -> str:
        """The name (``application_name``) of the sessions that write for an attempt."""
        return f"{self.session}:g{write_id.generation}:b{write_id.batch}:r{write_id.run}"

    def write_id_of(self, session: str) -> WriteId | None:
        """The attempt that a session writes for. None if it is not this owner's, or does not write."""
        if not session.startswith(self.session) or (found := _SESSION.fullmatch(session, len(self.session))) is None:
            return None
        generation, batch, run = (int(number) for number in found.groups())
        return WriteId(self.job, self.sink, Generation(generation), Batch(batch), Run(run))


def escaped(name: str) -> str:
    """A name without colons or quotes. A long one is cut, and ends in a digest of the whole."""
    text = quote(name, safe="").replace("~", "%7E")
    return text if len(text) <= NAME_MAX else f"{text[:_HEAD]}~{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
