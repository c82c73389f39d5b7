"""Publication and fencing: the checkpoint log of conditionally created records.

One rule: records are created one at a time, in the order of their ids and without a gap, each only if its id is free.
A generation's ids begin where its epoch record says. So everybody knows the one place where a leader's next record
would go, and an epoch record in that place stops them for good. A create that failed is never believed: it may have
landed, or may still land. It is repeated until the store says "created" or shows who was first.

A permit to commit is made here and nowhere else, from a record that the store is known to hold.
"""

from dataclasses import dataclass
from enum import Enum

from headgate.core.backoff import delay
from headgate.core.evolve import evolve
from headgate.core.ids import NO_CHECKPOINT, CheckpointId, Generation, LeaderId
from headgate.core.records import AbortedEntry, CommitPermit, CompletedCheckpoint, EpochRecord, Record

IDS_AHEAD_MAX = 8
"""A leader uses no id further than this past the last one that is settled. So a new leader, who begins further ahead,
uses none that their predecessor may have used without anybody writing it down."""


@dataclass(frozen=True)
class CheckpointLog:
    """One leader's view of the checkpoint log."""

    recorded: CheckpointId = NO_CHECKPOINT
    """The last id that is settled: it has a record in the store, or an epoch record passed it over."""
    queue: tuple[Record, ...] = ()
    """Records to be created, in the order of ids. The first has been ordered."""
    last: CheckpointId = NO_CHECKPOINT
    """The last id that has a record or is in the queue."""
    retry_at_ms: int | None = None
    """The first of the queue was not created, as far as we know: when to order it again."""
    tries: int = 0
    """How many creates of it have failed, as far as we know."""
    failing_since_ms: int | None = None
    """When the first of them did."""


class Answer(Enum):
    """What a store's answer means for the first record of the queue."""

    OURS = "ours"
    """It is in the store."""
    FOREIGN = "foreign"
    """Somebody else's record stands in its place."""
    STALE = "stale"
    """The answer is about a record that is no longer in the queue."""


def enqueue(log: CheckpointLog, records: tuple[Record, ...]) -> tuple[CheckpointLog, Record | None]:
    """Append records; return the one to be ordered now, if the queue was empty."""
    first = None if log.queue or not records else records[0]
    if records:
        log = evolve(log, queue=log.queue + records, last=records[-1].id)
    return log, first


def created(log: CheckpointLog, generation: Generation, record: CheckpointId) -> tuple[CheckpointLog, Record | None]:
    """The store created a record. Returns it if it is the one under way, and None for a late word about another."""
    head = log.queue[0] if log.queue else None
    if head is None or (head.id, head.generation) != (record, generation):
        return log, None
    log = evolve(
        log,
        queue=log.queue[1:],
        recorded=record,
        retry_at_ms=None,
        tries=0,
        failing_since_ms=None,
    )
    return log, head


def taken(log: CheckpointLog, record: Record) -> tuple[CheckpointLog, Answer, Record | None]:
    """The store already holds ``record`` under that id: ours from an earlier try, or somebody else's."""
    if not log.queue or log.queue[0].id != record.id:
        return log, Answer.STALE, None
    if not is_same(log.queue[0], record):
        return log, Answer.FOREIGN, None
    log, ours = created(log, record.generation, record.id)
    return log, Answer.OURS, ours


def is_same(one: Record, other: Record) -> bool:
    """Whether two records are one: nobody creates two under one id in one generation."""
    return (one.id, one.generation, one.leader) == (other.id, other.generation, other.leader)


def unclear(
    log: CheckpointLog,
    generation: Generation,
    record: CheckpointId,
    *,
    now_ms: int,
    retry_ms: int,
    retry_max_ms: int,
) -> CheckpointLog:
    """A create failed or was never answered. It may have landed: the same record is ordered again, later and later.

    A word that comes while the next try is waited for says nothing new.
    """
    head = log.queue[0] if log.queue else None
    if head is None or (head.id, head.generation) != (record, generation) or log.retry_at_ms is not None:
        return log
    delay_ms = delay(retry_ms, retry_max_ms, log.tries)
    since_ms = now_ms if log.failing_since_ms is None else log.failing_since_ms
    return evolve(log, retry_at_ms=now_ms + delay_ms, tries=log.tries + 1, failing_since_ms=since_ms)


def epoch_record(
    records: tuple[Record, ...], leader: LeaderId, base: CheckpointId | None, next_id: CheckpointId
) -> EpochRecord:
    """The record with which ``leader`` opens a generation.

    It goes exactly where whoever wrote the last record would create their next one: that is what stops them.
    ``next_id`` is the first id that ``leader`` itself has not used. Who comes to a checkpoint log that somebody else
    has written begins far enough ahead to use none that the other may have used.
    """
    if not records:
        return EpochRecord(CheckpointId(0), Generation(1), leader, CheckpointId(1), base)
    tail = records[-1]
    place = CheckpointId(tail.next_id if isinstance(tail, EpochRecord) else tail.id + 1)
    ahead = 1 if tail.leader == leader else IDS_AHEAD_MAX
    generation = Generation(max(record.generation for record in records) + 1)
    return EpochRecord(place, generation, leader, max(CheckpointId(place + ahead), next_id), base)


def needed(records: tuple[Record, ...]) -> tuple[CheckpointId, ...]:
    """Of the records before the last epoch record, those that whoever reads the checkpoint log later may need.

    They are the completed checkpoints, the epoch record before it, which says where its generation began, and epoch
    records with something to say about commits. The others only have to stand in their places: there they stop whoever
    led before. Nobody learns anything from reading them.
    """
    *before, last = [record for record in records if isinstance(record, EpochRecord)]
    telling = [record.id for record in before if record.ending is not None or record.abandoned]
    telling += [record.id for record in before[-1:]]
    return tuple(
        record.id
        for record in records
        if record.id < last.id and (isinstance(record, CompletedCheckpoint) or record.id in telling)
    )


def opened(epoch_record: EpochRecord) -> CheckpointLog:
    """The checkpoint log of a leader whose epoch record is in the store: all ids before ``next_id`` are settled."""
    settled = CheckpointId(epoch_record.next_id - 1)
    return CheckpointLog(recorded=settled, last=settled)


def aborted_entries(
    log: CheckpointLog, below: CheckpointId, generation: Generation, leader: LeaderId
) -> tuple[Record, ...]:
    """Records for the ids under ``below`` that were given up and have none yet."""
    return tuple(AbortedEntry(CheckpointId(n), generation, leader) for n in range(log.last + 1, below))


def may_use(log: CheckpointLog, checkpoint: CheckpointId) -> bool:
    """Whether a leader may use an id, or must first write down what became of the ones before it."""
    return checkpoint <= log.recorded + IDS_AHEAD_MAX


def permit(record: CompletedCheckpoint) -> CommitPermit:
    """Permission to commit what ``record`` pre-committed. To be called only with a record that the store holds."""
    return CommitPermit(record.id, record.generation)
