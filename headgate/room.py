"""Which disk is full.

One rule: a place is blamed only if its own file system has no room. What Spark says of a full disk names neither the
disk nor the file: state, segments, shuffles and the output of a sink are written in one action, often to several disks.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

LITTLE = 64 << 20
"""Less than this does not count as room: what failed to be written is removed again, and leaves its place."""
SAID = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT))


def said(error: BaseException) -> str | None:
    """What the system said, if an error is about room."""
    text = str(error)
    return next((words for words in SAID if words in text), None)


def left(place: Path) -> int | None:
    """The bytes that a user may still write there. None if nobody can say."""
    try:
        found = os.statvfs(place)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def is_full(place: Path) -> bool:
    """Whether a place has no room."""
    free = left(place)
    return free is not None and free < LITTLE


def blame(error: BaseException, places: Mapping[str, Path]) -> str | None:
    """Which of the places is full, in one line, if an error is about room. ``places`` are named for people."""
    reason = said(error)
    if reason is None:
        return None
    for name, place in places.items():
        if is_full(place):
            return f"{name} {place} has {(left(place) or 0) >> 20} MB left: {reason}: make room there"
    room = ", ".join(f"{name} {place} has {free >> 20} MB" for name, place in places.items() if (free := left(place)))
    return f"{reason}, on a disk of an executor or for a quota of this user ({room} left here): make room there"
