"""What part of late a task was busy, backpressured, idle.

One rule: at every moment of a window that slides a task is in one of three states, as in Flink: *busy* with a batch,
*backpressured* (a batch waits for the task's readers, or for room in a sink), or *idle*, without data. What a batch
took that is over Spark says; of the one under way it counts how long it has waited, or worked, so far.

Memory is bounded: a bucket for each second of the window, whatever happens in it.
"""

from dataclasses import dataclass

from headgate.core.ids import Batch

BUCKET_MS = 1_000
BUCKETS = 30
"""The window: a ratio is over the last half a minute, or the time since the task began if that is shorter."""
UNDER_WAY_MAX = 4
"""Of this many batches it is kept how long they waited. Spark's word on a batch may come when the next has begun."""
LOW, HIGH = 0.1, 0.5
"""Above these ratios backpressure is low, and high, as Flink's."""


@dataclass
class _Wait:
    """A batch in the hook: it waits from ``since_ms`` until ``until_ms``, and then works."""

    since_ms: int
    until_ms: int | None = None
    held_up_ms: float = 0.0


@dataclass
class _Bucket:
    number: int = -1
    busy_ms: float = 0.0
    backpressured_ms: float = 0.0


class Busy:
    """One task."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._begun_ms: int | None = None
        self._buckets = [_Bucket() for _ in range(BUCKETS)]
        self._waits: dict[Batch, _Wait] = {}
        self._now: tuple[Batch, _Wait] | None = None
        """The batch in the hook."""

    def began(self, now_ms: int) -> None:
        """A run of the task is up. What was under way is not, any more."""
        self._begun_ms = now_ms if self._begun_ms is None else self._begun_ms
        self._waits, self._now = {}, None

    def entered(self, now_ms: int, batch: Batch) -> None:
        """A batch has come to the hook."""
        wait = _Wait(now_ms)
        self._waits[batch], self._now = wait, (batch, wait)
        while len(self._waits) > UNDER_WAY_MAX:
            del self._waits[next(iter(self._waits))]

    def admitted(self, now_ms: int, batch: Batch) -> None:
        """It may go on."""
        wait = self._waits.get(batch)
        if wait is not None and wait.until_ms is None:
            self._add(wait.since_ms, now_ms, backpressured=True)
            wait.until_ms = now_ms

    def held_up(self, batch: Batch, ms: float) -> None:
        """It has waited for room in a sink for this long, once it was admitted."""
        if batch in self._waits:
            self._waits[batch].held_up_ms += ms

    def over(self, now_ms: int, batch: Batch, took_ms: int) -> None:
        """Spark says that a batch is over."""
        wait = self._waits.pop(batch, None)
        if self._now is not None and self._now[0] == batch:
            self._now = None
        since_ms = now_ms - took_ms
        if wait is not None and wait.until_ms is not None:
            held_up_until_ms = min(now_ms, wait.until_ms + round(wait.held_up_ms))
            self._add(min(since_ms, wait.since_ms), wait.since_ms)
            self._add(wait.until_ms, held_up_until_ms, backpressured=True)
            since_ms = held_up_until_ms
        self._add(since_ms, now_ms)

    def ratios(self, now_ms: int) -> tuple[float, float, float] | None:
        """Busy, idle and backpressured. They add up to 1. None if no run of the task has been up."""
        if self._begun_ms is None:
            return None
        oldest = now_ms // BUCKET_MS - BUCKETS + 1
        since_ms = max(self._begun_ms, oldest * BUCKET_MS)
        window_ms = max(1, now_ms - since_ms)
        busy_ms = backpressured_ms = 0.0
        for bucket in self._buckets:
            if bucket.number >= oldest:
                busy_ms += bucket.busy_ms
                backpressured_ms += bucket.backpressured_ms
        present = self._now
        if present is not None:
            wait = present[1]
            if wait.until_ms is None:
                backpressured_ms += now_ms - max(since_ms, wait.since_ms)
            else:
                busy_ms += now_ms - max(since_ms, wait.until_ms)
        backpressured = min(1.0, max(0.0, backpressured_ms / window_ms))
        busy = min(1.0 - backpressured, max(0.0, busy_ms / window_ms))
        return round(busy, 3), round(max(0.0, 1 - busy - backpressured), 3), round(backpressured, 3)

    def under_way_ms(self, now_ms: int) -> int:
        """How long ago the batch in the hook came there; 0 if none is."""
        return 0 if self._now is None else now_ms - self._now[1].since_ms

    def _add(self, since_ms: int, until_ms: int, *, backpressured: bool = False) -> None:
        """Share a span out over the seconds that it is in, as far as the window goes back."""
        first = max(since_ms // BUCKET_MS, until_ms // BUCKET_MS - BUCKETS + 1)
        for number in range(first, until_ms // BUCKET_MS + 1):
            begin_ms = number * BUCKET_MS
            ms = min(until_ms, begin_ms + BUCKET_MS) - max(since_ms, begin_ms)
            if ms > 0:
                self._add_to(number, ms, backpressured=backpressured)

    def _add_to(self, number: int, ms: int, *, backpressured: bool) -> None:
        """No second has more than its thousand milliseconds: what two batches claim is counted once."""
        bucket = self._buckets[number % BUCKETS]
        if number < bucket.number:
            return
        if number > bucket.number:
            bucket.number, bucket.busy_ms, bucket.backpressured_ms = number, 0.0, 0.0
        free_ms = BUCKET_MS - bucket.busy_ms - bucket.backpressured_ms
        if backpressured:
            bucket.backpressured_ms += min(ms, free_ms)
        else:
            bucket.busy_ms += min(ms, free_ms)


def level(backpressured: float) -> str:
    """The word for a ratio: ``ok``, ``low`` or ``high``."""
    return "ok" if backpressured <= LOW else "low" if backpressured <= HIGH else "high"
