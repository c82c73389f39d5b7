"""Idempotent sinks: a row has a key of its own, and a row that is written again is written over itself.

One rule: rows are written at once, with their batch, and what is replayed gives the same keys. So in the end readers
find every row once; on the way they may see rows whose checkpoint is not complete, and see them change. What comes late
must not be written over what is newer: a sink that sees to that is ``fenced``.
"""

from abc import abstractmethod
from collections.abc import Sequence

from pyspark.sql import DataFrame

from headgate.core.ids import CheckpointId, Generation
from headgate.sink.api import AbortScope, Guarantee, TwoPhaseSink, WriteId
from headgate.sink.partitions import Write, write_partitions


class IdempotentSink(TwoPhaseSink):
    """A sink that writes rows under keys. A subclass says ``describe``, ``open`` and ``writer``."""

    @property
    def guarantee(self) -> Guarantee:
        """Every row once, in the end."""
        return Guarantee.EFFECTIVELY_ONCE

    @property
    def fenced(self) -> bool:
        """Whether rows that come late are kept out: those of an attempt whose ``order`` is lower than that of another.

        A process that was frozen, or an executor that outlives its driver, may still come with old rows when newer
        ones are written. Only the other system can keep them out, and nobody but the sink can tell it which are older:
        by the ``order`` of the attempt, or by its ``version`` in the context. What is not kept out stays, until the
        same key is written again.
        """
        return False

    @abstractmethod
    def writer(self, write_id: WriteId) -> Write:
        """What writes the rows of a partition on an executor. All rows are there for good when it returns.

        It raises ``FencedOff`` if the other system says that it comes too late.
        """

    def _prepare(self, write_id: WriteId, dataframe: DataFrame) -> DataFrame:
        """The rows as the writer gets them. It must not compute anything by itself."""
        del write_id
        return dataframe

    def begin_transaction(self, write_id: WriteId) -> None:
        """Nothing to make ready."""

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Have executors write the rows."""
        write_partitions(self._prepare(write_id, dataframe), self.writer(write_id))

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, write_ids: Sequence[WriteId]) -> str:
        """All is written already."""
        del checkpoint, generation, write_ids
        return ""

    def commit(self, committable: str) -> None:
        """All is written already."""

    def abort(self, scope: AbortScope) -> None:
        """What was written is written over by the batch that is replayed."""
