"""How many rows an attempt has written, as far as whoever writes them can tell.

One rule: only rows that were counted where they were written are told, and what is not known is None, never 0. Nothing
is computed for it: a writer tells a number that it has anyway.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Tally:
    """What one attempt has written."""

    rows: int | None = None
    """None: nobody has told."""
    unknown: bool = False
    """A part of it cannot be counted."""

    @property
    def known(self) -> int | None:
        """How many rows there are, if all of them were counted."""
        return None if self.unknown else self.rows


_current: ContextVar[Tally | None] = ContextVar("headgate_tally", default=None)


@contextmanager
def tallying() -> Iterator[Tally]:
    """Whatever is written in this thread meanwhile is told to this tally."""
    tally = Tally()
    token = _current.set(tally)
    try:
        yield tally
    finally:
        _current.reset(token)


def wrote(rows: int | None) -> None:
    """How many rows were written; None if that is not known. Where nobody asks it does nothing."""
    tally = _current.get()
    if tally is None:
        return
    if rows is None:
        tally.unknown = True
    else:
        tally.rows = (tally.rows or 0) + rows
