"""What the sinks' answers change: commits that succeed or fail, and what was thrown away.

One rule: ``commit`` decides what is next for one sink; here it is ordered, and whoever waited for it goes on.
"""

from headgate.core import closing, commit, leadership
from headgate.core.effects import AbortStrangers, CommitTransaction, Outcome, Tell
from headgate.core.events import AttemptsAborted, CommitFailed, StrangersAborted, TransactionCommitted
from headgate.core.evolve import evolve
from headgate.core.ids import Generation, SinkId
from headgate.core.state import Turn


def order_commit(turn: Turn, sink: SinkId) -> None:
    """Order the next commit of a sink, if there is one and no user has given it up."""
    due = turn.state.sinks[sink].due
    if due and sink not in turn.state.abandon:
        turn.order(CommitTransaction(turn.state.generation, *due[0]))


def committed(turn: Turn, fact: TransactionCommitted) -> None:
    """A transaction is visible. The next one may go."""
    if fact.generation != turn.state.generation:
        return
    sink, ours = commit.committed(turn.sink(fact.sink), fact.sealed_in, fact.checkpoint)
    if ours:
        turn.set_sink(fact.sink, sink)
        order_commit(turn, fact.sink)
        leadership.recovered(turn)
        closing.closed(turn)


def commit_failed(turn: Turn, fact: CommitFailed) -> None:
    """A commit did not go through: again, later. Never an abort."""
    state = turn.state
    if fact.generation != state.generation:
        return
    sink = turn.sink(fact.sink)
    if commit.is_next(sink, fact.sealed_in, fact.checkpoint):
        settings = state.settings
        sink = commit.commit_failed(sink, state.now_ms, settings.commit_retry_ms, settings.commit_retry_max_ms)
        turn.set_sink(fact.sink, sink)
        text = f"{fact.sink}: commit of checkpoint {fact.checkpoint} failed, will be tried again: {fact.why}"
        turn.order(Tell(Outcome.NOTICE, text, None, fact.checkpoint))
        closing.commit_failed(turn, fact.sink, fact.why)


def attempts_aborted(turn: Turn, fact: AttemptsAborted) -> None:
    """What dead runs wrote in vain is gone."""
    if fact.generation == turn.state.generation and turn.sink(fact.sink).abort_run == fact.run:
        turn.set_sink(fact.sink, evolve(turn.sink(fact.sink), abort_run=None))


def abort_strangers(turn: Turn, below: Generation) -> None:
    """Have every sink throw away what generations before ``below`` left uncommitted."""
    turn.state = evolve(turn.state, abort_below=below, strangers=tuple(turn.state.sinks))
    for sink in turn.state.sinks:
        turn.order(AbortStrangers(turn.state.generation, sink, below))


def strangers_aborted(turn: Turn, fact: StrangersAborted) -> None:
    """A sink has done so."""
    state = turn.state
    if fact.generation == state.generation and fact.below == state.abort_below:
        turn.state = evolve(state, strangers=tuple(sink for sink in state.strangers if sink != fact.sink))
        closing.closed(turn)
