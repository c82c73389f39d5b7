"""What was once wrong, and must not be again."""

from headgate.core import effects as o, events as e, invariants
from headgate.core.effects import Ack, Outcome
from headgate.core.evolve import evolve
from headgate.core.ids import Batch, CheckpointId, Generation, RequestId, TaskId
from headgate.core.records import CompletedCheckpoint, Ending, Restore, StoredFile
from headgate.core.restart import FailureClass
from headgate.core.state import Phase
from tests.helpers import completed, epoch_record, line
from tests.step_helpers import ME, OTHER, Core, only, running, told

GRAPH = line("a")
ONE = CheckpointId(1)


def test_a_ready_checkpoint_is_not_held_back_by_a_later_one_that_was_asked_for() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=2, interval_ms=10)
    core.tell(e.Ticked(10))
    core.ask()
    assert [one.record.id for one in only(o.CreateRecord, core.make_ready(1))] == [1]


def test_a_foreign_record_that_is_told_twice_does_not_depose_a_leader_who_reads_again() -> None:
    core = Core(GRAPH)
    core.lead()
    core.read()
    foreign = e.RecordTaken(ME, epoch_record(0, 1, 1, leader=OTHER))
    core.tell(foreign, foreign)
    assert core.state.phase is Phase.READING


def test_an_epoch_record_that_lost_its_place_after_a_gap_leaves_a_state_that_holds() -> None:
    core = Core(GRAPH)
    core.store = {0: epoch_record(0, 1, 9, leader=OTHER)}
    core.lead()
    core.read()
    core.tell(e.RecordTaken(ME, completed(GRAPH, 9)))
    invariants.check(core.state)


def test_who_releases_can_hold_again_only_once_the_store_knows() -> None:
    core = running(GRAPH, num_retained=2)
    core.ask()
    core.complete(1)
    core.tell(e.HoldAsked(RequestId("h"), ONE), e.HoldSet(ME, ONE, held=True))
    core.tell(e.HoldAsked(RequestId("x"), ONE, held=False))
    assert told(core.tell(e.HoldAsked(RequestId("y"), ONE))) == [("refused", "y")]
    core.tell(e.HoldSet(ME, ONE, held=False), e.HoldAsked(RequestId("z"), ONE), e.HoldSet(ME, ONE, held=True))
    assert core.state.retained.held == (1,)
    assert core.state.collection.pending_deletion == ()


def test_a_stop_with_savepoint_stops_even_if_the_restart_finds_its_record_in_the_checkpoint_log() -> None:
    core = running(GRAPH)
    core.savepoint(stop=True)
    core.make_ready(1)
    core.store[1] = core.state.checkpoint_log.queue[0]
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.read()
    core.create()
    assert core.state.phase in (Phase.CLOSING, Phase.CLOSED)


def test_who_asked_for_a_checkpoint_hears_of_it_when_a_restart_comes_before_its_record() -> None:
    for landed in (True, False):
        core = running(GRAPH)
        core.ask()
        core.make_ready(1)
        if landed:
            core.store[1] = core.state.checkpoint_log.queue[0]
        given = core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000)) + core.read() + core.create()
        assert ("done" if landed else "failed", "r1") in told(given)


def test_everybody_hears_when_the_job_ends_here() -> None:
    core = running(GRAPH)
    core.ask()
    core.ask()
    given = told(core.tell(e.LeadershipLost(ME)))
    assert {request for _, request in given} >= {"r1", "r2"}


def test_nothing_is_ordered_at_rest() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=2)
    core.tell(core.committed("a", 0))
    core.ask()
    core.tell(core.committed("a", 1))
    core.ask()
    late = core.pre_committed(1)
    core.tell(e.LeadershipLost(ME))
    assert core.tell(late) == []
    core = running(GRAPH)
    for number in (1, 2):
        core.ask()
        core.complete(number)
    core.tell(e.LeadershipLost(ME))
    assert core.tell(e.FilesDeleted(Generation(1), ())) == []


def test_a_snapshot_whose_record_may_have_landed_is_not_discarded() -> None:
    core = running(GRAPH)
    core.ask()
    late = core.acked("a", 1)
    core.make_ready(1)
    core.tell(e.LeadershipLost(ME))
    assert [one.answer for one in only(o.AnswerAck, core.tell(late))] != [Ack.DISCARDED]


def test_a_pre_commit_is_not_ordered_again_after_its_sink_was_told_to_abort() -> None:
    core = running(GRAPH, resend_ms=10)
    core.tell(core.committed("a", 0))
    core.ask()
    core.tell(core.failed("a", FailureClass.USER))
    assert only(o.AbortStaleGenerations, core.write_closing_record())
    assert only(o.PreCommitSink, core.tell(e.Ticked(10))) == []


