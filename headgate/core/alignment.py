"""Where a checkpoint cuts through one task, and how far the task's gates are open.

One rule: a task is cut right after its last committed batch, and the barrier stands after the same batch on its output
channels. So a barrier is not stored anywhere: it *is* the cut of the upstream task. What differs between the modes is
only when a task may be cut:

- *aligned* (exactly-once): when it has consumed every input exactly through the barrier. Until then each gate is held
  at the first barrier that the task has not been cut for.
- *at-least-once*: when it has consumed every input at least through the barrier. No gate is held.
- *unaligned*: as soon as a barrier stands on any input. What lies between the consumed position and the barrier
  is in flight, and belongs to the checkpoint by reference.

Barriers are served in the order of checkpoints: nothing is cut for a later one before it is cut for the earlier ones.
A task that is idle, or has ended, needs no rule of its own: its last committed batch simply does not move.
"""

from headgate.core.evolve import evolve
from headgate.core.graph import Channel, Task
from headgate.core.ids import Batch, TaskId
from headgate.core.records import InFlight, Kind
from headgate.core.settings import Mode
from headgate.core.state import Cut, JobState, PendingCheckpoint, TaskState


def may_cut(mode: Mode, pending: PendingCheckpoint, inputs: tuple[Channel, ...], task: TaskState) -> bool:
    """Whether a checkpoint may cut through a task now. A task without input channels can be cut at any time."""
    cuts = pending.cuts
    if pending.unaligned:
        return not inputs or any(channel.upstream in cuts for channel in inputs)
    for channel, consumed in zip(inputs, task.boundary.positions, strict=True):
        barrier = cuts.get(channel.upstream)
        if barrier is None or consumed < barrier.boundary.batch:
            return False
        if consumed > barrier.boundary.batch and mode is not Mode.AT_LEAST_ONCE:
            return False
    return True


def cut_all(state: JobState) -> tuple[JobState, list[tuple[PendingCheckpoint, Task, Cut]]]:
    """Cut whatever can be cut, upstream first; return the state and the cuts that are new."""
    made: list[tuple[PendingCheckpoint, Task, Cut]] = []
    after: list[PendingCheckpoint] = []
    waiting: dict[TaskId, None] = {}
    for pending in state.checkpoints.pending:
        grown = pending
        for task in state.graph.tasks:
            if task.id in grown.cuts or task.id in waiting:
                continue
            stands = state.execution.tasks[task.id]
            if may_cut(state.settings.mode, grown, state.graph.inputs[task.id], stands):
                cut = Cut(stands.boundary, stands.ended)
                grown = evolve(grown, cuts={**grown.cuts, task.id: cut})
                made.append((grown, task, cut))
            else:
                waiting[task.id] = None
        after.append(grown)
    if made:
        state = evolve(state, checkpoints=evolve(state.checkpoints, pending=tuple(after)))
    return state, made


def could_cut(state: JobState, task: TaskId) -> bool:
    """Whether the first checkpoint that waits for this task could now cut it. Cheap: asked after every batch."""
    for pending in state.checkpoints.pending:
        if task not in pending.cuts:
            return may_cut(state.settings.mode, pending, state.graph.inputs[task], state.execution.tasks[task])
    return False


def gate(state: JobState, channel: Channel) -> Batch:
    """How far a channel's reader may go: what is committed, but not past the first barrier that still holds it."""
    committed = state.execution.tasks[channel.upstream].boundary.batch
    if state.settings.mode is Mode.AT_LEAST_ONCE:
        return committed
    for pending in state.checkpoints.pending:
        barrier = pending.cuts.get(channel.upstream)
        if barrier is not None and channel.downstream not in pending.cuts:
            return min(committed, barrier.boundary.batch)
    return committed


def in_flight(pending: PendingCheckpoint, inputs: tuple[Channel, ...], task: TaskId) -> tuple[InFlight, ...]:
    """What a checkpoint holds of a task's inputs: the segments after the task's cut, through the barrier."""
    return tuple(
        InFlight(
            channel=channel.id,
            upstream=channel.upstream,
            downstream=channel.downstream,
            after=min(consumed, pending.cuts[channel.upstream].boundary.batch),
            through=pending.cuts[channel.upstream].boundary.batch,
        )
        for channel, consumed in zip(inputs, pending.cuts[task].boundary.positions, strict=True)
    )


def overtake(state: JobState) -> JobState:
    """Turn the checkpoints that have been aligning for too long into unaligned ones."""
    deadlines = [alignment_deadline(state, pending) for pending in state.checkpoints.pending]
    if not any(deadline is not None and state.now_ms >= deadline for deadline in deadlines):
        return state
    late = tuple(
        evolve(pending, unaligned=True) if deadline is not None and state.now_ms >= deadline else pending
        for pending, deadline in zip(state.checkpoints.pending, deadlines, strict=True)
    )
    return evolve(state, checkpoints=evolve(state.checkpoints, pending=late))


def alignment_deadline(state: JobState, pending: PendingCheckpoint) -> int | None:
    """When a checkpoint stops waiting for alignment. A savepoint is aligned however long it takes."""
    timeout_ms = state.settings.aligned_checkpoint_timeout_ms
    if timeout_ms is None or pending.unaligned or pending.kind is Kind.SAVEPOINT:
        return None
    return pending.triggered_at_ms + timeout_ms
