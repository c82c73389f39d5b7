"""One checkpoint from its start to the checkpoint log: who has acknowledged it, when it is ready, when it is given up.

One rule: a checkpoint is ready when every task has been cut and has acknowledged, and every sink has pre-committed. A
ready checkpoint goes to the checkpoint log and can no longer be given up. Older ones that are still pending are
subsumed by it, except those that somebody asked for: they are waited for.
"""

from enum import Enum

from headgate.core import alignment, checkpoint_log, commit, completed
from headgate.core.effects import (
    AbortSnapshot,
    Ack,
    AnswerAck,
    CreateRecord,
    Notify,
    OpenGate,
    Outcome,
    PreCommitSink,
    TakeSnapshot,
)
from headgate.core.events import PreCommitFailed, SinkPreCommitted, SnapshotDeclined, SnapshotTaken
from headgate.core.evolve import evolve
from headgate.core.graph import Channel
from headgate.core.ids import NO_CHECKPOINT, CheckpointId, SinkId, TaskId
from headgate.core.records import CompletedCheckpoint, Kind, Record, TaskSnapshot, Transaction
from headgate.core.settings import Settings
from headgate.core.state import (
    AT_REST,
    Acknowledgement,
    JobState,
    PendingCheckpoint,
    Phase,
    Request,
    StepContext,
    drains,
    ready,
)
from headgate.core.trigger import due

REQUESTS_MAX = 16
"""How many checkpoints that users asked for may wait to be triggered."""
BEING_DRAINED = "the job is being drained, and ends with a savepoint"
"""Why no other savepoint is taken."""


class GivenUp(Enum):
    """Why a checkpoint came to nothing."""

    EXPIRED = "it was not ready in time"
    DECLINED = "a part of the job declined it"
    SUBSUMED = "a later one completed first"
    NO_ROOM = "a sink has no room for the batches before its barrier: ask again"
    RESTARTED = "the job is restarting"
    CLOSED = "the job is closing"

    @property
    def is_failure(self) -> bool:
        """Whether it counts against the tolerable failures."""
        return self in (GivenUp.EXPIRED, GivenUp.DECLINED)


# -- starting ------------------------------------------------------------------------------------------------------


def trigger(context: StepContext) -> None:
    """Start a checkpoint if one is due."""
    state, checkpoints = context.state, context.state.checkpoints
    wanted = due(state)
    if wanted is None:
        return
    pending = PendingCheckpoint(
        id=checkpoints.next_id,
        kind=wanted.kind,
        triggered_at_ms=state.now_ms,
        unaligned=wanted.early or (wanted.kind is Kind.CHECKPOINT and overtakes_at_once(state.settings)),
        request=wanted.request,
        draining=state.termination.draining,
    )
    queued = wanted.request is not None and not wanted.drained
    after = evolve(
        checkpoints,
        pending=(*checkpoints.pending, pending),
        next_id=CheckpointId(pending.id + 1),
        next_trigger_ms=state.now_ms + (state.settings.interval_ms or 0),
        requests=checkpoints.requests[1:] if queued else checkpoints.requests,
        stop_after=pending.id if wanted.stop else checkpoints.stop_after,
    )
    context.state = evolve(state, checkpoints=after)
    if wanted.drained:
        context.state = evolve(context.state, termination=evolve(state.termination, drain=None))
    context.tell_story(f"{wanted.kind.value} {pending.id} triggered")
    cut(context)


def overtakes_at_once(settings: Settings) -> bool:
    """Whether checkpoints are unaligned from the start."""
    return settings.unaligned or settings.aligned_checkpoint_timeout_ms == 0


def ask(context: StepContext, request: Request) -> None:
    """A user wants a checkpoint: note it, unless too many are waiting or the job is ending."""
    state = context.state
    why = None
    if state.phase is Phase.CLOSING or state.phase in AT_REST:
        why = "the job is not running here"
    elif request.kind is Kind.SAVEPOINT and drains(state) and not _joins(state, request):
        why = BEING_DRAINED
    elif len(state.checkpoints.requests) >= REQUESTS_MAX:
        why = f"{REQUESTS_MAX} requests are waiting already"
    if why is not None:
        context.order(Notify(Outcome.REFUSED, f"{request.kind.value} refused: {why}", request.id))
        return
    requests = (*state.checkpoints.requests, request)
    context.state = evolve(state, checkpoints=evolve(state.checkpoints, requests=requests))


def _joins(state: JobState, request: Request) -> bool:
    """Whether a request to drain is the first that this process hears: who asked before asked another one."""
    under_way = state.termination.drain is not None or state.checkpoints.stop_after != NO_CHECKPOINT
    return request.drain and not under_way and not any(other.drain for other in state.checkpoints.requests)


# -- cutting and acknowledging -------------------------------------------------------------------------------------