def test_a_cancelled_job_does_not_name_a_checkpoint_that_it_has_deleted() -> None:
    core = running(GRAPH)
    core.ask()
    core.complete(1)
    core.tell(e.CancelAsked(RequestId("x")))
    core.create()
    given = core.tell(
        core.stale_generations_aborted(), e.FilesListed(Generation(1), ()), e.FilesDeleted(Generation(1), (ONE,))
    )
    assert only(o.Notify, given)[-1].checkpoint is None


def test_whoever_cancels_hears_of_the_end() -> None:
    core = running(GRAPH)
    given = core.tell(e.CancelAsked(RequestId("x")), e.CancelAsked(RequestId("y")))
    given += core.create() + core.tell(core.stale_generations_aborted())
    assert {request for _, request in told(given)} == {"x", "y"}


def test_an_ack_for_a_checkpoint_in_doubt_is_not_discarded() -> None:
    core = running(GRAPH)
    core.ask()
    late = core.acked("a", 1)
    core.make_ready(1)
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    assert [one.answer for one in only(o.AnswerAck, core.tell(late))] != [Ack.DISCARDED]


def test_a_hold_that_is_confirmed_lets_a_closing_job_close() -> None:
    core = running(GRAPH)
    core.ask()
    core.complete(1)
    core.tell(e.HoldAsked(RequestId("h"), ONE), core.failed("a", FailureClass.USER))
    assert only(o.CreateRecord, core.tell(e.HoldSet(ME, ONE, held=True)))


def test_a_read_of_the_checkpoint_log_that_is_older_than_our_own_generation_is_not_believed() -> None:
    core = running(GRAPH)
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    assert core.state.phase is Phase.READING
    assert core.tell(e.CheckpointLogRead(ME, ())) == []


def test_an_old_generation_is_not_opened_again_by_old_answers() -> None:
    core = running(GRAPH)
    core.ask()
    core.complete(1)
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.tell(e.CheckpointLogRead(ME, ()), e.RecordTaken(ME, core.store[0]), e.CheckpointLogRead(ME, (core.store[0],)))
    assert not (core.state.phase is Phase.RUNNING and core.state.leadership.generation == 1)


def test_who_waits_for_a_savepoint_hears_of_it_even_if_it_was_copied_before_a_restart() -> None:
    core = running(GRAPH)
    core.savepoint()
    core.complete(1)
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.copied = (ONE,)
    core.read()
    core.create()
    assert ("done", "r1") in told(core.tell(e.SavepointCopied(ME, ONE)))


def test_a_hold_needs_a_process_that_leads() -> None:
    core = Core(GRAPH)
    core.store = {0: epoch_record(0, 1, 1, leader=OTHER), 1: completed(GRAPH, 1)}
    core.lead()
    core.read()
    assert core.state.phase is Phase.FENCING
    assert told(core.tell(e.HoldAsked(RequestId("h"), ONE))) == [("refused", "h")]


def test_a_user_can_return_only_to_what_is_kept() -> None:
    core = Core(GRAPH, num_retained=1)
    core.store = {0: epoch_record(0, 1, 1, leader=OTHER), 1: completed(GRAPH, 1), 2: completed(GRAPH, 2, 3)}
    core.lead(restore=Restore(checkpoint=ONE))
    texts = [one.text for one in only(o.Notify, core.read())]
    assert texts == ["checkpoint 1 is no longer kept and may be gone any moment; kept are: 2"]
    assert core.state.phase is Phase.CLOSED
    core.held = (ONE,)
    core.lead(restore=Restore(checkpoint=ONE))
    assert only(o.CreateRecord, core.read())


def test_a_base_that_is_gone_when_the_epoch_record_is_there_is_told_and_not_raised() -> None:
    core = Core(GRAPH)
    core.store = {0: epoch_record(0, 1, 1, leader=OTHER), 1: completed(GRAPH, 1)}
    core.lead(restore=Restore(checkpoint=ONE))
    core.read()
    del core.store[1]
    assert [one.text for one in only(o.Notify, core.create())] == [
        "checkpoint 1 is not in the storage; there are: none"
    ]


def test_who_takes_over_leaves_a_job_that_is_over_and_a_user_can_start_it_again() -> None:
    core = running(GRAPH)
    core.ask()
    core.complete(1)
    core.tell(core.failed("a", FailureClass.USER))
    core.write_closing_record()
    core.tell(core.stale_generations_aborted())
    core.lead(OTHER)
    assert core.read() == [o.Notify(Outcome.NOTICE, "the job is failed: start it again to go on")]
    assert (core.state.phase, core.state.termination.ending) == (Phase.CLOSED, Ending.FAILED)
    core.lead(OTHER, restore=Restore(again=True))
    core.read()
    core.create()
    assert (core.state.phase, core.state.retained.base) == (Phase.RUNNING, 1)


