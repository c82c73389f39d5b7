"""Rows into prepared transactions, on an executor.

One rule: a partition is one transaction. Either it is prepared, with all its rows and its marker, under a name that no
other attempt has, or the server knows nothing of it.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from psycopg import sql

from headgate.connect.postgres.client import Connection, Server, translated
from headgate.connect.postgres.copying import copy_rows, first_rows
from headgate.connect.postgres.markers import mark
from headgate.connect.postgres.names import Owner, Part
from headgate.connect.postgres.prepared import roll_back, take_room
from headgate.connect.postgres.table import Column, Table
from headgate.sink.api import WriteId
from headgate.sink.partitions import Place

NO_ROWS = ""
"""The answer of a partition for which nothing was prepared."""


@dataclass(frozen=True)
class Preparing:
    """Writes the partitions of one attempt."""

    server: Server
    table: Table
    columns: tuple[Column, ...]
    owner: Owner
    write_id: WriteId
    wait_ms: int

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        """Prepare one transaction with all rows. Which, and how many rows there were."""
        filled = first_rows(batches)
        if filled is None:
            return NO_ROWS
        write_id = self.write_id
        part = Part(write_id.generation, write_id.batch, write_id.run, place.partition, place.task_attempt)
        what = f"sink {write_id.sink}: cannot write batch {write_id.batch} to table {self.table.describe()}"
        # Rows of Spark may be long in coming, and no limit that a user has elsewhere is meant for that.
        limits = {"lock_timeout": self.wait_ms, "statement_timeout": 0, "idle_in_transaction_session_timeout": 0}
        with (
            translated(what),
            closing(self.server.connect(self.owner.session_of(write_id), **limits)) as connection,
        ):
            rows = self._prepare(connection, part, filled)
        return json.dumps({"gid": self.owner.gid(part), "rows": rows})

    def _prepare(self, connection: Connection, part: Part, batches: Iterator[pa.RecordBatch]) -> int:
        # An earlier attempt of Spark at this partition may have come as far as that. It would hold locks on our rows.
        roll_back(connection, self.owner, lambda other: _same_partition(part, other), self.wait_ms / 1_000)
        gid = self.owner.gid(part)
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        take_room(connection, self.wait_ms / 1_000)
        rows = copy_rows(connection, self.table.identifier, self.columns, batches)
        mark(connection, self.table.schema, self.owner, gid)
        connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(gid)))
        return rows


def written(owner: Owner, answers: list[str]) -> tuple[Part, ...]:
    """The transactions that executors answered with."""
    parts = (owner.part(json.loads(answer)["gid"]) for answer in answers if answer != NO_ROWS)
    return tuple(part for part in parts if part is not None)


def _same_partition(one: Part, other: Part) -> bool:
    same_write = (one.generation, one.batch, one.run) == (other.generation, other.batch, other.run)
    return same_write and one.partition == other.partition
