"""Printing batches, to see what a job does.

One rule: a batch is printed when it is written, before it is committed. So there is no waiting for a checkpoint, and a
batch that is replayed is printed again.
"""

from collections.abc import Sequence

import rich
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, collect_list, count, lit, monotonically_increasing_id, struct, when
from rich.markup import escape
from rich.table import Table

from headgate.core.ids import CheckpointId, Generation
from headgate.errors import InvalidOption
from headgate.sink.api import AbortScope, Guarantee, SinkContext, TwoPhaseSink, WriteId
from headgate.sink.tally import wrote

ROW_IN_PARTITION = (1 << 33) - 1
"""The bits of ``monotonically_increasing_id`` that count the rows of one partition."""


def sink(rows: int = 20) -> TwoPhaseSink:
    """Print the number of rows of every batch, and at most ``rows`` of them. At least once; meant for trying out."""
    if rows < 0:
        raise InvalidOption(f"console.sink: rows must not be negative, got {rows}")
    return ConsoleSink(rows)


class ConsoleSink(TwoPhaseSink):
    """What ``console.sink`` makes."""

    def __init__(self, rows: int) -> None:
        """Print at most this many rows a batch."""
        self._rows = rows

    @property
    def guarantee(self) -> Guarantee:
        """A batch that is replayed is printed again."""
        return Guarantee.AT_LEAST_ONCE

    def describe(self) -> str:
        """Where to, and how much."""
        return f"the console, at most {self._rows} rows a batch"

    def open(self, context: SinkContext) -> None:
        """Nothing to make ready."""

    def begin_transaction(self, write_id: WriteId) -> None:
        """Nothing to make ready."""

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Count all rows and fetch the first ones, in one action: the executors keep no more than they may show."""
        numbered = dataframe.select(monotonically_increasing_id().alias("number"), struct("*").alias("row"))
        shown = when(col("number").bitwiseAND(ROW_IN_PARTITION) < self._rows, struct("number", "row"))
        [counted] = numbered.agg(count(lit(1)).alias("count"), collect_list(shown).alias("shown")).collect()
        wrote(int(counted["count"]))
        first = sorted(counted["shown"], key=lambda each: int(each["number"]))[: self._rows]
        table = Table(*map(escape, dataframe.columns))
        for each in first:
            table.add_row(*(escape(str(value)) for value in each["row"]))
        what = f"{write_id.sink}: generation {write_id.generation}, batch {write_id.batch}, run {write_id.run}"
        rich.print(escape(f"{what}: {counted['count']} rows"))
        rich.print(table)

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, write_ids: Sequence[WriteId]) -> str:
        """All is printed already."""
        del checkpoint, generation, write_ids
        return ""

    def commit(self, committable: str) -> None:
        """All is printed already."""

    def abort(self, scope: AbortScope) -> None:
        """What is printed stays printed."""
