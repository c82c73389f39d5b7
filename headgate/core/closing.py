"""How a job comes to its end: finished, stopped with a savepoint, cancelled, or failed.

One rule: a closing job starts nothing and finishes all that was decided; only then is the rest thrown away. What was
decided and cannot be finished is given up by a user alone, sink by sink, and that is written down with the ending.
"""

from headgate.core import chain, coordinator, leadership, sinks, sweeping
from headgate.core.chain import Chain
from headgate.core.effects import CreateRecord, Outcome, StopTask, Tell
from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId, Generation, RequestId, SinkId
from headgate.core.records import Ending, Fence, Transaction
from headgate.core.state import AT_REST, JobState, Phase, Turn, ready


def cancel(turn: Turn, request: RequestId, abandon: tuple[SinkId, ...] = ()) -> None:
    """A user wants the job to end. Without a generation there is nothing to end yet: get one first.

    Who asks again while the job is being cancelled may only give up commits that it waits for.
    """
    state = turn.state
    why = None
    unknown = [sink for sink in abandon if sink not in state.graph.owner]
    if state.phase in AT_REST:
        why = "the job is not running here"
    elif unknown:
        why = f"the job has no sink {unknown[0]}; it has: {', '.join(state.graph.owner) or 'none'}"
    elif state.cancel is not None and not abandon:
        why = f"the job is being cancelled already{', and ' * bool(_waits(state))}{_waits(state)}"
    if why is not None:
        turn.order(Tell(Outcome.REFUSED, f"cancel refused: {why}", request))
        return
    turn.state = evolve(state, abandon=tuple(dict.fromkeys((*state.abandon, *abandon))))
    if state.cancel is not None:
        turn.order(Tell(Outcome.DONE, f"the job goes on being cancelled, without {', '.join(abandon)}", request))
        closed(turn)
        return
    turn.state = evolve(turn.state, cancel=request)
    if state.phase in (Phase.RECOVERING, Phase.RUNNING):
        close(turn, Ending.CANCELLED)
    elif state.phase is Phase.RESTARTING:
        leadership.read(turn)
    else:
        closed(turn)
        _say_what_fails(turn)


def _waits(state: JobState) -> str:
    """What a closing job waits for that may never come, and how to end without it."""
    what = {name: f"to commit checkpoint {sink.due[0][1].checkpoint}" for name, sink in state.sinks.items() if sink.due}
    if state.burned and not state.chain.queue:
        what = dict.fromkeys(state.strangers, "to throw away what will never be committed")
    if state.phase is not Phase.CLOSING or not what:
        return ""
    waits = ", ".join(f"sink {name} {fate}" for name, fate in what.items())
    how = " ".join(f"--abandon-commits {name}" for name in what)
    return f"waits for {waits}; to end without: `headgate cancel JOB {how}`"


def _say_what_fails(turn: Turn) -> None:
    if any(sink.tries for sink in turn.state.sinks.values()):
        say_waiting(turn)


def say_waiting(turn: Turn, why: str = "") -> None:
    """Whoever cancelled hears what it takes, while it takes."""
    waits = _waits(turn.state)
    if waits and turn.state.cancel is not None:
        turn.order(Tell(Outcome.NOTICE, f"cancel {waits}{why}", turn.state.cancel))


def commit_failed(turn: Turn, sink: SinkId, why: str) -> None:
    """A commit that a closing job may wait for has failed."""
    say_waiting(turn, f" ({sink}: {why})")


def tell_abandoned(turn: Turn, given_up: tuple[Transaction, ...]) -> None:
    """Say what will not be committed, though it was decided. Nothing is lost without a word."""
    for each in given_up:
        turn.order(
            Tell(
                Outcome.NOTICE,
                f"{each.sink}: the commit of checkpoint {each.checkpoint} is abandoned: what batches {each.after + 1} "
                f"to {each.through} of generation {each.generation} gave this sink may be missing there "
                f"(committable {each.handle!r})",
                None,
                each.checkpoint,
            )
        )


def _abandon(turn: Turn) -> None:
    """Let go of the commits that the user gave up."""
    for name in turn.state.abandon:
        sink = turn.state.sinks[name]
        if sink.due:
            given_up = tuple(transaction for _, transaction in sink.due)
            turn.set_sink(name, evolve(sink, due=(), retry_at_ms=None, tries=0))
            turn.state = evolve(turn.state, abandoned=(*turn.state.abandoned, *given_up))
            tell_abandoned(turn, given_up)


