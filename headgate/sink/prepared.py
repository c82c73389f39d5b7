"""A sink for a system that prepares transactions: they outlive their session, and any process ends them by their names.

One rule: a transaction that is not prepared any more was committed if its marker is there, and only then. The marker is
written in the transaction itself, so that it is there if and only if the rows are.

For one transaction the hooks come in this order::

    prepare            with the batch: executors write rows and marker, and prepare
    prepared           what is there: after each batch, for a checkpoint, for a commit, and to throw away
    commit_prepared    once the checkpoint is complete
    committed          of what is not there any more: whether it was committed
    settle             when all of a checkpoint are committed
    roll_back          what nobody will commit
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import DataFrame

from headgate.errors import ExternalError
from headgate.sink.api import SinkContext, WriteId
from headgate.sink.owner import Owner
from headgate.sink.transaction_committable import TransactionCommittable
from headgate.sink.transactions import SessionT, TransactionSink, TransactionT


class PreparedSink(TransactionSink[SessionT, TransactionT]):
    """A sink that prepares transactions, and commits them by their names.

    A subclass says ``describe``, ``connected``, ``prepare``, ``prepared``, ``commit_prepared``, ``committed`` and
    ``roll_back``. A transaction is whatever it says it is, mostly a name that ``owner`` makes; two that are equal are
    the same.
    """

    @property
    def owner(self) -> Owner:
        """Whose the transactions are: it makes their names, and knows its own among others."""
        return Owner.of(self.context)

    @abstractmethod
    def prepare(self, write_id: WriteId, dataframe: DataFrame) -> Sequence[TransactionT]:
        """Have executors write each partition and a marker into one transaction, and prepare it. Which they are.

        In the driver, with each batch; ``write_partitions`` has executors do it. It runs exactly one Spark action, and
        that computes all rows. The name is new with every attempt of Spark at a partition. What is empty stands for a
        partition without rows. After a crash the batch is another attempt, and what this one prepared is rolled back.
        """

    @abstractmethod
    def prepared(self, session: SessionT) -> Mapping[TransactionT, WriteId]:
        """All transactions of this owner that are prepared, whoever did, with the attempts that they belong to.

        What belongs to another sink, job or incarnation, or to somebody else, is not among them.
        """

    @abstractmethod
    def commit_prepared(self, session: SessionT, transaction: TransactionT) -> bool:
        """Commit one. Whether it was there: another process may have done the same, or be doing it."""

    @abstractmethod
    def committed(
        self,
        session: SessionT,
        pre_committed: TransactionCommittable[TransactionT],
        gone: Collection[TransactionT],
    ) -> Collection[TransactionT]:
        """Which of these were committed. They are known not to be prepared any more, at any time after their commit.

        If another process is committing one at this moment, this waits for its end.
        """

    def settle(self, session: SessionT, pre_committed: TransactionCommittable[TransactionT]) -> None:
        """All of a checkpoint are committed. Their markers may go now, for one that says so of the checkpoint.

        Again with every repeat of the commit, also after later ones: such a marker only grows, by generation and
        checkpoint. Without it the markers of transactions stay for good.
        """

    @abstractmethod
    def roll_back(self, session: SessionT, transaction: TransactionT) -> None:
        """Roll one back, if it is there. Another process may be doing the same."""

    def open(self, context: SinkContext) -> None:
        """See that the other system is there, and lets us see what is prepared."""
        super().open(context)
        with self.connected(f"sink {context.sink}: cannot be opened") as session:
            self.prepared(session)

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Have the batch prepared; then see that it is, and nothing besides."""
        super().invoke(write_id, dataframe)
        written = set(self._written[write_id])
        with self.connected(f"sink {write_id.sink}: cannot look for batch {write_id.batch}") as session:
            there = {each for each, whose in self.prepared(session).items() if whose == write_id}
            if gone := written - there:
                self.forget(write_id)
                raise ExternalError(
                    f"sink {write_id.sink}: of what was prepared for batch {write_id.batch}, {len(gone)} transactions "
                    "are gone again: leave spark.speculation off, and roll back nothing by hand"
                )
            for each in there - written:  # Spark ran a partition again, though the first attempt had come to its end.
                self.roll_back(session, each)

    def missing(
        self, session: SessionT, pre_committed: TransactionCommittable[TransactionT]
    ) -> Collection[TransactionT]:
        """Those that are not prepared."""
        there = self.prepared(session)
        return [each for each in pre_committed.transactions if each not in there]

    def commit_all(self, session: SessionT, pre_committed: TransactionCommittable[TransactionT]) -> None:
        """Commit what is prepared, once the rest is seen to be committed; then roll back what nobody named."""
        there = self.prepared(session)
        named = pre_committed.transactions
        self._see_committed(session, pre_committed, [each for each in named if each not in there])
        self._see_committed(
            session, pre_committed, self.commit_each(session, [each for each in named if each in there])
        )
        self.settle(session, pre_committed)
        # What a forgotten task prepared for the same batches: no committable names it.
        self._roll_back(session, set(pre_committed.write_ids).__contains__)

    def commit_each(self, session: SessionT, transactions: Sequence[TransactionT]) -> Collection[TransactionT]:
        """Commit all of these. Those that were gone, because another process did the same."""
        return [each for each in transactions if not self.commit_prepared(session, each)]

    def throw_away(self, session: SessionT, covered: Callable[[WriteId], bool]) -> None:
        """Roll back what is covered. What a task prepares later goes with the next ``abort``."""
        self._roll_back(session, covered)

    def _roll_back(self, session: SessionT, covered: Callable[[WriteId], bool]) -> None:
        for each, write_id in self.prepared(session).items():
            if covered(write_id):
                self.roll_back(session, each)

    def _see_committed(
        self, session: SessionT, pre_committed: TransactionCommittable[TransactionT], gone: Collection[TransactionT]
    ) -> None:
        if gone:
            known = set(self.committed(session, pre_committed, gone))
            if lost := [each for each in gone if each not in known]:
                raise self.lost(pre_committed, lost)
