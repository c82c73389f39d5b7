"""A sink that has no room for a batch before something is committed.

One rule: nothing may wait for a batch that waits for a commit. The checkpoint that brings the commit starts at once
(``trigger``), and overtakes data, in whatever mode. One that is aligning may wait for the very batch that waits for it:
it goes on unaligned; a savepoint, which is aligned whatever comes, is given up.
"""

from headgate.core import coordinator
from headgate.core.coordinator import GivenUp
from headgate.core.events import SinkFull
from headgate.core.evolve import evolve
from headgate.core.records import Kind
from headgate.core.state import Phase, StepContext


def full(context: StepContext, fact: SinkFull) -> None:
    """A batch waits in its hook until something is committed."""
    state = context.state
    if fact.generation != state.leadership.generation or state.phase is not Phase.RUNNING:
        return
    context.set_sink(fact.sink, evolve(context.sink(fact.sink), full=True))
    aligning = [p for p in state.checkpoints.pending if not p.unaligned and len(p.cuts) < len(state.execution.tasks)]
    for pending in aligning:
        if pending.kind is Kind.SAVEPOINT:
            coordinator.give_up(context, pending, GivenUp.NO_ROOM, str(fact.sink))
    overtaking = {pending.id for pending in aligning}
    pending_now = context.state.checkpoints.pending
    context.set_pending(tuple(evolve(p, unaligned=True) if p.id in overtaking else p for p in pending_now))
    coordinator.cut(context)