def close(turn: Turn, ending: Ending) -> None:
    """Start nothing more; finish what was decided."""
    turn.state = evolve(turn.state, phase=Phase.CLOSING, ending=ending, restart_at_ms=None)
    turn.tell_story(f"closing: {ending.value}")
    halt(turn, coordinator.GivenUp.CLOSED)
    refuse_waiting(turn, "the job is closing")
    closed(turn)
    _say_what_fails(turn)


def refuse_waiting(turn: Turn, why: str) -> None:
    """Answer everybody whose checkpoint has not been triggered, and now never will be."""
    for request in turn.state.requests:
        turn.order(Tell(Outcome.REFUSED, f"{request.kind.value} refused: {why}", request.id))
    turn.state = evolve(turn.state, requests=())


def fail_waiting(turn: Turn, why: str) -> None:
    """Answer everybody who still waits for something: this process will not do it."""
    refuse_waiting(turn, why)
    state = turn.state
    copying = tuple(c for c in state.completed if c.id in state.copying and c.leader == state.leader)
    waiting = [(pending.id, pending.request, "will not complete") for pending in state.pending]
    waiting += [(record.id, record.request, "may or may not be complete") for record in ready(state) + copying]
    for checkpoint, request, fate in waiting:
        if request is not None:
            turn.order(Tell(Outcome.FAILED, f"checkpoint {checkpoint} {fate}: {why}", request, checkpoint))
    for asked in state.holding:
        turn.order(Tell(Outcome.FAILED, f"hold of {asked.checkpoint}: {why}", asked.request, asked.checkpoint))
    if state.deleting is not None:
        text = f"savepoint {state.deleting.checkpoint} may or may not be deleted: {why}"
        turn.order(Tell(Outcome.FAILED, text, state.deleting.request, state.deleting.checkpoint))
    if state.cancel is not None:
        turn.order(Tell(Outcome.FAILED, f"cancel: {why}", state.cancel))
    turn.state = evolve(
        state, pending=(), holding=(), copying=(), deleting=None, in_doubt=(), cancel=None, chain=Chain()
    )


def halt(turn: Turn, reason: coordinator.GivenUp) -> None:
    """Give up every checkpoint that is under way and stop every task."""
    for pending in turn.state.pending:
        coordinator.drop(turn, pending, reason, "")
    for task, task_state in turn.state.tasks.items():
        if not task_state.ended:
            turn.order(StopTask(turn.state.generation, task, task_state.run))


def closed(turn: Turn) -> None:
    """A closing job is closed once all decided commits are done, the rest is thrown away, and nothing is under way.

    A sink whose commits were given up may be gone for good: what it throws away is ordered, and not waited for.

    A closing fence is burned first, with the ending in it. Whoever wins leadership later sees that the job is over. And
    if somebody else leads by now, perhaps from one of the checkpoints that a cancelled job deletes, we find out here.
    """
    if turn.state.phase is not Phase.CLOSING:
        return
    _abandon(turn)
    state = turn.state
    under_way = state.chain.queue or state.copying or state.holding or state.deleting
    if under_way or any(sink.due for sink in state.sinks.values()):
        return
    above = Generation(state.generation + 1)
    if not state.burned:
        discard = state.ending is Ending.CANCELLED and not state.settings.retain_on_cancellation
        place = CheckpointId(state.chain.last + 1)
        next_id = max(state.next_id, CheckpointId(place + 1))
        base = None if discard else state.base
        fence = Fence(place, above, state.leader, next_id, base, state.ending, state.abandoned)
        links, _ = chain.enqueue(state.chain, (fence,))
        turn.state = evolve(state, chain=links, burned=True)
        turn.order(CreateRecord(state.leader, fence))
        return
    if state.abort_below != above:
        sinks.abort_strangers(turn, above)
        sweeping.sweep(turn)
        state = turn.state
    if state.sweeping or any(sink not in state.abandon for sink in state.strangers):
        return
    base = None if sweeping.discards(state) else state.base
    turn.state = evolve(state, phase=Phase.CLOSED, resend_at_ms=None, base=base)
    kept = (
        "its checkpoints are deleted"
        if sweeping.discards(state)
        else f"latest checkpoint: {'none' if base is None else base}"
    )
    text = f"the job is {state.ending.value if state.ending else 'over'}; {kept}"
    turn.tell_story(text)
    turn.order(Tell(Outcome.NOTICE if state.cancel is None else Outcome.DONE, text, state.cancel, base))
