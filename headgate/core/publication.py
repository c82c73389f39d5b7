"""What the store's answers to our records change.

One rule: a checkpoint is complete when its record is known to be in the store, and not a moment before. From then on
there is no abort, only commit.
"""

from typing import assert_never

from headgate.core import checkpoint_log, closing, commit, leadership, sinks
from headgate.core.checkpoint_log import Answer
from headgate.core.effects import CopySavepoint, CreateRecord, Notify, NotifyCompleted, Outcome
from headgate.core.events import CreateUnclear, RecordCreated, RecordTaken
from headgate.core.evolve import evolve
from headgate.core.records import AbortedEntry, CompletedCheckpoint, Ending, EpochRecord, Kind, Record, Restore
from headgate.core.state import Phase, StepContext


def record_created(context: StepContext, fact: RecordCreated) -> None:
    """A record of ours is in the store."""
    if fact.leader == context.state.leadership.leader:
        links, record = checkpoint_log.created(context.state.checkpoint_log, fact.generation, fact.record)
        context.state = evolve(context.state, checkpoint_log=links)
        _recorded(context, record)


def record_taken(context: StepContext, fact: RecordTaken) -> None:
    """A record is in the store where ours should be: ours after all, or the sign that somebody else leads."""
    if fact.leader != context.state.leadership.leader:
        return
    links, answer, record = checkpoint_log.taken(context.state.checkpoint_log, fact.record)
    context.state = evolve(context.state, checkpoint_log=links)
    match answer:
        case Answer.OURS:
            _recorded(context, record)
        case Answer.FOREIGN if context.state.phase is Phase.FENCING:
            leadership.read(context)
        case Answer.FOREIGN:
            leadership.depose(context, f"record {fact.record.id} is {fact.record.leader}'s")
            sinks.abort_unpublished(context)
        case Answer.STALE:
            pass
        case _:
            assert_never(answer)


def create_unclear(context: StepContext, fact: CreateUnclear) -> None:
    """A create failed, they say. It may have landed all the same: try the same again, later and later.

    It is told the first time, and then each time that twice as many tries have failed.
    """
    state = context.state
    if fact.leader != state.leadership.leader:
        return
    settings = state.settings
    links = checkpoint_log.unclear(
        state.checkpoint_log,
        fact.generation,
        fact.record,
        now_ms=state.now_ms,
        retry_ms=settings.commit_retry_ms,
        retry_max_ms=settings.commit_retry_max_ms,
    )
    context.state = evolve(state, checkpoint_log=links)
    if links.tries != state.checkpoint_log.tries and links.tries.bit_count() == 1:
        assert links.retry_at_ms is not None
        assert links.failing_since_ms is not None
        failing_s, wait_s = (state.now_ms - links.failing_since_ms) / 1000, (links.retry_at_ms - state.now_ms) / 1000
        since = "" if links.tries == 1 else f", failing for {failing_s:.0f} s"
        text = f"record {fact.record} is not in the storage yet{since}, next try in {wait_s:g} s: {fact.why}"
        context.order(Notify(Outcome.NOTICE, text, None, fact.record))


def _recorded(context: StepContext, record: Record | None) -> None:
    """Go on with what a record in the store makes possible, and order the next one."""
    if record is None:
        return
    if context.state.checkpoint_log.queue:
        context.order(CreateRecord(context.state.leadership.leader, context.state.checkpoint_log.queue[0]))
    if isinstance(record, EpochRecord) and context.state.phase is Phase.FENCING:
        leadership.fenced(context, record)
    elif isinstance(record, CompletedCheckpoint):
        published(context, record)
    elif isinstance(record, AbortedEntry):
        collection = context.state.collection
        aborted_entries = (*collection.aborted_entries, record.id)
        context.state = evolve(context.state, collection=evolve(collection, aborted_entries=aborted_entries))


def published(context: StepContext, record: CompletedCheckpoint) -> None:
    """A checkpoint is complete: from here on there is no abort, only commit."""
    state, retained = context.state, context.state.retained
    permit = checkpoint_log.permit(record)
    context.state = evolve(
        state,
        leadership=evolve(state.leadership, restore=Restore()),
        checkpoints=evolve(state.checkpoints, failures=0, last_end_ms=state.now_ms),
        retained=evolve(
            retained,
            completed=(*retained.completed, record),
            base=record.id,
            copying=(*retained.copying, record.id) if record.kind is Kind.SAVEPOINT else retained.copying,
        ),
    )
    context.tell_story(f"{record.kind.value} {record.id} completed")
    context.order(NotifyCompleted(record.generation, record.id))
    for name, sink in state.sinks.items():
        after, order = commit.allow(sink, permit)
        context.set_sink(name, after)
        if order:
            sinks.order_commit(context, name)
    if record.kind is Kind.SAVEPOINT:
        context.order(CopySavepoint(state.leadership.leader, record.id))
    elif record.request is not None:
        context.order(Notify(Outcome.DONE, f"checkpoint {record.id} completed", record.request, record.id))
    if state.phase is not Phase.CLOSING:
        if record.id == state.checkpoints.stop_after:
            closing.close(context, Ending.STOPPED)
        elif all(snapshot.finished for snapshot in record.tasks) and not record.draining:
            closing.close(context, Ending.FINISHED)
