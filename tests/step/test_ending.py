"""A job that has come to its end owes nothing; what cannot be finished is given up by a user, by name."""

from headgate.core import effects as o, events as e
from headgate.core.graph import Graph
from headgate.core.ids import CheckpointId, Generation, LeaderId, RequestId, SinkId
from headgate.core.records import CompletedCheckpoint, Ending, EpochRecord, Kind, Restore
from headgate.core.restart import FailureClass
from headgate.core.state import Phase
from tests.helpers import line, task
from tests.step_helpers import OTHER, Core, only, running, told

GRAPH = line("a")
OUT = SinkId("out")
ASK, AGAIN = RequestId("mine"), RequestId("again")


def stopped() -> Core:
    """A job that a user has stopped with savepoint 1, which pre-committed something."""
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.savepoint(stop=True)
    core.complete(1)
    core.tell(e.SavepointCopied(core.state.leadership.leader, CheckpointId(1)))
    core.write_closing_record()
    core.tell(core.stale_generations_aborted())
    assert core.state.termination.ending is Ending.STOPPED
    return core


def recovering(graph: Graph = GRAPH) -> Core:
    """A job whose process died between checkpoint 1 and the commit of what it pre-committed; another leads now."""
    core = running(graph, retain_on_cancellation=True)
    core.tell(core.committed("a", 0))
    core.ask()
    core.make_ready(1)
    core.create()
    core.tell(e.LeadershipLost(core.state.leadership.leader))
    core.lead(OTHER)
    core.read()
    core.create()
    assert core.state.phase is Phase.RECOVERING
    return core


def closing_record(core: Core) -> EpochRecord:
    record = core.store[max(core.store)]
    assert isinstance(record, EpochRecord)
    assert record.ending is not None
    return record


def failed_commit() -> e.CommitFailed:
    return e.CommitFailed(Generation(2), OUT, Generation(1), CheckpointId(1), "no such transaction")


def test_a_job_that_was_stopped_and_is_started_again_commits_nothing_again() -> None:
    core = stopped()
    assert isinstance(core.store[1], CompletedCheckpoint)
    assert core.store[1].transactions != ()
    core.lead(OTHER, Restore(again=True))
    core.read()
    given = core.create()
    assert only(o.CommitTransaction, given) == []
    assert len(only(o.StartTask, given)) == 1


def test_a_sink_may_be_taken_out_of_a_job_that_was_stopped() -> None:
    before = stopped()
    core = Core(Graph((task("a", source=True),)))
    core.store = before.store
    core.copied = (CheckpointId(1),)
    core.lead(OTHER, Restore(again=True))
    core.read()
    core.create()
    assert core.state.phase is Phase.RUNNING


def test_who_cancels_hears_what_it_waits_for_and_how_to_end_without() -> None:
    core = recovering()
    said: list[o.Notify] = []
    assert only(o.Notify, core.tell(e.CancelAsked(ASK))) == []  # It may be done in a moment.
    for given in (core.tell(e.Ticked(core.state.resend_at_ms or 0)), core.tell(failed_commit())):
        said = [one for one in only(o.Notify, given) if one.request == ASK]
        assert [one.outcome for one in said] == [o.Outcome.NOTICE]
        assert (
            "sink out to commit checkpoint 1; to end without: `headgate cancel JOB --abandon-commits out --reason TEXT`"
            in said[0].text
        )
    assert said[0].text.endswith("(out: no such transaction)")
    refused = only(o.Notify, core.tell(e.CancelAsked(AGAIN)))
    assert [one.outcome for one in refused] == [o.Outcome.REFUSED]
    assert "already, and waits for sink out" in refused[0].text
    assert core.state.phase is Phase.CLOSING


def test_commits_that_cannot_succeed_are_given_up_by_name_and_the_checkpoint_log_says_so() -> None:
    core = recovering()
    core.tell(e.CancelAsked(ASK), failed_commit())
    given = core.tell(e.CancelAsked(AGAIN, (OUT,)))
    assert ("done", "again") in told(given)
    assert any("out: the commit of checkpoint 1 is abandoned" in one.text for one in only(o.Notify, given))
    core.write_closing_record()
    assert [one.checkpoint for one in closing_record(core).abandoned] == [1]
    # What the sink throws away is ordered; a sink that is away for good is not waited for.
    assert core.state.phase is Phase.CLOSED
    assert core.state.termination.ending is Ending.CANCELLED
    core.lead(OTHER, Restore(again=True))
    core.read()
    assert only(o.CommitTransaction, core.create()) == []


def test_who_cancels_with_a_name_needs_no_second_try_and_what_is_published_meanwhile_is_given_up_too() -> None:
    core = running(GRAPH, retain_on_cancellation=True)
    core.tell(core.committed("a", 0))
    core.ask()
    core.make_ready(1)
    core.tell(e.CancelAsked(ASK, (OUT,)))
    assert core.state.phase is Phase.CLOSING
    assert only(o.CreateRecord, core.create()) != []
    assert [one.checkpoint for one in core.state.termination.abandoned] == [1]
    assert ("done", "mine") in told(core.write_closing_record())
    assert [one.sink for one in closing_record(core).abandoned] == [OUT]


