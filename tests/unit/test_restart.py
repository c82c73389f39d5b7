from collections.abc import Callable

import pytest

from headgate.core.errors import InvalidSettings
from headgate.core.restart import (
    FRUITLESS_MAX,
    ExponentialDelay,
    Failure,
    FailureClass,
    FailureHistory,
    FailureRate,
    FixedDelay,
    GiveUp,
    Level,
    NoRestart,
    Restart,
    Strategy,
    decide,
)

LOST = Failure(FailureClass.LOST_EXECUTOR, "worker 7 died")
PLAIN = ExponentialDelay(initial_ms=100, maximum_ms=1_000, multiplier=2, jitter=0, reset_after_ms=5_000)


def answer(
    strategy: Strategy,
    history: FailureHistory,
    failure: Failure = LOST,
    *,
    now_ms: int = 0,
    chance: float = 0.5,
    fruitless: int = 0,
    skips: bool = False,
) -> tuple[FailureHistory, Restart | GiveUp]:
    return decide(strategy, history, failure, now_ms=now_ms, chance=chance, fruitless=fruitless, skips=skips)


def delays(strategy: Strategy, times_ms: list[int], chance: float = 0.5) -> list[int | None]:
    """What a strategy answers to failures at these times; None where it gives up."""
    history, found = FailureHistory(), list[int | None]()
    for now_ms in times_ms:
        history, what = answer(strategy, history, now_ms=now_ms, chance=chance)
        found.append(what.delay_ms if isinstance(what, Restart) else None)
    return found


@pytest.mark.parametrize(
    ("kind", "fruitless", "level"),
    [
        (FailureClass.EXTERNAL, 0, Level.TASK),
        (FailureClass.LOST_EXECUTOR, FRUITLESS_MAX - 1, Level.TASK),
        (FailureClass.LOST_EXECUTOR, FRUITLESS_MAX, Level.JOB),
        (FailureClass.INTERNAL, 0, Level.JOB),
    ],
)
def test_the_class_of_the_failure_decides_how_much_goes_back(kind: FailureClass, fruitless: int, level: Level) -> None:
    _, what = answer(FixedDelay(7), FailureHistory(), Failure(kind), fruitless=fruitless)
    assert what == Restart(level, 7)


def test_an_error_of_the_user_is_not_tried_again() -> None:
    before = FailureHistory(attempts=3)
    after, what = answer(FixedDelay(7), before, Failure(FailureClass.USER, "division by zero"))
    assert after == before
    assert what == GiveUp("the same batch would fail again: division by zero")


def test_an_error_of_the_user_is_tried_again_where_the_batch_is_skipped() -> None:
    _, what = answer(FixedDelay(7), FailureHistory(), Failure(FailureClass.USER), skips=True)
    assert what == Restart(Level.TASK, 7)


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        (NoRestart(), "restart strategy none"),
        (FixedDelay(0, attempts_max=1), "fixed-delay"),
        (FailureRate(1, 10, 0), "failure-rate"),
        (ExponentialDelay(attempts_max=1), "exponential-delay"),
    ],
)
def test_giving_up_names_the_strategy_and_the_failure(strategy: Strategy, name: str) -> None:
    history, _ = answer(strategy, FailureHistory())
    _, what = answer(strategy, history)
    assert what == GiveUp(f"{name} allows no further try: worker 7 died")


def test_without_restarts_the_first_failure_ends_the_job() -> None:
    assert delays(NoRestart(), [0]) == [None]


def test_a_fixed_delay_is_the_same_each_time_until_the_attempts_are_used_up() -> None:
    assert delays(FixedDelay(7, attempts_max=2), [0, 10, 99]) == [7, 7, None]
    assert delays(FixedDelay(7), [0] * 50) == [7] * 50


def test_a_failure_rate_bears_so_many_failures_in_one_interval() -> None:
    strategy = FailureRate(failures_max=2, interval_ms=100, delay_ms=7)
    assert delays(strategy, [0, 50, 99]) == [7, 7, None]
    assert delays(strategy, [0, 50, 100, 150, 200]) == [7, 7, 7, 7, 7]
    assert delays(strategy, [0, 50, 100, 149]) == [7, 7, 7, None]


def test_a_failure_rate_remembers_no_more_than_it_needs() -> None:
    strategy, history = FailureRate(failures_max=2, interval_ms=100, delay_ms=7), FailureHistory()
    for now_ms in range(50):
        history, _ = answer(strategy, history, now_ms=now_ms)
    assert history.recent == (47, 48, 49)
    assert history.attempts == 50


