"""Windows of event time: ``headgate.windows.tumbling("at", "10min")``.

One rule: which windows a row is in is said by Spark's own ``window``, so they are those of any other query.
"""

from dataclasses import dataclass

from headgate.errors import InvalidOption
from headgate.values import Duration, duration_ms

__all__ = ["WindowAssigner", "sliding", "tumbling"]


@dataclass(frozen=True)
class WindowAssigner:
    """Which windows a row is in. Made by ``tumbling`` and ``sliding``."""

    time: str
    """The column of event time."""
    size_ms: int
    slide_ms: int
    """From the beginning of a window to that of the next."""
    offset_ms: int = 0
    """Windows begin this long after 1970-01-01 00:00 UTC, and every ``slide_ms`` before and after it."""


def tumbling(time: str, size: Duration, *, offset: Duration = 0) -> WindowAssigner:
    """Windows that follow each other: a row is in one. Spark's ``window(time, size)``."""
    return _assigner(time, size, size, offset)


def sliding(time: str, size: Duration, slide: Duration, *, offset: Duration = 0) -> WindowAssigner:
    """Windows that overlap, one every ``slide``: a row is in ``size / slide`` of them, and is kept in each."""
    return _assigner(time, size, slide, offset)


def _assigner(time: object, size: Duration, slide: Duration, offset: Duration) -> WindowAssigner:
    if not isinstance(time, str) or not time:
        raise InvalidOption(f"time={time!r} is not the name of a column: name the one of event time, time='at'")
    size_ms = duration_ms(size, name="size", example="10min", least=1)
    slide_ms = duration_ms(slide, name="slide", example="5min", least=1)
    offset_ms = duration_ms(offset, name="offset", example="8h")
    if slide_ms > size_ms:
        raise InvalidOption(
            f"slide={slide!r} is longer than size={size!r}: rows between two windows would be in none; "
            "leave such rows out before"
        )
    return WindowAssigner(time, size_ms, slide_ms, offset_ms % slide_ms)
