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
    elif state.termination.cancel is not None and not abandon:
        waits = waiting.holds_up(state)
        why = f"the job is being cancelled already{', and ' * bool(waits)}{waits}"
    if why is not None:
        context.order(Notify(Outcome.REFUSED, f"cancel refused: {why}", request))
        return
    termination = evolve(
        state.termination,
        cancel=state.termination.cancel or request,
        abandon=tuple(dict.fromkeys((*state.termination.abandon, *abandon))),
    )
    context.state = evolve(state, termination=termination)
    if state.termination.cancel is not None:
        context.order(Notify(Outcome.DONE, f"the job goes on being cancelled, without {', '.join(abandon)}", request))
        return
    waiting.say_what_fails(context)


def close(context: StepContext, ending: Ending) -> None:
    """Start nothing more; finish what was decided."""
    state = context.state
    context.state = evolve(
        state,
        phase=Phase.CLOSING,
        termination=evolve(state.termination, ending=ending),
        restarts=evolve(state.restarts, restart_at_ms=None),
    )
    context.tell_story(f"closing: {ending.value}")
    halt(context, coordinator.GivenUp.CLOSED)
    waiting.refuse(context, "the job is closing")
    waiting.say_what_fails(context)


def halt(context: StepContext, reason: coordinator.GivenUp) -> None:
    """Give up every checkpoint that is under way and stop every task."""
    for pending in context.state.checkpoints.pending:
        coordinator.drop(context, pending, reason, "")
    for task, task_state in context.state.execution.tasks.items():
        if not task_state.ended:
            context.order(StopTask(context.state.leadership.generation, task, task_state.run))


# -- what follows --------------------------------------------------------------------------------------------------


def cancelled(context: StepContext) -> None:
    """A job that a user wants to end closes as soon as there is a generation to end."""
    if context.state.termination.cancel is not None:
        close(context, Ending.CANCELLED)


def abandon_commits(context: StepContext) -> None:
    """Let go of the commits that the user gave up."""
    for name in context.state.termination.abandon:
        sink = context.state.sinks[name]
        if sink.due:
            given_up = tuple(transaction for _, transaction in sink.due)
            context.set_sink(name, evolve(sink, due=(), retry_at_ms=None, tries=0))
            termination = context.state.termination
            termination = evolve(termination, abandoned=(*termination.abandoned, *given_up))
            context.state = evolve(context.state, termination=termination)
            waiting.tell_abandoned(context, given_up)


def write_closing_record(context: StepContext) -> None:
    """Once all decided commits are done and nothing is under way, write the closing record, with the ending in it.

    Whoever wins leadership later sees that the job is over. And if somebody else leads by now, perhaps from one of the
    checkpoints that a cancelled job deletes, we find out here.
    """
    state, termination, leader = context.state, context.state.termination, context.state.leadership.leader
    if termination.closing_written or _under_way(state):
        return
    discard = termination.ending is Ending.CANCELLED and not state.settings.retain_on_cancellation
    place = CheckpointId(state.checkpoint_log.last + 1)
    next_id = max(state.checkpoints.next_id, CheckpointId(place + 1))
    base = None if discard else state.retained.base
    ending, abandoned = termination.ending, termination.abandoned
    epoch_record = EpochRecord(place, _above(state), leader, next_id, base, ending, abandoned)
    links, _ = checkpoint_log.enqueue(state.checkpoint_log, (epoch_record,))
    context.state = evolve(state, checkpoint_log=links, termination=evolve(termination, closing_written=True))
    context.order(CreateRecord(leader, epoch_record))


def throw_rest_away(context: StepContext) -> None:
    """The closing record is in the store: whatever sinks have not committed, nobody will."""
    state = context.state
    if state.termination.closing_written and state.leftovers.abort_below != _above(state) and not _under_way(state):
        sinks.abort_stale_generations(context, _above(state))


def closed(context: StepContext) -> None:
    """The job is closed once the rest is thrown away.

    A sink whose commits were given up may be gone for good: what it throws away is ordered, and not waited for.
    """
    state, termination = context.state, context.state.termination
    if state.leftovers.abort_below != _above(state) or state.collection.under_way or _under_way(state):
        return
    if any(sink not in termination.abandon for sink in state.leftovers.stale_generations):
        return
    base = None if garbage.discards(state) else state.retained.base
    context.state = evolve(state, phase=Phase.CLOSED, resend_at_ms=None, retained=evolve(state.retained, base=base))
    kept = (
        "its checkpoints are deleted"
        if garbage.discards(state)
        else f"latest checkpoint: {'none' if base is None else base}{_where_drained(state)}"
    )
    text = f"the job is {termination.ending.value if termination.ending else 'over'}; {kept}"
    context.tell_story(text)
    outcome = Outcome.NOTICE if termination.cancel is None else Outcome.DONE
    context.order(Notify(outcome, text, termination.cancel, base))


def _where_drained(state: JobState) -> str:
    last = next((one for one in state.retained.completed if one.id == state.retained.base), None)
    return (
        ", where it was drained: nothing goes on from there" if last is not None and last.draining and last.stop else ""
    )


def _under_way(state: JobState) -> bool:
    """Whether something that was decided or promised is not finished."""
    asked = (
        state.checkpoint_log.queue
        or state.retained.copying
        or state.retained.holding
        or state.retained.deleting is not None
    )
    return bool(asked) or any(sink.due for sink in state.sinks.values())


def _above(state: JobState) -> Generation:
    """The generation of the closing record: all before it are over."""
    return Generation(state.leadership.generation + 1)
