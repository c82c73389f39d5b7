"""From leadership to a generation, and out of it."""

from headgate.core import effects as o, events as e
from headgate.core.ids import CheckpointId, Generation, OperatorUid, RequestId, SinkId, TaskId
from headgate.core.records import Ending, Kind, Restore
from headgate.core.restart import FailureClass
from headgate.core.state import Phase
from tests.helpers import aborted_entry, completed, epoch_record, line, transaction
from tests.step_helpers import ME, OTHER, Core, only, published, running, told

GRAPH = line("a", "b")
TWO = Generation(2)


def test_a_job_that_does_not_fit_its_checkpoint_fails_before_it_touches_anything() -> None:
    core = Core(line("a", "c"))
    core.store = {0: epoch_record(0, 1, 1), 1: completed(GRAPH, 1)}
    core.lead()
    given = core.read()
    assert [type(one) for one in given] == [o.Notify]
    assert told(given) == [("failed", "None")]
    assert (core.state.phase, core.state.termination.ending) == (Phase.CLOSED, Ending.FAILED)


def test_a_checkpoint_that_is_not_there_cannot_be_restored() -> None:
    core = Core(GRAPH)
    core.lead(restore=Restore(checkpoint=CheckpointId(7)))
    assert [one.text for one in only(o.Notify, core.read())] == ["checkpoint 7 is not in the storage; there are: none"]


def test_what_the_user_said_about_the_beginning_is_used_once() -> None:
    core = Core(GRAPH, num_retained=2)
    core.store = {0: epoch_record(0, 1, 1), 1: completed(GRAPH, 1, 4), 2: completed(GRAPH, 2, 6)}
    same = ((OperatorUid("a-op"), OperatorUid("a-op")),)
    core.lead(restore=Restore(checkpoint=CheckpointId(1), renamed=same))
    core.read()
    core.create()
    assert core.state.retained.base == 1
    assert [task.boundary.batch for task in core.state.execution.tasks.values()] == [4, 4]
    core.start_all()
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.read()
    core.create()
    assert core.state.retained.base == 1
    assert core.state.leadership.restore == Restore(renamed=same), (
        "a restart before the first checkpoint needs it again"
    )
    core.start_all()
    core.ask()
    core.complete(core.state.checkpoints.pending[0].id)
    assert core.state.leadership.restore == Restore()


def test_what_the_newest_checkpoint_decided_is_finished_even_if_the_job_returns_to_an_older_one() -> None:
    core = Core(GRAPH, num_retained=2)
    pre_committed = transaction(2, 4, 6)
    core.store = {
        0: epoch_record(0, 1, 1),
        1: completed(GRAPH, 1, 4),
        2: completed(GRAPH, 2, 6, transactions=(pre_committed,)),
    }
    core.lead(restore=Restore(checkpoint=CheckpointId(1)))
    core.read()
    assert [one.transaction for one in only(o.CommitTransaction, core.create())] == [pre_committed]
    assert core.state.phase is Phase.RECOVERING
    given = core.tell(e.TransactionCommitted(TWO, SinkId("out"), Generation(1), CheckpointId(2)))
    assert [type(one) for one in given] == [o.AbortStaleGenerations, o.StartTask, o.StartTask]


def test_every_sink_must_be_recovered_before_a_task_starts() -> None:
    core = Core(GRAPH)
    first, second = transaction(1, -1, 0), transaction(2, 0, 1)
    core.store = {0: epoch_record(0, 1, 1), 2: completed(GRAPH, 2, 1, transactions=(first, second))}
    core.lead()
    core.read()
    core.create()
    given = core.tell(e.TransactionCommitted(TWO, SinkId("out"), Generation(1), CheckpointId(1)))
    assert [one.transaction for one in only(o.CommitTransaction, given)] == [second]
    assert only(o.StartTask, given) == []


