"""What a user would want to know before it costs them something.

One rule: each piece of advice is given once, and says what was seen and what to do. ``headgate doctor`` says the same
of a job whenever it is asked.
"""

from collections import deque
from statistics import median

from headgate.core.ids import TaskId

SEEN_MIN = 5
"""How many batches are looked at before anything is said of them."""


class Advice:
    """Watches batches on behalf of one job."""

    def __init__(self, interval_ms: int | None) -> None:
        """``interval_ms`` is the time from one checkpoint to the next, if there is one."""
        self._interval_ms = interval_ms
        self._batches: dict[TaskId, deque[float]] = {}
        self._given = False

    def batch(self, task: TaskId, took_ms: float) -> str | None:
        """A batch took this long. Says so if checkpoints are wanted more often than there is anything new to them."""
        if self._interval_ms is None or self._given:
            return None
        seen = self._batches.setdefault(task, deque(maxlen=SEEN_MIN))
        seen.append(took_ms)
        typical = median(seen)
        if len(seen) < SEEN_MIN or typical <= self._interval_ms:
            return None
        self._given = True
        return ": ".join(longer_than_interval(task, typical, self._interval_ms))


def longer_than_interval(task: TaskId, typical_ms: float, interval_ms: int) -> tuple[str, str]:
    """What was seen of batches that take longer than the interval, and what to do."""
    return (
        f"batches of task {task} take about {typical_ms:.0f} ms, and checkpoints are wanted every {interval_ms} ms",
        "raise the interval, or make batches smaller",
    )
