from itertools import pairwise

from hypothesis import assume, given, strategies as st

from headgate.core.restart import (
    ExponentialDelay,
    Failure,
    FailureClass,
    FailureHistory,
    FailureRate,
    FixedDelay,
    Level,
    NoRestart,
    Restart,
    Strategy,
    decide,
)

ATTEMPTS = st.none() | st.integers(1, 8)
CHANCES = st.floats(0, 1, exclude_max=True)
STEPS = st.lists(st.tuples(st.integers(0, 500), CHANCES), min_size=1, max_size=30)
"""Failures: the time since the one before, and the chance drawn for it."""


@st.composite
def exponential(draw: st.DrawFn, jitter: st.SearchStrategy[float] | None = None) -> ExponentialDelay:
    initial_ms = draw(st.integers(1, 2_000))
    return ExponentialDelay(
        initial_ms=initial_ms,
        maximum_ms=draw(st.integers(initial_ms, 60_000)),
        multiplier=draw(st.floats(1, 10, exclude_min=True)),
        jitter=draw(st.floats(0, 1, exclude_max=True) if jitter is None else jitter),
        reset_after_ms=draw(st.integers(1, 2_000)),
        attempts_max=draw(ATTEMPTS),
    )


STRATEGIES: st.SearchStrategy[Strategy] = st.one_of(
    st.just(NoRestart()),
    st.builds(FixedDelay, st.integers(0, 1_000), ATTEMPTS),
    st.builds(FailureRate, st.integers(1, 5), st.integers(1, 1_000), st.integers(0, 1_000)),
    exponential(),
)


def delays(strategy: Strategy, steps: list[tuple[int, float]]) -> list[int]:
    """The delays until the strategy gives up."""
    history, now_ms, found = FailureHistory(), 0, list[int]()
    for wait_ms, chance in steps:
        now_ms += wait_ms
        failure = Failure(FailureClass.EXTERNAL)
        history, what = decide(strategy, history, failure, now_ms=now_ms, chance=chance, fruitless=0, skips=False)
        if not isinstance(what, Restart):
            break
        assert what.level is Level.TASK
        found.append(what.delay_ms)
    return found


def maximum(strategy: Strategy) -> int:
    match strategy:
        case NoRestart():
            return 0
        case FixedDelay(delay_ms=delay_ms) | FailureRate(delay_ms=delay_ms):
            return delay_ms
        case ExponentialDelay(maximum_ms=maximum_ms):
            return maximum_ms


@given(STRATEGIES, STEPS)
def test_a_delay_is_never_negative_and_never_above_its_maximum(
    strategy: Strategy, steps: list[tuple[int, float]]
) -> None:
    assert all(0 <= delay_ms <= maximum(strategy) for delay_ms in delays(strategy, steps))


@given(exponential(jitter=st.just(0.0)), STEPS)
def test_without_jitter_delays_never_shrink_but_for_a_quiet_time_after_which_they_begin_again(
    strategy: ExponentialDelay, steps: list[tuple[int, float]]
) -> None:
    found = delays(strategy, steps)
    assert found[0] == strategy.initial_ms
    for number, (before, after) in enumerate(pairwise(found), start=1):
        if steps[number][0] >= strategy.reset_after_ms:
            assert after == strategy.initial_ms
        else:
            assert before <= after
            assert after == strategy.maximum_ms or after > before * strategy.multiplier - 1


@given(exponential(), STEPS)
def test_jitter_spreads_a_delay_no_further_than_it_says(
    strategy: ExponentialDelay, steps: list[tuple[int, float]]
) -> None:
    plain = delays(strategy, [(wait_ms, 0.5) for wait_ms, _ in steps])
    spread = delays(strategy, steps)
    assert len(plain) == len(spread)
    for middle, found in zip(plain, spread, strict=True):
        assert abs(found - middle) <= strategy.jitter * middle + 1


@given(st.builds(FixedDelay, st.integers(0, 9), ATTEMPTS) | exponential(), STEPS)
def test_a_strategy_gives_up_after_exactly_its_attempts(
    strategy: FixedDelay | ExponentialDelay, steps: list[tuple[int, float]]
) -> None:
    assume(isinstance(strategy, FixedDelay) or all(wait_ms < strategy.reset_after_ms for wait_ms, _ in steps[1:]))
    tries = len(steps) if strategy.attempts_max is None else min(len(steps), strategy.attempts_max)
    assert len(delays(strategy, steps)) == tries


@given(st.builds(FailureRate, st.integers(1, 4), st.integers(1, 600), st.just(7)), STEPS)
def test_a_failure_rate_gives_up_at_the_first_interval_that_has_too_many_failures(
    strategy: FailureRate, steps: list[tuple[int, float]]
) -> None:
    times = [sum(wait_ms for wait_ms, _ in steps[: number + 1]) for number in range(len(steps))]
    borne = 0
    for number, now_ms in enumerate(times):
        inside = [at for at in times[: number + 1] if now_ms - at < strategy.interval_ms]
        if len(inside) > strategy.failures_max:
            break
        borne += 1
    assert delays(strategy, steps) == [7] * borne
