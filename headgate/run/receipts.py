"""How receipts come about, while a job runs.

One rule: a receipt costs no work on rows and reads two small files: what is counted, a writer has counted anyway. What
is known at the pre-commit goes into the checkpoint's record, so that a process that commits it after a crash can tell
it, too; and into the history, once the commit is known.
"""

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate import layout
from headgate.core.effects import CommitTransaction, PreCommitSink
from headgate.core.ids import NO_BATCH, Batch, Generation, SinkId, TaskId
from headgate.core.records import CompletedCheckpoint, Transaction
from headgate.errors import BadStorage
from headgate.receipts.receipt import COMMITTABLE_MAX, EVENT, OFFSET_MAX, Range, Receipt, bare, receipts_in
from headgate.sink.api import WriteId

REMEMBERED_MAX = 64
"""At most this many receipts of what is committed are remembered for records that still name them."""

ReceiptKey = tuple[str, int, int]


class Receipts:
    """The receipts of one process that are not in the history yet."""

    def __init__(self) -> None:
        """Nothing was written."""
        self._lock = threading.Lock()
        self._rows: dict[WriteId, int | None] = {}
        self._made: dict[ReceiptKey, Receipt] = {}
        self._committed: deque[ReceiptKey] = deque()

    def wrote(self, write_id: WriteId, rows: int | None) -> None:
        """A run has written a batch. It counts if the batch is committed by this run."""
        with self._lock:
            self._rows[write_id] = rows

    def pre_committed(
        self,
        order: PreCommitSink,
        task: TaskId,
        write_ids: Sequence[WriteId],
        inputs: tuple[Mapping[str, Range] | None, Mapping[str, Range] | None],
        place: str | None,
        content: str | None,
        now_ms: int,
    ) -> None:
        """A sink has pre-committed what these attempts wrote."""
        with self._lock:
            counts = [self._rows.get(each) for each in write_ids]
            sources, channels = inputs
            receipt = Receipt(
                sink=order.sink,
                task=task,
                generation=order.generation,
                checkpoint=order.checkpoint,
                after=order.after,
                through=order.through,
                rows=None if None in counts else sum(count for count in counts if count is not None),
                sources=sources,
                channels=channels,
                place=place,
                hash=content,
                pre_committed_ms=now_ms,
            )
            self._made[receipt.key] = receipt

    def section(self, record: CompletedCheckpoint) -> list[dict[str, Any]]:
        """What a checkpoint's record has of what it names."""
        with self._lock:
            found = [self._made.get(_key(each)) for each in record.transactions]
        return [each.data() for each in found if each is not None]

    def know(self, extra: Mapping[str, Any], where: str) -> None:
        """Take what a record has, which somebody pre-committed before."""
        for each in receipts_in(extra, where):
            with self._lock:
                self._made.setdefault(each.key, each)

    def committed(self, order: CommitTransaction, task: TaskId, now_ms: int) -> dict[str, Any]:
        """A transaction is committed: the line of history that says so. What was never known is not made up."""
        transaction = order.transaction
        key, ours = _key(transaction), transaction.generation == order.generation
        with self._lock:
            known = self._made.get(key)
            for each in [each for each in self._rows if _is_past(each, transaction, order.generation)]:
                del self._rows[each]
            self._committed.append(key)
            while len(self._committed) > REMEMBERED_MAX:
                old = self._committed.popleft()
                if old not in self._committed:
                    self._made.pop(old, None)
        receipt = replace(
            known if known is not None else bare(transaction, task),
            committable=transaction.committable if len(transaction.committable) <= COMMITTABLE_MAX else None,
            committed_ms=now_ms,
            published_with=order.permit.checkpoint,
            recovered=not ours,
        )
        return {"id": receipt.checkpoint, "sink": receipt.sink, "task": receipt.task, EVENT: receipt.data()}


def inputs_of(
    read: Callable[[Batch], layout.Offsets], uids: Iterable[str], after: Batch, through: Batch
) -> tuple[Mapping[str, Range] | None, Mapping[str, Range] | None]:
    """What a task has read between two batches, of its sources and its channels. None if it cannot be told."""
    try:
        last = read(through)
        first = None if after == NO_BATCH else read(after)
        ends = last.of_sources()
        begins: Sequence[str | None] = [None] * len(ends) if first is None else first.of_sources()
        sources = {uid: (_short(begin), _short(end)) for uid, begin, end in zip(uids, begins, ends, strict=True)}
        positions = {} if first is None else first.positions()
        channels: dict[str, Range] = {
            channel: (None if channel not in positions else str(positions[channel]), str(batch))
            for channel, batch in last.positions().items()
        }
    except (BadStorage, OSError, ValueError):
        return None, None
    return sources, channels


def _short(offset: str | None) -> str | None:
    if offset is None or len(offset) <= OFFSET_MAX:
        return offset
    return f"sha256:{hashlib.sha256(offset.encode()).hexdigest()}"


def _key(transaction: Transaction) -> ReceiptKey:
    return transaction.sink, transaction.generation, transaction.checkpoint


def _is_past(write_id: WriteId, transaction: Transaction, generation: Generation) -> bool:
    """Whether nobody will pre-commit an attempt any more."""
    if write_id.generation < generation:
        return True
    same = (SinkId(write_id.sink), write_id.generation) == (transaction.sink, transaction.generation)
    return same and write_id.batch <= transaction.through
