"""A savepoint goes when a user says so, unless the job is in need of it."""

import pytest

from headgate.core import effects as o, events as e
from headgate.core.ids import CheckpointId, RequestId, SinkId
from headgate.core.restart import FailureClass
from tests.helpers import line
from tests.step_helpers import ME, OTHER, Core, only, running, told

GRAPH = line("a")
ASK, AGAIN = RequestId("mine"), RequestId("again")
ONE, TWO = CheckpointId(1), CheckpointId(2)


def two_savepoints() -> Core:
    """Savepoints 1 and 2, both copied. The job would go on from 2."""
    core = running(GRAPH)
    for number, batch in ((ONE, 0), (TWO, 1)):
        core.tell(core.committed("a", batch))
        core.savepoint()
        core.complete(number)
        core.tell(e.SavepointCopied(ME, number))
    return core


def refused(core: Core, checkpoint: int) -> str:
    [tell] = core.tell(e.DeleteAsked(ASK, CheckpointId(checkpoint)))
    assert isinstance(tell, o.Notify)
    assert (tell.outcome, tell.request) == (o.Outcome.REFUSED, ASK)
    return tell.text


def test_a_savepoint_goes_and_what_only_it_needed_is_deleted() -> None:
    core = two_savepoints()
    assert core.tell(e.DeleteAsked(ASK, ONE)) == [o.DeleteSavepoint(ME, ONE)]
    assert core.tell(e.SavepointDeleted(OTHER, ONE)) == []
    given = core.tell(e.SavepointDeleted(ME, ONE))
    assert told(given) == [("done", "mine")]
    assert len(only(o.ListFiles, given)) == 1
    assert [one.id for one in core.state.retained.completed] == [TWO]
    assert core.state.collection.pending_deletion == (ONE,)
    assert core.tell(e.SavepointDeleted(ME, ONE)) == []


def test_what_the_job_needs_is_not_deleted() -> None:
    core = two_savepoints()
    assert "would go on from it: let it take a checkpoint first" in refused(core, 2)
    assert "there is no such savepoint; there are: 1, 2" in refused(core, 9)
    core.tell(e.HoldAsked(AGAIN, ONE))
    assert "it is held" in refused(core, 1)
    core.savepoint()
    core.complete(3)
    assert "still being copied" in refused(core, 3)


def test_a_checkpoint_is_not_deleted_by_hand() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.ask()
    core.complete(1)
    assert "there is no such savepoint; there are: none" in refused(core, 1)


def test_the_savepoint_that_a_generation_began_from_stays_until_it_has_run() -> None:
    core = two_savepoints()
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.copied = (ONE, TWO)
    core.read()
    core.create()
    [(_, owed)] = core.state.sinks[SinkId("out")].due
    core.tell(e.TransactionCommitted(core.state.leadership.generation, SinkId("out"), owed.generation, owed.checkpoint))
    core.start_all()
    core.ask()
    core.complete(core.state.checkpoints.pending[0].id)
    assert "not every task has committed a batch since" in refused(core, 2)
    core.tell(core.committed("a", 2))
    core.ask()
    core.complete(core.state.checkpoints.pending[0].id)
    assert core.tell(e.DeleteAsked(ASK, TWO)) == [o.DeleteSavepoint(ME, TWO)]


def test_one_is_deleted_at_a_time_and_the_end_of_the_job_waits_for_it() -> None:
    core = two_savepoints()
    core.tell(e.DeleteAsked(ASK, ONE))
    assert "savepoint 1 is being deleted" in refused(core, 1)
    assert only(o.CreateRecord, core.tell(e.CancelAsked(AGAIN))) == []
    assert len(only(o.CreateRecord, core.tell(e.SavepointDeleted(ME, ONE)))) == 1


@pytest.mark.parametrize("phase", ["reading", "deposed"])
def test_who_does_not_lead_deletes_nothing(phase: str) -> None:
    core = two_savepoints()
    core.tell(e.DeleteAsked(AGAIN, ONE))
    given = core.tell(e.LeadershipLost(ME))
    assert ("failed", "again") in told(given)
    if phase == "reading":
        core.lead(OTHER)
    assert "does not lead the job, or not yet" in refused(core, 1)
