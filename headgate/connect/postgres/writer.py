"""Rows into prepared transactions, on an executor.

One rule: a partition is one transaction. Either it is prepared, with all its rows and its marker, under a name that no
other attempt has, or the server knows nothing of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from psycopg import sql

from headgate.connect.postgres.client import PostgresConnection, Server
from headgate.connect.postgres.copying import copy_rows, writing
from headgate.connect.postgres.markers import mark
from headgate.connect.postgres.names import PostgresOwner
from headgate.connect.postgres.prepared import found, roll_back_prepared, take_room
from headgate.connect.postgres.table import PostgresColumn, PostgresTable
from headgate.sink.api import WriteId
from headgate.sink.partitions import Place, first_rows


@dataclass(frozen=True)
class Preparing:
    """Writes the partitions of one attempt."""

    server: Server
    table: PostgresTable
    columns: tuple[PostgresColumn, ...]
    owner: PostgresOwner
    write_id: WriteId
    wait_ms: int

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        """Prepare one transaction with all rows. Its identifier; nothing for a partition without rows."""
        filled = first_rows(batches)
        if filled is None:
            return ""
        gid = self.owner.name(self.write_id, place)
        with writing(self.server, self.table, self.owner, self.write_id, self.wait_ms) as connection:
            self._clear(connection, place)
            connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            take_room(connection, self.wait_ms / 1_000)
            copy_rows(connection, self.table.identifier, self.columns, filled)
            mark(connection, self.table.schema, self.owner, gid)
            connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(gid)))
        return gid

    def _clear(self, connection: PostgresConnection, place: Place) -> None:
        """An earlier attempt of Spark at this partition may have come to its end. It would hold locks on our rows."""
        for part in found(connection, self.owner):
            if part.write_id == self.write_id and part.place.partition == place.partition:
                gid = self.owner.name(part.write_id, part.place)
                roll_back_prepared(connection, gid, self.wait_ms / 1_000)
