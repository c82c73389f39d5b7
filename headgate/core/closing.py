"""How a job comes to its end: finished, stopped with a savepoint, cancelled, or failed.

One rule: a closing job starts nothing and finishes all that was decided; only then is the rest thrown away. What was
decided and cannot be finished is given up by a user alone, sink by sink, and that is written down with the ending.

What a closing job does next follows from its state: see ``derived``, which asks the functions at the end, in order.
"""

from headgate.core import checkpoint_log, coordinator, garbage, sinks, waiting
from headgate.core.effects import CreateRecord, Notify, Outcome, StopTask
from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId, Generation, RequestId, SinkId
from headgate.core.records import Ending, EpochRecord
from headgate.core.state import AT_REST, JobState, Phase, StepContext


def cancel(context: StepContext, request: RequestId, abandon: tuple[SinkId, ...] = ()) -> None:
    """A user wants the job to end. Without a generation there is nothing to end yet: it gets one first.

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
        waits = waiting.holds_up(state)
        why = f"the job is being cancelled already{', and ' * bool(waits)}{waits}"
    if why is not None:
        context.order(Notify(Outcome.REFUSED, f"cancel refused: {why}", request))
        return
    context.state = evolve(state, abandon=tuple(dict.fromkeys((*state.abandon, *abandon))))
    if state.cancel is not None:
        context.order(Notify(Outcome.DONE, f"the job goes on being cancelled, without {', '.join(abandon)}", request))
        return
    context.state = evolve(context.state, cancel=request)
    waiting.say_what_fails(context)


def close(context: StepContext, ending: Ending) -> None:
    """Start nothing more; finish what was decided."""
    context.state = evolve(context.state, phase=Phase.CLOSING, ending=ending, restart_at_ms=None)
    context.tell_story(f"closing: {ending.value}")
    halt(context, coordinator.GivenUp.CLOSED)
    waiting.refuse(context, "the job is closing")
    waiting.say_what_fails(context)


def halt(context: StepContext, reason: coordinator.GivenUp) -> None:
    """Give up every checkpoint that is under way and stop every task."""
    for pending in context.state.pending:
        coordinator.drop(context, pending, reason, "")
    for task, task_state in context.state.tasks.items():
        if not task_state.ended:
            context.order(StopTask(context.state.generation, task, task_state.run))


# -- what follows --------------------------------------------------------------------------------------------------


def cancelled(context: StepContext) -> None:
    """A job that a user wants to end closes as soon as there is a generation to end."""
    if context.state.cancel is not None:
        close(context, Ending.CANCELLED)


def abandon_commits(context: StepContext) -> None:
    """Let go of the commits that the user gave up."""
    for name in context.state.abandon:
        sink = context.state.sinks[name]
        if sink.due:
            given_up = tuple(transaction for _, transaction in sink.due)
            context.set_sink(name, evolve(sink, due=(), retry_at_ms=None, tries=0))
            context.state = evolve(context.state, abandoned=(*context.state.abandoned, *given_up))
            waiting.tell_abandoned(context, given_up)


def write_closing_record(context: StepContext) -> None:
    """Once all decided commits are done and nothing is under way, write the closing record, with the ending in it.

    Whoever wins leadership later sees that the job is over. And if somebody else leads by now, perhaps from one of the
    checkpoints that a cancelled job deletes, we find out here.
    """
    state = context.state
    if state.closing_written or _under_way(state):
        return
    discard = state.ending is Ending.CANCELLED and not state.settings.retain_on_cancellation
    place = CheckpointId(state.checkpoint_log.last + 1)
    next_id = max(state.next_id, CheckpointId(place + 1))
    base = None if discard else state.base
    epoch_record = EpochRecord(place, _above(state), state.leader, next_id, base, state.ending, state.abandoned)
    links, _ = checkpoint_log.enqueue(state.checkpoint_log, (epoch_record,))
    context.state = evolve(state, checkpoint_log=links, closing_written=True)
    context.order(CreateRecord(state.leader, epoch_record))


def throw_rest_away(context: StepContext) -> None:
    """The closing record is in the store: whatever sinks have not committed, nobody will."""
    state = context.state
    if state.closing_written and state.abort_below != _above(state) and not _under_way(state):
        sinks.abort_stale_generations(context, _above(state))


def closed(context: StepContext) -> None:
    """The job is closed once the rest is thrown away.

    A sink whose commits were given up may be gone for good: what it throws away is ordered, and not waited for.
    """
    state = context.state
    if state.abort_below != _above(state) or state.collecting or _under_way(state):
        return
    if any(sink not in state.abandon for sink in state.stale_generations):
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


def _under_way(state: JobState) -> bool:
    """Whether something that was decided or promised is not finished."""
    asked = state.checkpoint_log.queue or state.copying or state.holding or state.deleting is not None
    return bool(asked) or any(sink.due for sink in state.sinks.values())


def _above(state: JobState) -> Generation:
    """The generation of the closing record: all before it are over."""
    return Generation(state.generation + 1)
