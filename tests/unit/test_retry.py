"""When something is tried again, and when it is given up. The clock and chance are told, so that nothing waits."""

import pytest

from headgate.core.backoff import delay
from headgate.retry import Retry, RetryPolicy


class World:
    """A clock that goes on only when somebody sleeps, and chance that is always the same."""

    def __init__(self, chance: float = 0.0) -> None:
        self.now_s = 1_000.0
        self.slept: list[float] = []
        self.chance = chance

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def retry(self, policy: RetryPolicy) -> Retry:
        return Retry(policy, clock=lambda: self.now_s, sleep=self.sleep, chance=lambda: self.chance)


def test_pauses_double_up_to_the_longest() -> None:
    world = World()
    retry = world.retry(RetryPolicy(first_s=1, longest_s=5, tries=6))
    assert [retry.again() for _ in range(6)] == [True] * 5 + [False]
    assert world.slept == [1, 2, 4, 5, 5]


@pytest.mark.parametrize(
    ("jitter", "chance", "slept"), [(0, 0.9, 8.0), (0.5, 0.0, 8.0), (0.5, 0.5, 6.0), (1, 0.75, 2.0)]
)
def test_a_share_of_a_pause_is_left_to_chance(jitter: float, chance: float, slept: float) -> None:
    world = World(chance)
    assert world.retry(RetryPolicy(first_s=8, longest_s=8, jitter=jitter)).again()
    assert world.slept == [slept]


def test_no_pause_goes_past_the_deadline() -> None:
    world = World()
    retry = world.retry(RetryPolicy(first_s=1, longest_s=100).within(10))
    assert [retry.again() for _ in range(4)] == [True, True, True, False]
    assert world.slept == [1, 2, 4], "the next would be 8, and 3 are left"
    assert (retry.tried_s, retry.left_s) == (7, 3)


def test_time_that_tries_take_counts() -> None:
    world = World()
    retry = world.retry(RetryPolicy(first_s=1, longest_s=1, seconds=10))
    world.now_s += 9
    assert not retry.again()
    assert world.slept == []


def test_without_a_bound_it_is_never_given_up() -> None:
    world = World()
    retry = world.retry(RetryPolicy(first_s=0.05, longest_s=1))
    assert all(retry.again() for _ in range(2_000))
    assert world.slept[-1] == 1


@pytest.mark.parametrize(
    ("outcomes", "tried", "raised"),
    [
        ([OSError("busy"), OSError("busy"), None], 3, None),
        ([OSError("first"), OSError("second"), OSError("third"), None], 3, "third"),
        ([OSError("busy"), ValueError("refused"), None], 2, "refused"),
    ],
)
def test_a_call_ends_with_a_success_another_error_or_the_last_one(
    outcomes: list[Exception | None], tried: int, raised: str | None
) -> None:
    left = iter(outcomes)
    calls = 0

    def work() -> str:
        nonlocal calls
        calls += 1
        if (error := next(left)) is not None:
            raise error
        return "done"

    policy = RetryPolicy(first_s=0, longest_s=0, tries=3)
    if raised is None:
        assert policy.call(work, lambda error: isinstance(error, OSError)) == "done"
    else:
        with pytest.raises((OSError, ValueError), match=raised):
            policy.call(work, lambda error: isinstance(error, OSError))
    assert calls == tried


def test_an_interrupt_is_never_tried_again() -> None:
    calls = 0

    def work() -> None:
        nonlocal calls
        calls += 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RetryPolicy(first_s=0, longest_s=0, tries=3).call(work, lambda _: True)
    assert calls == 1


def test_a_delay_stays_a_whole_number_and_small() -> None:
    assert [delay(100, 10_000, failures) for failures in (0, 1, 6, 7, 10**9)] == [100, 200, 6_400, 10_000, 10_000]
    assert delay(0.5, 3.0, 2) == 2.0
