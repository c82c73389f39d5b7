"""The size of batches: the controller is given its times, and never looks at a clock."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from headgate.core import sizing
from headgate.core.ids import TaskId
from headgate.core.sizing import ROWS_MAX, ROWS_MIN, START_ROWS, Sizing, TaskCost, fixed_ms, seen, sizing_of, target_ms

ONE, TWO = TaskId("one"), TaskId("two")
Cost = Callable[[int, int], float]
"""What the n-th batch of so many rows takes, in ms."""

CURVE = ((10_000, 32), (100_000, 346), (250_000, 656), (1_000_000, 1_670), (4_000_000, 2_154))
"""Windows on two cores, as they were measured: rows a batch, and thousands of rows a second."""


def windows(_: int, rows: int) -> float:
    """The time of a batch by the measured curve, straight between its points and beyond them."""
    points = [(size, size / rate) for size, rate in CURVE]
    for (less, less_ms), (more, more_ms) in pairwise(points):
        if rows <= more or more == points[-1][0]:
            return max(1.0, less_ms + (rows - less) * (more_ms - less_ms) / (more - less))
    raise AssertionError(rows)


def line(fixed: float, of_row: float) -> Cost:
    return lambda _, rows: fixed + of_row * rows


@dataclass
class Run:
    """A source with a backlog, and what became of its size."""

    cost: Cost
    interval_ms: int | None = 10_000
    latency_ms: int | None = None
    sizes: list[int] = field(default_factory=list)
    state: Sizing = field(default_factory=lambda: sizing_of((ONE,)))

    def go(self, batches: int, noise: Callable[[], float] = lambda: 1.0, *, full: bool = True) -> "Run":
        target = target_ms(self.interval_ms, self.latency_ms)
        for _ in range(batches):
            rows = self.state.rows
            took = self.cost(len(self.sizes), rows) * noise()
            self.sizes.append(rows)
            self.state = seen(self.state, target, ONE, rows, took, full=full)
        return self

    def changes(self, since: int) -> int:
        return sum(a != b for a, b in pairwise(self.sizes[since:]))


def heavy_tailed(seed: int) -> Callable[[], float]:
    """A loaded machine: times spread, and of twelve batches one takes from twice to many times as long."""
    drawn = random.Random(seed)
    return lambda: drawn.lognormvariate(0, 0.2) * (drawn.paretovariate(1.2) + 1 if drawn.random() < 0.08 else 1)


@pytest.mark.parametrize(
    ("interval_ms", "latency_ms", "target"),
    [
        (10_000, None, 2_500),
        (None, None, 2_500),
        (2_000, None, 1_600),
        (200, None, 400),
        (10_000, 700, 500),
        (1_000, 60_000, 800),
    ],
)
def test_a_batch_takes_a_share_of_the_interval_and_stays_below_the_latency(
    interval_ms: int | None, latency_ms: int | None, target: float
) -> None:
    assert target_ms(interval_ms, latency_ms) == pytest.approx(target)


def test_the_measured_curve_is_climbed_in_a_few_steps_and_gives_nine_tenths_of_its_best() -> None:
    run = Run(windows).go(30)
    assert run.sizes[:3] == [START_ROWS, 8 * START_ROWS, 64 * START_ROWS]
    assert run.changes(8) == 0
    size = run.sizes[-1]
    assert size / windows(0, size) > 0.9 * max(rows / windows(0, rows) for rows in range(10_000, 8_000_000, 10_000))
    assert windows(0, size) < 1.4 * 2_500


def test_a_latency_bound_holds_where_batches_can_be_so_short() -> None:
    run = Run(line(180, 0.000_42), latency_ms=800).go(200)
    assert 0.4 * 800 < run.cost(0, run.sizes[-1]) < 800
    assert run.changes(50) == 0


def test_rows_that_are_dear_make_small_batches() -> None:
    run = Run(line(50, 5.0)).go(60)
    assert 0.5 * 2_500 < run.cost(0, run.sizes[-1]) < 1.4 * 2_500
    assert run.changes(30) == 0


@pytest.mark.parametrize("latency_ms", [50, 150])
def test_a_target_out_of_reach_does_not_make_batches_of_nothing(latency_ms: int) -> None:
    run = Run(line(180, 0.000_42), latency_ms=latency_ms).go(300)
    assert run.cost(0, run.sizes[-1]) > 1.3 * 180
    assert run.cost(0, run.sizes[-1]) < 3 * 180


@pytest.mark.parametrize("seed", range(12))
def test_a_noisy_machine_does_not_move_a_size_far_from_its_place(seed: int) -> None:
    place = Run(line(180, 0.000_42)).go(50).sizes[-1]
    run = Run(line(180, 0.000_42)).go(400, heavy_tailed(seed))
    later = sorted(run.sizes[50:])
    assert place / 3 < later[0]
    assert later[-1] < 2 * place
    assert place / 2 < later[len(later) // 10]
    assert run.changes(50) <= 15


def test_a_machine_that_becomes_slower_gets_smaller_batches_and_the_old_ones_when_it_is_over() -> None:
    run = Run(lambda n, rows: windows(n, rows) * (4 if 100 <= n < 200 else 1)).go(300)
    before, during, after = run.sizes[99], run.sizes[199], run.sizes[-1]
    assert 0.5 * 2_500 < 4 * windows(0, during) < 1.4 * 2_500
    assert after == pytest.approx(before, rel=0.3)
    assert run.changes(0) < 20
    assert run.sizes[102] == before
    assert run.sizes[103] < before


def test_batches_that_take_many_times_as_long_are_answered_after_two() -> None:
    run = Run(lambda n, rows: windows(n, rows) * (20 if n >= 50 else 1)).go(54)
    assert run.sizes[51] == run.sizes[50]
    assert run.sizes[52] == run.sizes[50] // 2


def test_the_first_size_that_takes_many_times_as_long_is_halved_at_once() -> None:
    assert Run(line(0, 5.0)).go(2).sizes == [START_ROWS, START_ROWS // 2]


def test_where_time_grows_faster_than_rows_the_size_does_not_go_up_and_down() -> None:
    run = Run(lambda _, rows: 180 + 0.000_2 * rows * (rows / 1e6) ** 0.7).go(60)
    assert run.changes(20) == 0
    later = Run(run.cost).go(400)
    assert later.changes(20) <= 2 * 400 // sizing.CEILING_BATCHES


def test_a_source_that_is_idle_keeps_its_size() -> None:
    run = Run(windows).go(30)
    size = run.sizes[-1]
    run.go(100, full=False)
    assert run.sizes[-1] == size
    run.go(20)
    assert run.sizes[-1] == size


def test_sizes_have_bounds() -> None:
    assert Run(line(1, 0.0)).go(40).sizes[-1] == ROWS_MAX
    assert Run(line(0, 1e9)).go(60).sizes[-1] == ROWS_MIN


def test_a_size_grows_no_faster_than_the_slowest_task_is_heard_of() -> None:
    state = sizing_of((ONE, TWO))
    for _ in range(5):
        state = seen(state, 2_500, ONE, state.rows, 100, full=True)
    assert state.rows == START_ROWS
    state = seen(state, 2_500, TWO, state.rows, 1_250, full=True)
    assert state.rows == 2 * START_ROWS


def test_a_slow_reader_makes_batches_smaller() -> None:
    state = sizing_of((ONE, TWO))
    for _ in range(sizing.STEPS):
        state = seen(state, 2_500, ONE, state.rows, 100, full=True)
        state = seen(state, 2_500, TWO, state.rows, 5_000, full=True)
    assert state.rows == START_ROWS // 2


def test_tasks_that_begin_anew_are_heard_anew() -> None:
    state = seen(sizing_of((ONE,)), 2_500, ONE, START_ROWS, 3_000, full=True)
    assert sizing.forget_times(state).costs[ONE].times_ms == ()


def test_the_cost_of_being_a_batch_is_where_the_line_begins() -> None:
    known = {rows.bit_length(): ((rows, 150 + 0.01 * rows),) for rows in (1_000, 8_000, 64_000)}
    assert fixed_ms(TaskCost(known=known)) == pytest.approx(150)
    assert fixed_ms(TaskCost(known={10: ((1_000, 160.0),)})) == 0
    falling = {10: ((1_000, 200.0),), 14: ((16_000, 150.0), (16_000, 160.0))}
    assert fixed_ms(TaskCost(known=falling)) == 155
