"""Whether, when and how widely to try again after a failure.

One rule: the class of the failure decides the level, the strategy decides the delay, and both only ever see what they
are handed: no clock, and the jitter is drawn outside. A strategy's memory is a ``FailureHistory`` in the job's state.

Under exponential-delay each task has a history of its own, and the whole job one for when all of it goes back: what
takes twelve tasks down at once is the first failure of each. Where failures are counted against a limit of the job
(fixed-delay, failure-rate), there is one history.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from headgate.core.errors import InvalidSettings
from headgate.core.evolve import evolve
from headgate.core.ids import TaskId

FRUITLESS_MAX = 3
"""How many restarts of one task without a batch committed in between, then the whole job goes back."""


class FailureClass(Enum):
    """Who must act, which is all that a restart strategy wants to know of a failure."""

    USER = "user"
    """The user's code or data: the same batch will fail again."""
    EXTERNAL = "external"
    """Another system was away or busy: it may well work next time."""
    LOST_EXECUTOR = "lost-executor"
    """A worker process died under the batch."""
    INTERNAL = "internal"
    """We no longer trust what the tasks hold: everything goes back to the last checkpoint."""


@dataclass(frozen=True)
class Failure:
    """What failed, and its class."""

    kind: FailureClass
    message: str = ""


@dataclass(frozen=True)
class NoRestart:
    """The first failure ends the job."""


@dataclass(frozen=True)
class FixedDelay:
    """Wait the same time before each try. ``attempts_max`` of None never gives up."""

    delay_ms: int
    attempts_max: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is not valid."""
        _need(self.delay_ms >= 0, "fixed-delay: delay_ms must be 0 or more")
        _need(self.attempts_max is None or self.attempts_max >= 1, "fixed-delay: attempts_max must be 1 or more")


@dataclass(frozen=True)
class FailureRate:
    """Give up once more than ``failures_max`` failures fall into one ``interval_ms``."""

    failures_max: int
    interval_ms: int
    delay_ms: int

    def __post_init__(self) -> None:
        """Refuse what is not valid."""
        _need(self.failures_max >= 1, "failure-rate: failures_max must be 1 or more")
        _need(self.interval_ms >= 1, "failure-rate: interval_ms must be 1 or more")
        _need(self.delay_ms >= 0, "failure-rate: delay_ms must be 0 or more")


@dataclass(frozen=True)
class ExponentialDelay:
    """Wait longer each time, with jitter; after ``reset_after_ms`` without a failure begin again.

    ``jitter`` of 0.1 spreads a delay by ten per cent to either side.
    """

    initial_ms: int = 1_000
    maximum_ms: int = 60_000
    multiplier: float = 1.5
    jitter: float = 0.1
    reset_after_ms: int = 3_600_000
    attempts_max: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is not valid."""
        _need(self.initial_ms >= 1, "exponential-delay: initial_ms must be 1 or more")
        _need(self.maximum_ms >= self.initial_ms, "exponential-delay: maximum_ms must not be below initial_ms")
        _need(self.multiplier > 1, "exponential-delay: multiplier must be above 1")
        _need(0 <= self.jitter < 1, "exponential-delay: jitter must be at least 0 and below 1")
        _need(self.reset_after_ms >= 1, "exponential-delay: reset_after_ms must be 1 or more")
        _need(self.attempts_max is None or self.attempts_max >= 1, "exponential-delay: attempts_max must be 1 or more")


Strategy = NoRestart | FixedDelay | FailureRate | ExponentialDelay


@dataclass(frozen=True)
class FailureHistory:
    """What a strategy remembers. ``recent`` holds one failure more than ``FailureRate.failures_max`` at most."""

    attempts: int = 0
    backoff_ms: int = 0
    last_failure_ms: int | None = None
    recent: tuple[int, ...] = ()


@dataclass(frozen=True)
class Restarts:
    """What the job remembers of its restarts, and the one it waits for."""

    history: FailureHistory = FailureHistory()
    """Of restarts of the whole job."""
    histories: Mapping[TaskId, FailureHistory] = field(default_factory=dict)
    """Of restarts of single tasks, where each has its own."""
    restart_at_ms: int | None = None
    """When the whole job returns to its last checkpoint."""


