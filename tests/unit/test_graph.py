import pytest

from headgate.core.errors import InvalidGraph
from headgate.core.graph import Channel, Graph, Task
from headgate.core.ids import TaskId
from tests.helpers import channel, line, task

A, B = task("a", source=True), task("b")


def test_each_task_knows_what_it_reads_and_writes_in_the_order_of_the_channels() -> None:
    left, right, on = channel("a", "c"), channel("b", "c"), channel("c", "d")
    tasks = (task("a", source=True), task("b", source=True), task("c"), task("d", sinks=("x", "y")))
    graph = Graph(tasks, (right, left, on))
    assert graph.inputs == {"a": (), "b": (), "c": (right, left), "d": (on,)}
    assert graph.outputs == {"a": (left,), "b": (right,), "c": (on,), "d": ()}
    assert graph.by_id == {t.id: t for t in tasks}
    assert graph.owner == {"x": "d", "y": "d"}


def test_a_task_may_have_both_a_source_and_an_input() -> None:
    graph = Graph((A, task("b", source=True)), (channel("a", "b"),))
    assert graph.inputs[TaskId("b")] == (channel("a", "b"),)


def test_two_channels_may_join_the_same_tasks() -> None:
    graph = Graph((A, B), (channel("a", "b", "one"), channel("a", "b", "two")))
    assert [c.id for c in graph.inputs[TaskId("b")]] == ["one", "two"]


@pytest.mark.parametrize(
    ("tasks", "channels", "message"),
    [
        ((), (), "the job has no task: add a source"),
        ((A, task("a", source=True, uids=("x",))), (), "task a is there twice"),
        ((A, B), (channel("a", "b"), channel("a", "b")), "channel a>b is there twice"),
        (
            (task("a", source=True, sinks=("s",)), task("b", sinks=("s",))),
            (channel("a", "b"),),
            "sink s is there twice",
        ),
        ((task("a", source=True, sinks=("s", "s")),), (), "sink s is there twice"),
        ((A, task("b", uids=("a-op",))), (channel("a", "b"),), "operator a-op is there twice"),
        ((A,), (channel("z", "a"),), "channel z>a names task z, which the job does not have"),
        ((A,), (channel("a", "z"),), "channel a>z names task z, which the job does not have"),
        ((A, task("b", source=True)), (channel("b", "a"),), "channel b>a runs from b back to a: list tasks upstream"),
        ((A,), (channel("a", "a"),), "channel a>a runs from a back to a: .* without cycles"),
        ((A, B), (), "task b has neither a source nor an input channel"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused_by_name(
    tasks: tuple[Task, ...], channels: tuple[Channel, ...], message: str
) -> None:
    with pytest.raises(InvalidGraph, match=message):
        Graph(tasks, channels)


def test_graphs_are_compared_by_what_they_hold() -> None:
    asked = line("a", "b")
    assert asked.inputs
    assert asked == line("a", "b")
    assert asked != line("a", "c")
    assert hash(asked) == hash(line("a", "b"))


def test_a_task_without_a_partition_is_refused() -> None:
    with pytest.raises(InvalidGraph, match="task a has 0 partitions: it needs at least one"):
        Graph((Task(TaskId("a"), has_source=True, partitions=0),))
