"""``step``: the one way a job's state changes.

One rule: a step depends on the state and the event alone, and leaves the old state as it was. First the event is taken
in, then whatever follows from the state fires (``derived``).
"""

from typing import assert_never

from headgate.core import (
    closing,
    coordinator,
    deleting,
    derived,
    garbage,
    leadership,
    publication,
    room,
    sinks,
    tasks,
    timing,
)
from headgate.core.effects import Effect
from headgate.core.events import (
    BatchCommitted,
    BatchEntered,
    CancelAsked,
    CheckpointAsked,
    CheckpointLogRead,
    CommitFailed,
    CreateUnclear,
    DeleteAsked,
    Event,
    FailedAttemptsAborted,
    FilesDeleted,
    FilesListed,
    HoldAsked,
    HoldSet,
    LeadershipLost,
    LeadershipWon,
    OutputsWritten,
    PreCommitFailed,
    RecordCreated,
    RecordTaken,
    Reported,
    SavepointAsked,
    SavepointCopied,
    SavepointDeleted,
    SinkFull,
    SinkPreCommitted,
    SnapshotDeclined,
    SnapshotTaken,
    SourceEnded,
    StaleGenerationsAborted,
    TaskEnded,
    TaskFailed,
    TaskStarted,
    Ticked,
    TransactionCommitted,
)
from headgate.core.records import Kind
from headgate.core.state import AT_REST, JobState, Request, StepContext

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
    context = StepContext(state)
    match event:
        case BatchEntered() | OutputsWritten():
            tasks.handle(context, event)
            return context.state, tuple(context.effects)  # They are frequent, and nothing follows from them.
        case BatchCommitted() | TaskStarted() | TaskFailed() | TaskEnded() | SourceEnded() | Reported():
            tasks.handle(context, event)
        case Ticked(now_ms):
            timing.ticked(context, now_ms)
        case SnapshotTaken():
            coordinator.acknowledge(context, event)
        case SinkPreCommitted():
            coordinator.pre_committed(context, event)
        case SinkFull():
            room.full(context, event)
        case TransactionCommitted():
            sinks.committed(context, event)
        case RecordCreated():
            publication.record_created(context, event)
        case RecordTaken():
            publication.record_taken(context, event)
        case CreateUnclear():
            publication.create_unclear(context, event)
        case SnapshotDeclined():
            coordinator.decline(context, event)
        case PreCommitFailed():
            coordinator.pre_commit_failed(context, event)
        case CommitFailed():
            sinks.commit_failed(context, event)
        case FailedAttemptsAborted():
            sinks.failed_attempts_aborted(context, event)
        case StaleGenerationsAborted():
            sinks.stale_generations_aborted(context, event)
        case CheckpointLogRead():
            leadership.checkpoint_log_read(context, event)
        case FilesListed():
            garbage.files_listed(context, event)
        case FilesDeleted():
            garbage.files_deleted(context, event)
        case SavepointCopied():
            garbage.savepoint_copied(context, event)
        case SavepointDeleted():
            deleting.deleted(context, event)
        case HoldSet():
            garbage.hold_set(context, event)
        case LeadershipWon():
            leadership.won(context, event)
        case LeadershipLost():
            leadership.lost(context, event)
        case CheckpointAsked(request):
            coordinator.ask(context, Request(request, Kind.CHECKPOINT))
        case SavepointAsked(request, stop, drain):
            coordinator.ask(context, Request(request, Kind.SAVEPOINT, stop, drain))
        case CancelAsked(request, abandon):
            closing.cancel(context, request, abandon)
        case HoldAsked():
            garbage.hold(context, event)
        case DeleteAsked():
            deleting.asked(context, event)
        case _:
            assert_never(event)
    derived.fire(context)
    return context.state, tuple(context.effects)
