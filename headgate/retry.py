"""When something that failed is tried again.

One rule: whoever tries again has a policy. It says how long a pause may be; how much of it is left to chance, so that
those who failed together do not come back together; and after how many tries or seconds it is given up. No pause goes
past those seconds. Which errors are worth another try is for the caller to say: only what may be done twice.

This is for calls that come back within seconds. What is tried for as long as a job runs (commits, records, tasks) is
decided by the core, which knows no pauses: ``core.commit``, ``core.checkpoint_log``, ``core.restart``.
"""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from headgate.core.backoff import delay

Returned = TypeVar("Returned")


@dataclass(frozen=True)
class RetryPolicy:
    """Pauses, and where they end."""

    first_s: float
    """The longest that the first pause can be. Each next may be twice as long."""
    longest_s: float
    jitter: float = 0.5
    """The share of a pause that is left to chance: 0 for none of it, 1 for all."""
    tries: int | None = None
    """How often it is tried in all; None for no such bound."""
    seconds: float | None = None
    """How long it is tried in all; None for no such bound."""

    def within(self, seconds: float) -> "RetryPolicy":
        """The same, for this long."""
        return replace(self, seconds=seconds)

    def call(self, work: Callable[[], Returned], transient: Callable[[Exception], bool]) -> Returned:
        """The outcome of the first try that succeeds; else the error that is not transient, or the last one."""
        retry = Retry(self)
        while True:
            try:
                return work()
            except Exception as error:
                if not transient(error) or not retry.again():
                    raise


class Retry:
    """One thing that is tried by a policy, since this was made."""

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """``chance`` gives numbers from 0 to below 1."""
        self._policy = policy
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._began = clock()
        self._failures = 0

    @property
    def tried_s(self) -> float:
        """The seconds since it began."""
        return self._clock() - self._began

    @property
    def left_s(self) -> float:
        """The seconds until it is given up."""
        return math.inf if self._policy.seconds is None else self._policy.seconds - self.tried_s

    def again(self) -> bool:
        """After a failure: pause, and then True; or False at once if it is to be given up."""
        policy = self._policy
        pause_s = delay(policy.first_s, policy.longest_s, self._failures) * (1 - policy.jitter * self._chance())
        self._failures += 1
        if self._failures == policy.tries or pause_s >= self.left_s:
            return False
        self._sleep(pause_s)
        return True
