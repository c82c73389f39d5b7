"""What a user may ask for, and what the answer is."""

import pytest

from headgate.core import effects as o, events as e
from headgate.core.ids import CheckpointId, Generation, RequestId, SinkId, TaskId
from headgate.core.records import Ending
from headgate.core.restart import FailureClass
from headgate.core.state import Phase
from tests.helpers import line
from tests.step_helpers import ME, Core, only, running, told

GRAPH = line("a")
ONE = CheckpointId(1)
ASK = RequestId("mine")
REQUESTS: list[e.UserFact] = [
    e.CheckpointAsked(ASK),
    e.SavepointAsked(ASK),
    e.SavepointAsked(ASK, stop=True),
    e.HoldAsked(ASK, ONE),
    e.HoldAsked(ASK, ONE, held=False),
    e.DeleteAsked(ASK, ONE),
]


def closed_core() -> Core:
    core = running(GRAPH)
    core.tell(core.failed("a", FailureClass.USER))
    core.write_closing_record()
    core.tell(core.stale_generations_aborted())
    assert core.state.phase is Phase.CLOSED
    return core


def deposed_core() -> Core:
    core = running(GRAPH)
    core.tell(e.LeadershipLost(ME))
    return core


@pytest.mark.parametrize("fact", [*REQUESTS, e.CancelAsked(ASK)], ids=lambda fact: type(fact).__name__)
def test_a_job_that_does_not_run_here_refuses_everything(fact: e.UserFact) -> None:
    for core in (Core(GRAPH), closed_core(), deposed_core()):
        before = core.state
        assert told(core.tell(fact)) == [("refused", "mine")]
        assert core.state == before


def test_a_closing_job_refuses_checkpoints_that_are_asked_for_and_that_wait() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.ask()
    core.ask()
    given = core.tell(core.failed("a", FailureClass.USER))
    assert ("failed", "r1") in told(given)
    assert ("refused", "r2") in told(given)
    assert core.state.phase is Phase.CLOSING
    assert told(core.tell(e.CheckpointAsked(ASK), e.SavepointAsked(ASK))) == [("refused", "mine")] * 2


def test_what_is_asked_for_before_the_job_runs_is_done_once_it_does() -> None:
    core = Core(GRAPH)
    core.lead()
    assert core.ask() == []
    core.read()
    assert only(o.TakeSnapshot, core.create()) == []
    assert [one.checkpoint for one in only(o.TakeSnapshot, core.start_all())] == [1]


def test_a_request_survives_a_restart_but_a_checkpoint_under_way_does_not() -> None:
    core = running(GRAPH)
    core.ask()
    core.ask()
    given = core.tell(core.failed("a", FailureClass.INTERNAL))
    assert ("failed", "r1") in told(given)
    core.tell(e.Ticked(1000))
    core.read()
    core.create()
    core.start_all()
    assert told(core.complete(core.state.checkpoints.pending[0].id)) == [("done", "r2")]


def test_a_checkpoint_that_nobody_asked_for_is_given_up_silently_when_the_job_restarts() -> None:
    core = running(GRAPH, interval_ms=10)
    core.tell(e.Ticked(10))
    assert [text for text, _ in told(core.tell(core.failed("a", FailureClass.INTERNAL)))] == ["notice"]


def test_a_savepoint_with_stop_that_fails_does_not_stop_the_job() -> None:
    core = running(GRAPH, tolerable_failed_checkpoints=1)
    core.savepoint(stop=True)
    assert core.ask() == []
    given = core.tell(e.SnapshotDeclined(Generation(1), ONE, TaskId("a")))
    assert told(given) == [("failed", "r1")]
    assert core.state.phase is Phase.RUNNING
    assert [one.checkpoint for one in only(o.TakeSnapshot, given)] == [2]


