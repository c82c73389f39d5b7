import pytest

from headgate.core.graph import Operator
from headgate.core.ids import OperatorUid
from headgate.job.plan import plan
from tests.job.helpers import drawn, planned, shape


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        # One line
        ("a out!<a", ["a > out"]),
        ("a b<a c*<b d<c out!<d", ["a b c d > out"]),
        ("a b*<a c*<b out!<c", ["a b c > out"]),
        ("a b+<a out!<b", ["a >> b.0", "b > out"]),
        ("a b*+<a c<b out!<c", ["a >> b.0", "b c > out"]),
        # Output modes: an operator in update or complete mode is the only one with state in its query
        ("a b<a c~<b d<c out!<d", ["a b c d (update) > out"]),
        ("a b=<a c<b out!<c", ["a b c (complete) > out"]),
        ("a b*<a c~<b out!<c", ["a b >> c.0", "c (update) > out"]),
        ("a b~<a c*<b out!<c", ["a b (update) >> c.0", "c > out"]),
        ("a b~<a c<b d*<c out!<d", ["a b c (update) >> d.0", "d > out"]),
        ("a b~<a c=<b out!<c", ["a b (update) >> c.0", "c (complete) > out"]),
        # Forks into sinks and stateless operators stay in the task
        ("a one!<a two!<a", ["a > one > two"]),
        ("a b<a one!<b two!<b", ["a b > one > two"]),
        ("a b<a c<a one!<b two!<c", ["a > b one > c two"]),
        ("a b<a c<b one!<a two!<c", ["a > one > b c two"]),
        ("a b<a c<b one!<a two!<b three!<c", ["a > one > b two > b c three"]),
        ("a b*<a c<b one!<b two!<c", ["a b > one > c two"]),
        ("a b~<a c<b one!<b two!<c", ["a b (update) > one > c two"]),
        # Forks into anything else are tasks
        ("a b*<a c*<a one!<b two!<c", ["a >> b.0 >> c.0", "b > one", "c > two"]),
        ("a b<a c*<b raw!<b out!<c", ["a b > raw >> c.0", "c > out"]),
        ("a b<a c*<b one!<a two!<c", ["a > one >> b.0", "b c > two"]),
        ("a b<a c<b d*<b one!<c two!<d other!<a", ["a > other >> b.0", "b > c one >> d.0", "d > two"]),
        ("a b+<a one!<a two!<b", ["a > one >> b.0", "b > two"]),
        ("a b<a c+<b one!<a two!<c", ["a > one >> b.0", "b >> c.0", "c > two"]),
        # Unions and joins
        ("a b u<a,b out!<u", ["a b u > out"]),
        ("a b c u<a,b,c out!<u", ["a b c u > out"]),
        ("a b j*<a,b out!<j", ["a b j > out"]),
        ("a x*<a b y*<b j*<x,y z*<j out!<z", ["a x b y j z > out"]),
        ("a b u+<a,b out!<u", ["a >> u.0", "b >> u.1", "u > out"]),
        ("a b u<a,b one!<a out!<u", ["a > one >> u.0", "b >> u.1", "u > out"]),
        ("a x~<a b u<x,b out!<u", ["a x (update) >> u.0", "b >> u.1", "u > out"]),
        ("a b u<b,a out!<u", ["a b u > out"]),
        ("a b u<a,b c~<u out!<c", ["a b u c (update) > out"]),
        # One stream that meets itself again
        ("a u<a,a out!<u", ["a >> u.0 >> u.1", "u > out"]),
        ("a x<a y<a u<x,y out!<u", ["a >> x.0 >> y.0", "x y u > out"]),
        ("a x<a u<a,x out!<u", ["a >> x.0 >> u.0", "x >> u.1", "u > out"]),
        ("a x*<a y*<a j*<x,y out!<j", ["a >> x.0 >> y.0", "x y j > out"]),
        # What leads to a union as well as to a sink is not a branch
        ("a x<a b u<x,b one!<a two!<x out!<u", ["a > one >> x.0", "x > two >> u.0", "b >> u.1", "u > out"]),
        # A merged task reads the channel of a task whose source stands after its own
        ("a c d*<c u<a,d out!<u side!<c", ["c > side >> d.0", "a d u > out"]),
    ],
)
def test_operators_are_chained_into_tasks(text: str, tasks: list[str]) -> None:
    assert sorted(drawn(planned(text))) == sorted(tasks)


def test_tasks_stand_upstream_first_and_channels_say_where_they_lead() -> None:
    made = planned("a c d*<c u<a,d out!<u side!<c")
    assert [task.id for task in made.tasks] == ["c", "a"]
    (channel,) = made.channels
    assert (channel.upstream, channel.downstream, channel.consumer, channel.index) == ("c", "a", "d", 0)


def test_two_inputs_of_one_operator_from_one_task_are_two_channels() -> None:
    made = planned("a j*<a,a out!<j")
    assert [(channel.id, channel.index) for channel in made.channels] == [("j.0", 0), ("j.1", 1)]
    assert {channel.upstream for channel in made.channels} == {"a"}


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("a out!<a", {"a": False}),
        ("a one!<a two!<a", {"a": True}),
        ("a b+<a out!<b", {"a": True, "b": False}),
        ("a b<a c+<b one!<b two!<c", {"a": True, "c": False}),
    ],
)
def test_a_segment_is_written_where_more_than_one_sink_reads_it(text: str, writes: dict[str, bool]) -> None:
    assert {task.id: task.writes_segment for task in planned(text).tasks} == writes


def test_an_operator_that_spark_runs_alone_shares_its_task_with_no_other_that_keeps_state() -> None:
    assert drawn(planned("a b*<a c*<b out!<c", alone=("c",))) == ["a b >> c.0", "c > out"]
    assert drawn(planned("a b*<a c*<b out!<c", alone=("b",))) == ["a b >> c.0", "c > out"]
    assert drawn(planned("a b*<a c<b out!<c", alone=("b",))) == ["a b c > out"]
    assert drawn(planned("a x*<a b y*<b u<x,y out!<u", alone=("y",))) == ["a x >> u.0", "b y >> u.1", "u > out"]


def test_the_core_gets_every_operator_once_with_its_state_and_its_sinks() -> None:
    graph = planned("a b*<a c<b d<c one!<b two!<c three!<d").graph()
    (task,) = graph.tasks
    uids = [Operator(OperatorUid(uid), uid == "b") for uid in "abcd"]
    assert list(task.operators) == uids
    assert task.sinks == ("one", "two", "three")
    assert task.has_source


def test_a_task_that_reads_channels_alone_has_no_source() -> None:
    graph = planned("a b+<a out!<b").graph()
    assert [task.has_source for task in graph.tasks] == [True, False]
    assert [channel.id for channel in graph.inputs[graph.tasks[1].id]] == ["b.0"]


def test_an_operator_of_which_nobody_knows_whether_it_keeps_state_is_not_planned() -> None:
    nodes, stateful = shape("a b<a out!<b")
    with pytest.raises(KeyError):
        plan(nodes, {uid: keeps for uid, keeps in stateful.items() if uid != "b"})
