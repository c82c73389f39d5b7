"""``step``: the one way a job's state changes.

One rule: a step depends on the state and the event alone, and leaves the old state as it was.
"""

from typing import assert_never

from headgate.core import closing, coordinator, deleting, leadership, publication, room, sinks, sweeping, tasks, timing
from headgate.core.effects import Effect
from headgate.core.events import (
    AttemptsAborted,
    BatchCommitted,
    BatchEntered,
    CancelAsked,
    ChainRead,
    CheckpointAsked,
    CommitFailed,
    CreateUnclear,
    DeleteAsked,
    Event,
    FilesDeleted,
    FilesListed,
    HoldAsked,
    HoldSet,
    LeadershipLost,
    LeadershipWon,
    OutputsWritten,
    RecordCreated,
    RecordTaken,
    Reported,
    SavepointAsked,
    SavepointCopied,
    SavepointDeleted,
    SealFailed,
    SinkFull,
    SinkSealed,
    SnapshotDeclined,
    SnapshotTaken,
    SourceEnded,
    StrangersAborted,
    TaskEnded,
    TaskFailed,
    TaskStarted,
    Ticked,
    TransactionCommitted,
)
from headgate.core.records import Kind
from headgate.core.state import AT_REST, JobState, Phase, Request, Turn

HEARD_AT_REST = (
    LeadershipWon,
    Ticked,
    SnapshotTaken,
    CheckpointAsked,
    SavepointAsked,
    CancelAsked,
    HoldAsked,
    DeleteAsked,
)
"""A process that does not lead hears whether it should, what time it is, and who must be told that it does not."""


def step(state: JobState, event: Event) -> tuple[JobState, tuple[Effect, ...]]:
    """Take in one fact; return the new state and the orders it leads to."""
    if state.phase in AT_REST and not isinstance(event, HEARD_AT_REST):
        return state, ()
    turn = Turn(state)
    match event:
        case BatchEntered() | OutputsWritten():
            tasks.told(turn, event)
            return turn.state, tuple(turn.effects)
        case BatchCommitted() | TaskStarted() | TaskFailed() | TaskEnded() | SourceEnded() | Reported():
            tasks.told(turn, event)
        case Ticked(now_ms):
            timing.ticked(turn, now_ms)
        case SnapshotTaken():
            coordinator.acknowledge(turn, event)
        case SinkSealed():
            coordinator.sealed(turn, event)
        case SinkFull():
            room.full(turn, event)
        case TransactionCommitted():
            sinks.committed(turn, event)
        case RecordCreated():
            publication.record_created(turn, event)
        case RecordTaken():
            publication.record_taken(turn, event)
        case CreateUnclear():
            publication.create_unclear(turn, event)
        case SnapshotDeclined():
            coordinator.decline(turn, event)
        case SealFailed():
            coordinator.seal_failed(turn, event)
        case CommitFailed():
            sinks.commit_failed(turn, event)
        case AttemptsAborted():
            sinks.attempts_aborted(turn, event)
        case StrangersAborted():
            sinks.strangers_aborted(turn, event)
        case ChainRead():
            leadership.chain_read(turn, event)
        case FilesListed():
            sweeping.files_listed(turn, event)
        case FilesDeleted():
            sweeping.files_deleted(turn, event)
        case SavepointCopied():
            sweeping.savepoint_copied(turn, event)
        case SavepointDeleted():
            deleting.deleted(turn, event)
        case HoldSet():
            sweeping.hold_set(turn, event)
        case LeadershipWon():
            leadership.won(turn, event)
        case LeadershipLost():
            leadership.lost(turn, event)
        case CheckpointAsked(request):
            coordinator.ask(turn, Request(request, Kind.CHECKPOINT))
        case SavepointAsked(request, stop):
            coordinator.ask(turn, Request(request, Kind.SAVEPOINT, stop))
        case CancelAsked(request, abandon):
            closing.cancel(turn, request, abandon)
        case HoldAsked():
            sweeping.hold(turn, event)
        case DeleteAsked():
            deleting.asked(turn, event)
        case _:
            assert_never(event)
    if turn.state.phase is Phase.RUNNING:
        if turn.state.failures > turn.state.settings.tolerable_failures:
            tasks.checkpoints_failed(turn)
        coordinator.trigger(turn)
    return turn.state, tuple(turn.effects)
