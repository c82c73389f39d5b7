"""A sink that has no room before something is committed: the batch waits, and a checkpoint comes early."""

import pytest

from headgate.core import effects as o, events as e, timing
from headgate.core.ids import Generation, RequestId, SinkId
from headgate.core.settings import Mode
from headgate.core.state import Phase
from tests.helpers import line
from tests.step_helpers import Core, only, running, told

OUT = SinkId("out")
HOUR = 3_600_000


def full(core: Core, generation: int | None = None) -> list[o.Effect]:
    """A batch waits in its hook for room."""
    return core.tell(e.SinkFull(Generation(generation or core.state.leadership.generation), OUT))


def test_a_checkpoint_is_taken_early_and_its_commit_makes_room() -> None:
    core = running(line("a"), interval_ms=HOUR)
    core.tell(core.committed("a", 0), core.entered("a", 1))
    assert [one.checkpoint for one in only(o.TakeSnapshot, full(core))] == [1]
    assert only(o.TakeSnapshot, full(core)) == [], "told again while it waits: one is under way"
    core.make_ready(1)
    assert only(o.CommitTransaction, core.create()) != []
    assert only(o.TakeSnapshot, full(core)) == [], "a commit is under way"
    core.tell(core.visible(1))
    assert not core.state.sinks[OUT].full
    assert core.state.checkpoints.next_trigger_ms == HOUR, "the interval begins with it"


def test_the_clock_is_not_asked_for_while_the_commit_that_makes_room_is_under_way() -> None:
    core = running(line("a"), interval_ms=10)
    core.tell(core.committed("a", 0), core.entered("a", 1))
    full(core)
    core.make_ready(1)
    assert core.state.checkpoint_log.queue, "its record is not in the store yet"
    core.tell(e.Ticked(500))
    deadline = timing.next_deadline(core.state)
    assert deadline is not None
    assert deadline > 500, "a deadline that stays due would have the process do nothing else"


def test_a_checkpoint_that_would_free_nothing_is_not_taken() -> None:
    core = running(line("a"))
    assert full(core) == [], "somebody else has the room"
    assert only(o.TakeSnapshot, core.tell(core.committed("a", 0))) != [], "now there is something to commit"


def test_what_was_pre_committed_for_a_checkpoint_that_was_given_up_makes_room_with_the_next() -> None:
    core = running(line("a"), tolerable_failed_checkpoints=9)
    core.tell(core.committed("a", 0))
    core.ask()
    core.tell(
        core.pre_committed(1),
        e.SnapshotDeclined(core.state.leadership.generation, core.state.checkpoints.pending[0].id, core.whose("a")[1]),
    )
    assert only(o.TakeSnapshot, full(core)) != []


@pytest.mark.parametrize("mode", [Mode.EXACTLY_ONCE, Mode.AT_LEAST_ONCE])
def test_an_early_checkpoint_waits_for_no_batch(mode: Mode) -> None:
    core = running(line("a", "b"), mode=mode)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0), core.committed("a", 1), core.entered("b", 1, 1))
    full(core)
    pending = core.state.checkpoints.pending[0]
    assert {task: cut.boundary.batch for task, cut in pending.cuts.items()} == {"a": 1, "b": 0}
    core.complete(1)
    held = core.state.retained.completed[0].channels[0]
    assert (held.after, held.through) == (0, 1), "what lies between is in flight"


def test_a_checkpoint_that_aligns_behind_the_waiting_batch_overtakes_it() -> None:
    core = running(line("a", "b"))
    core.tell(core.committed("a", 0), core.committed("b", 0, 0), core.committed("a", 1))
    core.ask()
    assert list(core.state.checkpoints.pending[0].cuts) == ["a"]
    full(core)
    assert list(core.state.checkpoints.pending[0].cuts) == ["a", "b"]
    assert len(core.state.checkpoints.pending) == 1


def test_a_savepoint_that_aligns_behind_the_waiting_batch_is_given_up_for_a_checkpoint() -> None:
    core = running(line("a", "b"))
    core.tell(core.committed("a", 0), core.committed("b", 0, 0), core.committed("a", 1))
    core.savepoint()
    given = full(core)
    assert told(given) == [("failed", "r1")]
    assert "a sink has no room for the batches before its barrier: ask again (out)" in only(o.Notify, given)[0].text
    assert [(pending.id, len(pending.cuts)) for pending in core.state.checkpoints.pending] == [(2, 2)]
    assert core.state.checkpoints.failures == 0, "it is not a failed checkpoint"


def test_a_savepoint_waits_until_there_is_room() -> None:
    core = running(line("a"))
    core.tell(core.committed("a", 0))
    full(core)
    core.savepoint()
    assert [pending.kind.value for pending in core.state.checkpoints.pending] == ["checkpoint"]
    core.complete(1)
    assert [pending.kind.value for pending in core.state.checkpoints.pending] == ["savepoint"]


def test_what_a_dead_generation_says_of_its_sinks_is_not_heard() -> None:
    core = running(line("a"))
    core.tell(core.committed("a", 0))
    assert full(core, 7) == []
    core.tell(e.CancelAsked(RequestId("r9")))
    assert core.state.phase is Phase.CLOSING
    assert full(core) == []
