"""How a job comes to its end: finished, stopped with a savepoint, cancelled, or failed.

One rule: a closing job starts nothing and finishes all that was decided; only then is the rest thrown away.
"""

from headgate.core import chain, coordinator, leadership, sinks, sweeping
from headgate.core.chain import Chain
from headgate.core.effects import CreateRecord, Outcome, StopTask, Tell
from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId, Generation, RequestId
from headgate.core.records import Ending, Fence
from headgate.core.state import AT_REST, Phase, Turn, ready


def cancel(turn: Turn, request: RequestId) -> None:
    """A user wants the job to end. Without a generation there is nothing to end yet: get one first."""
    if turn.state.phase in AT_REST:
        turn.order(Tell(Outcome.REFUSED, "cancel refused: the job is not running here", request))
        return
    if turn.state.cancel is not None:
        turn.order(Tell(Outcome.REFUSED, "cancel refused: the job is being cancelled already", request))
        return
    turn.state = evolve(turn.state, cancel=request)
    if turn.state.phase in (Phase.RECOVERING, Phase.RUNNING):
        close(turn, Ending.CANCELLED)
    elif turn.state.phase is Phase.RESTARTING:
        leadership.read(turn)


def close(turn: Turn, ending: Ending) -> None:
    """Start nothing more; finish what was decided."""
    turn.state = evolve(turn.state, phase=Phase.CLOSING, ending=ending, restart_at_ms=None)
    turn.tell_story(f"closing: {ending.value}")
    halt(turn, coordinator.GivenUp.CLOSED)
    refuse_waiting(turn, "the job is closing")
    closed(turn)


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
    if state.cancel is not None:
        turn.order(Tell(Outcome.FAILED, f"cancel: {why}", state.cancel))
    turn.state = evolve(state, pending=(), holding=(), copying=(), in_doubt=(), cancel=None, chain=Chain())


def halt(turn: Turn, reason: coordinator.GivenUp) -> None:
    """Give up every checkpoint that is under way and stop every task."""
    for pending in turn.state.pending:
        coordinator.drop(turn, pending, reason, "")
    for task, task_state in turn.state.tasks.items():
        if not task_state.ended:
            turn.order(StopTask(turn.state.generation, task, task_state.run))


def closed(turn: Turn) -> None:
    """A closing job is closed once all decided commits are done, the rest is thrown away, and nothing is under way.

    A closing fence is burned first, with the ending in it. Whoever wins leadership later sees that the job is over. And
    if somebody else leads by now, perhaps from one of the checkpoints that a cancelled job deletes, we find out here.
    """
    state = turn.state
    if state.phase is not Phase.CLOSING:
        return
    if state.chain.queue or state.copying or state.holding or any(sink.due for sink in state.sinks.values()):
        return
    above = Generation(state.generation + 1)
    if not state.burned:
        discard = state.ending is Ending.CANCELLED and not state.settings.retain_on_cancellation
        place = CheckpointId(state.chain.last + 1)
        next_id = max(state.next_id, CheckpointId(place + 1))
        fence = Fence(place, above, state.leader, next_id, None if discard else state.base, state.ending)
        links, _ = chain.enqueue(state.chain, (fence,))
        turn.state = evolve(state, chain=links, burned=True)
        turn.order(CreateRecord(state.leader, fence))
        return
    if state.abort_below != above:
        sinks.abort_strangers(turn, above)
        sweeping.sweep(turn)
        state = turn.state
    if state.strangers or state.sweeping:
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
