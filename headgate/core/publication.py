"""What the store's answers to our records change.

One rule: a checkpoint is complete when its record is known to be in the store, and not a moment before. From then on
there is no abort, only commit.
"""

from typing import assert_never

from headgate.core import chain, closing, commit, leadership, sinks, sweeping
from headgate.core.chain import Answer
from headgate.core.effects import CopySavepoint, CreateRecord, NotifyCompleted, Outcome, Tell
from headgate.core.events import CreateUnclear, RecordCreated, RecordTaken
from headgate.core.evolve import evolve
from headgate.core.records import CompletedCheckpoint, Ending, Fence, Kind, Record, Restore, Void
from headgate.core.state import Phase, Turn


def record_created(turn: Turn, fact: RecordCreated) -> None:
    """A record of ours is in the store."""
    if fact.leader == turn.state.leader:
        links, record = chain.created(turn.state.chain, fact.generation, fact.record)
        turn.state = evolve(turn.state, chain=links)
        _recorded(turn, record)


def record_taken(turn: Turn, fact: RecordTaken) -> None:
    """A record is in the store where ours should be: ours after all, or the sign that somebody else leads."""
    if fact.leader != turn.state.leader:
        return
    links, answer, record = chain.taken(turn.state.chain, fact.record)
    turn.state = evolve(turn.state, chain=links)
    match answer:
        case Answer.OURS:
            _recorded(turn, record)
        case Answer.FOREIGN if turn.state.phase is Phase.FENCING:
            leadership.read(turn)
        case Answer.FOREIGN:
            leadership.depose(turn, f"record {fact.record.id} is {fact.record.leader}'s")
            sinks.abort_unpublished(turn)
        case Answer.STALE:
            pass
        case _:
            assert_never(answer)


def create_unclear(turn: Turn, fact: CreateUnclear) -> None:
    """A create failed, they say. It may have landed all the same: try the same again, later and later.

    It is told the first time, and then each time that twice as many tries have failed.
    """
    state = turn.state
    if fact.leader != state.leader:
        return
    settings = state.settings
    links = chain.unclear(
        state.chain,
        fact.generation,
        fact.record,
        now_ms=state.now_ms,
        retry_ms=settings.commit_retry_ms,
        retry_max_ms=settings.commit_retry_max_ms,
    )
    turn.state = evolve(state, chain=links)
    if links.tries != state.chain.tries and links.tries.bit_count() == 1:
        assert links.retry_at_ms is not None
        assert links.failing_since_ms is not None
        failing_s, wait_s = (state.now_ms - links.failing_since_ms) / 1000, (links.retry_at_ms - state.now_ms) / 1000
        since = "" if links.tries == 1 else f", failing for {failing_s:.0f} s"
        text = f"record {fact.record} is not in the storage yet{since}, next try in {wait_s:g} s: {fact.why}"
        turn.order(Tell(Outcome.NOTICE, text, None, fact.record))


def _recorded(turn: Turn, record: Record | None) -> None:
    """Go on with what a record in the store makes possible, and order the next one."""
    if record is None:
        return
    if turn.state.chain.queue:
        turn.order(CreateRecord(turn.state.leader, turn.state.chain.queue[0]))
    if isinstance(record, Fence) and turn.state.phase is Phase.FENCING:
        leadership.fenced(turn, record)
    elif isinstance(record, CompletedCheckpoint):
        published(turn, record)
    elif isinstance(record, Void):
        turn.state = evolve(turn.state, voids=(*turn.state.voids, record.id))
    closing.closed(turn)


def published(turn: Turn, record: CompletedCheckpoint) -> None:
    """A checkpoint is complete: from here on there is no abort, only commit."""
    state = turn.state
    permit = chain.permit(record)
    turn.state = evolve(
        state,
        completed=(*state.completed, record),
        base=record.id,
        restore=Restore(),
        failures=0,
        last_end_ms=state.now_ms,
        copying=(*state.copying, record.id) if record.kind is Kind.SAVEPOINT else state.copying,
    )
    turn.tell_story(f"{record.kind.value} {record.id} completed")
    turn.order(NotifyCompleted(record.generation, record.id))
    for name, sink in state.sinks.items():
        after, order = commit.allow(sink, permit)
        turn.set_sink(name, after)
        if order:
            sinks.order_commit(turn, name)
    if record.kind is Kind.SAVEPOINT:
        turn.order(CopySavepoint(state.leader, record.id))
    elif record.request is not None:
        turn.order(Tell(Outcome.DONE, f"checkpoint {record.id} completed", record.request, record.id))
    if state.phase is not Phase.CLOSING:
        if record.id == state.stop_after:
            closing.close(turn, Ending.STOPPED)
        elif all(snapshot.finished for snapshot in record.tasks):
            closing.close(turn, Ending.FINISHED)
    sweeping.sweep(turn)
