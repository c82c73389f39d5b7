"""What a checkpoint is once it is written down: the records of the checkpoint log, and what they name.

One rule: a record is created once and never changed. Each id of the checkpoint log has one record: a completed
checkpoint, an aborted entry (the checkpoint of that id was given up), or an epoch record (a new generation began here).
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from headgate.core.ids import (
    Batch,
    ChannelId,
    CheckpointId,
    Generation,
    LeaderId,
    OperatorUid,
    RequestId,
    SinkId,
    TaskId,
)

LATER = {"later": True}
"""Marks a field that records had not always: it is written only where it says something, so that older versions read
what does not need it."""


class Ending(Enum):
    """How a job came to its end."""

    FINISHED = "finished"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Kind(Enum):
    """Why a checkpoint was taken, which decides how long it is kept."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"


@dataclass(frozen=True)
class Boundary:
    """Where a task stands between two batches.

    ``positions`` is what it has consumed of each input channel, in the order of ``Graph.inputs``.
    """

    batch: Batch
    positions: tuple[Batch, ...] = ()


@dataclass(frozen=True)
class TaskSnapshot:
    """One task at one committed batch. Only files that Spark has already made durable are named."""

    task: TaskId
    operators: tuple[OperatorUid, ...]
    stateful: tuple[OperatorUid, ...]
    partitions: int
    generation: Generation
    batch: Batch
    positions: tuple[tuple[ChannelId, Batch], ...]
    finished: bool
    files: tuple[str, ...]


@dataclass(frozen=True)
class InFlight:
    """The segments of a channel that stand after what its reader had consumed, through the barrier.

    By reference: segments are numbered by the upstream batch, so the range names them. ``after == through`` for an
    aligned channel. In at-least-once a reader may have gone past the barrier; it goes back, and ``after == through``.
    """

    channel: ChannelId
    upstream: TaskId
    downstream: TaskId
    after: Batch
    through: Batch


@dataclass(frozen=True)
class Transaction:
    """What a sink pre-committed for a checkpoint: the output of the batches after ``after``, through ``through``.

    ``committable`` is the sink's own word for it; any process can commit with it.
    """

    sink: SinkId
    generation: Generation
    checkpoint: CheckpointId
    after: Batch
    through: Batch
    committable: str = ""


@dataclass(frozen=True)
class CompletedCheckpoint:
    """A published checkpoint. ``transactions`` are all that were pre-committed by then and not known to be committed.

    ``stop`` if the job is to stop after it, whoever leads by then. ``keeps`` is the checkpoint that its generation
    continued from, while some task has not committed a batch of its own since: nobody knows yet whether the job can
    run from there, so both are kept. ``draining`` if the job was being drained when it was triggered: whoever returns
    to it goes on with that, and reads nothing more. With ``stop`` as well, it is the end of it.
    """

    id: CheckpointId
    generation: Generation
    leader: LeaderId
    kind: Kind
    tasks: tuple[TaskSnapshot, ...]
    channels: tuple[InFlight, ...]
    transactions: tuple[Transaction, ...]
    request: RequestId | None = None
    stop: bool = False
    keeps: CheckpointId | None = field(default=None, metadata=LATER)
    draining: bool = field(default=False, metadata=LATER)


@dataclass(frozen=True)
class AbortedEntry:
    """The checkpoint of this id was given up. Nothing will ever be published under it."""

    id: CheckpointId
    generation: Generation
    leader: LeaderId


@dataclass(frozen=True)
class EpochRecord:
    """A generation begins here. Who held the checkpoint log before can no longer publish.

    Its checkpoints are numbered from ``next_id``; it continues from checkpoint ``base``. With an ``ending`` it is the
    last word on the job, which then owes nothing, and only a user starts it again. ``abandoned`` are transactions that
    were to be committed, and that a user gave up by name: nobody commits them any more.
    """

    id: CheckpointId
    generation: Generation
    leader: LeaderId
    next_id: CheckpointId
    base: CheckpointId | None
    ending: Ending | None = None
    abandoned: tuple[Transaction, ...] = field(default=(), metadata=LATER)


Record = CompletedCheckpoint | AbortedEntry | EpochRecord


@dataclass(frozen=True)
class CommitPermit:
    """Permission to commit what ``checkpoint`` pre-committed.

    Made only in ``checkpoint_log``, from a record that is in the store.
    """

    checkpoint: CheckpointId
    generation: Generation


@dataclass(frozen=True, kw_only=True)
class Restore:
    """What a user says about where a job begins. By default: at its latest checkpoint, with the operators unchanged."""

    again: bool = False
    """Start the job even if it had come to its end. A process that only takes over does not."""
    checkpoint: CheckpointId | None = None
    renamed: tuple[tuple[OperatorUid, OperatorUid], ...] = ()
    """Operators by their old uid and their new one."""
    allow_non_restored: bool = False
    """State that no operator claims is left out, and new stateful operators begin empty."""
    abandon: tuple[SinkId, ...] = ()
    """Commits that these sinks owe are given up."""


class StoredFile(NamedTuple):
    """One file in the storage, as a listing shows it. ``owner`` is the task or the channel it belongs to.

    ``batch`` is the last batch that is known to need it. A file that nothing finished refers to yet, like a part of a
    state snapshot that is still being uploaded, counts as of the owner's newest batch.
    """

    name: str
    generation: Generation
    owner: TaskId | ChannelId
    batch: Batch
