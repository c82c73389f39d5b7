"""Any job at all, as long as it is one, becomes tasks that hold together."""

from collections import Counter

from hypothesis import given, strategies as st

from headgate.job.node import Node, NodeKind
from headgate.job.plan import PlannedTask, plan


@st.composite
def jobs(draw: st.DrawFn) -> tuple[tuple[Node, ...], dict[str, bool], tuple[str, ...]]:
    nodes: list[Node] = []
    stateful: dict[str, bool] = {}
    for number in range(draw(st.integers(1, 14))):
        uid = f"n{number}"
        streams = [node.uid for node in nodes if node.kind is not NodeKind.SINK]
        inputs = tuple(draw(st.lists(st.sampled_from(streams), max_size=3))) if streams else ()
        stateful[uid] = bool(inputs) and draw(st.booleans())
        mode = draw(st.sampled_from(["append", "append", "update", "complete"])) if len(inputs) == 1 else "append"
        kinds = [
            NodeKind.SOURCE,
            NodeKind.TRANSFORM,
            NodeKind.JOIN if stateful[uid] else NodeKind.UNION,
            NodeKind.UNION,
        ]
        kind = draw(st.sampled_from([kinds[len(inputs)], NodeKind.SINK])) if len(inputs) == 1 else kinds[len(inputs)]
        stateful[uid] = stateful[uid] and kind is not NodeKind.SINK
        new_task = kind not in {NodeKind.SOURCE, NodeKind.SINK} and draw(st.integers(0, 4)) == 0
        nodes.append(Node(uid, kind, inputs, None, mode if stateful[uid] else "append", new_task))
    read = {uid for node in nodes for uid in node.inputs}
    loose = [node.uid for node in nodes if node.kind is not NodeKind.SINK and node.uid not in read]
    nodes += [Node(f"sink-{uid}", NodeKind.SINK, (uid,)) for uid in loose]
    keeping = [uid for uid, keeps in stateful.items() if keeps]
    alone = tuple(draw(st.lists(st.sampled_from(keeping), unique=True))) if keeping else ()
    return tuple(nodes), stateful, alone


def parts(task: PlannedTask) -> list[str]:
    return [*(node.uid for node in task.operators), *(branch.sink.uid for branch in task.branches)]


@given(jobs())
def test_every_node_is_in_one_task_and_the_core_takes_the_graph(
    job: tuple[tuple[Node, ...], dict[str, bool], tuple[str, ...]],
) -> None:
    nodes, stateful, alone = job
    made = plan(nodes, stateful, alone)
    assert Counter(uid for task in made.tasks for uid in parts(task)) == Counter(node.uid for node in nodes)
    assert made == plan(nodes, stateful, alone)
    graph = made.graph()
    place = {task.id: index for index, task in enumerate(graph.tasks)}
    assert all(place[channel.upstream] < place[channel.downstream] for channel in made.channels)
    assert {o.uid for task in graph.tasks for o in task.operators if o.stateful} == {
        u for u, k in stateful.items() if k
    }


@given(jobs())
def test_every_input_comes_from_the_same_trunk_or_by_one_channel_from_the_end_of_another(
    job: tuple[tuple[Node, ...], dict[str, bool], tuple[str, ...]],
) -> None:
    nodes, stateful, alone = job
    made = plan(nodes, stateful, alone)
    readers = Counter(uid for node in nodes for uid in node.inputs)
    end = {task.id: task.trunk[-1].uid for task in made.tasks}
    by_channel = {(channel.consumer, channel.index): channel for channel in made.channels}
    assert len(by_channel) == len(made.channels) == len({channel.id for channel in made.channels})
    for task in made.tasks:
        seen: list[str] = []
        for node in task.trunk:
            for index, uid in enumerate(node.inputs):
                channel = by_channel.pop((node.uid, index), None)
                assert (uid in seen) == (channel is None)
                assert channel is None or (end[channel.upstream] == uid and channel.downstream == task.id)
                assert not (node.new_task and uid in seen)
            seen.append(node.uid)
        assert all(readers[uid] == 1 for uid in seen[:-1]), "data leaves a task at its trunk's end only"
    assert not by_channel, "every channel has an operator that reads it"


@given(jobs())
def test_spark_can_run_every_task_and_every_sink_is_reached(
    job: tuple[tuple[Node, ...], dict[str, bool], tuple[str, ...]],
) -> None:
    nodes, stateful, alone = job
    made = plan(nodes, stateful, alone)
    for task in made.tasks:
        keeping = [node for node in task.trunk if stateful[node.uid]]
        assert [node.uid for node in keeping] == list(task.stateful)
        single = [node for node in keeping if node.output_mode != "append" or node.uid in alone]
        assert not single or len(keeping) == 1
        assert task.output_mode == (keeping[0].output_mode if single else "append")
        for branch in task.branches:
            way = [task.trunk[-1].uid, *(node.uid for node in branch.operators)]
            assert [node.inputs for node in (*branch.operators, branch.sink)] == [(uid,) for uid in way]
            assert not any(stateful[node.uid] or node.new_task for node in branch.operators)
        feeds = any(channel.upstream == task.id for channel in made.channels)
        assert feeds or task.branches
        assert task.writes_segment == (feeds or len(task.branches) > 1)
        assert task.writes_segment or task.branches[0].operators == ()
