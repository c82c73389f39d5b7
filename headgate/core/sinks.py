"""What the sinks' answers change: commits that succeed or fail, and what was thrown away.

One rule: ``commit`` decides what is next for one sink; and here it is ordered.

What dead generations and runs left is looked for again and again, later and later: an executor may outlive its driver,
or the attempt that it worked for, by any time, and still prepare a transaction. There is no last look.
"""

from headgate.core import commit, waiting
from headgate.core.effects import (
    AbortFailedAttempts,
    AbortStaleGenerations,
    AbortUnpublished,
    CommitTransaction,
    Notify,
    Outcome,
)
from headgate.core.events import CommitFailed, FailedAttemptsAborted, StaleGenerationsAborted, TransactionCommitted
from headgate.core.evolve import evolve
from headgate.core.ids import Generation, SinkId
from headgate.core.state import StepContext


def order_commit(context: StepContext, sink: SinkId) -> None:
    """Order the next commit of a sink, if there is one and no user has given it up."""
    due = context.state.sinks[sink].due
    if due and sink not in context.state.termination.abandon:
        context.order(CommitTransaction(context.state.leadership.generation, *due[0]))


def committed(context: StepContext, fact: TransactionCommitted) -> None:
    """A transaction is visible. The next one may go."""
    if fact.generation != context.state.leadership.generation:
        return
    sink, ours = commit.committed(context.sink(fact.sink), fact.pre_committed_in, fact.checkpoint)
    if ours:
        context.set_sink(fact.sink, sink)
        order_commit(context, fact.sink)


def commit_failed(context: StepContext, fact: CommitFailed) -> None:
    """A commit did not go through: again, later. Never an abort."""
    state = context.state
    if fact.generation != state.leadership.generation:
        return
    sink = context.sink(fact.sink)
    if commit.is_next(sink, fact.pre_committed_in, fact.checkpoint):
        settings = state.settings
        sink = commit.commit_failed(sink, state.now_ms, settings.commit_retry_ms, settings.commit_retry_max_ms)
        context.set_sink(fact.sink, sink)
        text = f"{fact.sink}: commit of checkpoint {fact.checkpoint} failed, will be tried again: {fact.why}"
        context.order(Notify(Outcome.NOTICE, text, None, fact.checkpoint))
        waiting.say(context, f" ({fact.sink}: {fact.why})")


def failed_attempts_aborted(context: StepContext, fact: FailedAttemptsAborted) -> None:
    """What failed attempts wrote is gone."""
    if fact.generation == context.state.leadership.generation and context.sink(fact.sink).abort_run == fact.run:
        context.set_sink(fact.sink, evolve(context.sink(fact.sink), abort_run=None))


def abort_stale_generations(context: StepContext, below: Generation) -> None:
    """Have every sink throw away what generations before ``below`` left uncommitted."""
    state = context.state
    leftovers = evolve(state.leftovers, abort_below=below, stale_generations=tuple(state.sinks), look_again_at_ms=None)
    context.state = evolve(state, leftovers=leftovers)
    for sink in state.sinks:
        context.order(AbortStaleGenerations(state.leadership.generation, sink, below))


def stale_generations_aborted(context: StepContext, fact: StaleGenerationsAborted) -> None:
    """A sink has done so. Once all have, they look again after a while."""
    state, leftovers, settings = context.state, context.state.leftovers, context.state.settings
    if fact.generation != state.leadership.generation or fact.below != leftovers.abort_below:
        return
    if fact.sink not in leftovers.stale_generations:
        return
    left = tuple(sink for sink in leftovers.stale_generations if sink != fact.sink)
    leftovers = evolve(leftovers, stale_generations=left)
    if not left:
        wait_ms = min(settings.leftovers_max_ms, max(settings.leftovers_ms, 2 * leftovers.look_again_ms))
        leftovers = evolve(leftovers, look_again_ms=wait_ms, look_again_at_ms=state.now_ms + wait_ms)
    context.state = evolve(state, leftovers=leftovers)


def look_again(context: StepContext) -> None:
    """Have the sinks look for what came since they looked last, from stale generations and failed attempts."""
    state = context.state
    if state.leftovers.look_again_at_ms is None or state.now_ms < state.leftovers.look_again_at_ms:
        return
    abort_stale_generations(context, state.leftovers.abort_below)
    for name, sink in state.sinks.items():
        task = state.execution.tasks[state.graph.owner[name]]
        if task.run > 1 and task.started:
            context.set_sink(name, evolve(sink, abort_run=task.run))
            context.order(AbortFailedAttempts(state.leadership.generation, name, task.run))


def abort_unpublished(context: StepContext) -> None:
    """Have every sink throw away what this generation wrote after its last checkpoint: nobody will ever publish it.

    Only for a leader that has seen somebody else's record where its own next one should be. Whoever merely hears that
    it no longer leads cannot know whether its last record landed.
    """
    for name, sink in context.state.sinks.items():
        context.order(AbortUnpublished(context.state.leadership.generation, name, sink.published_through))
