"""When the core wants to hear the clock, and what it does then."""

from itertools import pairwise

from headgate.core import effects as o, events as e
from headgate.core.ids import CheckpointId, Generation, TaskId
from headgate.core.restart import FailureClass, FixedDelay
from headgate.core.state import Phase
from headgate.core.timing import next_deadline
from tests.helpers import line
from tests.step_helpers import ME, Core, only, running

GRAPH = line("a", "b")
FAR = 3_600_000
"""When orders are given again, in a quiet job."""


def test_at_rest_there_is_no_deadline() -> None:
    core = Core(GRAPH)
    assert next_deadline(core.state) is None
    core.lead()
    core.tell(e.LeadershipLost(ME))
    assert next_deadline(core.state) is None


def test_orders_are_given_again_after_resend_ms_from_the_first_on() -> None:
    core = Core(GRAPH, resend_ms=70)
    core.tell(e.Ticked(30))
    core.lead()
    assert next_deadline(core.state) == 100
    assert core.tell(e.Ticked(99)) == []
    assert core.tell(e.Ticked(100)) == [o.ReadCheckpointLog(ME)]
    assert next_deadline(core.state) == 170


def test_the_next_checkpoint_is_due_after_the_interval() -> None:
    core = running(GRAPH, interval_ms=500)
    assert next_deadline(core.state) == 500
    assert core.tell(e.Ticked(499)) == []
    assert [one.task for one in only(o.TakeSnapshot, core.tell(e.Ticked(510)))] == ["a", "b"]
    core.complete(1)
    assert next_deadline(core.state) == 1010


def test_while_there_is_no_room_for_another_checkpoint_the_interval_is_no_deadline() -> None:
    core = running(GRAPH, interval_ms=500, timeout_ms=10_000)
    core.tell(e.Ticked(500))
    assert next_deadline(core.state) == 10_500
    assert only(o.TakeSnapshot, core.tell(e.Ticked(1000))) == []


def test_a_pause_is_kept_between_the_end_of_one_checkpoint_and_the_next() -> None:
    core = running(GRAPH, interval_ms=500, min_pause_ms=300)
    assert next_deadline(core.state) == 500
    core.tell(e.Ticked(500), e.Ticked(900))
    core.complete(1)
    assert next_deadline(core.state) == 1200


def test_a_pending_checkpoint_has_its_timeout() -> None:
    core = running(GRAPH, timeout_ms=200, tolerable_failed_checkpoints=5)
    core.tell(e.Ticked(50))
    core.ask()
    assert next_deadline(core.state) == 250
    assert core.tell(e.Ticked(249)) == []
    given = core.tell(e.Ticked(250))
    assert only(o.AbortSnapshot, given) == [o.AbortSnapshot(Generation(1), CheckpointId(1))]
    assert next_deadline(core.state) == FAR


def test_a_pending_checkpoint_has_its_alignment_timeout() -> None:
    core = running(GRAPH, aligned_checkpoint_timeout_ms=40)
    core.tell(core.committed("a", 0), e.Ticked(10))
    core.ask()
    assert next_deadline(core.state) == 50
    assert [one.task for one in only(o.TakeSnapshot, core.tell(e.Ticked(50)))] == ["b"]
    assert next_deadline(core.state) == 600_010


def test_an_alignment_timeout_of_one_checkpoint_leaves_a_younger_one_aligned() -> None:
    core = running(GRAPH, aligned_checkpoint_timeout_ms=40, max_concurrent_checkpoints=2)
    core.tell(core.committed("a", 0))
    core.ask()
    core.tell(e.Ticked(30))
    core.ask()
    core.tell(e.Ticked(40))
    assert [pending.unaligned for pending in core.state.checkpoints.pending] == [True, False]
    assert next_deadline(core.state) == 70


def test_a_failed_task_is_started_again_after_its_delay() -> None:
    core = running(GRAPH, restart=FixedDelay(90))
    core.tell(core.failed("b"))
    assert next_deadline(core.state) == 90
    assert core.tell(e.Ticked(89)) == []
    assert [(one.task, one.run, one.in_place) for one in only(o.StartTask, core.tell(e.Ticked(90)))] == [("b", 2, True)]
    assert next_deadline(core.state) == FAR