def test_an_exponential_delay_grows_to_its_maximum() -> None:
    assert delays(PLAIN, [0, 1, 2, 3, 4, 5]) == [100, 200, 400, 800, 1_000, 1_000]


def test_an_exponential_delay_begins_again_after_a_quiet_time() -> None:
    assert delays(PLAIN, [0, 10, 5_009, 10_009, 10_010]) == [100, 200, 400, 100, 200]


def test_an_exponential_delay_gives_up_when_its_attempts_are_used_up_unless_it_was_quiet() -> None:
    strategy = ExponentialDelay(initial_ms=100, multiplier=2, jitter=0, reset_after_ms=5_000, attempts_max=2)
    assert delays(strategy, [0, 1, 2]) == [100, 200, None]
    assert delays(strategy, [0, 1, 5_001, 5_002]) == [100, 200, 100, 200]


@pytest.mark.parametrize(("chance", "delay_ms"), [(0.0, 900), (0.5, 1_000), (0.75, 1_050), (0.999, 1_100)])
def test_jitter_spreads_a_delay_to_either_side(chance: float, delay_ms: int) -> None:
    assert delays(ExponentialDelay(), [0], chance) == [delay_ms]


def test_jitter_does_not_lift_a_delay_over_the_maximum() -> None:
    strategy = ExponentialDelay(initial_ms=100, maximum_ms=100, jitter=0.5)
    assert delays(strategy, [0], 0.0) == [50]
    assert delays(strategy, [0], 0.999) == [100]


def test_jitter_does_not_feed_the_next_delay() -> None:
    strategy = ExponentialDelay(initial_ms=100, multiplier=2, jitter=0.5)
    assert delays(strategy, [0, 1, 2], 0.0) == [50, 100, 200]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedDelay(-1), "fixed-delay: delay_ms must be 0 or more"),
        (lambda: FixedDelay(0, attempts_max=0), "fixed-delay: attempts_max must be 1 or more"),
        (lambda: FailureRate(0, 1, 0), "failure-rate: failures_max must be 1 or more"),
        (lambda: FailureRate(1, 0, 0), "failure-rate: interval_ms must be 1 or more"),
        (lambda: FailureRate(1, 1, -1), "failure-rate: delay_ms must be 0 or more"),
        (lambda: ExponentialDelay(initial_ms=0), "exponential-delay: initial_ms must be 1 or more"),
        (
            lambda: ExponentialDelay(initial_ms=9, maximum_ms=8),
            "exponential-delay: maximum_ms must not be below initial_ms",
        ),
        (lambda: ExponentialDelay(multiplier=1), "exponential-delay: multiplier must be above 1"),
        (lambda: ExponentialDelay(jitter=-0.1), "exponential-delay: jitter must be at least 0 and below 1"),
        (lambda: ExponentialDelay(jitter=1), "exponential-delay: jitter must be at least 0 and below 1"),
        (lambda: ExponentialDelay(reset_after_ms=0), "exponential-delay: reset_after_ms must be 1 or more"),
        (lambda: ExponentialDelay(attempts_max=0), "exponential-delay: attempts_max must be 1 or more"),
    ],
)
def test_a_strategy_that_cannot_hold_is_refused(make: Callable[[], Strategy], message: str) -> None:
    with pytest.raises(InvalidSettings, match=f"^{message}$"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedDelay(0, attempts_max=1),
        lambda: FailureRate(1, 1, 0),
        lambda: ExponentialDelay(
            initial_ms=1, maximum_ms=1, multiplier=1.01, jitter=0, reset_after_ms=1, attempts_max=1
        ),
    ],
)
def test_a_strategy_may_stand_at_its_least_values(make: Callable[[], Strategy]) -> None:
    _, what = answer(make(), FailureHistory())
    assert isinstance(what, Restart)


@pytest.mark.parametrize("initial_ms", [1, 2, 1_000])
def test_an_exponential_delay_waits_longer_each_time_however_short_it_begins(initial_ms: int) -> None:
    strategy = ExponentialDelay(initial_ms=initial_ms, maximum_ms=60_000, multiplier=1.4, jitter=0)
    found = delays(strategy, list(range(60)))
    assert found[-1] == 60_000


def test_a_steep_multiplier_goes_to_the_maximum_and_not_past_what_numbers_can_hold() -> None:
    strategy = ExponentialDelay(initial_ms=1_000, maximum_ms=60_000, multiplier=1e308, jitter=0)
    assert delays(strategy, [0, 1, 2]) == [1_000, 60_000, 60_000]
