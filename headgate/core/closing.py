"""How a job comes to its end: finished, stopped with a savepoint, cancelled, or failed.

One rule: a closing job starts nothing and finishes all that was decided; only then is the rest thrown away. What was
decided and cannot be finished is given up by a user alone, sink by sink, and that is written down with the ending.
"""

from headgate.core import checkpoint_log, coordinator, garbage, leadership, sinks
from headgate.core.checkpoint_log import CheckpointLog
from headgate.core.effects import CreateRecord, Notify, Outcome, StopTask
from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId, Generation, RequestId, SinkId
from headgate.core.records import Ending, EpochRecord, Transaction
from headgate.core.state import AT_REST, JobState, Phase, StepContext, ready


def cancel(context: StepContext, request: RequestId, abandon: tuple[SinkId, ...] = ()) -> None:
    """A user wants the job to end. Without a generation there is nothing to end yet: get one first.

    Who asks again while the job is being cancelled may only give up commits that it waits for.
    """
    state = context.state
    why = None
    unknown = [sink for sink in abandon if sink not in state.graph.owner]
    if state.phase in AT_REST:
        why = "the job is not running here"
    elif unknown:
        why = f"the job has no sink {unknown[0]}; it has: {', '.join(state.graph.owner) or 'none'}"
    elif state.cancel is not None and not abandon:
        why = f"the job is being cancelled already{', and ' * bool(_waits(state))}{_waits(state)}"
    if why is not None:
        context.order(Notify(Outcome.REFUSED, f"cancel refused: {why}", request))
        return
    context.state = evolve(state, abandon=tuple(dict.fromkeys((*state.abandon, *abandon))))
    if state.cancel is not None:
        context.order(Notify(Outcome.DONE, f"the job goes on being cancelled, without {', '.join(abandon)}", request))
        closed(context)
        return
    context.state = evolve(context.state, cancel=request)
    if state.phase in (Phase.RECOVERING, Phase.RUNNING):
        close(context, Ending.CANCELLED)
    elif state.phase is Phase.RESTARTING:
        leadership.read(context)
    else:
        closed(context)
        _say_what_fails(context)


def _waits(state: JobState) -> str:
    """What a closing job waits for that may never come, and how to end without it."""
    what = {name: f"to commit checkpoint {sink.due[0][1].checkpoint}" for name, sink in state.sinks.items() if sink.due}
    if state.closing_written and not state.checkpoint_log.queue:
        what = dict.fromkeys(state.stale_generations, "to throw away what will never be committed")
    if state.phase is not Phase.CLOSING or not what:
        return ""
    waits = ", ".join(f"sink {name} {fate}" for name, fate in what.items())
    how = " ".join(f"--abandon-commits {name}" for name in what)
    return f"waits for {waits}; to end without: `headgate cancel JOB {how}`"


def _say_what_fails(context: StepContext) -> None:
    if any(sink.tries for sink in context.state.sinks.values()):
        say_waiting(context)


def say_waiting(context: StepContext, why: str = "") -> None:
    """Whoever cancelled hears what it takes, while it takes."""
    waits = _waits(context.state)
    if waits and context.state.cancel is not None:
        context.order(Notify(Outcome.NOTICE, f"cancel {waits}{why}", context.state.cancel))


def commit_failed(context: StepContext, sink: SinkId, why: str) -> None:
    """A commit that a closing job may wait for has failed."""
    say_waiting(context, f" ({sink}: {why})")


def tell_abandoned(context: StepContext, given_up: tuple[Transaction, ...]) -> None:
    """Say what will not be committed, though it was decided. Nothing is lost without a word."""
    for each in given_up:
        context.order(
            Notify(
                Outcome.NOTICE,
                f"{each.sink}: the commit of checkpoint {each.checkpoint} is abandoned: what batches {each.after + 1} "
                f"to {each.through} of generation {each.generation} gave this sink may be missing there "
                f"(committable {each.committable!r})",
                None,
                each.checkpoint,
            )
        )


def _abandon(context: StepContext) -> None:
    """Let go of the commits that the user gave up."""
    for name in context.state.abandon:
        sink = context.state.sinks[name]
        if sink.due:
            given_up = tuple(transaction for _, transaction in sink.due)
            context.set_sink(name, evolve(sink, due=(), retry_at_ms=None, tries=0))
            context.state = evolve(context.state, abandoned=(*context.state.abandoned, *given_up))
            tell_abandoned(context, given_up)


