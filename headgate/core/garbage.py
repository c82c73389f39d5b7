"""What is kept, and the collection of the rest: list, plan, delete, and once more if something fell out meanwhile.

One rule: one collection at a time, and what it deletes is decided by ``retention`` when the listing has come, not when
it was asked for. It gets on whatever is pending: what was a candidate stays so until a checkpoint that began after that
is complete, and only then are there others. No order deletes more than ``DELETE_MAX`` files.

What a collection costs grows with the files that there are. So where they are many, some time passes between two:
records go at once, and files with the first checkpoint after that.
"""

from headgate.core import retention
from headgate.core.effects import DeleteFiles, ListFiles, Notify, Outcome, SetHold
from headgate.core.events import FilesDeleted, FilesListed, HoldAsked, HoldSet, SavepointCopied
from headgate.core.evolve import evolve
from headgate.core.records import CompletedCheckpoint, Ending
from headgate.core.state import AT_REST, JobState, Phase, StepContext, ready

NOT_YET_OURS = (Phase.READING, Phase.FENCING)
"""Phases in which another process may still lead: nothing is promised and nothing deleted."""
HOLDS_MAX = 16
"""How many holds and releases may wait for the store."""
DELETE_MAX = 1_000
"""How many files are deleted by one order. The rest follows when that is done."""
PAUSE_MS = 500
"""How long passes until the next listing for every thousand files that the last one showed."""


def discards(state: JobState) -> bool:
    """Whether the job was cancelled, its checkpoints are not to be kept, and the closing record is in the store."""
    cancelled = state.termination.ending is Ending.CANCELLED and not state.settings.retain_on_cancellation
    return cancelled and state.termination.closing_written and not state.checkpoint_log.queue


def kept(state: JobState) -> tuple[CompletedCheckpoint, ...]:
    """The checkpoints that stay. A job that was cancelled keeps only what somebody wanted to keep."""
    num_retained, base = (0, None) if discards(state) else (state.settings.num_retained, state.retained.base)
    return retention.keep(state.retained.completed, num_retained=num_retained, held=state.retained.held, base=base)


def collect(context: StepContext) -> None:
    """See which checkpoints have fallen out of what is kept, and begin a collection if there are any."""
    state = context.state
    if _has_looked(context.before, state):
        return
    completed, stay = state.retained.completed, kept(state)
    fallen = tuple(checkpoint.id for checkpoint in completed if checkpoint not in stay)
    collection = state.collection
    if fallen:
        entries, newest = collection.aborted_entries, completed[-1].id
        passed = tuple(entry for entry in entries if entry < newest)
        collection = evolve(
            collection,
            aborted_entries=tuple(entry for entry in entries if entry not in passed),
            pending_deletion=collection.pending_deletion + fallen + passed,
        )
        context.state = evolve(state, retained=evolve(state.retained, completed=stay), collection=collection)
    if collection.pending_deletion and not collection.under_way:
        context.state = evolve(context.state, collection=evolve(collection, under_way=True))
        pause_ms = collection.listed // 1_000 * PAUSE_MS
        if state.phase is Phase.RUNNING and state.now_ms < collection.listed_at_ms + pause_ms:
            context.order(DeleteFiles(state.leadership.generation, collection.pending_deletion, ()))
        else:
            context.order(ListFiles(state.leadership.generation))


def _has_looked(before: JobState, state: JobState) -> bool:
    """Whether all is as it was when the last step ended, with a look at what is kept. There may be many savepoints, and
    a batch changes nothing about them.
    """
    return (
        state.retained is before.retained
        and state.collection is before.collection
        and state.phase is before.phase
        and state.termination is before.termination
        and state.checkpoint_log is before.checkpoint_log
    )


