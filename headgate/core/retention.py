"""What may be deleted.

One rule: nothing is deleted that a kept checkpoint names or that a live task may still need. What is kept: the newest
``num_retained`` checkpoints, all savepoints, all that are held, and the one the running generation continues from, with
the one which that has not replaced yet (``CompletedCheckpoint.keeps``). The rest is what is left of a listing once
these are marked, as a pure plan: the same function serves the collection and its dry run.

Records of checkpoints may go, and so may aborted entries before the newest one. Epoch records never do: one that was
gone would let a late publication through. There is always a later record than one that goes, which is how a late epoch
record in its place is recognised. A late create can also bring back the record of a checkpoint that was deleted: it is
never the newest, and goes once more, later.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.events import DeleteAsked, HoldAsked
from headgate.core.ids import NO_BATCH, NO_CHECKPOINT, Batch, ChannelId, CheckpointId, Generation, TaskId
from headgate.core.records import CompletedCheckpoint, Kind, StoredFile


@dataclass(frozen=True)
class RetainedCheckpoints:
    """The completed checkpoints that are kept, and what users have asked about them."""

    completed: tuple[CompletedCheckpoint, ...] = ()
    """In the order of ids: the newest ``num_retained``, the held, the savepoints, and the base."""
    base: CheckpointId | None = None
    """The checkpoint this generation continues from, or its newest one since."""
    held: tuple[CheckpointId, ...] = ()
    holding: tuple[HoldAsked, ...] = ()
    """Holds and releases that the store has not confirmed. At most ``garbage.HOLDS_MAX``."""
    copying: tuple[CheckpointId, ...] = ()
    """Savepoints whose own copy is not finished."""
    deleting: DeleteAsked | None = None
    """A savepoint that a user wants to go."""


@dataclass(frozen=True)
class GarbageCollection:
    """What is to be deleted, and how far the collection under way has come."""

    under_way: bool = False
    pending_deletion: tuple[CheckpointId, ...] = ()
    """Checkpoints that are no longer kept, and aborted entries, whose records may still be in the store."""
    aborted_entries: tuple[CheckpointId, ...] = ()
    """Aborted entries in the store that no later checkpoint has made superfluous yet."""
    candidates: tuple[str, ...] = ()
    """Files that a collection found unnamed."""
    candidates_below: CheckpointId = NO_CHECKPOINT
    """They go once a checkpoint of this id or later is complete and does not name them either."""
    garbage: tuple[str, ...] = ()
    """Files that the collection under way has still to delete, after those that were ordered."""
    listed: int = 0
    """How many files the last listing showed, and when it came."""
    listed_at_ms: int = 0


@dataclass(frozen=True)
class CollectionPlan:
    """What a collection deletes, how many files it leaves, and which of those nobody has named."""

    files: tuple[str, ...]
    kept: int
    candidates: tuple[str, ...] = ()


def keep(
    completed: tuple[CompletedCheckpoint, ...],
    *,
    num_retained: int,
    held: tuple[CheckpointId, ...],
    base: CheckpointId | None,
) -> tuple[CompletedCheckpoint, ...]:
    """The checkpoints that stay, in the order of ids."""
    periodic = [checkpoint.id for checkpoint in completed if checkpoint.kind is Kind.CHECKPOINT]
    newest = periodic[-num_retained:] if num_retained else []
    beside = [checkpoint.keeps for checkpoint in completed if checkpoint.id == base]
    return tuple(
        checkpoint
        for checkpoint in completed
        if checkpoint.kind is Kind.SAVEPOINT
        or checkpoint.id in newest
        or checkpoint.id in held
        or checkpoint.id == base
        or checkpoint.id in beside
    )


def collect(
    files: tuple[StoredFile, ...],
    kept: tuple[CompletedCheckpoint, ...],
    generation: Generation,
    *,
    live: bool,
    named_elsewhere: frozenset[str] = frozenset(),
    candidates: frozenset[str] = frozenset(),
) -> CollectionPlan:
    """Mark what the kept checkpoints name, and what is ``named_elsewhere``; of the rest, delete what nobody can need.

    Files of later generations are not ours to judge. Of our own generation, while its tasks are ``live``, a file goes
    only if it lies at or before the newest checkpoint's cut (what came after it is still in use), and if an earlier
    collection found it unnamed already (``candidates``): a checkpoint under way may be about to name a file that no
    other has.
    """
    named = {name for checkpoint in kept for snapshot in checkpoint.tasks for name in snapshot.files} | named_elsewhere
    in_flight = [held for checkpoint in kept for held in checkpoint.channels]
    floors = _floors(kept, generation)
    pending_deletion: list[str] = []
    unnamed: list[str] = []
    for file in files:
        if file.name in named or file.generation > generation:
            continue
        if any(held.channel == file.owner and held.after < file.batch <= held.through for held in in_flight):
            continue
        if live and file.generation == generation:
            if file.batch > floors.get(file.owner, NO_BATCH):
                continue
            if file.name not in candidates:
                unnamed.append(file.name)
                continue
        pending_deletion.append(file.name)
    return CollectionPlan(tuple(pending_deletion), len(files) - len(pending_deletion), tuple(unnamed))


def _floors(kept: tuple[CompletedCheckpoint, ...], generation: Generation) -> Mapping[TaskId | ChannelId, Batch]:
    """For each task and channel, the batch up to which the newest checkpoint of this generation has made files old."""
    ours = [checkpoint for checkpoint in kept if checkpoint.generation == generation]
    if not ours:
        return {}
    newest = ours[-1]
    floors: dict[TaskId | ChannelId, Batch] = {snapshot.task: snapshot.batch for snapshot in newest.tasks}
    floors.update({held.channel: held.after for held in newest.channels})
    return floors