def close(context: StepContext, ending: Ending) -> None:
    """Start nothing more; finish what was decided."""
    context.state = evolve(context.state, phase=Phase.CLOSING, ending=ending, restart_at_ms=None)
    context.tell_story(f"closing: {ending.value}")
    halt(context, coordinator.GivenUp.CLOSED)
    refuse_waiting(context, "the job is closing")
    closed(context)
    _say_what_fails(context)


def refuse_waiting(context: StepContext, why: str) -> None:
    """Answer everybody whose checkpoint has not been triggered, and now never will be."""
    for request in context.state.requests:
        context.order(Notify(Outcome.REFUSED, f"{request.kind.value} refused: {why}", request.id))
    context.state = evolve(context.state, requests=())


def fail_waiting(context: StepContext, why: str) -> None:
    """Answer everybody who still waits for something: this process will not do it."""
    refuse_waiting(context, why)
    state = context.state
    copying = tuple(c for c in state.completed if c.id in state.copying and c.leader == state.leader)
    waiting = [(pending.id, pending.request, "will not complete") for pending in state.pending]
    waiting += [(record.id, record.request, "may or may not be complete") for record in ready(state) + copying]
    for checkpoint, request, fate in waiting:
        if request is not None:
            context.order(Notify(Outcome.FAILED, f"checkpoint {checkpoint} {fate}: {why}", request, checkpoint))
    for asked in state.holding:
        context.order(Notify(Outcome.FAILED, f"hold of {asked.checkpoint}: {why}", asked.request, asked.checkpoint))
    if state.deleting is not None:
        text = f"savepoint {state.deleting.checkpoint} may or may not be deleted: {why}"
        context.order(Notify(Outcome.FAILED, text, state.deleting.request, state.deleting.checkpoint))
    if state.cancel is not None:
        context.order(Notify(Outcome.FAILED, f"cancel: {why}", state.cancel))
    context.state = evolve(
        state,
        pending=(),
        holding=(),
        copying=(),
        deleting=None,
        in_doubt=(),
        cancel=None,
        checkpoint_log=CheckpointLog(),
    )


def halt(context: StepContext, reason: coordinator.GivenUp) -> None:
    """Give up every checkpoint that is under way and stop every task."""
    for pending in context.state.pending:
        coordinator.drop(context, pending, reason, "")
    for task, task_state in context.state.tasks.items():
        if not task_state.ended:
            context.order(StopTask(context.state.generation, task, task_state.run))


def closed(context: StepContext) -> None:
    """A closing job is closed once all decided commits are done, the rest is thrown away, and nothing is under way.

    A sink whose commits were given up may be gone for good: what it throws away is ordered, and not waited for.

    A closing record is written first, with the ending in it. Whoever wins leadership later sees that the job is over.
    And if somebody else leads by now, perhaps from one of the checkpoints that a cancelled job deletes, we find out
    here.
    """
    if context.state.phase is not Phase.CLOSING:
        return
    _abandon(context)
    state = context.state
    under_way = state.checkpoint_log.queue or state.copying or state.holding or state.deleting
    if under_way or any(sink.due for sink in state.sinks.values()):
        return
    above = Generation(state.generation + 1)
    if not state.closing_written:
        discard = state.ending is Ending.CANCELLED and not state.settings.retain_on_cancellation
        place = CheckpointId(state.checkpoint_log.last + 1)
        next_id = max(state.next_id, CheckpointId(place + 1))
        base = None if discard else state.base
        epoch_record = EpochRecord(place, above, state.leader, next_id, base, state.ending, state.abandoned)
        links, _ = checkpoint_log.enqueue(state.checkpoint_log, (epoch_record,))
        context.state = evolve(state, checkpoint_log=links, closing_written=True)
        context.order(CreateRecord(state.leader, epoch_record))
        return
    if state.abort_below != above:
        sinks.abort_stale_generations(context, above)
        garbage.collect(context)
        state = context.state
    if state.collecting or any(sink not in state.abandon for sink in state.stale_generations):
        return
    base = None if garbage.discards(state) else state.base
    context.state = evolve(state, phase=Phase.CLOSED, resend_at_ms=None, base=base)
    kept = (
        "its checkpoints are deleted"
        if garbage.discards(state)
        else f"latest checkpoint: {'none' if base is None else base}"
    )
    text = f"the job is {state.ending.value if state.ending else 'over'}; {kept}"
    context.tell_story(text)
    context.order(Notify(Outcome.NOTICE if state.cancel is None else Outcome.DONE, text, state.cancel, base))
