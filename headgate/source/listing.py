"""The files of a log directory, in the order of their names.

One rule: a listing costs next to nothing while the directory stays as it is. A planner asks many times a second, so the
directory's time of change is looked at first, and its entries only if that is new. While it is so fresh that a further
change could hide behind the same time stamp, they are looked at a few times more, each time after twice as long.
"""

import os
import time
from pathlib import Path

from headgate.errors import BadStorage, ExternalError

IGNORED_PREFIXES = (".", "_")
IGNORED_SUFFIXES = (".tmp", ".part", ".partial", ".inprogress", "._COPYING_", "~")
"""What writers call a file that is not finished yet."""
SETTLED_S = 2.0
"""File systems round time stamps to as much as this."""
LOOK_AGAIN_S = 0.01
"""From a change to the first further look, and from one look at the time of change to the next."""


class Listing:
    """One directory, as last seen. Lives in the planner; a new one knows nothing and lists at once."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._names: list[str] = []
        self._changed_ns = -1
        self._first_seen_s = 0.0
        self._next_look_s: float | None = None

    def names(self) -> list[str]:
        """The names of all finished files, sorted. The same list object as before, if nothing has changed."""
        try:
            # Before the entries are read: a change in between then shows as a new time next time.
            changed_ns = Path(self._directory).stat().st_mtime_ns
            now_s = time.monotonic()
            if changed_ns != self._changed_ns:
                self._changed_ns, self._first_seen_s = changed_ns, now_s
            elif self._next_look_s is None or now_s < self._next_look_s:
                return self._names
            found = finished(self._directory)
        except FileNotFoundError:
            raise BadStorage(f"there is no directory {self._directory}: create it, or correct the path") from None
        except OSError as error:
            raise ExternalError(f"{self._directory} cannot be listed: {error}") from error
        age_s = now_s - self._first_seen_s
        settled = age_s >= SETTLED_S
        self._next_look_s = None if settled else self._first_seen_s + min(max(2 * age_s, LOOK_AGAIN_S), SETTLED_S)
        if found != self._names:
            self._names = found
        return self._names

    def wait_past(self, file: str, wait_s: float) -> list[str]:
        """The names, as soon as there is one after ``file``, or when ``wait_s`` is over."""
        deadline_s = time.monotonic() + wait_s
        while True:
            names = self.names()
            if (names and names[-1] > file) or time.monotonic() >= deadline_s:
                return names
            time.sleep(LOOK_AGAIN_S)


def finished(directory: str) -> list[str]:
    """List the directory: all files but hidden and unfinished ones, sorted. A folder among them is an error."""
    names = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(IGNORED_PREFIXES) or entry.name.endswith(IGNORED_SUFFIXES):
                continue
            if entry.is_dir():
                raise BadStorage(
                    f"{directory} holds the folder {entry.name!r}, which would not be read: "
                    f"move it out, or start its name with '_'"
                )
            names.append(entry.name)
    return sorted(names)
