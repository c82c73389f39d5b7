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
from headgate.core.state import Phase, Turn


def full(turn: Turn, fact: SinkFull) -> None:
    """A batch waits in its hook until something is committed."""
    state = turn.state
    if fact.generation != state.generation or state.phase is not Phase.RUNNING:
        return
    turn.set_sink(fact.sink, evolve(turn.sink(fact.sink), full=True))
    aligning = [p for p in state.pending if not p.unaligned and len(p.cuts) < len(state.tasks)]
    for pending in aligning:
        if pending.kind is Kind.SAVEPOINT:
            coordinator.give_up(turn, pending, GivenUp.NO_ROOM, str(fact.sink))
    overtaking = {pending.id for pending in aligning}
    turn.state = evolve(
        turn.state,
        pending=tuple(evolve(p, unaligned=True) if p.id in overtaking else p for p in turn.state.pending),
    )
    coordinator.cut(turn)
