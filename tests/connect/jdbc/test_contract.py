"""The JDBC sink keeps the contract of every exactly-once sink."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.sink.api import TwoPhaseSink
from headgate.testing import Row, TwoPhaseContract, compare, pre_commit, rows_of, write, write_id
from headgate.testing.two_phase import _killer
from services.postgres import Postgres
from tests.connect.jdbc.places import build, make_table, rows_in


class TestJdbc(TwoPhaseContract):
    server: Postgres

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server = postgres

    def make_sink(self, place: Path) -> TwoPhaseSink:
        return build(self.server, make_table(self.server, place))

    def visible(self, place: Path) -> Sequence[Row]:
        return rows_in(self.server, place)

    def test_a_commit_that_is_killed_again_and_again_is_exact_in_the_end(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        # As in the contract, but less often: each process that commits starts a JVM of its own.
        chance = random.Random(7)
        sink = self._open(tmp_path)
        with _killer(self.make_sink(tmp_path), self.context(tmp_path)) as kill:
            write(sink, spark, write_id(0), partitions=4)
            whole = kill(pre_commit(sink, 1, write_id(0)), None)
            write(sink, spark, write_id(1), partitions=4)
            committable = pre_commit(sink, 2, write_id(1))
            for _ in range(3):
                kill(committable, chance.uniform(0, whole))
                self._is_part_of(tmp_path, rows_of(write_id(0)), rows_of(write_id(1)))
            sink.recover_and_commit(committable)
            compare(self.visible(tmp_path), rows_of(write_id(0), write_id(1)))
