from headgate.core.ids import TaskId
from headgate.view.advice import SEEN_MIN, Advice

TASK = TaskId("t")


def test_batches_that_take_longer_than_the_interval_are_told_of_once() -> None:
    advice = Advice(1000)
    said = [advice.batch(TASK, 1500) for _ in range(3 * SEEN_MIN)]
    assert [text for text in said if text] == [said[SEEN_MIN - 1]]
    assert said[SEEN_MIN - 1] == (
        "batches of task t take about 1500 ms, and checkpoints are wanted every 1000 ms: "
        "raise the interval, or make batches smaller"
    )


def test_a_slow_beginning_is_not_told_of() -> None:
    advice = Advice(1000)
    assert [advice.batch(TASK, took) for took in (9000, 5000, 800, 700, 600, 600)] == [None] * 6


def test_without_an_interval_nothing_is_said() -> None:
    advice = Advice(None)
    assert [advice.batch(TASK, 1e6) for _ in range(10)] == [None] * 10
