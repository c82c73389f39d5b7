"""The Delta sink keeps the contract of exactly-once sinks, as ``deltalake`` reads the table."""

from collections.abc import Sequence
from pathlib import Path

from deltalake import DeltaTable

from headgate.connect import delta
from headgate.sink.api import TwoPhaseSink
from headgate.testing import Row, TwoPhaseContract


def rows_in(table: Path) -> list[Row]:
    if not (table / "_delta_log").exists():
        return []
    read = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return [(row["number"], row["writer"]) for row in read]


class TestDelta(TwoPhaseContract):
    def make_sink(self, place: Path) -> TwoPhaseSink:
        return delta.sink(place / "table")

    def visible(self, place: Path) -> Sequence[Row]:
        return rows_in(place / "table")


class TestDeltaWithPartitions(TwoPhaseContract):
    def make_sink(self, place: Path) -> TwoPhaseSink:
        return delta.sink(place / "table", partition_by=("writer",))

    def visible(self, place: Path) -> Sequence[Row]:
        return rows_in(place / "table")
