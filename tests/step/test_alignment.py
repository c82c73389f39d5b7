"""When a checkpoint may cut through a task, by mode: the rule alone, and in whole steps."""

import pytest

from headgate.core import effects as o, events as e
from headgate.core.alignment import may_cut
from headgate.core.graph import Graph
from headgate.core.ids import Batch, CheckpointId, TaskId
from headgate.core.records import Boundary, Kind
from headgate.core.settings import Mode
from headgate.core.state import Cut, PendingCheckpoint, TaskState
from tests.helpers import channel, line, task
from tests.step_helpers import only, running

JOIN = Graph((task("a", source=True), task("b", source=True), task("c")), (channel("a", "c"), channel("b", "c")))
EXACTLY, AT_LEAST, AT_MOST = Mode.EXACTLY_ONCE, Mode.AT_LEAST_ONCE, Mode.AT_MOST_ONCE


@pytest.mark.parametrize(
    ("mode", "unaligned", "barriers", "consumed", "expected"),
    [
        (EXACTLY, False, {"a": 3, "b": 5}, (3, 5), True),
        (EXACTLY, False, {"a": 3, "b": 5}, (3, 4), False),
        (EXACTLY, False, {"a": 3, "b": 5}, (4, 5), False),
        (EXACTLY, False, {"a": 3}, (3, 5), False),
        (AT_MOST, False, {"a": 3, "b": 5}, (4, 5), False),
        (AT_LEAST, False, {"a": 3, "b": 5}, (4, 5), True),
        (AT_LEAST, False, {"a": 3, "b": 5}, (4, 4), False),
        (AT_LEAST, False, {"a": 3}, (3, 5), False),
        (EXACTLY, True, {"a": 3}, (-1, -1), True),
        (EXACTLY, True, {}, (-1, -1), False),
    ],
)
def test_a_task_is_cut_by_the_barriers_on_its_inputs_and_by_what_it_has_consumed(
    mode: Mode, unaligned: bool, barriers: dict[str, int], consumed: tuple[int, int], expected: bool
) -> None:
    cuts = {TaskId(name): Cut(Boundary(Batch(at)), finished=False) for name, at in barriers.items()}
    pending = PendingCheckpoint(CheckpointId(1), Kind.CHECKPOINT, 0, unaligned, cuts)
    stands = TaskState(boundary=Boundary(Batch(9), (Batch(consumed[0]), Batch(consumed[1]))))
    assert may_cut(mode, pending, JOIN.inputs[TaskId("c")], stands) is expected


def test_one_batch_that_reaches_the_last_barrier_cuts_a_whole_chain_that_waits_for_it() -> None:
    core = running(line("a", "b", "c"))
    core.tell(core.committed("a", 0), core.committed("b", 0, 0), core.committed("c", 0, 0))
    core.tell(core.committed("a", 1))
    assert [one.task for one in only(o.TakeSnapshot, core.ask())] == ["a"]
    assert [one.task for one in only(o.TakeSnapshot, core.tell(core.committed("b", 1, 1)))] == ["b"]
    assert [one.task for one in only(o.TakeSnapshot, core.tell(core.committed("c", 1, 1)))] == ["c"]


def test_an_unaligned_checkpoint_waits_behind_an_aligned_savepoint() -> None:
    core = running(line("a", "b"), unaligned=True, max_concurrent_checkpoints=2)
    core.tell(core.committed("a", 0))
    core.savepoint()
    assert [one.task for one in only(o.TakeSnapshot, core.ask())] == ["a"]
    given = core.tell(core.committed("b", 0, 0))
    assert [(one.task, one.checkpoint) for one in only(o.TakeSnapshot, given)] == [("b", 1), ("b", 2)]


def test_nothing_in_flight_counts_beyond_the_barrier_in_at_least_once() -> None:
    core = running(line("a", "b"), mode=AT_LEAST)
    core.tell(core.committed("a", 0))
    core.ask()
    core.tell(core.committed("a", 1), core.committed("b", 0, 1))
    core.complete(1)
    checkpoint = core.state.retained.completed[0]
    assert [(held.after, held.through) for held in checkpoint.channels] == [(0, 0)]
    assert checkpoint.tasks[1].positions == (("a>b", 1),)


def test_the_clock_turns_only_what_waits_too_long() -> None:
    core = running(line("a", "b"), aligned_checkpoint_timeout_ms=50)
    core.tell(core.committed("a", 0))
    core.savepoint()
    assert core.tell(e.Ticked(1000)) == []
    assert [pending.unaligned for pending in core.state.checkpoints.pending] == [False]
