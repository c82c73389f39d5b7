"""Deadlines, and orders given again.

One rule: the core never waits; it says when it next wants to hear the clock (``next_deadline``), and acts on what is
due when it does. Orders that nobody has answered are derived from the state and given again, so nothing hangs on one
message.
"""

from collections.abc import Iterator

from headgate.core import alignment, coordinator, leadership, sinks, starting, tasks, waiting
from headgate.core.effects import (
    AbortFailedAttempts,
    AbortStaleGenerations,
    AdmitBatch,
    AskTask,
    CommitTransaction,
    CopySavepoint,
    CreateRecord,
    DeleteSavepoint,
    Effect,
    ListFiles,
    OpenGate,
    PreCommitSink,
    ReadCheckpointLog,
    SetHold,
    StopTask,
    TakeSnapshot,
)
from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId
from headgate.core.state import AT_REST, JobState, Phase, StepContext
from headgate.core.trigger import clock_deadline, has_room


def next_deadline(state: JobState) -> int | None:
    """When the core next wants a ``Ticked``, in ms. None: only something else can change anything."""
    return min((at for at in _deadlines(state) if at is not None), default=None)


def _deadlines(state: JobState) -> Iterator[int | None]:
    if state.phase in AT_REST:
        return
    yield state.resend_at_ms
    yield state.restarts.restart_at_ms
    yield state.checkpoint_log.retry_at_ms
    for sink in state.sinks.values():
        yield sink.retry_at_ms
    if state.phase is not Phase.RUNNING:
        return
    yield state.leftovers.look_again_at_ms
    for task in state.execution.tasks.values():
        yield task.restart_at_ms
    for pending in state.checkpoints.pending:
        yield pending.triggered_at_ms + state.settings.timeout_ms
        yield alignment.alignment_deadline(state, pending)
    if has_room(state):
        yield clock_deadline(state)


def ticked(context: StepContext, now_ms: int) -> None:
    """Do what is due."""
    context.state = evolve(context.state, now_ms=max(now_ms, context.state.now_ms))
    now_ms = context.state.now_ms
    if context.state.phase in AT_REST:
        return
    if context.state.restarts.restart_at_ms is not None and now_ms >= context.state.restarts.restart_at_ms:
        leadership.read(context)
    if context.state.phase is Phase.RUNNING:
        for name, task in context.state.execution.tasks.items():
            if task.restart_at_ms is not None and now_ms >= task.restart_at_ms:
                tasks.run_again(context, name)
        sinks.look_again(context)
        coordinator.expire(context)
        before = context.state
        context.state = alignment.overtake(before)
        if context.state is not before:
            coordinator.cut(context)
    retry(context)
    if context.state.resend_at_ms is not None and now_ms >= context.state.resend_at_ms:
        context.state = evolve(context.state, resend_at_ms=now_ms + context.state.settings.resend_ms)
        context.effects.extend(unanswered(context.state))
        waiting.say(context)


def retry(context: StepContext) -> None:
    """Order again what failed, once its wait is over."""
    state = context.state
    if state.checkpoint_log.retry_at_ms is not None and state.now_ms >= state.checkpoint_log.retry_at_ms:
        context.state = evolve(state, checkpoint_log=evolve(state.checkpoint_log, retry_at_ms=None))
        context.order(CreateRecord(state.leadership.leader, state.checkpoint_log.queue[0]))
    for name, sink in state.sinks.items():
        if sink.retry_at_ms is not None and state.now_ms >= sink.retry_at_ms:
            context.set_sink(name, evolve(sink, retry_at_ms=None))
            sinks.order_commit(context, name)


def unanswered(state: JobState) -> Iterator[Effect]:
    """Every order that is in force and has not been answered, derived from the state alone."""
    leader, generation = state.leadership.leader, state.leadership.generation
    if state.phase is Phase.READING:
        yield ReadCheckpointLog(leader)
    if state.checkpoint_log.queue and state.checkpoint_log.retry_at_ms is None:
        yield CreateRecord(leader, state.checkpoint_log.queue[0])
    for name, sink in state.sinks.items():
        if sink.wanted and state.phase is Phase.RUNNING:
            pre_commit = sink.wanted[0]
            yield PreCommitSink(generation, pre_commit.checkpoint, name, sink.pre_committed_through, pre_commit.through)
        if sink.abort_run is not None and state.phase is Phase.RUNNING:
            yield AbortFailedAttempts(generation, name, sink.abort_run)
        if sink.due and sink.retry_at_ms is None:
            yield CommitTransaction(generation, *sink.due[0])
    for name in state.leftovers.stale_generations:
        yield AbortStaleGenerations(generation, name, state.leftovers.abort_below)
    for savepoint in state.retained.copying:
        yield CopySavepoint(leader, CheckpointId(savepoint))
    if state.retained.deleting is not None:
        yield DeleteSavepoint(leader, state.retained.deleting.checkpoint)
    for asked in state.retained.holding:
        yield SetHold(leader, asked.checkpoint, asked.held)
    if state.collection.under_way:
        yield ListFiles(generation)
    if state.phase is Phase.RUNNING:
        yield from _of_tasks(state)
    elif state.phase in (Phase.RESTARTING, Phase.CLOSING):
        for task, stands in state.execution.tasks.items():
            if not stands.ended:
                yield StopTask(generation, task, stands.run)


def _of_tasks(state: JobState) -> Iterator[Effect]:
    generation = state.leadership.generation
    for name, task in state.execution.tasks.items():
        if task.ended or task.restart_at_ms is not None:
            continue
        if not task.started:
            yield starting.start_order(state, name)
        yield AskTask(generation, name, task.run)
        if task.admitted > task.boundary.batch:
            yield AdmitBatch(generation, name, task.run, task.admitted)
        if task.draining:
            yield StopTask(generation, name, task.run, drain=True)
    for channel, through in state.execution.gates.items():
        yield OpenGate(generation, channel, through)
    for pending in state.checkpoints.pending:
        for name, cut in pending.cuts.items():
            if name not in pending.acknowledged:
                yield TakeSnapshot(generation, pending.id, name, cut.boundary.batch)
