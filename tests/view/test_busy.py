"""What part of late a task was busy, idle and backpressured."""

from hypothesis import given, strategies as st

from headgate.core.ids import Batch
from headgate.view.busy import BUCKET_MS, BUCKETS, UNDER_WAY_MAX, Busy, level

WINDOW_MS = BUCKET_MS * BUCKETS


def began(at_ms: int = 0) -> Busy:
    busy = Busy()
    busy.began(at_ms)
    return busy


def test_a_task_that_never_ran_has_no_ratios() -> None:
    assert Busy().ratios(1_000) is None


def test_a_task_without_batches_is_idle() -> None:
    assert began().ratios(5_000) == (0.0, 1.0, 0.0)


def test_a_batch_that_is_over_counts_as_long_as_spark_says() -> None:
    busy = began()
    busy.over(10_000, Batch(0), 4_000)
    assert busy.ratios(10_000) == (0.4, 0.6, 0.0)


def test_a_batch_that_waited_for_readers_was_backpressured_and_for_the_rest_busy() -> None:
    busy = began()
    busy.entered(2_000, Batch(0))
    busy.admitted(7_000, Batch(0))
    busy.over(10_000, Batch(0), 9_000)
    assert busy.ratios(10_000) == (0.4, 0.1, 0.5)


def test_waiting_for_room_in_a_sink_is_backpressure_too() -> None:
    busy = began()
    busy.entered(0, Batch(0))
    busy.admitted(0, Batch(0))
    busy.held_up(Batch(0), 6_000.0)
    busy.over(10_000, Batch(0), 10_000)
    assert busy.ratios(10_000) == (0.4, 0.0, 0.6)


def test_the_batch_under_way_counts_before_it_is_over() -> None:
    busy = began()
    busy.entered(1_000, Batch(0))
    assert busy.ratios(5_000) == (0.0, 0.2, 0.8)
    busy.admitted(5_000, Batch(0))
    assert busy.ratios(10_000) == (0.5, 0.1, 0.4)
    busy.over(10_000, Batch(0), 9_500)
    assert busy.ratios(10_000) == (0.55, 0.05, 0.4), "now Spark has said that it was planned for half a second"


def test_sparks_word_on_a_batch_may_come_when_the_next_has_begun() -> None:
    busy = began()
    busy.entered(1_000, Batch(0))
    busy.admitted(1_000, Batch(0))
    busy.entered(4_000, Batch(1))
    busy.over(4_100, Batch(0), 3_100)
    assert busy.ratios(6_000) == (0.517, 0.15, 0.333)
    busy.admitted(6_000, Batch(1))
    busy.over(10_000, Batch(1), 6_000)
    assert busy.ratios(10_000) == (0.71, 0.1, 0.19), "the tenth of a second that both claim is counted once"


def test_what_was_long_ago_does_not_count() -> None:
    busy = began()
    busy.over(10_000, Batch(0), 10_000)
    assert busy.ratios(10_000) == (1.0, 0.0, 0.0)
    assert busy.ratios(10_000 + 2 * WINDOW_MS) == (0.0, 1.0, 0.0)
    busy.over(1_000_000, Batch(1), 900_000)
    assert busy.ratios(1_000_000) == (1.0, 0.0, 0.0)


def test_a_run_that_begins_anew_has_nothing_under_way() -> None:
    busy = began()
    busy.entered(0, Batch(7))
    busy.began(5_000)
    assert busy.ratios(10_000) == (0.0, 1.0, 0.0)
    busy.admitted(9_000, Batch(7))
    assert busy.ratios(10_000) == (0.0, 1.0, 0.0)


def test_batches_that_never_come_to_an_end_are_forgotten() -> None:
    busy = began()
    for number in range(100):
        busy.entered(number, Batch(number))
    assert list(busy._waits) == [96, 97, 98, 99]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["entered", "admitted", "over", "held", "began"]),
            st.integers(0, 40),
            st.integers(0, 5_000),
            st.integers(0, 90_000),
        ),
        max_size=60,
    )
)
def test_ratios_add_up_to_one_and_memory_has_a_bound_whatever_is_told(
    told: list[tuple[str, int, int, int]],
) -> None:
    busy, now_ms = began(), 0
    for what, batch, later_ms, took_ms in told:
        now_ms += later_ms
        match what:
            case "entered":
                busy.entered(now_ms, Batch(batch))
            case "admitted":
                busy.admitted(now_ms, Batch(batch))
            case "held":
                busy.held_up(Batch(batch), float(took_ms))
            case "began":
                busy.began(now_ms)
            case _:
                busy.over(now_ms, Batch(batch), took_ms)
        ratios = busy.ratios(now_ms)
        assert ratios is not None
        assert abs(sum(ratios) - 1) < 0.002
        assert all(0 <= ratio <= 1 for ratio in ratios)
        assert len(busy._waits) <= UNDER_WAY_MAX


def test_levels_are_those_of_flink() -> None:
    assert [level(each) for each in (0.0, 0.1, 0.11, 0.5, 0.51, 1.0)] == ["ok", "ok", "low", "low", "high", "high"]
