"""The file sink passes the contract in every format, and the contract finds what is wrong."""

from collections.abc import Sequence
from pathlib import Path

from headgate.sink.api import TwoPhaseSink
from headgate.sink.contract import Row, TwoPhaseContract
from headgate.sink.files import files
from tests.sink.readers import read_csv, read_json, read_parquet


class TestParquet(TwoPhaseContract):
    def make_sink(self, place: Path) -> TwoPhaseSink:
        return files(place)

    def visible(self, place: Path) -> Sequence[Row]:
        return read_parquet(place)


class TestPartitionedJson(TwoPhaseContract):
    def make_sink(self, place: Path) -> TwoPhaseSink:
        return files(place, format="json", partition_by=("part",))

    def visible(self, place: Path) -> Sequence[Row]:
        return read_json(place)


class TestCsv(TwoPhaseContract):
    def make_sink(self, place: Path) -> TwoPhaseSink:
        return files(place, format="csv", options={"header": True})

    def visible(self, place: Path) -> Sequence[Row]:
        return read_csv(place)
