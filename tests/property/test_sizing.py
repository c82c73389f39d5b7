"""Whatever batches cost, and however they are disturbed, sizes keep to their bounds and come to rest."""

from hypothesis import given, strategies as st

from headgate.core import sizing
from headgate.core.ids import TaskId
from headgate.core.sizing import ROWS_MAX, ROWS_MIN, seen, sizing_of, target_ms

ONE, TWO = TaskId("one"), TaskId("two")
COMES_TO_REST = 150


@given(
    batches=st.lists(st.tuples(st.sampled_from([ONE, TWO]), st.floats(1, 1e7), st.booleans()), max_size=60),
    latency_ms=st.none() | st.integers(1, 10_000),
)
def test_a_size_stays_within_its_bounds_and_changes_by_steps(
    batches: list[tuple[TaskId, float, bool]], latency_ms: int | None
) -> None:
    state = sizing_of((ONE, TWO))
    for task, took_ms, full in batches:
        before = state
        state = seen(state, target_ms(None, latency_ms), task, before.rows, took_ms, full=full)
        assert ROWS_MIN <= state.rows <= ROWS_MAX
        assert before.rows / sizing.FACTOR - 1 <= state.rows <= before.rows * sizing.FACTOR_AT_FIRST
        assert full or state.rows == before.rows
        if state.rows != before.rows:
            assert not any(cost.times_ms for cost in state.costs.values())


@given(
    fixed_ms=st.floats(1, 300),
    row_us=st.floats(0.05, 100_000),
    interval_ms=st.none() | st.integers(100, 60_000),
    latency_ms=st.none() | st.integers(1, 10_000),
)
def test_a_size_comes_to_rest_below_the_target_whatever_a_batch_costs(
    fixed_ms: float, row_us: float, interval_ms: int | None, latency_ms: int | None
) -> None:
    target = target_ms(interval_ms, latency_ms)
    state = sizing_of((ONE,))
    sizes = []
    for _ in range(COMES_TO_REST + sizing.CEILING_BATCHES // 2):
        took_ms = fixed_ms + state.rows * row_us / 1_000
        state = seen(state, target, ONE, state.rows, took_ms, full=True)
        sizes.append(state.rows)
    rest = sizes[COMES_TO_REST:]
    assert max(rest) <= 2 * min(rest)
    took_ms = fixed_ms + state.rows * row_us / 1_000
    reachable = max(target, 2 * fixed_ms)
    assert took_ms <= sizing.HIGH * reachable or state.rows == ROWS_MIN