def cut(context: StepContext) -> None:
    """Cut through every task that may be cut; order snapshots and pre-commits, and open the gates that this frees."""
    context.state, made = alignment.cut_all(context.state)
    generation = context.state.leadership.generation
    for pending, task, where in made:
        before = _finished_before(context.state, task.id)
        if before is not None:
            _note(context, pending.id, task.id, Acknowledgement(before.files, before.generation))
        else:
            context.order(TakeSnapshot(generation, pending.id, task.id, where.boundary.batch))
        for sink in task.sinks:
            state, pre_commit = commit.want_pre_commit(context.state.sinks[sink], pending.id, where.boundary.batch)
            context.set_sink(sink, state)
            _order_pre_commit(context, sink, pre_commit)
    for task_id in {task.id: None for _, task, _ in made}:
        open_gates(context, context.state.graph.inputs[task_id])


def open_gates(context: StepContext, channels: tuple[Channel, ...]) -> None:
    """Open each gate as far as it may be, where that is further than before."""
    for channel in channels:
        through = alignment.gate(context.state, channel)
        execution = context.state.execution
        if through > execution.gates[channel.id]:
            gates = {**execution.gates, channel.id: through}
            context.state = evolve(context.state, execution=evolve(execution, gates=gates))
            context.order(OpenGate(context.state.leadership.generation, channel.id, through))


def acknowledge(context: StepContext, fact: SnapshotTaken) -> None:
    """A task has taken its snapshot. It hears what became of it."""
    answer = _acknowledge(context, fact)
    context.order(AnswerAck(fact.generation, fact.checkpoint, fact.task, answer))


def _acknowledge(context: StepContext, fact: SnapshotTaken) -> Ack:
    state = context.state
    if state.phase in AT_REST or fact.generation != state.leadership.generation:
        return Ack.UNKNOWN
    if fact.checkpoint >= state.checkpoints.next_id or fact.task not in state.execution.tasks:
        return Ack.UNKNOWN
    pending = find(state, fact.checkpoint)
    if pending is None:
        settled = any(record.id == fact.checkpoint for record in (*ready(state), *state.retained.completed))
        return Ack.DUPLICATE if settled else Ack.DISCARDED
    if fact.task in pending.acknowledged:
        return Ack.DUPLICATE
    if fact.task not in pending.cuts or fact.batch != pending.cuts[fact.task].boundary.batch:
        raise context.impossible(
            f"task {fact.task} acknowledged checkpoint {fact.checkpoint} at batch {fact.batch}, where it was not cut"
        )
    _note(context, pending.id, fact.task, Acknowledgement(fact.files, fact.generation))
    return Ack.SUCCESS


def _note(context: StepContext, checkpoint: CheckpointId, task: TaskId, acknowledgement: Acknowledgement) -> None:
    """Remember an acknowledgement."""
    context.set_pending(
        tuple(
            evolve(pending, acknowledged={**pending.acknowledged, task: acknowledgement})
            if pending.id == checkpoint
            else pending
            for pending in context.state.checkpoints.pending
        )
    )


def _finished_before(state: JobState, task: TaskId) -> TaskSnapshot | None:
    """The last snapshot of a task that had finished before this generation began. It is not started, and stays so."""
    for start in state.execution.starts:
        if start.task == task and start.snapshot is not None and start.snapshot.finished:
            return start.snapshot
    return None


def decline(context: StepContext, fact: SnapshotDeclined) -> None:
    """A task cannot take part: the checkpoint is given up."""
    pending = find(context.state, fact.checkpoint)
    if (
        fact.generation == context.state.leadership.generation
        and pending is not None
        and fact.task not in pending.acknowledged
    ):
        give_up(context, pending, GivenUp.DECLINED, f"{fact.task}: {fact.why}")


def pre_committed(context: StepContext, fact: SinkPreCommitted) -> None:
    """A sink has pre-committed. That counts even if the checkpoint was given up meanwhile: the next one commits it."""
    state = context.state
    if fact.generation != state.leadership.generation:
        return
    sink = context.sink(fact.sink)
    pre_commit = commit.pre_commit_under_way(sink, fact.checkpoint)
    if pre_commit is None:
        return
    transaction = Transaction(
        fact.sink, fact.generation, fact.checkpoint, sink.pre_committed_through, pre_commit.through, fact.committable
    )
    sink, following = commit.pre_committed(sink, transaction)
    context.set_sink(fact.sink, sink)
    _order_pre_commit(context, fact.sink, following)


def pre_commit_failed(context: StepContext, fact: PreCommitFailed) -> None:
    """A sink could not pre-commit: its checkpoint is given up; what stays open goes into the next pre-commit."""
    state = context.state
    if (
        fact.generation != state.leadership.generation
        or commit.pre_commit_under_way(context.sink(fact.sink), fact.checkpoint) is None
    ):
        return
    sink, following = commit.pre_commit_failed(state.sinks[fact.sink])
    context.set_sink(fact.sink, sink)
    _order_pre_commit(context, fact.sink, following)
    pending = find(context.state, fact.checkpoint)
    if pending is not None:
        give_up(context, pending, GivenUp.DECLINED, f"{fact.sink}: {fact.why}")