def test_a_savepoint_that_its_leader_did_not_live_to_copy_is_copied_by_the_next() -> None:
    core = Core(GRAPH)
    savepoints = {n: completed(GRAPH, n, n, kind=Kind.SAVEPOINT, request=RequestId(f"old{n}")) for n in (1, 2)}
    core.store = {0: epoch_record(0, 1, 1), **savepoints}
    core.lead()
    core.copied = (CheckpointId(1),)
    core.read()
    assert only(o.CopySavepoint, core.create()) == [o.CopySavepoint(ME, CheckpointId(2))]
    assert told(core.tell(e.SavepointCopied(ME, CheckpointId(2)))) == [("done", "None")]


def test_what_is_held_in_the_store_is_held_by_the_next_leader() -> None:
    core = Core(GRAPH)
    core.store = {
        0: epoch_record(0, 1, 1),
        1: completed(GRAPH, 1, 1),
        2: completed(GRAPH, 2, 2),
        3: completed(GRAPH, 3, 3),
    }
    core.lead()
    core.held = (CheckpointId(1),)
    core.read()
    assert only(o.ListFiles, core.create()) == [o.ListFiles(TWO)]
    assert [one.id for one in core.state.retained.completed] == [1, 3]
    assert core.state.collection.pending_deletion == (2,)


def test_an_epoch_record_that_is_there_from_an_earlier_try_opens_the_generation() -> None:
    core = Core(GRAPH)
    core.lead()
    core.read()
    given = core.tell(e.CreateUnclear(ME, Generation(1), CheckpointId(0)), e.Ticked(100))
    assert [type(one) for one in given] == [o.Notify, o.CreateRecord]
    core.store[0] = core.state.checkpoint_log.queue[0]
    assert core.tell(e.RecordTaken(ME, core.store[0])) == [o.ReadCheckpointLog(ME)]
    core.read()
    assert core.state.phase is Phase.RUNNING


def test_a_leader_whose_epoch_record_comes_second_looks_again() -> None:
    core = Core(GRAPH)
    core.lead()
    core.read()
    core.store = {0: epoch_record(0, 1, 1, leader=OTHER)}
    assert core.tell(e.RecordTaken(ME, core.store[0])) == [o.ReadCheckpointLog(ME)]
    assert only(o.CreateRecord, core.read())[0].record == epoch_record(1, 2, 9, leader=ME)


def test_a_checkpoint_that_is_published_while_the_job_waits_to_restart_is_the_one_it_returns_to() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.make_ready(1)
    core.tell(core.failed("a", FailureClass.INTERNAL))
    given = core.create()
    assert [type(one) for one in given] == [o.NotifyCompleted, o.CommitTransaction, o.Notify]
    core.tell(core.visible(1), e.Ticked(1000))
    assert [one.id for one in published(core)] == [1]
    core.read()
    assert only(o.CommitTransaction, core.create())[0].permit.checkpoint == 1
    assert core.state.retained.base == 1


def test_a_checkpoint_that_is_published_while_the_job_closes_is_committed_and_changes_nothing_else() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.make_ready(1)
    assert only(o.AbortStaleGenerations, core.tell(core.failed("a", FailureClass.USER))) == []
    given = core.create()
    assert [type(one) for one in given] == [o.NotifyCompleted, o.CommitTransaction, o.Notify]
    assert [type(one) for one in core.tell(core.visible(1))] == [o.CreateRecord]
    assert [type(one) for one in core.write_closing_record()] == [o.AbortStaleGenerations]
    core.tell(core.stale_generations_aborted())
    assert (core.state.phase, core.state.termination.ending) == (Phase.CLOSED, Ending.FAILED)


def test_an_aborted_entry_and_a_checkpoint_are_created_one_after_the_other() -> None:
    core = running(GRAPH, tolerable_failed_checkpoints=9)
    core.ask()
    given = core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(1), TaskId("a")))
    assert only(o.CreateRecord, given) == [o.CreateRecord(ME, aborted_entry(1, leader=ME))]
    core.ask()
    core.make_ready(2)
    assert [one.record.id for one in only(o.CreateRecord, core.create())] == [2]


