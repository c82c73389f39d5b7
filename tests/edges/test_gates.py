"""Gates and planners, over a real socket."""

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.channel.gates import Gates, Planner
from headgate.core.ids import NO_BATCH, Batch, ChannelId, Generation, TaskId

READER, OTHER = TaskId("reader"), TaskId("other")
LEFT, RIGHT = ChannelId("reader.0"), ChannelId("reader.1")
FIRST, SECOND = Generation(1), Generation(2)
LONG_MS = 120_000
"""Longer than any test waits for something that comes."""


@pytest.fixture
def gates() -> Iterator[Gates]:
    made = Gates()
    yield made
    made.close()


PLANNERS: list[Planner] = []


@pytest.fixture(autouse=True)
def _planners_are_closed() -> Iterator[None]:
    yield
    while PLANNERS:
        PLANNERS.pop().close()


def planner(gates: Gates, channel: ChannelId = LEFT, reader: TaskId = READER, generation: int = 1) -> Planner:
    PLANNERS.append(Planner(gates.address, generation, reader, channel))
    return PLANNERS[-1]


class Asking(threading.Thread):
    """A planner that waits."""

    def __init__(self, planner: Planner, wait_ms: int = LONG_MS) -> None:
        super().__init__(daemon=True)
        self.answer: Batch | None = None
        self._planner = planner
        self._wait_ms = wait_ms
        self.start()

    def run(self) -> None:
        self.answer = self._planner.through(self._wait_ms)

    def hears(self) -> Batch | None:
        self.join(60)
        assert not self.is_alive(), "it still waits"
        return self.answer


def test_a_gate_is_closed_until_it_is_opened(gates: Gates) -> None:
    asking = planner(gates)
    assert asking.through(0) == NO_BATCH
    gates.open(FIRST, LEFT, READER, Batch(3))
    assert asking.through(0) == 3


def test_a_gate_is_never_lowered(gates: Gates) -> None:
    gates.open(FIRST, LEFT, READER, Batch(3))
    gates.open(FIRST, LEFT, READER, Batch(2))
    assert planner(gates).through(0) == 3


def test_who_waits_is_told_as_soon_as_the_gate_opens(gates: Gates) -> None:
    asking = Asking(planner(gates))
    time.sleep(0.05)
    assert asking.is_alive()
    gates.open(FIRST, LEFT, READER, Batch(0))
    assert asking.hears() == 0


def test_who_has_heard_of_the_last_opening_waits_for_the_next(gates: Gates) -> None:
    asking = planner(gates)
    gates.open(FIRST, LEFT, READER, Batch(5))
    assert asking.through(LONG_MS) == 5
    begun = time.monotonic()
    assert asking.through(120) == 5
    assert time.monotonic() - begun >= 0.1


def test_an_opening_that_changes_nothing_wakes_nobody(gates: Gates) -> None:
    asking = planner(gates)
    gates.open(FIRST, LEFT, READER, Batch(5))
    asking.through(0)
    waiting = Asking(asking)
    gates.open(FIRST, LEFT, READER, Batch(5))
    time.sleep(0.05)
    assert waiting.is_alive()
    gates.release(FIRST, READER)
    assert waiting.hears() == 5


def test_who_waits_at_one_channel_is_woken_by_another_of_the_same_task(gates: Gates) -> None:
    left, right = planner(gates, LEFT), planner(gates, RIGHT)
    waiting = Asking(left)
    gates.open(FIRST, RIGHT, READER, Batch(7))
    assert waiting.hears() == NO_BATCH
    assert right.through(LONG_MS) == 7


def test_other_tasks_and_other_generations_are_not_woken(gates: Gates) -> None:
    other = Asking(planner(gates, ChannelId("other.0"), OTHER))
    later = Asking(planner(gates, LEFT, READER, generation=2))
    gates.open(FIRST, LEFT, READER, Batch(7))
    time.sleep(0.05)
    assert other.is_alive()
    assert later.is_alive()
    gates.release(FIRST, OTHER)
    gates.release(SECOND, READER)
    assert (other.hears(), later.hears()) == (NO_BATCH, NO_BATCH)


def test_nobody_of_a_task_that_is_being_stopped_waits_and_its_next_run_does_again(gates: Gates) -> None:
    waiting = Asking(planner(gates))
    gates.release(FIRST, READER)
    assert waiting.hears() == NO_BATCH
    assert planner(gates).through(LONG_MS) == NO_BATCH
    still = Asking(planner(gates, LEFT, READER, generation=2), wait_ms=100)
    assert still.hears() == NO_BATCH
    gates.hold(FIRST, READER)
    again = Asking(planner(gates))
    time.sleep(0.05)
    assert again.is_alive()
    gates.open(FIRST, LEFT, READER, Batch(1))
    assert again.hears() == 1


def test_many_planners_ask_at_once(gates: Gates) -> None:
    waiting = [Asking(planner(gates, channel)) for channel in (LEFT, RIGHT) for _ in range(8)]
    gates.open(FIRST, LEFT, READER, Batch(2))
    assert [asking.hears() for asking in waiting] == [2] * 8 + [NO_BATCH] * 8


def test_a_driver_that_has_ended_leaves_nobody_listening() -> None:
    before = set(threading.enumerate())
    gates = Gates()
    asking = planner(gates)
    asking.through(0)
    listening = [one for one in threading.enumerate() if one.name == "headgate-gates" and one not in before]
    assert listening
    gates.close()
    for thread in listening:
        thread.join(60)
    assert not any(thread.is_alive() for thread in listening), "somebody listens at a socket that is closed"
    with pytest.raises(OSError, match="No such file"):
        planner(gates).through(0)


def test_a_long_temporary_directory_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    gates = Gates()
    try:
        assert len(gates.address) < 104
    finally:
        gates.close()
