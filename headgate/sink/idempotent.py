"""Idempotent sinks: a row has a key of its own, and a row that is written again is written over itself.

One rule: rows are written at once, with their batch, and what is replayed gives the same keys. So in the end readers
find every row once; on the way they may see rows whose checkpoint is not complete, and see them change.
"""

from abc import abstractmethod
from collections.abc import Sequence

from pyspark.sql import DataFrame

from headgate.core.ids import CheckpointId, Generation
from headgate.sink.api import Abandoned, Attempt, Guarantee, TwoPhaseSink
from headgate.sink.partitions import Write, write_partitions


class IdempotentSink(TwoPhaseSink):
    """A sink that writes rows under keys. A subclass says ``describe``, ``open`` and ``writer``."""

    @property
    def guarantee(self) -> Guarantee:
        """Every row once, in the end."""
        return Guarantee.EFFECTIVELY_ONCE

    @abstractmethod
    def writer(self, attempt: Attempt) -> Write:
        """What writes the rows of a partition on an executor. All rows are there for good when it returns."""

    def _prepare(self, dataframe: DataFrame) -> DataFrame:
        """The rows as the writer gets them. It must not compute anything by itself."""
        return dataframe

    def begin_transaction(self, attempt: Attempt) -> None:
        """Nothing to make ready."""

    def invoke(self, attempt: Attempt, dataframe: DataFrame) -> None:
        """Have executors write the rows."""
        write_partitions(self._prepare(dataframe), self.writer(attempt))

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, attempts: Sequence[Attempt]) -> str:
        """All is written already."""
        del checkpoint, generation, attempts
        return ""

    def commit(self, handle: str) -> None:
        """All is written already."""

    def abort(self, abandoned: Abandoned) -> None:
        """What was written is written over by the batch that is replayed."""
