"""Facts: all that the core is ever told.

One rule: a fact is in the past and may arrive late, twice, out of order or never; the core copes. So a fact says
where things stand (``Boundary``) rather than what changed. Facts of a task name (generation, task, run), and those of
a dead run or generation are ignored. Facts of the store name the leader who asked.

``Reported`` heals what was lost: it answers ``AskTask`` and says all that a task has to say.
"""

from dataclasses import dataclass

from headgate.core.ids import Batch, CheckpointId, Generation, LeaderId, RequestId, Run, SinkId, TaskId
from headgate.core.records import Boundary, Record, Restore, StoredFile
from headgate.core.restart import Failure

# -- a task's query ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskFact:
    """Something a run of a task's query did."""

    generation: Generation
    task: TaskId
    run: Run


@dataclass(frozen=True)
class TaskStarted(TaskFact):
    """The query is up. ``boundary`` is what it found committed."""

    boundary: Boundary


@dataclass(frozen=True)
class TaskFailed(TaskFact):
    """The query is dead. ``chance`` in [0, 1) was drawn for the restart's jitter."""

    failure: Failure
    chance: float = 0.5


@dataclass(frozen=True)
class TaskEnded(TaskFact):
    """The query has stopped in good order, after ``boundary``."""

    boundary: Boundary


@dataclass(frozen=True)
class BatchEntered(TaskFact):
    """A batch is in the hook, and waits there for ``AdmitBatch``. It will consume through ``boundary.positions``."""

    boundary: Boundary


@dataclass(frozen=True)
class OutputsWritten(TaskFact):
    """What a batch had to write is written; it does not count before Spark has committed the batch."""

    batch: Batch


@dataclass(frozen=True)
class BatchCommitted(TaskFact):
    """Spark has committed a batch: its outputs count, and its inputs are consumed through ``boundary.positions``."""

    boundary: Boundary


@dataclass(frozen=True)
class SourceEnded(TaskFact):
    """The task's own source has no more data, and all it had is committed."""


@dataclass(frozen=True)
class Reported(TaskFact):
    """Where a run stands, because it was asked. ``failure`` if it is dead, ``ended`` if it stopped in good order.

    ``entered`` is the batch that is in the hook, if there is one.
    """

    boundary: Boundary
    entered: Batch | None = None
    source_ended: bool = False
    ended: bool = False
    failure: Failure | None = None
    chance: float = 0.5


# -- a checkpoint's parts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SnapshotTaken:
    """A task's acknowledgement: ``files`` rebuild it at ``batch``."""

    generation: Generation
    checkpoint: CheckpointId
    task: TaskId
    batch: Batch
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class SnapshotDeclined:
    """A task cannot take part in this checkpoint."""

    generation: Generation
    checkpoint: CheckpointId
    task: TaskId
    why: str = ""


@dataclass(frozen=True)
class SinkPreCommitted:
    """A sink has made everything up to the checkpoint durable, so that ``committable`` is enough to commit it."""

    generation: Generation
    checkpoint: CheckpointId
    sink: SinkId
    committable: str = ""


@dataclass(frozen=True)
class PreCommitFailed:
    """A sink could not pre-commit. Nothing is lost: what it had stays open."""

    generation: Generation
    checkpoint: CheckpointId
    sink: SinkId
    why: str = ""


@dataclass(frozen=True)
class SinkFull:
    """A batch waits in its hook: before something is committed the sink has no room for it. Told while it waits."""

    generation: Generation
    sink: SinkId


@dataclass(frozen=True)
class TransactionCommitted:
    """A pre-committed transaction of ``pre_committed_in`` / ``checkpoint`` is visible to the sink's readers."""

    generation: Generation
    sink: SinkId
    pre_committed_in: Generation
    checkpoint: CheckpointId


@dataclass(frozen=True)
class CommitFailed:
    """A commit did not go through, or nobody knows. It will be tried again."""

    generation: Generation
    sink: SinkId
    pre_committed_in: Generation
    checkpoint: CheckpointId
    why: str = ""


@dataclass(frozen=True)
class FailedAttemptsAborted:
    """A sink has thrown away what runs before ``run`` wrote."""

    generation: Generation
    sink: SinkId
    run: Run