def files_listed(context: StepContext, fact: FilesListed) -> None:
    """Decide what can go."""
    state = context.state
    if fact.generation != state.leadership.generation or not state.collection.under_way or state.phase in NOT_YET_OURS:
        return
    under_way = [ack.files for pending in state.checkpoints.pending for ack in pending.acknowledged.values()]
    under_way += [snapshot.files for record in ready(state) for snapshot in record.tasks]
    seen_since = state.retained.base is not None and state.retained.base >= state.collection.candidates_below
    plan = retention.collect(
        fact.files,
        state.retained.completed,
        state.leadership.generation,
        live=not discards(state),
        named_elsewhere=frozenset(name for files in under_way for name in files),
        candidates=frozenset(state.collection.candidates) if seen_since else frozenset(),
    )
    candidates, below = plan.candidates, state.checkpoints.next_id
    if not seen_since:
        unnamed = frozenset(plan.candidates)
        still = tuple(name for name in state.collection.candidates if name in unnamed)
        candidates, below = (still, state.collection.candidates_below) if still else (candidates, below)
    collection = evolve(
        state.collection,
        candidates=candidates,
        candidates_below=below,
        garbage=plan.files[DELETE_MAX:],
        listed=len(fact.files),
        listed_at_ms=state.now_ms,
    )
    context.state = evolve(state, collection=collection)
    context.order(DeleteFiles(state.leadership.generation, state.collection.pending_deletion, plan.files[:DELETE_MAX]))


def files_deleted(context: StepContext, fact: FilesDeleted) -> None:
    """Go on with what the same listing found. If there is nothing left of that, the collection is over."""
    state = context.state
    if fact.generation != state.leadership.generation or not state.collection.under_way:
        return
    garbage = state.collection.garbage
    left = tuple(checkpoint for checkpoint in state.collection.pending_deletion if checkpoint not in fact.records)
    collection = evolve(state.collection, under_way=bool(garbage), pending_deletion=left, garbage=garbage[DELETE_MAX:])
    context.state = evolve(state, collection=collection)
    if garbage:
        context.order(DeleteFiles(state.leadership.generation, (), garbage[:DELETE_MAX]))


def savepoint_copied(context: StepContext, fact: SavepointCopied) -> None:
    """A savepoint stands on its own."""
    state = context.state
    if fact.leader != state.leadership.leader or fact.checkpoint not in state.retained.copying:
        return
    leadership, retained = state.leadership, state.retained
    context.state = evolve(
        state,
        leadership=evolve(leadership, in_doubt=tuple(r for r in leadership.in_doubt if r.id != fact.checkpoint)),
        retained=evolve(retained, copying=tuple(other for other in retained.copying if other != fact.checkpoint)),
    )
    ours = (c.request for c in retained.completed if c.id == fact.checkpoint and c.leader == leadership.leader)
    request = next(ours, None)
    context.order(Notify(Outcome.DONE, f"savepoint {fact.checkpoint} completed", request, fact.checkpoint))


def hold(context: StepContext, fact: HoldAsked) -> None:
    """Keep a checkpoint, or no longer. It is kept from now on, but the user hears so when the store knows it."""
    state, retained = context.state, context.state.retained
    why = None
    if state.phase in AT_REST or state.phase in NOT_YET_OURS:
        why = "this process does not lead the job, or not yet"
    elif not any(checkpoint.id == fact.checkpoint for checkpoint in retained.completed):
        why = "it is not there"
    elif any(asked.checkpoint == fact.checkpoint for asked in retained.holding):
        why = "another request about it is under way"
    elif len(retained.holding) >= HOLDS_MAX:
        why = f"{HOLDS_MAX} requests are waiting already"
    if why is not None:
        text = f"checkpoint {fact.checkpoint} cannot be held or released: {why}"
        context.order(Notify(Outcome.REFUSED, text, fact.request, fact.checkpoint))
        return
    held = (*retained.held, fact.checkpoint) if fact.held and fact.checkpoint not in retained.held else retained.held
    context.state = evolve(state, retained=evolve(retained, held=held, holding=(*retained.holding, fact)))
    context.order(SetHold(state.leadership.leader, fact.checkpoint, fact.held))


def hold_set(context: StepContext, fact: HoldSet) -> None:
    """The store knows. What was released may now go."""
    state, retained = context.state, context.state.retained
    asked = next((a for a in retained.holding if (a.checkpoint, a.held) == (fact.checkpoint, fact.held)), None)
    if fact.leader != state.leadership.leader or asked is None:
        return
    held = retained.held if fact.held else tuple(other for other in retained.held if other != fact.checkpoint)
    holding = tuple(other for other in retained.holding if other is not asked)
    context.state = evolve(state, retained=evolve(retained, held=held, holding=holding))
    text = f"checkpoint {fact.checkpoint} is {'held' if fact.held else 'no longer held'}"
    context.order(Notify(Outcome.DONE, text, asked.request, fact.checkpoint))
