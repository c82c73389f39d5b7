"""Orders: all that the core can ask for.

One rule: every order may be given more than once and is carried out as if once. So each names what it is about:
(generation, checkpoint, task or sink). Orders of one step are performed in the order in which they were given.

What must be durable before what:

- ``CommitTransaction`` is given only after its checkpoint's record is known to be in the store.
- ``StartTask`` of a generation is given only after its epoch record is known to be in the store, and after all that its
  base
  checkpoint pre-committed is committed.
- ``DeleteFiles`` names no file that a kept checkpoint or a live task needs.
"""

from dataclasses import dataclass
from enum import Enum

from headgate.core.ids import Batch, ChannelId, CheckpointId, Generation, LeaderId, RequestId, Run, SinkId, TaskId
from headgate.core.records import CommitPermit, InFlight, Record, TaskSnapshot, Transaction


class Ack(Enum):
    """What became of an acknowledgement."""

    SUCCESS = "success"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"
    DISCARDED = "discarded"


class Outcome(Enum):
    """What a user is told."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    NOTICE = "notice"


# -- a task's query ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StartTask:
    """Start a run. After a task-level failure ``snapshot`` is None and ``in_place`` true: go on where the query was.

    Otherwise rebuild it from ``snapshot`` (None: empty), reading each input from ``positions``, with the segments in
    ``in_flight`` standing first in its channels. ``skip`` leaves the uncommitted batch out instead of replaying it.
    ``exhausted`` brings the run up without reading: it is drained next, with the uncommitted batch as its last.
    Whatever other run of the task is still up in this process is stopped first.
    """

    generation: Generation
    task: TaskId
    run: Run
    in_place: bool
    skip: bool = False
    exhausted: bool = False
    snapshot: TaskSnapshot | None = None
    positions: tuple[Batch, ...] = ()
    in_flight: tuple[InFlight, ...] = ()


@dataclass(frozen=True)
class StopTask:
    """Stop a run; with ``drain``, once all there is to read has been read and committed."""

    generation: Generation
    task: TaskId
    run: Run
    drain: bool = False


@dataclass(frozen=True)
class AskTask:
    """Ask a run where it stands. ``Reported`` is the answer."""

    generation: Generation
    task: TaskId
    run: Run


@dataclass(frozen=True)
class AdmitBatch:
    """Let a batch that waits in the hook write its outputs."""

    generation: Generation
    task: TaskId
    run: Run
    batch: Batch


@dataclass(frozen=True)
class OpenGate:
    """Let a channel's reader go up to and with this upstream batch. A gate is never lowered."""

    generation: Generation
    channel: ChannelId
    through: Batch


# -- a checkpoint's parts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakeSnapshot:
    """Name the files that rebuild the task at ``batch``; copy those that the storage does not have yet."""

    generation: Generation
    checkpoint: CheckpointId
    task: TaskId
    batch: Batch


@dataclass(frozen=True)
class AnswerAck:
    """Tell a task what became of its acknowledgement. What it copied for nothing goes with the next collection."""

    generation: Generation
    checkpoint: CheckpointId
    task: TaskId
    answer: Ack


@dataclass(frozen=True)
class AbortSnapshot:
    """A checkpoint was given up: whatever is still under way for it may stop."""

    generation: Generation
    checkpoint: CheckpointId


@dataclass(frozen=True)
class NotifyCompleted:
    """A checkpoint is complete. For the sources: what came before it will not be asked for again."""

    generation: Generation
    checkpoint: CheckpointId


@dataclass(frozen=True)
class PreCommitSink:
    """Make the output of the batches after ``after`` through ``through`` durable, ready to be committed by anyone.

    Of each batch, what the run wrote that committed it; a batch that was left out has nothing.
    A part of that range may have been pre-committed before, for a checkpoint that was given up when the answer was a
    failure: it is pre-committed again, for this one.
    """

    generation: Generation
    checkpoint: CheckpointId
    sink: SinkId
    after: Batch
    through: Batch


@dataclass(frozen=True)
class CommitTransaction:
    """Make a pre-committed transaction visible. Given until it succeeds; a repeat is harmless."""

    generation: Generation
    permit: CommitPermit
    transaction: Transaction


@dataclass(frozen=True)
class AbortFailedAttempts:
    """Throw away what runs before ``run`` wrote for batches that they did not commit: those run again, or never."""

    generation: Generation
    sink: SinkId
    run: Run


@dataclass(frozen=True)
class AbortStaleGenerations:
    """Throw away whatever generations before ``below`` left uncommitted, after all that was decided is committed."""

    generation: Generation
    sink: SinkId
    below: Generation


@dataclass(frozen=True)
class AbortUnpublished:
    """Throw away what this generation wrote after batch ``after``: no record names it, and none ever will.

    Given once, by a leader that is deposed. What it leaves is thrown away by whoever leads now.
    """

    generation: Generation
    sink: SinkId
    after: Batch


# -- the store -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadCheckpointLog:
    """Read all records of the checkpoint log."""

    leader: LeaderId


@dataclass(frozen=True)
class CreateRecord:
    """Create a record if its id is free. Publication, when the record is a completed checkpoint."""

    leader: LeaderId
    record: Record


@dataclass(frozen=True)
class CopySavepoint:
    """Make a savepoint self-contained: copy all it names, its own manifest last."""

    leader: LeaderId
    checkpoint: CheckpointId


@dataclass(frozen=True)
class DeleteSavepoint:
    """Delete a savepoint's record, and then its own copy, if this process still leads."""

    leader: LeaderId
    checkpoint: CheckpointId


@dataclass(frozen=True)
class SetHold:
    """Remember that a checkpoint is held, or that it is not. Carried out in the order in which they were given."""

    leader: LeaderId
    checkpoint: CheckpointId
    held: bool


@dataclass(frozen=True)
class ListFiles:
    """List what is in the storage, for a collection."""

    generation: Generation


@dataclass(frozen=True)
class DeleteFiles:
    """Delete records first, then files: what no record names, nobody will ask for."""

    generation: Generation
    records: tuple[CheckpointId, ...]
    files: tuple[str, ...]


# -- the user ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Notify:
    """Say something to the user: the answer to ``request``, or, without one, to whoever watches the job."""

    outcome: Outcome
    text: str
    request: RequestId | None = None
    checkpoint: CheckpointId | None = None


Effect = (
    StartTask
    | StopTask
    | AskTask
    | AdmitBatch
    | OpenGate
    | TakeSnapshot
    | AnswerAck
    | AbortSnapshot
    | NotifyCompleted
    | PreCommitSink
    | CommitTransaction
    | AbortFailedAttempts
    | AbortStaleGenerations
    | AbortUnpublished
    | ReadCheckpointLog
    | CreateRecord
    | CopySavepoint
    | DeleteSavepoint
    | SetHold
    | ListFiles
    | DeleteFiles
    | Notify
)
