"""One sink's transactions: begin, write, pre-commit (pre-commit), commit, recover-and-commit, abort.

One rule: a sink commits in the order of checkpoints, each transaction once, and only with a permit that publication
made. A pre-committed transaction whose checkpoint was given up stays, and is committed with the next one that
completes; a commit that fails is tried until it succeeds and is never aborted.

A transaction begins by itself where the one before it was pre-committed: it is the output of the batches after
``after``. Rows are written by the batches, on executors; a batch's part counts once Spark has committed the batch.
"""

from dataclasses import dataclass

from headgate.core.backoff import delay
from headgate.core.evolve import evolve
from headgate.core.ids import NO_BATCH, NO_CHECKPOINT, Batch, CheckpointId, Generation, Run
from headgate.core.records import CommitPermit, Transaction


@dataclass(frozen=True)
class PreCommit:
    """A pre-commit that was asked for: everything through batch ``through``, for ``checkpoint``."""

    checkpoint: CheckpointId
    through: Batch


@dataclass(frozen=True)
class SinkState:
    """One sink of this generation."""

    pre_committed_through: Batch = NO_BATCH
    """The open transaction begins after this batch."""
    published_through: Batch = NO_BATCH
    """What came after this batch is in no record of the checkpoint log, as far as we know."""
    pre_committed_for: CheckpointId = NO_CHECKPOINT
    """The newest checkpoint that has all it needs of this sink."""
    wanted: tuple[PreCommit, ...] = ()
    """Pre-commits not yet answered, in order. The first has been ordered. At most one a pending checkpoint, and one
    more."""
    pre_committed: tuple[Transaction, ...] = ()
    """Pre-committed, and waiting for a checkpoint to be published."""
    due: tuple[tuple[CommitPermit, Transaction], ...] = ()
    """To be committed, in order. The first has been ordered, unless ``retry_at_ms`` says to wait."""
    abort_run: Run | None = None
    """What earlier runs wrote has not been thrown away yet."""
    retry_at_ms: int | None = None
    full: bool = False
    """A batch waits until something is committed."""
    tries: int = 0
    """Commits of the first in ``due`` that have failed in a row."""


def want_pre_commit(sink: SinkState, checkpoint: CheckpointId, through: Batch) -> tuple[SinkState, PreCommit | None]:
    """Ask for a pre-commit; return the one to be ordered now, if no other is under way."""
    idle = not sink.wanted
    sink = _settle(evolve(sink, wanted=(*sink.wanted, PreCommit(checkpoint, through))))
    return sink, sink.wanted[0] if idle and sink.wanted else None


def pre_committed(sink: SinkState, transaction: Transaction) -> tuple[SinkState, PreCommit | None]:
    """The pre-commit under way has been answered. Return the next to be ordered."""
    sink = evolve(
        sink,
        wanted=sink.wanted[1:],
        pre_committed=(*sink.pre_committed, transaction),
        pre_committed_through=transaction.through,
        pre_committed_for=transaction.checkpoint,
    )
    sink = _settle(sink)
    return sink, sink.wanted[0] if sink.wanted else None


def pre_commit_failed(sink: SinkState) -> tuple[SinkState, PreCommit | None]:
    """The pre-commit under way failed. What it would have pre-committed stays open, for the next one."""
    sink = _settle(evolve(sink, wanted=sink.wanted[1:]))
    return sink, sink.wanted[0] if sink.wanted else None


def forget_pre_commits(sink: SinkState, checkpoint: CheckpointId) -> SinkState:
    """A checkpoint was given up: drop its pre-commit, unless it is under way (then its answer is still to come)."""
    later = tuple(pre_commit for pre_commit in sink.wanted[1:] if pre_commit.checkpoint != checkpoint)
    return evolve(sink, wanted=sink.wanted[:1] + later)


def pre_commit_under_way(sink: SinkState, checkpoint: CheckpointId) -> PreCommit | None:
    """The pre-commit that an answer for ``checkpoint`` is about; None if the answer comes twice or too late."""
    return sink.wanted[0] if sink.wanted and sink.wanted[0].checkpoint == checkpoint else None


def uncommitted(sink: SinkState, checkpoint: CheckpointId) -> tuple[Transaction, ...]:
    """All that was pre-committed for checkpoints up to this one and is not known to be committed, in order."""
    allowed = tuple(transaction for _, transaction in sink.due)
    return allowed + tuple(transaction for transaction in sink.pre_committed if transaction.checkpoint <= checkpoint)


def allow(sink: SinkState, permit: CommitPermit) -> tuple[SinkState, bool]:
    """A checkpoint was published: all that was pre-committed up to it is due. True if one must be ordered."""
    ready = tuple(t for t in sink.pre_committed if t.checkpoint <= permit.checkpoint)
    rest = tuple(t for t in sink.pre_committed if t.checkpoint > permit.checkpoint)
    order = bool(ready) and not sink.due
    through = ready[-1].through if ready else sink.published_through
    due = sink.due + tuple((permit, t) for t in ready)
    return evolve(sink, pre_committed=rest, due=due, published_through=through), order


def committed(sink: SinkState, pre_committed_in: Generation, checkpoint: CheckpointId) -> tuple[SinkState, bool]:
    """A commit succeeded. True if it was the one under way, and not an answer that comes twice."""
    if not is_next(sink, pre_committed_in, checkpoint):
        return sink, False
    return evolve(sink, due=sink.due[1:], retry_at_ms=None, tries=0, full=False), True


def commit_failed(sink: SinkState, now_ms: int, retry_ms: int, retry_max_ms: int) -> SinkState:
    """A commit failed: it will be tried again, later and later, and never aborted."""
    delay_ms = delay(retry_ms, retry_max_ms, sink.tries)
    return evolve(sink, retry_at_ms=now_ms + delay_ms, tries=sink.tries + 1)


def is_next(sink: SinkState, pre_committed_in: Generation, checkpoint: CheckpointId) -> bool:
    """Whether an answer is about the commit under way."""
    if not sink.due:
        return False
    transaction = sink.due[0][1]
    return (transaction.generation, transaction.checkpoint) == (pre_committed_in, checkpoint)


def _settle(sink: SinkState) -> SinkState:
    """A pre-commit of nothing needs no order: the checkpoint has all it needs of this sink."""
    while sink.wanted and sink.wanted[0].through == sink.pre_committed_through:
        sink = evolve(sink, pre_committed_for=sink.wanted[0].checkpoint, wanted=sink.wanted[1:])
    return sink
