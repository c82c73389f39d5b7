"""What stands still is noticed and told, with where; what is idle or waits for others is not."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from headgate.core.events import TaskEnded, TaskFailed
from headgate.core.ids import Batch, TaskId
from headgate.run.loop import Observation
from headgate.run.serial import SerialExecutors
from headgate.run.stalls import STALLED_S, Stalls
from tests.edges.mini_spark import WAIT_S
from tests.edges.test_query import ALL, Running

TASK = TaskId("t")


class Looking:
    """Looks at one run, and at serial executors."""

    def __init__(self, running: Running) -> None:
        self.told: list[Observation] = []
        self.silent_s = 0.0
        self.serial_executors = SerialExecutors(lambda _: None)
        self.back: list[TaskId] = []
        self.stalls = Stalls(
            tell=self.told.append,
            silent_s=lambda: self.silent_s,
            queries=lambda: {TASK: running.query},
            serial_executors=self.serial_executors.busy,
            clock_went_back=lambda task, _: self.back.append(task),
        )

    def look(self) -> list[tuple[str, str]]:
        self.told.clear()
        self.stalls.look()
        return [(note.kind, note.fields.get("text", note.fields["name"])) for note in self.told]


class Clock:
    """Stands still unless a test moves it. ``back_s`` is by how much the wall's was set back."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.back_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return 1_700_000_000.0 + self.now_s - self.back_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("headgate.task.query.time", made)
    monkeypatch.setattr("headgate.task.heartbeat.time", made)
    monkeypatch.setattr("headgate.run.stalls.time", made)
    monkeypatch.setattr("headgate.run.serial.time", made)
    return made


@pytest.fixture
def running(tmp_path: Path, clock: Clock) -> Iterator[Running]:  # noqa: ARG001 - it begins at its time
    made = Running(tmp_path / "query")
    (tmp_path / "query").mkdir()
    yield made
    made.query.stop()
    made.spark.close()


@pytest.fixture
def looking(running: Running) -> Looking:
    return Looking(running)


def test_a_batch_that_does_not_end_is_told_with_where_it_is_and_again_when_twice_as_long(
    running: Running, looking: Looking, clock: Clock
) -> None:
    may = threading.Event()

    def write_slowly(*_: object) -> None:
        assert may.wait(WAIT_S)

    running.write = write_slowly
    running.spark.available = 1
    running.query.start()
    running.query.admit(ALL)
    running.wait_for(lambda: running.query.doing is not None and running.query.doing.thread is not None)
    clock.now_s += STALLED_S - 1
    assert looking.look() == []
    clock.now_s += 1
    ((kind, text),) = looking.look()
    assert kind == "stall"
    assert text.startswith("task t: batch 0 has been running for 60 s, in write_slowly (")
    clock.now_s += STALLED_S - 1
    assert looking.look() == [], "it is told once"
    clock.now_s += 1
    ((kind, text),) = looking.look()
    assert text.startswith("task t: batch 0 has been running for 120 s")
    may.set()
    running.committed(0)
    running.query.idled()
    assert looking.look() == [("stall-over", "task t")]


def test_a_planner_or_source_that_does_not_come_back_is_told_and_an_idle_query_is_not(
    running: Running, looking: Looking, clock: Clock
) -> None:
    running.query.start()
    for _ in range(20):
        clock.now_s += 10
        running.listener.onQueryIdle(SimpleNamespace(runId=running.spark.queries[0].runId))
        assert looking.look() == []
    clock.now_s += STALLED_S
    ((kind, text),) = looking.look()
    assert kind == "stall"
    assert text.startswith("task t: no batch has begun, and Spark has not said that there is nothing to do, for 60 s")


def test_a_batch_that_waits_for_its_readers_is_not_stalled(running: Running, looking: Looking, clock: Clock) -> None:
    running.spark.available = 1
    running.query.start()
    running.wait_for(lambda: running.query._admission.waiting == Batch(0))
    clock.now_s += 10_000
    assert looking.look() == []


