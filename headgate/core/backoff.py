"""How long to wait before the next try.

One rule: each wait is twice as long as the one before, up to a longest.
"""

from typing import TypeVar

Time = TypeVar("Time", int, float)

DOUBLINGS_MAX = 30
"""After this many doublings the longest pause has long been reached; more would only make large numbers."""


def delay(first: Time, longest: Time, failures: int) -> Time:
    """The wait after the first failure, or after this many more."""
    return min(longest, first * (1 << min(failures, DOUBLINGS_MAX)))
