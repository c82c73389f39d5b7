"""Events on their way to whoever listens.

One rule: whoever listens holds up nobody, and while nobody listens nothing is done. What waits for a listener has an
end: the oldest goes first, and the listener is told how many it has missed.
"""

import collections
import threading
from collections.abc import Callable, Sequence

from headgate.view.history import LineView

WAITING_MAX = 256
"""How many events wait for one listener."""
LISTENERS_MAX = 16


class EventListener:
    """One of those who listen. ``wake`` is called from any thread when there is something to take."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Nothing waits."""
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: collections.deque[LineView] = collections.deque()
        self._missed = 0
        self._over: str | None = None

    def put(self, lines: Sequence[LineView]) -> None:
        """Let these wait for it."""
        with self._lock:
            first = not self._waiting
            self._waiting.extend(lines)
            while len(self._waiting) > WAITING_MAX:
                self._waiting.popleft()
                self._missed += 1
        if first:
            self._wake()

    def end(self, why: str) -> None:
        """There will be no more."""
        with self._lock:
            self._over = why
        self._wake()

    def take(self) -> tuple[list[LineView], int, str | None]:
        """What has come, how many were missed before it, and why there will be no more, if that is so."""
        with self._lock:
            lines, missed = list(self._waiting), self._missed
            self._waiting.clear()
            self._missed = 0
            return lines, missed, self._over


class Broadcast:
    """Those who listen to one job."""

    def __init__(self) -> None:
        """Nobody listens."""
        self._lock = threading.Lock()
        self._listeners: tuple[EventListener, ...] = ()
        self._over: str | None = None

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def publish(self, lines: Sequence[LineView]) -> None:
        """Tell those who listen. From any thread; never waits."""
        for listener in self._listeners:
            listener.put(lines)

    def join(self, wake: Callable[[], None]) -> EventListener | None:
        """Listen from now on. None if too many do already."""
        with self._lock:
            if len(self._listeners) >= LISTENERS_MAX:
                return None
            listener = EventListener(wake)
            self._listeners = (*self._listeners, listener)
            over = self._over
        if over is not None:
            listener.end(over)
        return listener

    def leave(self, listener: EventListener) -> None:
        """Listen no more."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

    def close(self, why: str) -> None:
        """There will be no more events."""
        with self._lock:
            self._over = why
        for listener in self._listeners:
            listener.end(why)
