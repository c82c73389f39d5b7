"""The names that a sink's transactions and sessions have in PostgreSQL.

One rule: a name says whose it is (job, sink, incarnation) and which attempt of which task made it (generation, batch,
run, partition, task attempt). So whatever is found on a server either parses in full, or is somebody else's.
"""

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import quote

from headgate.sink.api import WriteId
from headgate.sink.owner import Owner
from headgate.sink.partitions import Place

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

    write_id: WriteId
    place: Place


@dataclass(frozen=True)
class PostgresOwner(Owner):
    """Whose names they are. Here they can be read by people, and are below 200 bytes all the same."""

    @property
    def any_incarnation(self) -> str:
        """What the names of every incarnation of this sink begin with."""
        return f"{PREFIX}:{shortened(self.job)}:{shortened(self.sink)}:"

    @property
    def label(self) -> str:
        """What all names of this incarnation begin with; a colon follows."""
        return self.any_incarnation + shortened(self.incarnation)

    def name(self, write_id: WriteId, place: Place) -> str:
        """The identifier of a prepared transaction."""
        return f"{self.label}{_attempt(write_id)}:p{place.partition}:a{place.task_attempt}"

    def part(self, gid: str) -> Part | None:
        """The one that has this identifier. None if it is not this owner's."""
        if not gid.startswith(self.label) or (found := _TAIL.fullmatch(gid, len(self.label))) is None:
            return None
        *order, partition, task_attempt = map(int, found.groups())
        return Part(self.write_id(*order), Place(partition, task_attempt))

    def whose(self, name: str) -> WriteId | None:
        """The attempt at a batch that a prepared transaction belongs to. None if it is not this owner's."""
        part = self.part(name)
        return None if part is None else part.write_id

    @property
    def session(self) -> str:
        """What the names of all sessions of this incarnation begin with. They have room for less, so it is a digest."""
        return f"{PREFIX}:{_digest(self.label)}"

    def session_of(self, write_id: WriteId) -> str:
        """The name (``application_name``) of the sessions that write for an attempt."""
        return f"{self.session}{_attempt(write_id)}"

    def write_id_of(self, session: str) -> WriteId | None:
        """The attempt that a session writes for. None if it is not this owner's, or does not write."""
        if not session.startswith(self.session) or (found := _SESSION.fullmatch(session, len(self.session))) is None:
            return None
        return self.write_id(*map(int, found.groups()))


def shortened(name: str) -> str:
    """A name without colons or quotes. A long one is cut, and ends in a digest of the whole."""
    text = quote(name, safe="").replace("~", "%7E")
    return text if len(text) <= NAME_MAX else f"{text[:_HEAD]}~{_digest(name)}"


def _attempt(write_id: WriteId) -> str:
    return f":g{write_id.generation}:b{write_id.batch}:r{write_id.run}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
