"""Lines of history, on their way to the storage.

One rule: history holds up nobody. Whoever has lines leaves them here and goes on; a serial executor writes all that
wait in one go. Their number has an end: what comes when too many wait, and what could not be written, is not there,
and a line says so (``gap``) as soon as one can be written again.
"""

import threading
from collections.abc import Callable

from headgate.errors import HeadgateError
from headgate.task.logs import logger
from headgate.view.history import Line

WAITING_MAX = 10_000
"""How many lines wait at most."""


class HistoryAppender:
    """``append`` writes lines, on the executor that ``later`` puts work on."""

    def __init__(self, append: Callable[[list[Line]], None], later: Callable[[Callable[[], None]], None]) -> None:
        """Nothing waits."""
        self._append = append
        self._later = later
        self._waiting: list[Line] = []
        self._missing = 0
        self._why = ""
        self._lock = threading.Lock()

    def put(self, lines: list[Line]) -> None:
        """Have these written in their turn. Never waits."""
        with self._lock:
            room = max(0, WAITING_MAX - len(self._waiting))
            first = not self._waiting
            self._waiting += lines[:room]
            if room < len(lines):
                self._missing += len(lines) - room
                self._why = "the storage was too slow"
        if first:
            self._later(self.drain)

    def drain(self) -> None:
        """Write what waits. A job does not end because a line of its history could not be written."""
        with self._lock:
            lines, self._waiting = self._waiting, []
            missing, why, self._missing = self._missing, self._why, 0
        if not lines:
            return
        if missing:
            lines = [{"at": lines[0]["at"], "event": "gap", "lines": missing, "why": why}, *lines]
        try:
            self._append(lines)
        except (HeadgateError, OSError) as error:
            if not missing:  # Once for each gap, however many lines it has.
                logger.warning("the history of the job has a gap: %s", error)
            with self._lock:
                self._missing += missing + len(lines) - bool(missing)
                self._why = str(error)
