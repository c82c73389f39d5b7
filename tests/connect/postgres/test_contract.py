"""The PostgreSQL sinks pass the contracts. Read back by psql."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from headgate.connect import postgres as connector
from headgate.connect.postgres.twophase import PostgresSink
from headgate.sink.api import TwoPhaseSink
from headgate.testing import IdempotentContract, PreparedContract, Row
from tests.connect.postgres.databases import TABLE, Database


class TestPrepared(PreparedContract):
    database: Database

    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database
        database.make_table()

    def make_sink(self, place: Path) -> PostgresSink:
        del place
        return self.database.sink(wait="30s")

    def visible(self, place: Path) -> Sequence[Row]:
        del place
        return self.database.rows()


class TestUpserted(IdempotentContract):
    database: Database

    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database
        database.make_table(key=True)

    def make_sink(self, place: Path) -> TwoPhaseSink:
        del place
        return connector.sink(self.database.dsn, table=TABLE, mode="upsert", key=["number"])

    def visible(self, place: Path) -> Sequence[Row]:
        del place
        return self.database.rows()
