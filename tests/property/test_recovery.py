"""Recovery over graphs of every shape."""

from collections.abc import Mapping

from hypothesis import given, strategies as st

from headgate.core import recovery
from headgate.core.evolve import evolve
from headgate.core.graph import Channel, Graph, Operator, Task
from headgate.core.ids import Batch, ChannelId, CheckpointId, Generation, OperatorUid, TaskId
from headgate.core.records import CompletedCheckpoint, InFlight, Restore
from headgate.core.recovery import Recovery
from tests.helpers import aborted_entry, completed, epoch_record

SECOND = Generation(2)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """One to five tasks, each with operators of its own, and channels that run forward; some tasks share several."""
    count = draw(st.integers(1, 5))
    pairs = [(up, down) for down in range(count) for up in range(down)]
    ends = draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else []
    tasks = [
        Task(
            TaskId(f"t{number}"),
            tuple(
                Operator(OperatorUid(f"t{number}.{one}"), stateful=draw(st.booleans()))
                for one in range(draw(st.integers(1, 3)))
            ),
            has_source=all(down != number for _, down in ends) or draw(st.booleans()),
        )
        for number in range(count)
    ]
    channels = [Channel(ChannelId(f"c{n}"), tasks[up].id, tasks[down].id) for n, (up, down) in enumerate(ends)]
    return Graph(tuple(tasks), tuple(channels))


@st.composite
def checkpoints(draw: st.DrawFn, graph: Graph) -> CompletedCheckpoint:
    """A checkpoint of the graph as the coordinator would publish it: some channels have data in flight."""
    batches = {task.id: Batch(draw(st.integers(-1, 9))) for task in graph.tasks}
    inputs = [channel for task in graph.tasks for channel in graph.inputs[task.id]]
    held = tuple(
        InFlight(c.id, c.upstream, c.downstream, Batch(draw(st.integers(-1, through))), through)
        for c in inputs
        for through in [batches[c.upstream]]
    )
    base = completed(graph, 1)
    tasks = tuple(
        evolve(
            snapshot,
            batch=batches[snapshot.task],
            finished=draw(st.booleans()),
            positions=tuple((one.channel, one.after) for one in held if one.downstream == snapshot.task),
        )
        for snapshot in base.tasks
    )
    return evolve(base, tasks=tasks, channels=held)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Graph, CompletedCheckpoint]:
    graph = draw(graphs())
    return graph, draw(checkpoints(graph))


def plan(graph: Graph, base: CompletedCheckpoint, restore: Restore | None = None) -> Recovery:
    return recovery.plan(graph, (epoch_record(0, 1, 1), base, aborted_entry(2)), restore or Restore(), SECOND)


Names = Mapping[OperatorUid, OperatorUid]


def rename(graph: Graph, names: Names, tasks: Mapping[TaskId, TaskId]) -> Graph:
    return Graph(
        tuple(
            evolve(
                task,
                id=tasks[task.id],
                operators=tuple(evolve(operator, uid=names[operator.uid]) for operator in task.operators),
            )
            for task in graph.tasks
        ),
        tuple(
            evolve(channel, upstream=tasks[channel.upstream], downstream=tasks[channel.downstream])
            for channel in graph.channels
        ),
    )


def taken_over(base: CompletedCheckpoint, graph: Graph, found: Recovery) -> CompletedCheckpoint:
    """The checkpoint that the new generation would take at once: the same positions, under the names of ``graph``."""
    fresh = completed(graph, 1)
    tasks = tuple(
        evolve(
            snapshot,
            batch=start.snapshot.batch,
            finished=start.snapshot.finished,
            files=start.snapshot.files,
            positions=tuple(zip((c.id for c in graph.inputs[start.task]), start.positions, strict=True)),
        )
        for snapshot, start in zip(fresh.tasks, found.starts, strict=True)
        if start.snapshot is not None
    )
    by_channel = {held.channel: held for start in found.starts for held in start.in_flight}
    channels = tuple(
        evolve(by_channel[c.id], upstream=c.upstream, downstream=c.downstream)
        for task in graph.tasks
        for c in graph.inputs[task.id]
    )
    return evolve(base, tasks=tasks, channels=channels)


@given(jobs())
def test_an_unchanged_job_gets_back_every_snapshot_and_every_position(job: tuple[Graph, CompletedCheckpoint]) -> None:
    graph, base = job
    found = plan(graph, base)
    assert found.base == base
    assert [start.task for start in found.starts] == [task.id for task in graph.tasks]
    assert tuple(start.snapshot for start in found.starts) == base.tasks
    for start, snapshot in zip(found.starts, base.tasks, strict=True):
        assert tuple(zip((c.id for c in graph.inputs[start.task]), start.positions, strict=True)) == snapshot.positions
    assert tuple(held for start in found.starts for held in start.in_flight) == base.channels


@given(jobs())
def test_to_allow_what_is_not_restored_changes_nothing_where_all_is(job: tuple[Graph, CompletedCheckpoint]) -> None:
    graph, base = job
    assert plan(graph, base, Restore(allow_non_restored=True)) == plan(graph, base)
    assert plan(graph, base, Restore(checkpoint=CheckpointId(1))) == plan(graph, base)


@given(jobs(), st.data())
def test_to_rename_there_and_back_is_to_rename_nothing(
    job: tuple[Graph, CompletedCheckpoint], data: st.DataObject
) -> None:
    graph, base = job
    uids = [operator.uid for task in graph.tasks for operator in task.operators]
    shuffled = data.draw(st.permutations([*uids, *(OperatorUid(f"new.{uid}") for uid in uids)]), label="uids")
    there: Names = dict(zip(uids, shuffled, strict=False))
    back: Names = {new: old for old, new in there.items()}
    tasks = {task.id: TaskId(f"moved-{task.id}") for task in graph.tasks}
    home = {new: old for old, new in tasks.items()}

    away = rename(graph, there, tasks)
    moved = plan(away, base, Restore(renamed=tuple(there.items())))
    assert tuple(start.snapshot for start in moved.starts) == base.tasks
    assert [start.positions for start in moved.starts] == [start.positions for start in plan(graph, base).starts]

    again = rename(away, back, home)
    assert again == graph
    halfway = taken_over(base, away, moved)
    returned = plan(again, halfway, Restore(renamed=tuple(back.items())))
    assert taken_over(halfway, again, returned) == base