def test_a_cancelled_job_that_waits_for_a_sink_to_clear_up_can_be_ended_without_it() -> None:
    core = running(GRAPH)
    core.tell(e.CancelAsked(ASK))
    core.write_closing_record()
    refused = only(o.Notify, core.tell(e.CancelAsked(AGAIN)))
    assert "sink out to throw away what will never be committed" in refused[0].text
    assert told(core.tell(e.CancelAsked(AGAIN, (OUT,)))) == [("done", "again"), ("done", "mine")]
    assert core.state.phase is Phase.CLOSED


def test_who_cancels_a_closing_job_hears_what_it_waits_for() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.savepoint(stop=True)
    core.make_ready(1)
    core.create()
    assert core.state.phase is Phase.CLOSING
    core.tell(core.commit_failed(1))
    assert [one.outcome for one in only(o.Notify, core.tell(e.CancelAsked(ASK)))] == [o.Outcome.NOTICE]


def test_a_sink_that_the_job_does_not_have_cannot_be_given_up() -> None:
    core = recovering()
    given = only(o.Notify, core.tell(e.CancelAsked(ASK, (SinkId("other"),))))
    assert [(one.outcome, one.text) for one in given] == [
        (o.Outcome.REFUSED, "cancel refused: the job has no sink other; it has: out")
    ]
    assert core.state.phase is Phase.RECOVERING


def test_a_user_who_starts_a_job_may_give_up_what_a_sink_owes_once() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.ask()
    core.make_ready(1)
    core.create()
    core.tell(e.LeadershipLost(core.state.leadership.leader))
    core.lead(OTHER, Restore(abandon=(OUT,)))
    core.read()
    given = core.create()
    assert core.state.phase is Phase.RUNNING
    assert any("out: the commit of checkpoint 1 is abandoned" in one.text for one in only(o.Notify, given))
    epoch_record = core.store[2]
    assert isinstance(epoch_record, EpochRecord)
    assert [one.checkpoint for one in epoch_record.abandoned] == [1]
    # Only what was owed then: what this generation pre-commits is committed as ever.
    core.start_all()
    core.tell(core.committed("a", 1))
    core.ask()
    number = core.state.checkpoints.pending[0].id
    core.make_ready(number)
    assert len(only(o.CommitTransaction, core.create())) == 1
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.read()
    assert [one.transaction.checkpoint for one in only(o.CommitTransaction, core.create())] == [number]


# -- a generation must show that it can run ------------------------------------------------------------------------


def kept(core: Core) -> list[int]:
    return [checkpoint.id for checkpoint in core.state.retained.completed]


def begins_again(core: Core, leader: str) -> None:
    core.tell(e.LeadershipLost(core.state.leadership.leader))
    core.lead(LeaderId(leader))
    core.read()
    core.create()
    for sink in core.state.sinks:
        while core.state.sinks[sink].due:
            one = core.state.sinks[sink].due[0][1]
            core.tell(e.TransactionCommitted(core.state.leadership.generation, sink, one.generation, one.checkpoint))
    core.start_all()


def take(core: Core) -> int:
    core.ask()
    number = core.state.checkpoints.pending[0].id
    core.complete(number)
    return number


def test_what_a_generation_continues_from_is_kept_until_every_task_has_committed_a_batch() -> None:
    core = running(line("a", "b"), unaligned=True)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    good = take(core)
    begins_again(core, "second")
    first = take(core)
    assert kept(core) == [good, first]
    begins_again(core, "third")  # It failed, and so does the next: none of them replaces the good one.
    second = take(core)
    assert kept(core) == [good, second]
    core.tell(core.committed("a", 1))
    third = take(core)
    assert kept(core) == [good, third]
    core.tell(core.committed("b", 1, 1))
    fourth = take(core)
    assert kept(core) == [fourth]
    fifth = take(core)
    assert kept(core) == [fifth]


def test_a_task_that_had_finished_needs_no_batch_of_its_own() -> None:
    core = running(line("a", "b"))
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.tell(e.SourceEnded(*core.whose("a")), core.ended("a", 0))
    good = take(core)
    begins_again(core, "second")
    core.tell(core.committed("b", 1, 0))
    following = take(core)
    assert kept(core) == [following]
    assert core.state.collection.pending_deletion == (good,)


def test_savepoints_count_as_any_checkpoint() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    good = take(core)
    begins_again(core, "second")
    core.savepoint()
    number = core.state.checkpoints.pending[0].id
    core.complete(number)
    assert kept(core) == [good, number]
    assert core.state.retained.completed[-1].kind is Kind.SAVEPOINT
