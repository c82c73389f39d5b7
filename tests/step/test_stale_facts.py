"""Facts may come late, twice, or from somebody who is dead. Then they change nothing."""

from dataclasses import replace

import pytest

from headgate.core import effects as o, events as e
from headgate.core.ids import Batch, CheckpointId, Generation, RequestId, Run, SinkId, TaskId
from headgate.core.records import Boundary
from headgate.core.restart import Failure, FailureClass
from headgate.core.state import Phase
from tests.helpers import aborted_entry, epoch_record, line
from tests.step_helpers import ME, OTHER, Core, only, running

GRAPH = line("a", "b")


def unmoved(core: Core, *facts: e.Event) -> bool:
    before = core.state
    return core.tell(*facts) == [] and core.state == before


def facts_of_a(generation: int, run: int) -> list[e.TaskFact]:
    whose = Generation(generation), TaskId("a"), Run(run)
    ahead = Boundary(Batch(7))
    return [
        e.TaskStarted(*whose, ahead),
        e.TaskFailed(*whose, Failure(FailureClass.INTERNAL)),
        e.TaskEnded(*whose, ahead),
        e.BatchEntered(*whose, ahead),
        e.OutputsWritten(*whose, Batch(7)),
        e.BatchCommitted(*whose, ahead),
        e.SourceEnded(*whose),
        e.Reported(*whose, ahead, failure=Failure(FailureClass.INTERNAL)),
    ]


@pytest.mark.parametrize(("generation", "run"), [(1, 1), (1, 3), (2, 2), (0, 2)])
def test_a_task_is_heard_only_through_its_present_run(generation: int, run: int) -> None:
    core = running(GRAPH)
    core.tell(core.failed("a"), e.Ticked(1000))
    assert core.state.execution.tasks[TaskId("a")].run == 2
    for fact in facts_of_a(generation, run):
        assert isinstance(fact, e.AnyTaskFact)
        assert unmoved(core, fact), fact


def test_a_task_that_has_ended_has_nothing_more_to_say() -> None:
    core = running(GRAPH)
    core.tell(e.SourceEnded(*core.whose("a")), core.ended("a"))
    for fact in facts_of_a(1, 1):
        assert isinstance(fact, e.AnyTaskFact)
        assert unmoved(core, fact), fact


@pytest.mark.parametrize("phase", [Phase.RESTARTING, Phase.CLOSING, Phase.DEPOSED])
def test_tasks_are_heard_only_while_the_job_runs(phase: Phase) -> None:
    core = running(GRAPH)
    if phase is Phase.RESTARTING:
        core.tell(core.failed("a", FailureClass.INTERNAL))
    elif phase is Phase.CLOSING:
        core.tell(core.failed("a", FailureClass.USER))
    else:
        core.tell(e.LeadershipLost(ME))
    assert core.state.phase is phase
    for fact in facts_of_a(1, 1):
        assert isinstance(fact, e.AnyTaskFact)
        assert unmoved(core, fact), fact


def test_what_a_task_says_about_an_earlier_batch_does_not_take_it_back() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 5))
    earlier = Boundary(Batch(3))
    assert unmoved(
        core,
        core.committed("a", 3),
        core.started("a", 3),
        core.reported("a", 3),
        e.BatchEntered(*core.whose("a"), earlier),
        e.OutputsWritten(*core.whose("a"), Batch(3)),
    )


def test_a_sinks_answers_count_only_in_its_generation() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    for fact in (core.pre_committed(1), core.pre_commit_failed(1), core.stale_generations_aborted()):
        assert unmoved(core, replace(fact, generation=Generation(2)))
    core.make_ready(1)
    core.create()
    for answer in (core.visible(1), core.commit_failed(1)):
        assert unmoved(core, replace(answer, generation=Generation(2)))