def test_cancelling_a_job_that_keeps_its_checkpoints_deletes_none() -> None:
    core = running(GRAPH, retain_on_cancellation=True)
    core.ask()
    core.complete(1)
    given = core.tell(e.CancelAsked(ASK))
    assert [type(one) for one in given] == [o.StopTask, o.CreateRecord]
    assert [type(one) for one in core.write_closing_record()] == [o.AbortStaleGenerations]
    assert told(core.tell(core.stale_generations_aborted())) == [("done", "mine")]
    assert core.state.termination.ending is Ending.CANCELLED
    assert [one.id for one in core.state.retained.completed] == [1]


def test_cancelling_while_the_last_commits_are_recovered_finishes_them_and_starts_no_task() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.ask()
    core.make_ready(1)
    core.create()
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.read()
    core.create()
    assert core.state.phase is Phase.RECOVERING
    assert [type(one) for one in core.tell(e.CancelAsked(ASK))] == [o.StopTask]
    answer = e.TransactionCommitted(Generation(2), SinkId("out"), Generation(1), ONE)
    assert [type(order) for order in core.tell(answer)] == [o.CreateRecord]


def test_cancelling_a_closing_job_only_says_who_wants_to_hear_of_the_end() -> None:
    core = running(GRAPH)
    core.tell(core.failed("a", FailureClass.USER))
    assert core.tell(e.CancelAsked(ASK)) == []
    core.write_closing_record()
    assert [one.text for one in only(o.Notify, core.tell(core.stale_generations_aborted()))] == [
        "the job is failed; latest checkpoint: none"
    ]


def test_what_is_held_twice_is_held_once() -> None:
    core = running(GRAPH)
    core.ask()
    core.complete(1)
    core.tell(e.HoldAsked(ASK, ONE), e.HoldAsked(ASK, ONE))
    assert core.state.retained.held == (1,)
    core.tell(e.HoldSet(ME, ONE, held=True), e.HoldSet(ME, ONE, held=True))
    assert (core.state.retained.held, core.state.retained.holding) == ((1,), ())


def test_a_hold_that_the_store_has_not_confirmed_holds_through_a_restart() -> None:
    core = running(GRAPH)
    core.ask()
    core.complete(1)
    core.tell(e.HoldAsked(ASK, ONE), core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.read()
    core.create()
    assert core.state.retained.held == (1,)


def test_who_cancels_second_is_refused_and_who_cancels_first_hears_of_the_end() -> None:
    core = running(GRAPH, retain_on_cancellation=True)
    core.tell(e.CancelAsked(ASK))
    assert told(core.tell(e.CancelAsked(RequestId("second")))) == [("refused", "second")]
    core.write_closing_record()
    assert told(core.tell(core.stale_generations_aborted())) == [("done", "mine")]


def test_a_closing_job_waits_until_the_store_knows_what_is_held() -> None:
    core = running(GRAPH)
    core.ask()
    core.complete(1)
    core.tell(e.HoldAsked(ASK, ONE))
    assert only(o.AbortStaleGenerations, core.tell(core.failed("a", FailureClass.USER))) == []
    assert told(core.tell(e.HoldSet(ME, ONE, held=True))) == [("done", "mine")]


def test_whoever_waits_for_something_hears_when_this_process_no_longer_leads() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=3, interval_ms=10)
    core.savepoint()
    core.complete(1)
    core.tell(e.HoldAsked(RequestId("hold"), ONE))
    core.ask()
    core.make_ready(2)
    core.tell(e.Ticked(10))
    core.ask()
    core.savepoint()
    core.ask()
    given = told(core.tell(e.LeadershipLost(ME)))
    assert sorted(given) == [
        ("failed", "hold"),
        ("failed", "r1"),
        ("failed", "r2"),
        ("failed", "r3"),
        ("failed", "r4"),
        ("notice", "None"),
        ("refused", "r5"),
    ]
    assert told(core.tell(e.SavepointCopied(ME, ONE), e.HoldSet(ME, ONE, held=True))) == []


def test_who_cancelled_hears_when_somebody_else_leads() -> None:
    core = running(GRAPH)
    core.tell(e.CancelAsked(ASK))
    given = core.tell(e.LeadershipLost(ME))
    assert told(given) == [("failed", "mine"), ("notice", "None")]