class Level(Enum):
    """How much goes back."""

    TASK = "task"
    """The failed query alone, in place: Spark replays its uncommitted batch."""
    JOB = "job"
    """Everything, to the latest completed checkpoint, in a new generation."""


@dataclass(frozen=True)
class Restart:
    """Try again, after a delay."""

    level: Level
    delay_ms: int


@dataclass(frozen=True)
class GiveUp:
    """Do not try again, and say why."""

    why: str


def decide(
    strategy: Strategy,
    history: FailureHistory,
    failure: Failure,
    *,
    now_ms: int,
    chance: float,
    fruitless: int,
    skips: bool,
) -> tuple[FailureHistory, Restart | GiveUp]:
    """Answer one failure.

    ``chance`` in [0, 1) was drawn outside. ``fruitless`` counts this task's restarts without progress; ``skips`` says
    that a restart leaves the failed batch out (at-most-once), so that even a user's error need not repeat.
    """
    if failure.kind is FailureClass.USER and not skips:
        return history, GiveUp(f"the same batch would fail again: {failure.message}")
    history, delay_ms = _delay(strategy, history, now_ms, chance)
    if delay_ms is None:
        return history, GiveUp(f"{_name(strategy)} allows no further try: {failure.message}")
    return history, Restart(level_of(failure, fruitless), delay_ms)


def level_of(failure: Failure, fruitless: int) -> Level:
    """How much goes back after a failure, if it is tried again at all."""
    return Level.JOB if failure.kind is FailureClass.INTERNAL or fruitless >= FRUITLESS_MAX else Level.TASK


def is_alone(strategy: Strategy, failure: Failure, fruitless: int) -> bool:
    """Whether a failure is answered from the history of its task, and not from that of the whole job."""
    return isinstance(strategy, ExponentialDelay) and level_of(failure, fruitless) is Level.TASK


def _delay(
    strategy: Strategy, history: FailureHistory, now_ms: int, chance: float
) -> tuple[FailureHistory, int | None]:
    """The new history, and how long to wait; None for no further try."""
    match strategy:
        case NoRestart():
            return history, None
        case FixedDelay(delay_ms, attempts_max):
            after = evolve(history, attempts=history.attempts + 1, last_failure_ms=now_ms)
            return after, None if _exhausted(after.attempts, attempts_max) else delay_ms
        case FailureRate(failures_max, interval_ms, delay_ms):
            recent = (*(at for at in history.recent if at > now_ms - interval_ms), now_ms)
            after = evolve(
                history, attempts=history.attempts + 1, last_failure_ms=now_ms, recent=recent[-failures_max - 1 :]
            )
            return after, None if len(recent) > failures_max else delay_ms
        case ExponentialDelay():
            return _exponential(strategy, history, now_ms, chance)
        case _:
            assert_never(strategy)


def _exponential(
    strategy: ExponentialDelay, history: FailureHistory, now_ms: int, chance: float
) -> tuple[FailureHistory, int | None]:
    quiet = history.last_failure_ms is not None and now_ms - history.last_failure_ms >= strategy.reset_after_ms
    if history.attempts == 0 or quiet:
        attempts, backoff_ms = 1, strategy.initial_ms
    else:
        attempts = history.attempts + 1
        longer = max(history.backoff_ms + 1, history.backoff_ms * strategy.multiplier)
        backoff_ms = int(min(strategy.maximum_ms, longer))
    after = evolve(history, attempts=attempts, backoff_ms=backoff_ms, last_failure_ms=now_ms)
    if _exhausted(attempts, strategy.attempts_max):
        return after, None
    spread = strategy.jitter * backoff_ms
    return after, min(strategy.maximum_ms, max(0, round(backoff_ms + spread * (2 * chance - 1))))


def _exhausted(attempts: int, attempts_max: int | None) -> bool:
    return attempts_max is not None and attempts > attempts_max


def _name(strategy: Strategy) -> str:
    return {
        NoRestart: "restart strategy none",
        FixedDelay: "fixed-delay",
        FailureRate: "failure-rate",
        ExponentialDelay: "exponential-delay",
    }[type(strategy)]


def _need(holds: bool, message: str) -> None:  # noqa: FBT001 - a condition, not a flag
    if not holds:
        raise InvalidSettings(message)