def test_a_job_that_failed_begins_again_after_its_delay() -> None:
    core = running(GRAPH, restart=FixedDelay(90))
    core.tell(core.failed("b", FailureClass.INTERNAL))
    assert next_deadline(core.state) == 90
    assert core.tell(e.Ticked(89)) == []
    assert core.tell(e.Ticked(90)) == [o.ReadCheckpointLog(ME)]
    assert core.state.phase is Phase.READING
    assert next_deadline(core.state) == FAR


def test_a_create_that_was_unclear_and_a_commit_that_failed_have_theirs() -> None:
    core = running(GRAPH, commit_retry_ms=20)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.make_ready(1)
    core.tell(e.CreateUnclear(ME, Generation(1), CheckpointId(1)))
    assert next_deadline(core.state) == 20
    assert core.tell(e.Ticked(19)) == []
    assert [one.record.id for one in only(o.CreateRecord, core.tell(e.Ticked(20)))] == [1]
    core.create()
    core.tell(core.commit_failed(1))
    assert next_deadline(core.state) == 40
    assert core.tell(e.Ticked(39)) == []
    assert len(only(o.CommitTransaction, core.tell(e.Ticked(40)))) == 1
    core.tell(core.visible(1))
    assert next_deadline(core.state) == FAR


def test_a_storage_that_stays_away_is_asked_later_and_later_and_told_of_now_and_then() -> None:
    core = running(GRAPH, commit_retry_ms=100, commit_retry_max_ms=10_000)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.make_ready(1)
    told, tries = [], []
    for _ in range(20):
        given = core.tell(e.CreateUnclear(ME, Generation(1), CheckpointId(1), "no space left"))
        told += [one.text for one in only(o.Notify, given)]
        at = core.state.checkpoint_log.retry_at_ms
        assert at is not None
        assert only(o.CreateRecord, core.tell(e.Ticked(at - 1))) == []
        tries += [at for _ in only(o.CreateRecord, core.tell(e.Ticked(at)))]
    assert tries[:4] == [100, 300, 700, 1_500]
    assert {later - before for before, later in pairwise(tries[8:])} == {10_000}
    assert told == [
        "record 1 is not in the storage yet, next try in 0.1 s: no space left",
        "record 1 is not in the storage yet, failing for 0 s, next try in 0.2 s: no space left",
        "record 1 is not in the storage yet, failing for 1 s, next try in 0.8 s: no space left",
        "record 1 is not in the storage yet, failing for 13 s, next try in 10 s: no space left",
        "record 1 is not in the storage yet, failing for 93 s, next try in 10 s: no space left",
    ]


def test_while_a_create_or_a_commit_waits_it_is_not_given_again_with_the_rest() -> None:
    core = running(GRAPH, resend_ms=10, commit_retry_ms=500)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.make_ready(1)
    core.tell(e.CreateUnclear(ME, Generation(1), CheckpointId(1)))
    assert only(o.CreateRecord, core.tell(e.Ticked(10))) == []
    core.create()
    core.tell(core.commit_failed(1))
    assert only(o.CommitTransaction, core.tell(e.Ticked(20))) == []


def test_a_job_whose_tasks_have_all_ended_takes_its_last_checkpoint_at_once_or_right_after_one_that_failed() -> None:
    core = running(line("a"), tolerable_failed_checkpoints=5)
    core.tell(e.Ticked(100), e.SourceEnded(*core.whose("a")))
    assert [one.checkpoint for one in only(o.TakeSnapshot, core.tell(core.ended("a")))] == [1]
    core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(1), TaskId("a")))
    core.create()
    assert next_deadline(core.state) == 101
    assert [one.checkpoint for one in only(o.TakeSnapshot, core.tell(e.Ticked(101)))] == [2]


def test_late_ticks_do_everything_that_is_due() -> None:
    core = running(GRAPH, restart=FixedDelay(10), timeout_ms=20, resend_ms=30, tolerable_failed_checkpoints=5)
    core.ask()
    core.tell(core.failed("b"))
    given = core.tell(e.Ticked(1000))
    kinds = {type(one) for one in given}
    assert {o.StartTask, o.AbortSnapshot, o.CreateRecord, o.AskTask, o.OpenGate} <= kinds
    assert next_deadline(core.state) == 1030
