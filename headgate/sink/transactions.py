"""Sinks whose batches wait in transactions of another system until their checkpoint is complete.

One rule: what is committed is what a committable names, and nothing else. What a task prepares that nobody waits for
has another name, is never committed, and is thrown away.

Here is what does not depend on the other system: which attempts this process has written, what is pre-committed of
them, what is thrown away, and what is said when something is gone. How a transaction is committed by its name, and told
from one that was lost, is in ``prepared``.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from pyspark.sql import DataFrame

from headgate.core.ids import CheckpointId, Generation
from headgate.errors import BadStorage
from headgate.sink.api import AbortScope, Guarantee, SinkContext, TwoPhaseSink, WriteId
from headgate.sink.form import Whose
from headgate.sink.transaction_committable import TransactionCommittable

SessionT = TypeVar("SessionT")
"""What a sink speaks to the other system through."""
TransactionT = TypeVar("TransactionT")
"""What a sink knows of one transaction. Mostly its name."""


class TransactionSink(TwoPhaseSink, Generic[SessionT, TransactionT]):
    """A sink that prepares transactions with each batch, and ends them with the checkpoint.

    A subclass says how to reach the other system (``connected``), how a batch is written (``prepare``), what is gone
    (``missing``), how all that was pre-committed is committed (``commit_all``), and how the rest is thrown away
    (``throw_away``).
    """

    committable: ClassVar[type[TransactionCommittable[Any]]] = TransactionCommittable
    """How what is pre-committed becomes text."""
    _context: SinkContext | None = None
    _begun: WriteId | None = None

    @abstractmethod
    def connected(self, what: str) -> AbstractContextManager[SessionT]:
        """The other system, for one piece of work in the driver; any thread may ask, and several at once.

        ``what`` says what cannot be done if it is not there, as in ``sink out: cannot list``: errors of
        the other system begin with that.
        """

    @abstractmethod
    def prepare(self, write_id: WriteId, dataframe: DataFrame) -> Sequence[TransactionT]:
        """Write the batch into transactions that outlive whoever wrote them, and say which. See ``invoke``.

        What is empty stands for a partition without rows, and is left out.
        """

    @abstractmethod
    def missing(
        self, session: SessionT, pre_committed: TransactionCommittable[TransactionT]
    ) -> Collection[TransactionT]:
        """Which transactions are not there any more, of those that are about to be pre-committed."""

    @abstractmethod
    def commit_all(self, session: SessionT, pre_committed: TransactionCommittable[TransactionT]) -> None:
        """Commit what was pre-committed, at least one transaction. As ``commit``: a repeat is harmless at any time,
        and what is gone is never passed over.
        """

    @abstractmethod
    def throw_away(self, session: SessionT, covered: Callable[[WriteId], bool]) -> None:
        """Roll back whatever is there of attempts that are covered, and keep those that still write from preparing."""

    def name(self, transaction: TransactionT) -> str:
        """What people find it by in the other system, after the word for what it is there."""
        return f"transaction {transaction}"

    def facts(self) -> Mapping[str, Any]:
        """What the committable says besides, as arguments of its class."""
        return {}

    def replaces(self, write_id: WriteId, other: WriteId) -> bool:
        """Whether what another attempt left goes when this one begins: its own, and that of earlier runs at its batch.

        What those prepared may hold locks that this attempt would wait for.
        """
        return (other.generation, other.batch) == (write_id.generation, write_id.batch) and other.run <= write_id.run

    def forget(self, write_id: WriteId) -> None:
        """What an attempt wrote is committed or thrown away: nothing of it is needed any more."""
        self._written.pop(write_id, None)

    @property
    def guarantee(self) -> Guarantee:
        """Every row once."""
        return Guarantee.EXACTLY_ONCE

    def open(self, context: SinkContext) -> None:
        """Remember for whom. A subclass that checks more does so before."""
        self._context = context

    def begin_transaction(self, write_id: WriteId) -> None:
        """Throw away what this attempt replaces."""
        with self.connected(f"sink {write_id.sink}: cannot begin batch {write_id.batch}") as session:
            self._throw_away(session, partial(self.replaces, write_id))
        self._begun = write_id

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Have the batch prepared."""
        if self._begun != write_id:  # once more: some partitions may have no rows this time
            self.begin_transaction(write_id)
        self._begun = None
        self._written[write_id] = tuple(each for each in self.prepare(write_id, dataframe) if each)

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, write_ids: Sequence[WriteId]) -> str:
        """Name the transactions of these attempts, once they are seen to be there."""
        for write_id in write_ids:
            if write_id not in self._written:
                raise BadStorage(
                    f"sink {write_id.sink}: nobody knows what run {write_id.run} wrote for batch {write_id.batch}: "
                    "restart the job from its last checkpoint"
                )
        whose = Whose(self.context.job, self.context.sink, generation, checkpoint)
        parts = tuple((write_id, self._written[write_id]) for write_id in write_ids)
        pre_committed: TransactionCommittable[TransactionT] = self.committable(whose, parts, **self.facts())
        if pre_committed.transactions:
            with self.connected(f"sink {whose.sink}: cannot pre-commit checkpoint {checkpoint}") as session:
                if gone := self.missing(session, pre_committed):
                    raise BadStorage(
                        f"sink {whose.sink}: {self._named(gone)} is gone before its checkpoint: somebody rolled it "
                        "back; restart the job from its last checkpoint"
                    )
        return pre_committed.to_text()

    def commit(self, committable: str) -> None:
        """Commit all that is named, unless that is done."""
        pre_committed: TransactionCommittable[TransactionT] = self.committable.from_text(committable)
        if pre_committed.transactions:
            whose = pre_committed.whose
            with self.connected(f"sink {whose.sink}: cannot commit checkpoint {whose.checkpoint}") as session:
                self.commit_all(session, pre_committed)
        for write_id in pre_committed.write_ids:
            self.forget(write_id)

    def abort(self, scope: AbortScope) -> None:
        """Throw away what is covered."""
        with self.connected(f"sink {self.context.sink}: cannot throw away what is abandoned") as session:
            self._throw_away(session, scope.covers)

    @property
    def context(self) -> SinkContext:
        """Who the sink works for, once it is open."""
        assert self._context is not None, "open comes first"
        return self._context

    def lost(
        self, pre_committed: TransactionCommittable[TransactionT], transactions: Collection[TransactionT]
    ) -> BadStorage:
        """What to say of transactions that were pre-committed, and can neither be committed nor were."""
        whose = pre_committed.whose
        return BadStorage(
            f"sink {whose.sink}: {self._named(transactions)} is gone, which checkpoint {whose.checkpoint} "
            "pre-committed and nobody has committed: somebody rolled it back, or the server or the database is another "
            "one; restore it from a copy, or restart the job from an earlier savepoint"
        )

    def _throw_away(self, session: SessionT, covered: Callable[[WriteId], bool]) -> None:
        self.throw_away(session, covered)
        for write_id in list(self._written):
            if covered(write_id):
                self.forget(write_id)

    def _named(self, transactions: Collection[TransactionT]) -> str:
        first, *others = sorted(map(self.name, transactions))
        return f"{first}{f', with {len(others)} others,' if others else ''}"

    @property
    def _written(self) -> dict[WriteId, tuple[TransactionT, ...]]:
        """What this process has written, and neither committed nor thrown away."""
        return self.__dict__.setdefault("_transactions", {})  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, object]:
        """What the sink was built with; another process opens it anew."""
        return {**self.__dict__, "_context": None, "_begun": None, "_transactions": {}}
