"""Values that users write in many places.

One rule: each is checked where it is written, and the message shows a good one.
"""

import math
import re
from datetime import timedelta

from headgate.errors import InvalidOption

Duration = str | int | float | timedelta
"""A time span: ``"500ms"``, ``"10s"``, ``"2min"``, ``"1h"``, ``"1d"``, a number of seconds, or a ``timedelta``."""

_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)\s*")


def duration_ms(value: Duration, *, name: str = "duration", example: str = "10s", least: int = 0) -> int:
    """The whole milliseconds of a time span. ``name`` and ``example`` are for the message where it is not one."""
    milliseconds = _milliseconds(value)
    if milliseconds is None:
        raise InvalidOption(
            f"{name}={value!r} is not a valid duration: write a number with ms, s, min, h or d, {name}={example!r}"
        )
    if milliseconds < least:
        raise InvalidOption(f"{name}={value!r} is too short: it must be {least} ms or more, {name}={example!r}")
    return milliseconds


def count(value: object, *, name: str, example: int = 1, least: int = 0) -> int:
    """A whole number of things."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(f"{name}={value!r} is not a valid whole number: write {name}={example}")
    if value < least:
        raise InvalidOption(f"{name}={value!r} is too few: it must be {least} or more, {name}={example}")
    return value


def _milliseconds(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int() | float():
            return round(value * 1_000) if math.isfinite(value) else None
        case timedelta():
            return round(value / timedelta(milliseconds=1))
        case str():
            span = _SPAN.fullmatch(value)
            return round(float(span[1]) * _UNITS_MS[span[2]]) if span else None
        case _:
            return None
