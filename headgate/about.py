"""What the work at hand is about: which task, checkpoint and batch.

One rule: it is for the lines of a log, and nothing is decided by it. Whoever begins a piece of work says what it is
about, in the thread that does it; whoever writes a line asks.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

FIELDS = ("job", "task", "checkpoint", "batch")

_ABOUT: ContextVar[Mapping[str, object] | None] = ContextVar("headgate-about", default=None)


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """While this lasts, the work is about these, and about what it was about before. What is None is not known."""
    before = _ABOUT.get()
    token = _ABOUT.set({**(before or {}), **{name: value for name, value in fields.items() if value is not None}})
    try:
        yield
    finally:
        _ABOUT.reset(token)


def known() -> Mapping[str, object]:
    """What is known of the work of this thread."""
    return _ABOUT.get() or {}