def test_a_stop_that_was_published_is_carried_out_by_whoever_leads_next() -> None:
    core = running(GRAPH)
    core.savepoint(stop=True)
    core.make_ready(1)
    core.store[1] = core.state.checkpoint_log.queue[0]
    core.tell(e.LeadershipLost(ME))
    core.lead(OTHER)
    core.read()
    given = core.create()
    assert only(o.StartTask, given) == []
    assert (core.state.phase, core.state.termination.ending) == (Phase.CLOSING, Ending.STOPPED)


def test_a_user_who_starts_a_job_again_that_was_to_stop_gets_it_started() -> None:
    core = running(GRAPH)
    core.savepoint(stop=True)
    core.make_ready(1)
    core.store[1] = core.state.checkpoint_log.queue[0]
    core.tell(e.LeadershipLost(ME))
    core.lead(OTHER, restore=Restore(again=True))
    core.read()
    assert only(o.StartTask, core.create())
    assert core.state.phase is Phase.RUNNING


def test_a_process_that_was_overtaken_while_it_restarted_does_not_epoch_record_the_leader() -> None:
    core = running(GRAPH)
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.store[1] = epoch_record(1, 2, 9, leader=OTHER)
    assert only(o.CreateRecord, core.read()) == []
    assert core.state.phase is Phase.DEPOSED


def test_a_task_that_had_finished_before_is_not_asked_for_its_snapshot_again() -> None:
    graph = line("a", "b")
    before = completed(graph, 1, 4)
    finished = evolve(before.tasks[0], finished=True)
    core = Core(graph)
    core.store = {0: epoch_record(0, 1, 1, leader=OTHER), 1: evolve(before, tasks=(finished, before.tasks[1]))}
    core.lead()
    core.read()
    core.create()
    core.start_all()
    assert [one.task for one in only(o.TakeSnapshot, core.ask())] == ["b"]
    published = only(o.CreateRecord, core.make_ready(core.state.checkpoints.pending[0].id))[0].record
    assert isinstance(published, CompletedCheckpoint)
    assert published.tasks[0] == finished, "it keeps the generation that wrote it"
    assert published.tasks[1].generation == 2


def test_a_collection_leaves_what_a_checkpoint_under_way_names_or_may_be_about_to_name() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=2)
    late = StoredFile("late", Generation(1), TaskId("a"), Batch(0))
    for number in (1, 2):
        core.tell(core.committed("a", number))
        core.ask()
        core.complete(number)
    assert only(o.DeleteFiles, core.tell(e.FilesListed(Generation(1), (late,))))[0].files == (), "a candidate only"
    core.tell(e.FilesDeleted(Generation(1), (ONE,)))
    core.tell(core.committed("a", 3))
    core.ask()
    core.complete(3)
    core.ask()
    core.tell(evolve(core.acked("a", 4), files=("late",)))
    assert only(o.DeleteFiles, core.tell(e.FilesListed(Generation(1), (late,))))[0].files == (), "named by 4"


def test_nothing_is_deleted_while_somebody_else_may_lead() -> None:
    core = running(GRAPH)
    core.ask()
    core.complete(1)
    core.tell(e.HoldAsked(RequestId("h"), ONE), e.HoldSet(ME, ONE, held=True))
    core.ask()
    core.complete(2)
    core.tell(e.HoldAsked(RequestId("x"), ONE, held=False))
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    assert core.state.phase is Phase.READING
    assert only(o.ListFiles, core.tell(e.HoldSet(ME, ONE, held=False))) == []


def test_a_hold_that_was_confirmed_survives_a_read_that_is_older() -> None:
    core = running(GRAPH)
    core.ask()
    core.complete(1)
    core.tell(e.HoldAsked(RequestId("h"), ONE), e.HoldSet(ME, ONE, held=True))
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.held = ()
    core.read()
    core.create()
    assert core.state.retained.held == (1,)


def test_a_savepoint_that_was_copied_is_not_copied_again_after_a_read_that_is_older() -> None:
    core = running(GRAPH)
    core.savepoint()
    core.complete(1)
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    assert told(core.tell(e.SavepointCopied(ME, ONE))) == [("done", "r1")]
    core.copied = ()
    core.read()
    given = core.create() + core.tell(e.SavepointCopied(ME, ONE))
    assert core.state.retained.copying == ()
    assert only(o.CopySavepoint, given) == []
    assert told(given) == []


def test_a_savepoint_that_is_copied_while_the_job_begins_again_is_answered_once() -> None:
    core = running(GRAPH)
    core.savepoint()
    core.make_ready(1)
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.read()
    core.store[1] = core.state.leadership.in_doubt[0]
    core.tell(e.RecordTaken(ME, core.store[1]))
    core.read()
    assert core.state.phase is Phase.FENCING
    assert told(core.tell(e.SavepointCopied(ME, ONE))) == [("done", "r1")]
    core.copied = (ONE,)
    given = core.create() + core.tell(e.SavepointCopied(ME, ONE))
    assert [answer for answer in told(given) if answer[1] == "r1"] == []