def test_who_finds_a_foreign_record_stops_and_orders_nothing_more() -> None:
    core = running(GRAPH)
    core.ask()
    core.make_ready(1)
    given = core.tell(e.RecordTaken(ME, epoch_record(1, 2, 9, leader=OTHER)))
    assert [type(one) for one in given] == [o.StopTask, o.StopTask, o.Notify, o.Notify, o.AbortUnpublished]
    assert told(given) == [("failed", "r1"), ("notice", "None")]
    assert core.state.phase is Phase.DEPOSED
    assert core.tell(e.Ticked(10_000_000)) == []


def test_an_empty_store_opens_the_first_generation() -> None:
    core = Core(GRAPH)
    core.lead()
    assert only(o.CreateRecord, core.read())[0].record == epoch_record(0, 1, 1, leader=ME)
    core.create()
    assert (core.state.leadership.generation, core.state.retained.base, core.state.checkpoints.next_id) == (1, None, 1)


def test_a_foreign_record_that_is_told_twice_does_not_depose_a_leader_who_reads_again() -> None:
    core = Core(GRAPH)
    core.store = {0: epoch_record(0, 1, 9, leader=OTHER)}
    core.lead()
    core.read()
    there = e.RecordTaken(ME, completed(GRAPH, 9))
    assert core.tell(there, there) == [o.ReadCheckpointLog(ME)]
    assert core.state.phase is Phase.READING


def doubtful(
    *, landed: bool, stop: bool = False, savepoint: bool = False, asked: bool = True
) -> tuple[Core, list[o.Effect]]:
    """A checkpoint was ready when the job restarted. Returns what the new generation begins with."""
    core = running(GRAPH, interval_ms=10)
    if savepoint:
        core.savepoint(stop=stop)
    elif asked:
        core.ask()
    else:
        core.tell(e.Ticked(10))
    core.make_ready(1)
    if landed:
        core.store[1] = core.state.checkpoint_log.queue[0]
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(2000))
    core.read()
    return core, core.create()


def test_who_asked_for_a_checkpoint_that_was_ready_at_a_restart_hears_what_the_checkpoint_log_says() -> None:
    assert told(doubtful(landed=True)[1]) == [("done", "r1")]
    assert told(doubtful(landed=False)[1]) == [("failed", "r1")]


def test_nobody_hears_of_one_that_nobody_asked_for() -> None:
    assert told(doubtful(landed=True, asked=False)[1]) == []
    assert told(doubtful(landed=False, asked=False)[1]) == []


def test_a_savepoint_that_was_ready_at_a_restart_is_copied_before_its_user_hears_of_it() -> None:
    core, given = doubtful(landed=True, savepoint=True)
    assert told(given) == []
    assert told(core.tell(e.SavepointCopied(ME, CheckpointId(1)))) == [("done", "r1")]
    assert told(doubtful(landed=False, savepoint=True)[1]) == [("failed", "r1")]


def test_a_stop_with_savepoint_stops_after_a_restart_if_the_savepoint_is_there_and_else_does_not() -> None:
    core, _ = doubtful(landed=True, savepoint=True, stop=True)
    assert (core.state.phase, core.state.termination.ending) == (Phase.CLOSING, Ending.STOPPED)
    core, _ = doubtful(landed=False, savepoint=True, stop=True)
    assert core.state.phase is Phase.RUNNING


def test_whoever_asked_before_a_job_that_cannot_be_restored_hears_so() -> None:
    core = Core(GRAPH)
    core.lead(restore=Restore(checkpoint=CheckpointId(7)))
    core.ask()
    core.tell(e.CancelAsked(RequestId("cancel")))
    assert told(core.read()) == [("refused", "r1"), ("failed", "cancel"), ("failed", "None")]


def test_an_epoch_record_that_is_not_the_last_record_does_not_count_and_another_goes_behind() -> None:
    core = Core(GRAPH)
    core.store = {0: epoch_record(0, 1, 1)}
    core.lead()
    core.read()
    late = core.state.checkpoint_log.queue[0]
    core.store |= {1: late, 5: completed(GRAPH, 5)}
    assert core.tell(e.RecordCreated(ME, late.generation, late.id)) == [o.ReadCheckpointLog(ME)]
    assert [one.record.id for one in only(o.CreateRecord, core.read())] == [6]
    assert core.state.phase is Phase.FENCING
