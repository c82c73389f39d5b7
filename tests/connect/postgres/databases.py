"""A database on the shared server, read back by the real psql."""

from dataclasses import dataclass
from typing import cast

from headgate.connect import postgres as connector
from headgate.connect.postgres.twophase import PostgresSink
from headgate.testing import Row
from services.postgres import Postgres

TABLE = "numbers"


@dataclass(frozen=True)
class Database:
    server: Postgres
    name: str

    @property
    def dsn(self) -> str:
        return self.server.dsn(self.name)

    def query(self, statements: str) -> list[tuple[str, ...]]:
        return self.server.query(statements, self.name)

    def create(self) -> None:
        self.server.query(f"CREATE DATABASE {self.name}")

    def drop(self) -> None:
        for gid in self.prepared():
            self.query("ROLLBACK PREPARED '{}'".format(gid.replace("'", "''")))
        self.server.query(f"DROP DATABASE {self.name} WITH (FORCE)")

    def prepared(self) -> list[str]:
        """All prepared transactions of this database, whoever made them."""
        return [gid for (gid,) in self.query("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")]

    def make_table(self, *, key: bool = False) -> None:
        """The table that the contract's rows go to."""
        self.query(f"CREATE TABLE IF NOT EXISTS {TABLE} (number bigint{' PRIMARY KEY' if key else ''}, writer text)")

    def rows(self) -> list[Row]:
        return [(int(number), writer) for number, writer in self.query(f"TABLE {TABLE}")]

    def sink(self, **options: object) -> PostgresSink:
        """A sink to the contract's table."""
        made = connector.sink(self.dsn, **{"table": TABLE, **options})  # type: ignore[arg-type]
        return cast("PostgresSink", made)
