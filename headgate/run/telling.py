"""Events, told to whoever watches a job.

One rule: whoever watches holds up nobody. Events wait in a queue of their own, with an end: for a watcher that does not
keep up, progress is left out first (the newest says it all), then the oldest of what the history has too.
"""

import collections
import threading
import time
from collections.abc import Callable

from headgate.view.history import Line

OnLine = Callable[[Line], None]

WAITING_MAX = 1_000
"""How many lines wait at most."""
PROGRESS = ("progress", "checking")
"""Of these only the last counts."""
OFTEN = ("checkpoint-triggered", "checkpoint-completed", "checkpoint-committed", "task-started")
"""What goes first, if something must."""
CLOSE_S = 5.0
"""A watcher who has taken nothing for this long is waited for no longer when the job is over."""
THREAD = "headgate-events"


class Teller:
    """Tells ``on_event`` on a thread of its own. What that raises ends the run, but for a reader that has gone."""

    def __init__(self, on_event: OnLine) -> None:
        """Nothing to tell yet."""
        self._on_event = on_event
        self._waiting: collections.deque[Line] = collections.deque()
        self._missed = 0
        self._told = 0
        self._busy = False
        self._closing = False
        self._error: BaseException | None = None
        self._failed: Callable[[BaseException], None] = lambda _: None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name=THREAD, daemon=True)
        self._thread.start()

    def put(self, line: Line) -> None:
        """Tell this in its turn. Never waits."""
        with self._changed:
            if self._closing or self._error is not None:
                return
            if line["event"] in PROGRESS:
                self._drop(lambda other: other["event"] == line["event"])
            elif len(self._waiting) >= WAITING_MAX:
                self._missed += 1
                if not self._drop(lambda other: other["event"] in OFTEN):
                    self._waiting.popleft()
            self._waiting.append(line)
            self._changed.notify_all()

    def when_failed(self, failed: Callable[[BaseException], None]) -> None:
        """Say who is to hear what ``on_event`` raised."""
        with self._changed:
            self._failed, error = failed, self._error
        if error is not None and not isinstance(error, BrokenPipeError):
            failed(error)

    def close(self) -> None:
        """Tell the rest, for as long as it is taken."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            told, since_s = self._told, time.monotonic()
            while (self._waiting or self._busy) and self._error is None:
                self._changed.wait(0.1)
                if self._told != told:
                    told, since_s = self._told, time.monotonic()
                elif time.monotonic() - since_s >= CLOSE_S:
                    self._waiting.clear()
                    return
        self._thread.join(CLOSE_S)

    def _drop(self, which: Callable[[Line], bool]) -> bool:
        """Drop the oldest such line, if there is one."""
        found = next((index for index, line in enumerate(self._waiting) if which(line)), None)
        if found is not None:
            del self._waiting[found]
        return found is not None

    def _serve(self) -> None:
        while (line := self._next()) is not None:
            try:
                self._on_event(line)
            except BaseException as error:  # noqa: BLE001 - it is the user's
                with self._changed:
                    self._error = error
                    self._waiting.clear()
                    self._busy = False
                    self._changed.notify_all()
                    failed = self._failed
                if not isinstance(error, BrokenPipeError):  # Whoever watched has gone, and may.
                    failed(error)
                return

    def _next(self) -> Line | None:
        with self._changed:
            if self._busy:
                self._busy = False
                self._told += 1
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting:
                return None
            self._busy = True
            if self._missed:
                text = f"{self._missed} events are not shown here, since they were not taken; the history has them"
                self._missed = 0
                return {"at": self._waiting[0]["at"], "event": "warning", "text": text}
            return self._waiting.popleft()


def is_stuck() -> bool:
    """Whether a watcher still holds an event, and so perhaps the lock of standard output."""
    return any(thread.name == THREAD and thread.is_alive() for thread in threading.enumerate())
