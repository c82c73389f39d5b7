"""When a run was last heard of, and what it has been at since.

One rule: it says how long something takes, and judges nothing. What has taken too long is said in
``headgate.run.stalls``.
"""

import time
from dataclasses import dataclass

BETWEEN = "no batch has begun, and Spark has not said that there is nothing to do,"
SET_BACK_S = 5.0
"""A clock that was set back by less is waited for."""


@dataclass(frozen=True)
class Doing:
    """What a run is at: in words, for how long, for how long lately at most, and on which of our threads, if any."""

    text: str
    for_s: float
    usual_s: float
    thread: int | None


class Heartbeat:
    """The last sign of one run. Signs come from several threads; whoever looks wants no more than a recent one."""

    def __init__(self) -> None:
        """Nothing is under way."""
        self._stage: str | None = None
        self._thread: int | None = None
        self._signed_s = time.monotonic()
        self._usual_s = 0.0
        self._ahead_s = _ahead_s()

    def launch(self) -> None:
        """A query is being launched: from now on a clock that is set back is noticed."""
        self._ahead_s = _ahead_s()
        self.sign(BETWEEN)

    def sign(self, stage: str | None, thread: int | None = None) -> None:
        """Say what the run is at, if that should not take long, and on which of our threads."""
        now_s = time.monotonic()
        if self._stage is not None:
            self._usual_s = max(now_s - self._signed_s, self._usual_s * 0.9)
        self._stage, self._thread, self._signed_s = stage, thread, now_s

    def sign_between(self) -> None:
        """Spark has said that a batch is over, or that there is none. A batch that is on a thread of ours is later."""
        if self._thread is None:
            self.sign(BETWEEN)

    def doing(self) -> Doing | None:
        """What the run has been at since it was last heard of. None: nothing that should come to an end."""
        stage, thread, signed_s = self._stage, self._thread, self._signed_s
        return None if stage is None else Doing(stage, time.monotonic() - signed_s, self._usual_s, thread)

    def waits_for_the_past(self, trigger_ms: int | None) -> bool:
        """Whether the next batch waits for a time that is far away since the machine's clock was set back."""
        trigger_s = (trigger_ms or 0) / 1000
        return (
            trigger_s > 0
            and self._stage == BETWEEN
            and _ahead_s() < self._ahead_s - SET_BACK_S
            and time.monotonic() - self._signed_s > trigger_s + SET_BACK_S
        )


def _ahead_s() -> float:
    """By how much the wall's clock is ahead of one that only runs on. Less than before: it was set back."""
    return time.time() - time.monotonic()