def test_a_sinks_answer_that_comes_twice_or_too_early_changes_nothing() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    assert unmoved(core, core.pre_committed(1), core.pre_commit_failed(1), core.visible(1), core.commit_failed(1))
    core.ask()
    core.complete(1)
    assert unmoved(core, core.pre_committed(1), core.pre_commit_failed(1), core.visible(1), core.commit_failed(1))


def test_word_of_an_abort_that_is_no_longer_wanted_changes_nothing() -> None:
    core = running(GRAPH)
    assert unmoved(core, e.StaleGenerationsAborted(Generation(1), SinkId("out"), Generation(9)))


def test_the_store_is_heard_only_by_the_leader_who_asked() -> None:
    core = running(GRAPH)
    core.savepoint()
    core.make_ready(1)
    generation, record = Generation(1), CheckpointId(1)
    assert unmoved(
        core,
        e.RecordCreated(OTHER, generation, record),
        e.RecordTaken(OTHER, epoch_record(1, 2, 9, leader=OTHER)),
        e.CreateUnclear(OTHER, generation, record),
        e.CheckpointLogRead(OTHER, ()),
        e.LeadershipLost(OTHER),
    )
    core.create()
    core.tell(e.HoldAsked(RequestId("r2"), record))
    assert unmoved(core, e.SavepointCopied(OTHER, record), e.HoldSet(OTHER, record, held=True))


def test_the_stores_word_about_a_record_that_is_settled_changes_nothing() -> None:
    core = running(GRAPH)
    generation = Generation(1)
    assert unmoved(
        core,
        e.RecordCreated(ME, generation, CheckpointId(0)),
        e.RecordTaken(ME, epoch_record(0, 1, 1, leader=ME)),
        e.RecordTaken(ME, aborted_entry(1, leader=OTHER)),
        e.CreateUnclear(ME, generation, CheckpointId(0)),
        e.CheckpointLogRead(ME, ()),
        e.SavepointCopied(ME, CheckpointId(0)),
        e.HoldSet(ME, CheckpointId(0), held=True),
    )


def test_a_listing_or_a_deletion_that_nobody_waits_for_changes_nothing() -> None:
    core = running(GRAPH)
    nobody = CheckpointId(9)
    assert unmoved(core, e.FilesListed(Generation(1), ()), e.FilesDeleted(Generation(1), (nobody,)))
    core.ask()
    core.complete(1)
    core.ask()
    assert only(o.ListFiles, core.complete(2)) == [o.ListFiles(Generation(1))]
    assert unmoved(core, e.FilesListed(Generation(2), ()), e.FilesDeleted(Generation(2), (CheckpointId(1),)))
    core.tell(e.LeadershipLost(ME))
    assert unmoved(core, e.FilesListed(Generation(1), ()))


def test_after_the_job_is_over_nothing_changes_it_but_a_new_lead() -> None:
    core = running(line("a"))
    core.tell(core.committed("a", 0))
    core.ask()
    core.make_ready(1)
    core.create()
    due = core.visible(1), core.commit_failed(1)
    core.tell(e.LeadershipLost(ME))
    assert unmoved(core, *due, e.LeadershipLost(ME))
    core.tell(e.Ticked(5))
    assert core.state.now_ms == 5
    assert [type(one) for one in core.lead(OTHER)] == [o.ReadCheckpointLog]
    assert (core.state.leadership.leader, core.state.now_ms, core.state.sinks) == (OTHER, 5, {})


def test_who_leads_already_does_not_begin_again() -> None:
    core = running(GRAPH)
    assert unmoved(core, e.LeadershipWon(OTHER))


def test_the_clock_never_goes_back() -> None:
    core = running(GRAPH)
    core.tell(e.Ticked(100))
    core.tell(e.Ticked(50))
    assert core.state.now_ms == 100


def test_a_run_that_has_not_been_ordered_yet_says_nothing() -> None:
    core = running(GRAPH)
    core.tell(core.failed("a"))
    assert core.state.execution.tasks[TaskId("a")].run == 2
    assert unmoved(core, core.started("a"), core.entered("a", 0), core.committed("a", 0))