def test_nothing_is_stalled_that_lately_took_as_long_or_is_due_later(
    running: Running, looking: Looking, clock: Clock
) -> None:
    running.another(trigger_ms=30_000)
    running.query.start()
    clock.now_s += 89
    assert looking.look() == []
    clock.now_s += 1
    assert [kind for kind, _ in looking.look()] == ["stall"]
    running.query.idled()
    clock.now_s += 90 * 5 - 1
    assert looking.look() == [("stall-over", "task t")]
    clock.now_s += 1
    assert [kind for kind, _ in looking.look()] == ["stall"]


def test_a_spark_that_does_not_answer_is_told_and_nobody_is_asked(
    running: Running, looking: Looking, clock: Clock
) -> None:
    running.query.start()
    clock.now_s += 10_000
    looking.silent_s = 61.0
    assert looking.look() == [
        ("stall", "Spark's driver process has not answered for 61 s: it hangs, or the machine is too busy")
    ]


def test_a_sink_or_a_storage_that_does_not_come_back_is_told(running: Running, looking: Looking, clock: Clock) -> None:
    running.query.start()
    may, begun = threading.Event(), threading.Event()

    def create_record() -> None:
        begun.set()
        assert may.wait(WAIT_S)

    looking.serial_executors.put("store", create_record)
    looking.serial_executors.put("history", may.wait, WAIT_S)
    assert begun.wait(WAIT_S)
    clock.now_s += STALLED_S
    running.query.idled()
    ((kind, text),) = looking.look()
    assert kind == "stall"
    assert text.startswith("the storage: create record has been running for 60 s, in create_record (")
    may.set()
    running.wait_for(lambda: looking.serial_executors.busy() == {})
    assert looking.look() == [("stall-over", "store")]


# -- a clock that is set back ------------------------------------------------------------------------------------------


def test_a_query_that_waits_for_a_time_that_went_away_is_started_again(
    running: Running, looking: Looking, clock: Clock
) -> None:
    running.another(trigger_ms=1_000)
    running.spark.available = 1
    running.query.start()
    running.query.admit(ALL)
    running.committed(0)
    running.query.idled()
    clock.now_s += 30
    looking.look()
    assert looking.back == [], "its clock is right"
    running.query.idled()
    clock.back_s = 3_600
    looking.look()
    assert looking.back == [], "it has just done something"
    clock.now_s += 10
    looking.look()
    assert looking.back == [TASK]

    held: list[str] = []
    before = running.spark.queries[-1]
    running.query.relaunch(lambda: held.append("gates"))
    assert held == ["gates"]
    assert not before.isActive
    assert running.spark.queries[-1].isActive
    running.spark.available = 2
    running.committed(1)
    clock.now_s += 10
    running.query.relaunch(lambda: held.append("again"))
    assert held == ["gates"], "once is enough"
    assert running.facts(TaskFailed, TaskEnded) == []


def waiting_for_the_past(running: Running, clock: Clock) -> None:
    running.another(trigger_ms=1_000)
    running.query.start()
    clock.back_s = 3_600
    clock.now_s += 10
    assert running.query.waits_for_the_past


def test_a_query_that_cannot_be_started_again_has_failed(running: Running, clock: Clock) -> None:
    waiting_for_the_past(running, clock)

    def away() -> None:
        raise OSError("the gates are away")

    running.query.relaunch(away)
    (failed,) = running.facts(TaskFailed, TaskEnded)
    assert isinstance(failed, TaskFailed)
    assert failed.failure.message == "the gates are away"
    assert len(running.spark.queries) == 1


@pytest.mark.parametrize("before", [True, False])
def test_a_run_that_nobody_wants_is_not_started_again(running: Running, clock: Clock, before: bool) -> None:
    waiting_for_the_past(running, clock)
    if before:
        running.query.interrupt()
    running.query.relaunch(running.query.interrupt)
    assert running.facts(TaskFailed, TaskEnded) == []
    assert len(running.spark.queries) == 1
    assert running.query.doing is None


def test_a_query_without_an_interval_does_not_mind_the_clock(running: Running, looking: Looking, clock: Clock) -> None:
    running.query.start()
    clock.now_s += 10
    clock.back_s = 3_600
    looking.look()
    assert looking.back == []
