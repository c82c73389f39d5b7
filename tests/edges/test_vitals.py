"""The share of garbage collection, from sums as Spark's own store of them gives them."""

from types import SimpleNamespace
from typing import Any

import pytest

from headgate.task.vitals import LOOKS, GarbageShare


class Executors:
    """What Spark sums up for each executor: time in garbage collection, and in tasks that have ended."""

    def __init__(self, *sums: tuple[int, int]) -> None:
        self.sums = list(sums)
        context = SimpleNamespace(statusStore=lambda: SimpleNamespace(executorList=lambda _: self))
        java = SimpleNamespace(sc=lambda: context)
        self.spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=java))

    def size(self) -> int:
        return len(self.sums)

    def apply(self, number: int) -> Any:
        gc_ms, run_ms = self.sums[number]
        return SimpleNamespace(totalGCTime=lambda: gc_ms, totalDuration=lambda: run_ms)

    def work(self, gc_ms: int, run_ms: int) -> None:
        self.sums[0] = (self.sums[0][0] + gc_ms, self.sums[0][1] + run_ms)


def test_a_share_is_known_once_a_second_of_work_was_done() -> None:
    executors = Executors((500, 9_000), (100, 400))
    share = GarbageShare(executors.spark)
    assert share.look() is None, "what was before counts for nothing"
    executors.work(300, 900)
    assert share.look() is None
    executors.work(0, 100)
    assert share.look() == 0.3


def test_a_long_collection_now_and_then_is_in_every_share() -> None:
    executors = Executors((0, 0))
    share = GarbageShare(executors.spark)
    share.look()
    seen = []
    for number in range(5 * LOOKS):
        executors.work(1_600 if number % 4 == 3 else 0, 2_000)
        seen.append(share.look())
    assert set(seen[LOOKS:]) == {0.2}


def test_what_was_long_ago_is_forgotten() -> None:
    executors = Executors((0, 0))
    share = GarbageShare(executors.spark)
    share.look()
    executors.work(2_000, 2_000)
    assert share.look() == 1.0
    seen = []
    for _ in range(LOOKS):
        executors.work(0, 2_000)
        seen.append(share.look())
    assert seen[-1] == 0.0


def test_nothing_is_said_while_no_task_ends_and_what_was_seen_stays() -> None:
    executors = Executors((0, 0))
    share = GarbageShare(executors.spark)
    share.look()
    executors.work(1_000, 2_000)
    assert share.look() == 0.5
    assert [share.look() for _ in range(2 * LOOKS)] == [None] * (2 * LOOKS)
    executors.work(0, 2_000)
    assert share.look() == pytest.approx(0.25)


def test_it_begins_anew_when_an_executor_has_gone() -> None:
    executors = Executors((900, 9_000), (900, 9_000))
    share = GarbageShare(executors.spark)
    share.look()
    del executors.sums[1]
    assert share.look() is None
    executors.work(1_000, 4_000)
    assert share.look() == 0.25
