"""Short ways to build what tests talk about. Names and numbers go in plain and come out as the core's own types."""

from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any

from headgate.core.checkpoint_log import CheckpointLog
from headgate.core.commit import SinkState
from headgate.core.evolve import evolve
from headgate.core.graph import Channel, Graph, Operator, Task
from headgate.core.ids import (
    NO_BATCH,
    Batch,
    ChannelId,
    CheckpointId,
    Generation,
    LeaderId,
    OperatorUid,
    Run,
    SinkId,
    TaskId,
)
from headgate.core.records import (
    AbortedEntry,
    Boundary,
    CompletedCheckpoint,
    EpochRecord,
    InFlight,
    Kind,
    Record,
    TaskSnapshot,
    Transaction,
)
from headgate.core.settings import Settings
from headgate.core.state import Checkpoints, Execution, JobState, Leadership, Phase, TaskState

ALICE = LeaderId("alice")
BOB = LeaderId("bob")


def operators(*uids: str, stateful: bool = True) -> tuple[Operator, ...]:
    return tuple(Operator(OperatorUid(uid), stateful) for uid in uids)


def channel(upstream: str, downstream: str, name: str = "") -> Channel:
    """The channel ``upstream>downstream``, unless it is given another name."""
    return Channel(ChannelId(name or f"{upstream}>{downstream}"), TaskId(upstream), TaskId(downstream))


def task(name: str, *, sinks: tuple[str, ...] = (), source: bool = False, uids: tuple[str, ...] | None = None) -> Task:
    """A task whose one operator, unless others are named, is stateful and has the uid ``name-op``."""
    chained = operators(*(uids if uids is not None else (f"{name}-op",)))
    return Task(TaskId(name), chained, tuple(SinkId(sink) for sink in sinks), has_source=source)


def line(*names: str) -> Graph:
    """Tasks one after the other. The first reads a source, the last writes the sink ``out``."""
    tasks = tuple(task(n, source=n == names[0], sinks=("out",) if n == names[-1] else ()) for n in names)
    return Graph(tasks, tuple(channel(up, down) for up, down in pairwise(names)))


def aborted_entry(number: int, generation: int = 1, leader: LeaderId = ALICE) -> AbortedEntry:
    return AbortedEntry(CheckpointId(number), Generation(generation), leader)


def epoch_record(
    number: int, generation: int, next_id: int, *, leader: LeaderId = ALICE, base: CheckpointId | None = None
) -> EpochRecord:
    return EpochRecord(CheckpointId(number), Generation(generation), leader, CheckpointId(next_id), base)


def transaction(checkpoint: int, after: int, through: int, *, generation: int = 1, sink: str = "out") -> Transaction:
    return Transaction(SinkId(sink), Generation(generation), CheckpointId(checkpoint), Batch(after), Batch(through))


def completed(graph: Graph, number: int, batch: int = 0, *, generation: int = 1, **changes: Any) -> CompletedCheckpoint:
    """An aligned checkpoint of ``graph`` that cuts every task at ``batch``; each has the file ``task/batch``."""
    gen, cut = Generation(generation), Batch(batch)
    checkpoint = CompletedCheckpoint(
        id=CheckpointId(number),
        generation=gen,
        leader=ALICE,
        kind=Kind.CHECKPOINT,
        tasks=tuple(
            TaskSnapshot(
                task=task.id,
                operators=tuple(operator.uid for operator in task.operators),
                stateful=tuple(operator.uid for operator in task.operators if operator.stateful),
                partitions=task.partitions,
                generation=gen,
                batch=cut,
                positions=tuple((channel.id, cut) for channel in graph.inputs[task.id]),
                finished=False,
                files=(f"{task.id}/{batch}",),
            )
            for task in graph.tasks
        ),
        channels=tuple(InFlight(c.id, c.upstream, c.downstream, cut, cut) for c in graph.channels),
        transactions=(),
    )
    return evolve(checkpoint, **changes)


def boundary(graph: Graph, name: str, batch: int) -> Boundary:
    """Where a task stands that has consumed batch ``batch`` of every input."""
    return Boundary(Batch(batch), (Batch(batch),) * len(graph.inputs[TaskId(name)]))


def standing(graph: Graph, name: TaskId, batch: int) -> TaskState:
    """A task that is up, with ``batch`` committed and no other in the hook."""
    at = Batch(batch)
    return TaskState(
        run=Run(1), started=True, boundary=boundary(graph, name, batch), entered=at, admitted=at, written=at
    )


def running(graph: Graph, batch: int = NO_BATCH, settings: Settings | None = None, **changes: Any) -> JobState:
    """Alice's job in its first generation, right after its epoch record: every task is up, at ``batch``."""
    state = JobState(
        graph=graph,
        settings=settings or Settings(),
        phase=Phase.RUNNING,
        leadership=Leadership(leader=ALICE, generation=Generation(1)),
        checkpoint_log=CheckpointLog(recorded=CheckpointId(0), last=CheckpointId(0)),
        execution=Execution(
            tasks={t.id: standing(graph, t.id, batch) for t in graph.tasks},
            gates={c.id: Batch(batch) for c in graph.channels},
        ),
        checkpoints=Checkpoints(next_id=CheckpointId(1)),
        sinks={sink: SinkState(pre_committed_through=Batch(batch)) for sink in graph.owner},
    )
    return changed(state, **changes)


OWN = {field.name: field.default for field in fields(JobState)}
SUBJECTS = {inner.name: name for name, record in OWN.items() if is_dataclass(record) for inner in fields(record)}
"""For each field of a record inside a job's state, the field that has the record."""


def changed(state: JobState, **changes: Any) -> JobState:
    """A job's state in which these are different: fields of its own, or of its records. Others are an error."""
    for name, value in changes.items():
        subject = name if name in OWN else SUBJECTS[name]
        inner = value if name in OWN else replace(getattr(state, subject), **{name: value})
        state = replace(state, **{subject: inner})
    return state


def ids(records: tuple[Record, ...]) -> list[int]:
    return [record.id for record in records]