def _order_pre_commit(context: StepContext, sink: SinkId, pre_commit: commit.PreCommit | None) -> None:
    if pre_commit is not None:
        after = context.state.sinks[sink].pre_committed_through
        context.order(
            PreCommitSink(context.state.leadership.generation, pre_commit.checkpoint, sink, after, pre_commit.through)
        )


# -- ending --------------------------------------------------------------------------------------------------------


def is_ready(state: JobState, pending: PendingCheckpoint) -> bool:
    """Whether everyone has done their part."""
    return len(pending.acknowledged) == len(state.execution.tasks) and all(
        sink.pre_committed_for >= pending.id for sink in state.sinks.values()
    )


def complete(context: StepContext) -> None:
    """Send a ready checkpoint to the checkpoint log, and with it the fate of the ones before it."""
    pending = _next_ready(context.state)
    if pending is None:
        return
    older = tuple(other for other in context.state.checkpoints.pending if other.id < pending.id)
    for other in older:
        drop(context, other, GivenUp.SUBSUMED, f"by {pending.id}")
    _remove(context, pending)
    context.tell_story(f"{pending.kind.value} {pending.id} ready")
    record(context, below=pending.id, last=completed.completed(context.state, pending))
    if older:
        open_gates(context, context.state.graph.channels)
        cut(context)


def _next_ready(state: JobState) -> PendingCheckpoint | None:
    """The newest ready checkpoint, but none that would overtake one that somebody asked for."""
    found = None
    for pending in state.checkpoints.pending:
        if is_ready(state, pending):
            found = pending
            if pending.request is not None:
                break
        elif pending.request is not None:
            break
    return found


def give_up(context: StepContext, pending: PendingCheckpoint, reason: GivenUp, detail: str = "") -> None:
    """End a pending checkpoint without a result; free whatever waited for it."""
    drop(context, pending, reason, detail)
    record(context, below=lowest(context.state))
    open_gates(context, context.state.graph.channels)
    cut(context)


def drop(context: StepContext, pending: PendingCheckpoint, reason: GivenUp, detail: str) -> None:
    """Forget a pending checkpoint, tell everyone, and count it if it is a failure."""
    _remove(context, pending)
    state, checkpoints, termination = context.state, context.state.checkpoints, context.state.termination
    request = pending.request
    if pending.draining and pending.id == checkpoints.stop_after:  # It is taken again, and whoever asked waits on.
        termination, request = evolve(termination, drain=request), None
    context.state = evolve(
        state,
        termination=termination,
        sinks={name: commit.forget_pre_commits(sink, pending.id) for name, sink in state.sinks.items()},
        checkpoints=evolve(
            checkpoints,
            failures=checkpoints.failures + 1 if reason.is_failure else checkpoints.failures,
            last_end_ms=state.now_ms,
            stop_after=NO_CHECKPOINT if checkpoints.stop_after == pending.id else checkpoints.stop_after,
        ),
    )
    text = f"{pending.kind.value} {pending.id} given up: {reason.value}" + (f" ({detail})" if detail else "")
    context.tell_story(text)
    context.order(AbortSnapshot(state.leadership.generation, pending.id))
    if request is not None or reason.is_failure:
        context.order(Notify(Outcome.FAILED, text, request, pending.id))


def _remove(context: StepContext, pending: PendingCheckpoint) -> None:
    context.set_pending(tuple(other for other in context.state.checkpoints.pending if other.id != pending.id))


def lowest(state: JobState) -> CheckpointId:
    """The first id that has no fate yet."""
    return state.checkpoints.pending[0].id if state.checkpoints.pending else state.checkpoints.next_id


def record(context: StepContext, below: CheckpointId, last: CompletedCheckpoint | None = None) -> None:
    """Write down what became of all ids under ``below``, and then ``last``."""
    state = context.state
    records: tuple[Record, ...] = checkpoint_log.aborted_entries(
        state.checkpoint_log, below, state.leadership.generation, state.leadership.leader
    )
    if last is not None:
        records = (*records, last)
    links, first = checkpoint_log.enqueue(state.checkpoint_log, records)
    context.state = evolve(state, checkpoint_log=links)
    if first is not None:
        context.order(CreateRecord(state.leadership.leader, first))


def expire(context: StepContext) -> None:
    """Give up what has taken too long."""
    limit_ms = context.state.now_ms - context.state.settings.timeout_ms
    while late := [pending for pending in context.state.checkpoints.pending if pending.triggered_at_ms <= limit_ms]:
        give_up(context, late[0], GivenUp.EXPIRED)


def find(state: JobState, checkpoint: CheckpointId) -> PendingCheckpoint | None:
    """The pending checkpoint of this id."""
    for pending in state.checkpoints.pending:
        if pending.id == checkpoint:
            return pending
    return None
