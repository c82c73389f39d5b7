"""A job that is drained: its sources end where they stand, all that was read comes out, and then it stops."""

import pytest

from headgate.core import effects as o, events as e, recovery
from headgate.core.effects import Effect
from headgate.core.errors import NotRestorable
from headgate.core.graph import Graph
from headgate.core.ids import CheckpointId, RequestId, SinkId, TaskId
from headgate.core.records import Ending, Kind
from headgate.core.restart import FRUITLESS_MAX, FailureClass
from headgate.core.settings import Mode
from headgate.core.state import Phase
from tests.helpers import channel, line, task
from tests.step_helpers import OTHER, Core, only, published, running, told

GRAPH = line("a")


def draining(**settings: object) -> Core:
    """A job whose only task has been told to finish, after request r1."""
    core = running(GRAPH, **settings)
    core.tell(core.committed("a", 0))
    assert _drained(core.savepoint(drain=True)) == ["a"]
    return core


def led_on(before: Core) -> Core:
    """The same storage, led by another process, which has heard of no request. Its tasks are not up yet."""
    core = Core(before.state.graph)
    core.store = dict(before.store)
    core.copied = before.copied
    core.lead(OTHER)
    core.read()
    return core


def copied(core: Core, savepoint: int) -> list[Effect]:
    return core.tell(e.SavepointCopied(core.state.leadership.leader, CheckpointId(savepoint)))


def _opened(core: Core) -> list[Effect]:
    """The generation is open, and what checkpoint 1 pre-committed before it is committed."""
    given = core.create()
    transaction = core.state.sinks[SinkId("out")].due[0][1]
    return given + core.tell(
        e.TransactionCommitted(core.state.leadership.generation, SinkId("out"), transaction.generation, CheckpointId(1))
    )


def _drained(given: list[Effect]) -> list[str]:
    return [str(one.task) for one in only(o.StopTask, given) if one.drain]


def test_the_job_stops_with_a_savepoint_once_all_tasks_have_finished() -> None:
    core = draining()
    core.tell(core.ended("a", 1))
    given = core.complete(1)
    assert core.state.termination.ending is Ending.STOPPED
    assert [(one.kind, one.draining, one.stop) for one in published(core)] == [(Kind.SAVEPOINT, True, True)]
    assert told(given + copied(core, 1)) == [("done", "r1")]
    assert "where it was drained" in only(o.Notify, _ended(core))[0].text


def _ended(core: Core) -> list[Effect]:
    core.write_closing_record()
    return core.tell(core.stale_generations_aborted())


def test_a_task_that_reads_channels_finishes_when_it_has_read_them_and_a_source_of_its_own_goes_on_till_then() -> None:
    graph = Graph((task("a", source=True), task("b", source=True, sinks=("x",))), (channel("a", "b"),))
    core = running(graph)
    core.tell(core.committed("a", 0))
    assert _drained(core.savepoint(drain=True)) == ["a"]
    core.tell(core.committed("b", 0, -1), core.ended("a", 1))
    assert _drained(core.tell(core.committed("b", 1, 0))) == []
    assert _drained(core.tell(core.committed("b", 2, 1))) == ["b"]


def test_what_was_asked_for_before_the_drain_comes_first() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.ask()
    core.savepoint()
    assert _drained(core.savepoint(drain=True)) == []
    assert told(core.savepoint()) == [("refused", "r4")]
    core.ask()
    assert _drained(core.complete(1)) == ["a"]
    core.tell(core.ended("a"))
    core.complete(2)
    assert [(one.id, one.draining) for one in published(core)] == [(1, False), (2, False)]
    assert told(copied(core, 2)) == [("done", "r2")]
    core.tell(e.Ticked(core.state.now_ms + 1))
    core.complete(3)
    assert [one.draining for one in published(core)] == [False, False, True]


def test_a_drain_that_comes_after_a_stop_is_taken_up_only_if_that_fails() -> None:
    core = running(GRAPH, tolerable_failed_checkpoints=1)
    core.tell(core.committed("a", 0))
    core.savepoint(stop=True)
    assert _drained(core.savepoint(drain=True)) == []
    declined = e.SnapshotDeclined(core.state.leadership.generation, CheckpointId(1), core.whose("a")[1], "busy")
    assert _drained(core.tell(declined)) == ["a"]


def test_a_checkpoint_that_was_triggered_before_does_not_say_that_the_job_drains() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.ask()
    core.savepoint(drain=True)
    core.complete(1)
    assert [one.draining for one in published(core)] == [False]