@dataclass(frozen=True)
class StaleGenerationsAborted:
    """A sink has aborted what the generations before ``below`` left behind."""

    generation: Generation
    sink: SinkId
    below: Generation


# -- the store -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckpointLogRead:
    """The checkpoint log as it stands, in the order of ids; what is held; which savepoints are copied."""

    leader: LeaderId
    records: tuple[Record, ...]
    held: tuple[CheckpointId, ...] = ()
    copied: tuple[CheckpointId, ...] = ()


@dataclass(frozen=True)
class RecordCreated:
    """The conditional create of this record took place."""

    leader: LeaderId
    generation: Generation
    record: CheckpointId


@dataclass(frozen=True)
class RecordTaken:
    """The conditional create found ``record`` there already: our own of an earlier try, or somebody else's."""

    leader: LeaderId
    record: Record


@dataclass(frozen=True)
class CreateUnclear:
    """The create failed, or nobody knows. Either way it may have landed, or may still land."""

    leader: LeaderId
    generation: Generation
    record: CheckpointId
    why: str = ""


@dataclass(frozen=True)
class SavepointCopied:
    """A savepoint's own copy of all its files is complete."""

    leader: LeaderId
    checkpoint: CheckpointId


@dataclass(frozen=True)
class SavepointDeleted:
    """A savepoint's record and its own copy are gone."""

    leader: LeaderId
    checkpoint: CheckpointId


@dataclass(frozen=True)
class HoldSet:
    """The store remembers that a checkpoint is held, or that it is not."""

    leader: LeaderId
    checkpoint: CheckpointId
    held: bool


@dataclass(frozen=True)
class FilesListed:
    """What is in the storage, because we asked."""

    generation: Generation
    files: tuple[StoredFile, ...]


@dataclass(frozen=True)
class FilesDeleted:
    """A ``DeleteFiles`` was carried out: these records are gone; files that are left go with the next collection."""

    generation: Generation
    records: tuple[CheckpointId, ...]


# -- the rest of the world -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ticked:
    """The clock. It never goes back."""

    now_ms: int


@dataclass(frozen=True)
class LeadershipWon:
    """This process may lead. ``restore`` is what the user said about where to begin."""

    leader: LeaderId
    restore: Restore = Restore()  # noqa: RUF009 - frozen


@dataclass(frozen=True)
class LeadershipLost:
    """This process may no longer lead."""

    leader: LeaderId


@dataclass(frozen=True)
class CheckpointAsked:
    """A user wants a checkpoint now."""

    request: RequestId


@dataclass(frozen=True)
class SavepointAsked:
    """A user wants a savepoint; ``stop`` the job once it is complete and committed.

    With ``drain`` the sources end first, and the savepoint comes when all that was read has come out.
    """

    request: RequestId
    stop: bool = False
    drain: bool = False


@dataclass(frozen=True)
class CancelAsked:
    """A user wants the job to end at once, without the commits that the sinks in ``abandon`` still owe."""

    request: RequestId
    abandon: tuple[SinkId, ...] = ()


@dataclass(frozen=True)
class HoldAsked:
    """A user wants a checkpoint kept (or, with ``held`` false, no longer kept)."""

    request: RequestId
    checkpoint: CheckpointId
    held: bool = True


@dataclass(frozen=True)
class DeleteAsked:
    """A user wants a savepoint to go."""

    request: RequestId
    checkpoint: CheckpointId


AnyTaskFact = (
    BatchEntered | OutputsWritten | BatchCommitted | TaskStarted | TaskFailed | TaskEnded | SourceEnded | Reported
)
CheckpointFact = SnapshotTaken | SnapshotDeclined | SinkPreCommitted | PreCommitFailed
SinkFact = TransactionCommitted | CommitFailed | FailedAttemptsAborted | StaleGenerationsAborted | SinkFull
StoreFact = (
    CheckpointLogRead
    | RecordCreated
    | RecordTaken
    | CreateUnclear
    | SavepointCopied
    | SavepointDeleted
    | HoldSet
    | FilesListed
    | FilesDeleted
)
UserFact = CheckpointAsked | SavepointAsked | CancelAsked | HoldAsked | DeleteAsked
Event = AnyTaskFact | CheckpointFact | SinkFact | StoreFact | UserFact | Ticked | LeadershipWon | LeadershipLost
