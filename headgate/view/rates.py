"""How fast tasks go. One rule: counts only grow, and a rate is what they grew by within the last few samples."""

from collections import deque
from dataclasses import dataclass, field

from headgate.core.ids import TaskId

SAMPLES_MAX = 6
"""How many samples of a count are kept: a rate is taken over five of the spans between them."""


@dataclass
class _Counted:
    rows: int = 0
    wait_ms: float = 0.0
    batch_rows: int | None = None
    samples: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))


class Rates:
    """What the tasks of one process have read, and how long they waited for their readers."""

    def __init__(self) -> None:
        """Nothing counted yet."""
        self._tasks: dict[TaskId, _Counted] = {}

    def read(self, task: TaskId, rows: int) -> None:
        """A batch of a task has read this many rows."""
        self._of(task).rows += rows

    def waited(self, task: TaskId, wait_ms: float) -> None:
        """A batch has waited this long in the hook before it was admitted."""
        self._of(task).wait_ms += wait_ms

    def sized(self, task: TaskId, batch_rows: int | None) -> None:
        """A batch of a task may have this many rows by now, if it sizes itself."""
        self._of(task).batch_rows = batch_rows

    def sample(self, now_ms: int) -> None:
        """Take the counts of now, to be compared with."""
        for counted in self._tasks.values():
            counted.samples.append((now_ms, counted.rows))

    def of(self, task: TaskId, now_ms: int) -> dict[str, float | int | None]:
        """A task's figures: rows since the process began, and a second of late; time spent waiting; size of batches."""
        counted = self._tasks.get(task) or _Counted()
        rate = None
        if counted.samples and now_ms > counted.samples[0][0]:
            since_ms, rows = counted.samples[0]
            rate = round((counted.rows - rows) * 1000 / (now_ms - since_ms), 1)
        waited = round(counted.wait_ms)
        return {"rows": counted.rows, "rows_per_s": rate, "wait_ms": waited, "batch_rows": counted.batch_rows}

    def _of(self, task: TaskId) -> _Counted:
        return self._tasks.setdefault(task, _Counted())