def test_a_checkpoint_that_a_user_asks_for_at_the_very_end_is_not_the_last_one() -> None:
    core = draining(max_concurrent_checkpoints=1)
    core.ask()
    core.ask()
    core.tell(core.ended("a", 1))
    core.complete(1)
    assert all(snapshot.finished for snapshot in published(core)[-1].tasks) is False
    core.complete(2)
    assert all(snapshot.finished for snapshot in published(core)[-1].tasks)
    assert core.state.phase is Phase.RUNNING
    core.tell(e.Ticked(core.state.now_ms + 1))
    core.complete(3)
    assert core.state.termination.ending is Ending.STOPPED


def test_who_cancels_a_job_that_drains_ends_it_at_once() -> None:
    core = draining()
    given = core.tell(e.CancelAsked(RequestId("no more")))
    assert ("failed", "r1") in told(given)
    assert core.state.termination.ending is Ending.CANCELLED


def test_who_asked_for_a_drain_waits_through_a_savepoint_that_fails_and_hears_when_the_job_fails() -> None:
    core = draining(tolerable_failed_checkpoints=1)
    core.tell(core.ended("a", 1))
    declined = e.SnapshotDeclined(core.state.leadership.generation, CheckpointId(1), core.whose("a")[1], "busy")
    assert told(core.tell(declined)) == [("failed", "None")]
    core.create()
    assert only(o.TakeSnapshot, core.tell(e.Ticked(core.state.now_ms + 1))) != []
    assert ("failed", "r1") in told(core.tell(e.CancelAsked(RequestId("no more"))))


def test_a_job_that_drains_and_returns_to_a_checkpoint_goes_on_draining_for_whoever_asked() -> None:
    core = draining()
    core.tell(core.failed("a", FailureClass.INTERNAL))
    given = core.tell(e.Ticked(core.state.now_ms + 1000)) + core.read() + core.create()
    assert [one.exhausted for one in only(o.StartTask, given)] == [True]
    assert _drained(core.start_all()) == ["a"]
    core.tell(core.ended("a", 0))
    number = core.state.checkpoints.pending[0].id
    core.complete(number)
    assert told(copied(core, number)) == [("done", "r1")]


def test_batches_left_out_at_the_end_are_no_progress_and_the_job_goes_back() -> None:
    """Each leaves one more to plan. And whoever goes back finds out whether somebody else leads by now."""
    core = draining(mode=Mode.AT_MOST_ONCE, interval_ms=None)
    for batch in range(1, 1 + FRUITLESS_MAX):
        core.tell(core.failed("a"))
        core.tell(e.Ticked(core.state.now_ms + 100_000))
        core.tell(core.started("a", batch))
        assert core.state.execution.tasks[TaskId("a")].fruitless == batch
        assert core.state.phase is Phase.RUNNING
    core.tell(core.failed("a"))
    assert only(o.ReadCheckpointLog, core.tell(e.Ticked(core.state.now_ms + 100_000))) != []


def test_a_last_savepoint_whose_record_is_there_after_all_ends_the_job() -> None:
    core = draining()
    core.tell(core.ended("a", 1))
    core.make_ready(1)
    core.create()
    again = led_on(core)
    given = again.create()
    assert again.state.termination.ending is Ending.STOPPED
    assert only(o.StartTask, given) == []
    assert [one.permit.checkpoint for one in only(o.CommitTransaction, given)] == [1]


def test_another_process_goes_on_draining_and_whoever_asks_it_first_is_told() -> None:
    core = draining()
    core.ask()
    core.complete(1)
    again = led_on(core)
    early = [e.SavepointAsked(RequestId(name), drain, drain) for name, drain in (("plain", False), ("first", True))]
    assert told(again.tell(*early)) == []  # It does not know yet that the job drains.
    assert told(again.tell(e.SavepointAsked(RequestId("second"), stop=True, drain=True))) == [("refused", "second")]
    assert told(_opened(again)) == [("refused", "plain")]
    again.start_all()
    assert told(again.tell(e.SavepointAsked(RequestId("third"), stop=True, drain=True))) == [("refused", "third")]
    again.tell(again.ended("a", 1))
    number = again.state.checkpoints.pending[0].id
    again.complete(number)
    assert told(copied(again, number)) == [("done", "first")]


def test_a_job_that_goes_on_draining_can_be_asked_to_drain_later() -> None:
    core = draining()
    core.ask()
    core.complete(1)
    again = led_on(core)
    _opened(again)
    again.start_all()
    assert told(again.tell(e.SavepointAsked(RequestId("late"), stop=True, drain=True))) == []
    assert told(again.tell(e.LeadershipLost(OTHER)))[0] == ("failed", "late")


def test_a_user_cannot_go_back_to_a_checkpoint_of_a_job_that_was_being_drained() -> None:
    core = draining()
    core.ask()
    core.complete(1)
    with pytest.raises(NotRestorable, match="checkpoint 1 is of a job that was being drained"):
        recovery.choose(tuple(core.store.values()), CheckpointId(1))
