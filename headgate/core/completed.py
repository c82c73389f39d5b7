"""What a ready checkpoint is written down as.

One rule: a record says all that whoever returns to it needs, where each task was cut and not where it stands by now:
its snapshots, what is in flight, and every transaction that is not known to be committed.
"""

from headgate.core import alignment, commit
from headgate.core.effects import StartTask
from headgate.core.ids import NO_BATCH, CheckpointId
from headgate.core.records import CompletedCheckpoint, TaskSnapshot
from headgate.core.state import Cut, JobState, PendingCheckpoint


def completed(state: JobState, pending: PendingCheckpoint) -> CompletedCheckpoint:
    """What a ready checkpoint is published as."""
    graph = state.graph
    tasks = tuple(
        TaskSnapshot(
            task=task.id,
            operators=tuple(operator.uid for operator in task.operators),
            stateful=tuple(operator.uid for operator in task.operators if operator.stateful),
            partitions=task.partitions,
            generation=pending.acknowledged[task.id].generation,
            batch=pending.cuts[task.id].boundary.batch,
            positions=tuple(
                (channel.id, position)
                for channel, position in zip(
                    graph.inputs[task.id], pending.cuts[task.id].boundary.positions, strict=True
                )
            ),
            finished=pending.cuts[task.id].finished,
            files=pending.acknowledged[task.id].files,
        )
        for task in graph.tasks
    )
    channels = tuple(
        held for task in graph.tasks for held in alignment.in_flight(pending, graph.inputs[task.id], task.id)
    )
    transactions = tuple(
        transaction for sink in state.sinks.values() for transaction in commit.uncommitted(sink, pending.id)
    )
    return CompletedCheckpoint(
        id=pending.id,
        generation=state.leadership.generation,
        leader=state.leadership.leader,
        kind=pending.kind,
        tasks=tasks,
        channels=channels,
        transactions=transactions,
        request=pending.request,
        stop=pending.id == state.checkpoints.stop_after,
        keeps=_keeps(state, pending),
        draining=pending.draining,
    )


def _keeps(state: JobState, pending: PendingCheckpoint) -> CheckpointId | None:
    """The checkpoint that this one does not replace yet: while a task has not committed a batch of its own in this
    generation, nobody knows whether it can, and what the generation continued from stays. If that was one which had
    not replaced its own base either, then that base.
    """
    before = next((checkpoint for checkpoint in state.retained.completed if checkpoint.id == state.retained.base), None)
    if before is None:
        return None
    if before.generation == state.leadership.generation and before.keeps is None:
        return None
    if all(_has_moved(start, pending.cuts[start.task]) for start in state.execution.starts):
        return None
    return before.id if before.keeps is None else before.keeps


def _has_moved(start: StartTask, cut: Cut) -> bool:
    return cut.finished or cut.boundary.batch > (start.snapshot.batch if start.snapshot else NO_BATCH)
