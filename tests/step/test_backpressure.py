"""A task runs only so far ahead of its readers, and nothing locks up."""

from headgate.core import effects as o, events as e
from headgate.core.graph import Graph, Task
from headgate.core.ids import Batch, Generation, Run, SinkId, TaskId
from tests.helpers import channel, line
from tests.step_helpers import only, running

LINE = line("a", "b")


def admitted(given: list[o.Effect]) -> list[tuple[str, int]]:
    return [(one.task, one.batch) for one in only(o.AdmitBatch, given)]


def test_without_a_bound_every_batch_may_write() -> None:
    core = running(LINE)
    for batch in range(5):
        assert admitted(core.tell(core.entered("a", batch))) == [("a", batch)]
        core.tell(core.committed("a", batch))


def test_a_batch_waits_until_the_reader_is_close_enough_behind() -> None:
    core = running(LINE, max_batches_ahead=2)
    core.tell(core.committed("a", 0), core.committed("a", 1))
    assert admitted(core.tell(core.entered("a", 2))) == []
    assert admitted(core.tell(core.committed("b", 0, 0))) == [("a", 2)]
    core.tell(core.committed("a", 2))
    assert admitted(core.tell(core.entered("a", 3))) == []
    assert admitted(core.tell(core.committed("b", 1, 2))) == [("a", 3)]


def test_the_slowest_of_several_readers_decides() -> None:
    tasks = (
        Task(TaskId("a"), has_source=True),
        Task(TaskId("b"), sinks=(SinkId("out"),)),
        Task(TaskId("c"), sinks=(SinkId("more"),)),
    )
    core = running(Graph(tasks, (channel("a", "b"), channel("a", "c"))), max_batches_ahead=1)
    core.tell(core.committed("a", 0), core.entered("a", 1))
    assert admitted(core.tell(core.committed("b", 0, 0))) == []
    assert admitted(core.tell(core.committed("c", 0, 0))) == [("a", 1)]


def test_an_aligned_checkpoint_completes_while_a_batch_waits_in_the_hook() -> None:
    core = running(LINE, max_batches_ahead=1)
    core.tell(core.committed("a", 0), core.entered("a", 1))
    core.ask()
    given = core.tell(core.committed("b", 0, 0))
    assert [one.task for one in only(o.TakeSnapshot, given)] == ["b"]
    assert [one.record.id for one in only(o.CreateRecord, core.make_ready(1))] == [1]


def test_a_batch_that_was_let_go_on_is_told_so_again_until_it_is_committed() -> None:
    core = running(LINE, resend_ms=10)
    core.tell(core.entered("a", 0))
    assert admitted(core.tell(e.Ticked(10))) == [("a", 0)]
    core.tell(core.committed("a", 0))
    assert admitted(core.tell(e.Ticked(20))) == []


def test_a_task_that_nobody_heard_says_which_batch_waits() -> None:
    core = running(LINE)
    assert admitted(core.tell(core.reported("a", entered=Batch(0)))) == [("a", 0)]
    assert admitted(core.tell(core.reported("a", entered=Batch(0)))) == []


def test_a_batch_that_is_replayed_must_be_let_go_on_once_more() -> None:
    core = running(LINE)
    core.tell(core.entered("a", 0), core.failed("a"), e.Ticked(1000), core.started("a"))
    assert core.tell(core.entered("a", 0)) == [o.AdmitBatch(Generation(1), TaskId("a"), Run(2), Batch(0))]
