"""One sink's transactions: begin, write, seal (pre-commit), commit, recover-and-commit, abort.

One rule: a sink commits in the order of checkpoints, each transaction once, and only with a permit that publication
made. A sealed transaction whose checkpoint was given up stays, and is committed with the next one that completes;
a commit that fails is tried until it succeeds and is never aborted.

A transaction begins by itself where the one before it was sealed: it is the output of the batches after ``after``.
Rows are written by the batches, on executors; a batch's part counts once Spark has committed the batch.
"""

from dataclasses import dataclass

from headgate.core.evolve import evolve
from headgate.core.ids import NO_BATCH, NO_CHECKPOINT, Batch, CheckpointId, Generation, Run
from headgate.core.records import CommitPermit, Transaction


@dataclass(frozen=True)
class Seal:
    """A seal that was asked for: everything through batch ``through``, for ``checkpoint``."""

    checkpoint: CheckpointId
    through: Batch


@dataclass(frozen=True)
class SinkState:
    """One sink of this generation."""

    sealed_through: Batch = NO_BATCH
    """The open transaction begins after this batch."""
    published_through: Batch = NO_BATCH
    """What came after this batch is in no record of the chain, as far as we know."""
    sealed_for: CheckpointId = NO_CHECKPOINT
    """The newest checkpoint that has all it needs of this sink."""
    wanted: tuple[Seal, ...] = ()
    """Seals not yet answered, in order. The first has been ordered. At most one a pending checkpoint, and one more."""
    sealed: tuple[Transaction, ...] = ()
    """Sealed, and waiting for a checkpoint to be published."""
    due: tuple[tuple[CommitPermit, Transaction], ...] = ()
    """To be committed, in order. The first has been ordered, unless ``retry_at_ms`` says to wait."""
    abort_run: Run | None = None
    """What runs before this one wrote in vain has not been thrown away yet."""
    retry_at_ms: int | None = None
    full: bool = False
    """A batch waits until something is committed."""
    tries: int = 0
    """Commits of the first in ``due`` that have failed in a row."""


def want_seal(sink: SinkState, checkpoint: CheckpointId, through: Batch) -> tuple[SinkState, Seal | None]:
    """Ask for a seal; return the one to be ordered now, if no other is under way."""
    idle = not sink.wanted
    sink = _settle(evolve(sink, wanted=(*sink.wanted, Seal(checkpoint, through))))
    return sink, sink.wanted[0] if idle and sink.wanted else None


def sealed(sink: SinkState, transaction: Transaction) -> tuple[SinkState, Seal | None]:
    """The seal under way has been answered. Return the next to be ordered."""
    sink = evolve(
        sink,
        wanted=sink.wanted[1:],
        sealed=(*sink.sealed, transaction),
        sealed_through=transaction.through,
        sealed_for=transaction.checkpoint,
    )
    sink = _settle(sink)
    return sink, sink.wanted[0] if sink.wanted else None


def seal_failed(sink: SinkState) -> tuple[SinkState, Seal | None]:
    """The seal under way failed. What it would have sealed stays open, for the next one."""
    sink = _settle(evolve(sink, wanted=sink.wanted[1:]))
    return sink, sink.wanted[0] if sink.wanted else None


def forget_seals(sink: SinkState, checkpoint: CheckpointId) -> SinkState:
    """A checkpoint was given up: drop its seal, unless it is under way (then its answer is still to come)."""
    later = tuple(seal for seal in sink.wanted[1:] if seal.checkpoint != checkpoint)
    return evolve(sink, wanted=sink.wanted[:1] + later)


def seal_under_way(sink: SinkState, checkpoint: CheckpointId) -> Seal | None:
    """The seal that an answer for ``checkpoint`` is about; None if the answer comes twice or too late."""
    return sink.wanted[0] if sink.wanted and sink.wanted[0].checkpoint == checkpoint else None


def uncommitted(sink: SinkState, checkpoint: CheckpointId) -> tuple[Transaction, ...]:
    """All that was sealed for checkpoints up to this one and is not known to be committed, in order."""
    allowed = tuple(transaction for _, transaction in sink.due)
    return allowed + tuple(transaction for transaction in sink.sealed if transaction.checkpoint <= checkpoint)


def allow(sink: SinkState, permit: CommitPermit) -> tuple[SinkState, bool]:
    """A checkpoint was published: all that was sealed for it, or before it, is due. True if one must be ordered."""
    ready = tuple(t for t in sink.sealed if t.checkpoint <= permit.checkpoint)
    rest = tuple(t for t in sink.sealed if t.checkpoint > permit.checkpoint)
    order = bool(ready) and not sink.due
    through = ready[-1].through if ready else sink.published_through
    due = sink.due + tuple((permit, t) for t in ready)
    return evolve(sink, sealed=rest, due=due, published_through=through), order


def committed(sink: SinkState, sealed_in: Generation, checkpoint: CheckpointId) -> tuple[SinkState, bool]:
    """A commit succeeded. True if it was the one under way, and not an answer that comes twice."""
    if not is_next(sink, sealed_in, checkpoint):
        return sink, False
    return evolve(sink, due=sink.due[1:], retry_at_ms=None, tries=0, full=False), True


def commit_failed(sink: SinkState, now_ms: int, retry_ms: int, retry_max_ms: int) -> SinkState:
    """A commit failed: it will be tried again, later and later, and never aborted."""
    delay_ms = min(retry_max_ms, retry_ms << min(sink.tries, 30))
    return evolve(sink, retry_at_ms=now_ms + delay_ms, tries=sink.tries + 1)


def is_next(sink: SinkState, sealed_in: Generation, checkpoint: CheckpointId) -> bool:
    """Whether an answer is about the commit under way."""
    if not sink.due:
        return False
    transaction = sink.due[0][1]
    return (transaction.generation, transaction.checkpoint) == (sealed_in, checkpoint)


def _settle(sink: SinkState) -> SinkState:
    """A seal of nothing needs no order: the checkpoint has all it needs of this sink."""
    while sink.wanted and sink.wanted[0].through == sink.sealed_through:
        sink = evolve(sink, sealed_for=sink.wanted[0].checkpoint, wanted=sink.wanted[1:])
    return sink
