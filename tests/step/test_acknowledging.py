"""What becomes of a task's acknowledgement, and of its refusal."""

import pytest

from headgate.core import effects as o, events as e
from headgate.core.effects import Ack
from headgate.core.errors import ProtocolError
from headgate.core.ids import CheckpointId, Generation, TaskId
from tests.helpers import line
from tests.step_helpers import Core, only, running, told

GRAPH = line("a", "b")


def answers(core: Core, *facts: e.Event) -> list[Ack]:
    return [one.answer for one in only(o.AnswerAck, core.tell(*facts))]


def checkpointing() -> Core:
    core = running(GRAPH)
    core.ask()
    return core


def test_an_acknowledgement_that_was_waited_for_is_a_success() -> None:
    core = checkpointing()
    assert core.tell(core.acked("a", 1)) == [
        o.AnswerAck(Generation(1), CheckpointId(1), TaskId("a"), Ack.SUCCESS),
    ]


def test_one_that_comes_twice_is_a_duplicate_while_the_checkpoint_is_pending() -> None:
    core = checkpointing()
    assert answers(core, core.acked("a", 1), core.acked("a", 1)) == [Ack.SUCCESS, Ack.DUPLICATE]


def test_it_is_a_duplicate_when_the_checkpoint_waits_for_its_record_and_when_it_has_one() -> None:
    core = checkpointing()
    late = core.acked("a", 1)
    core.make_ready(1)
    assert answers(core, late) == [Ack.DUPLICATE]
    core.create()
    assert answers(core, late) == [Ack.DUPLICATE]


def test_one_for_a_checkpoint_that_was_given_up_is_discarded() -> None:
    core = checkpointing()
    late = core.acked("a", 1)
    core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(1), TaskId("b")))
    assert answers(core, late) == [Ack.DISCARDED]


@pytest.mark.parametrize(
    ("generation", "checkpoint", "task"),
    [(2, 1, "a"), (0, 1, "a"), (1, 2, "a"), (1, 1, "nobody")],
)
def test_one_that_nobody_asked_for_is_unknown(generation: int, checkpoint: int, task: str) -> None:
    core = checkpointing()
    fact = e.SnapshotTaken(Generation(generation), CheckpointId(checkpoint), TaskId(task), core.acked("a", 1).batch)
    assert answers(core, fact) == [Ack.UNKNOWN]


def test_one_at_another_batch_than_the_cut_cannot_be() -> None:
    core = checkpointing()
    with pytest.raises(ProtocolError, match="task a acknowledged checkpoint 1 at batch 5, where it was not cut"):
        core.tell(core.acked("a", 1, batch=5))


def test_one_before_the_cut_cannot_be_and_the_error_tells_the_story() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.ask()
    with pytest.raises(ProtocolError, match="where it was not cut") as caught:
        core.tell(core.acked("b", 1, batch=0))
    assert caught.value.story == (
        "0 ms: me leads",
        "0 ms: generation 1 begins from None",
        "0 ms: checkpoint 1 triggered",
    )


def test_a_task_that_has_acknowledged_can_no_longer_decline() -> None:
    core = checkpointing()
    refusal = e.SnapshotDeclined(Generation(1), CheckpointId(1), TaskId("a"))
    assert core.tell(core.acked("a", 1), refusal) == [
        o.AnswerAck(Generation(1), CheckpointId(1), TaskId("a"), Ack.SUCCESS)
    ]
    assert [pending.id for pending in core.state.checkpoints.pending] == [1]


def test_a_refusal_of_another_generation_or_checkpoint_is_ignored() -> None:
    core = checkpointing()
    for generation, checkpoint in ((2, 1), (1, 2)):
        assert core.tell(e.SnapshotDeclined(Generation(generation), CheckpointId(checkpoint), TaskId("a"))) == []


def test_who_asked_for_a_checkpoint_that_is_declined_hears_why() -> None:
    core = checkpointing()
    given = core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(1), TaskId("a"), "busy"))
    assert next(one.text for one in only(o.Notify, given)) == (
        "checkpoint 1 given up: a part of the job declined it (a: busy)"
    )
    assert told(given)[0] == ("failed", "r1")


def test_a_later_checkpoint_that_is_ready_completes_once_the_one_before_it_is_given_up() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=2, tolerable_failed_checkpoints=1)
    core.ask()
    core.ask()
    assert only(o.CreateRecord, core.make_ready(2)) == []
    given = core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(1), TaskId("a")))
    assert [one.record.id for one in only(o.CreateRecord, given)] == [1]
    assert [record.id for record in core.state.checkpoint_log.queue] == [1, 2]


def test_giving_up_a_checkpoint_opens_the_gates_that_it_held_and_lets_the_next_one_cut() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=2, tolerable_failed_checkpoints=1)
    core.tell(core.committed("a", 0))
    core.ask()
    core.tell(core.committed("a", 1), core.committed("b", 0))
    core.ask()
    assert core.state.execution.gates == {"a>b": 0}
    given = core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(1), TaskId("a")))
    assert [(one.channel, one.through) for one in only(o.OpenGate, given)] == [("a>b", 1)]
    assert [pending.id for pending in core.state.checkpoints.pending] == [2]
