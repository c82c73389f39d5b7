"""Some facts cannot be. They are errors of ours, and the error tells the story."""

import pytest

from headgate.core import events as e
from headgate.core.errors import ProtocolError
from headgate.core.ids import CheckpointId, Generation, Run, SinkId, TaskId
from headgate.core.state import STORY_MAX
from tests.helpers import line
from tests.step_helpers import running

GRAPH = line("a", "b")
STORY = ("0 ms: me leads", "0 ms: generation 1 begins from None")


def test_a_task_that_the_job_does_not_have_says_nothing() -> None:
    core = running(GRAPH)
    with pytest.raises(ProtocolError, match="a fact about task x, which the job does not have") as caught:
        core.tell(e.SourceEnded(Generation(1), TaskId("x"), Run(1)))
    assert caught.value.story == STORY


@pytest.mark.parametrize(
    "fact",
    [
        e.SinkPreCommitted(Generation(1), CheckpointId(1), SinkId("x")),
        e.PreCommitFailed(Generation(1), CheckpointId(1), SinkId("x")),
        e.TransactionCommitted(Generation(1), SinkId("x"), Generation(1), CheckpointId(1)),
        e.CommitFailed(Generation(1), SinkId("x"), Generation(1), CheckpointId(1)),
    ],
)
def test_a_sink_that_the_job_does_not_have_says_nothing(fact: e.Event) -> None:
    core = running(GRAPH)
    with pytest.raises(ProtocolError, match="a fact about sink x, which the job does not have"):
        core.tell(fact)


def test_a_batch_cannot_read_past_its_gate() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 3))
    with pytest.raises(ProtocolError) as caught:
        core.tell(core.committed("b", 0, 4))
    assert caught.value.what == "batch 0 of task b consumed channel a>b through 4: it stood at -1 and its gate at 3"
    assert caught.value.story == STORY


def test_a_batch_cannot_take_back_what_was_read() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 3), core.committed("b", 0, 2))
    with pytest.raises(ProtocolError, match="it stood at 2 and its gate at 3"):
        core.tell(core.committed("b", 1, 1))


def test_the_story_is_kept_short() -> None:
    core = running(line("a"))
    for number in range(1, STORY_MAX):
        core.ask()
        core.complete(number)
    assert len(core.state.story) == STORY_MAX
    assert core.state.story[-1] == f"0 ms: checkpoint {STORY_MAX - 1} completed"
