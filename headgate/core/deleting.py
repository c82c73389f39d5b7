"""A user deletes a savepoint: its record, and its own copy.

One rule: what the job may return to by itself is never deleted. The record goes first: a copy without a record still
stands on its own, and a record without a copy would be a promise.
"""

from headgate.core import garbage
from headgate.core.effects import DeleteSavepoint, Notify, Outcome
from headgate.core.events import DeleteAsked, SavepointDeleted
from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId
from headgate.core.records import CompletedCheckpoint, Kind
from headgate.core.state import AT_REST, StepContext


def why_not(
    completed: tuple[CompletedCheckpoint, ...],
    base: CheckpointId | None,
    held: tuple[CheckpointId, ...],
    savepoint: CheckpointId,
) -> str | None:
    """Why a savepoint cannot be deleted, and what to do; None if it can."""
    found = next((checkpoint for checkpoint in completed if checkpoint.id == savepoint), None)
    if found is None or found.kind is not Kind.SAVEPOINT:
        there = ", ".join(str(each.id) for each in completed if each.kind is Kind.SAVEPOINT) or "none"
        return f"there is no such savepoint; there are: {there}"
    if savepoint == base:
        return "the job would go on from it: let it take a checkpoint first, with `headgate checkpoint`"
    if any(checkpoint.id == base and checkpoint.keeps == savepoint for checkpoint in completed):
        return "the job began from it, and not every task has committed a batch since: let it run for a while first"
    if savepoint in held:
        return "it is held: release it first"
    return None


def asked(context: StepContext, fact: DeleteAsked) -> None:
    """A user wants a savepoint to go. One at a time."""
    state = context.state
    if state.phase in AT_REST or state.phase in garbage.NOT_YET_OURS:
        why: str | None = "this process does not lead the job, or not yet"
    elif state.retained.deleting is not None:
        why = f"savepoint {state.retained.deleting.checkpoint} is being deleted: try again in a moment"
    elif fact.checkpoint in state.retained.copying:
        why = "it is still being copied: wait until that is done"
    else:
        why = why_not(state.retained.completed, state.retained.base, state.retained.held, fact.checkpoint)
    if why is not None:
        text = f"savepoint {fact.checkpoint} is not deleted: {why}"
        context.order(Notify(Outcome.REFUSED, text, fact.request, fact.checkpoint))
        return
    context.state = evolve(state, retained=evolve(state.retained, deleting=fact))
    context.order(DeleteSavepoint(state.leadership.leader, fact.checkpoint))


def deleted(context: StepContext, fact: SavepointDeleted) -> None:
    """Record and copy are gone. What only the savepoint needed goes with a collection."""
    state, retained, collection = context.state, context.state.retained, context.state.collection
    ordered = retained.deleting
    if fact.leader != state.leadership.leader or ordered is None or ordered.checkpoint != fact.checkpoint:
        return
    completed = tuple(checkpoint for checkpoint in retained.completed if checkpoint.id != fact.checkpoint)
    context.state = evolve(
        state,
        retained=evolve(retained, deleting=None, completed=completed),
        collection=evolve(collection, pending_deletion=(*collection.pending_deletion, fact.checkpoint)),
    )
    text = f"savepoint {fact.checkpoint} is deleted"
    context.order(Notify(Outcome.DONE, text, ordered.request, fact.checkpoint))
