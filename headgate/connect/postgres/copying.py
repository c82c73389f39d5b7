"""Rows into a table with COPY, on an executor.

One rule: one COPY takes all rows of a partition, in binary form if every column has one, else as text. The choice is
made by types, so it is the same for all batches.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain

import pyarrow as pa
from psycopg import sql

from headgate.connect.postgres.client import PostgresConnection, Server, translated
from headgate.connect.postgres.fields import Encode, encoder
from headgate.connect.postgres.names import PostgresOwner
from headgate.connect.postgres.stream import HEADER, TRAILER, Field, as_bytes, lay_out
from headgate.connect.postgres.table import PostgresColumn, PostgresTable
from headgate.connect.postgres.text import text_rows
from headgate.errors import UserError
from headgate.sink.api import WriteId

PIECE_BYTES = 32 * 1024 * 1024
"""Larger batches are laid out in pieces of about this size."""


@contextmanager
def writing(
    server: Server, table: PostgresTable, owner: PostgresOwner, write_id: WriteId, wait_ms: int
) -> Iterator[PostgresConnection]:
    """A session that writes for an attempt, under its name."""
    what = f"sink {write_id.sink}: cannot write batch {write_id.batch} to table {table.describe()}"
    # Rows of Spark may be long in coming, and no limit that a user has elsewhere is meant for that.
    limits = {"lock_timeout": wait_ms, "statement_timeout": 0, "idle_in_transaction_session_timeout": 0}
    with translated(what), closing(server.connect(owner.session_of(write_id), **limits)) as connection:
        yield connection


def copy_rows(
    connection: PostgresConnection,
    into: sql.Identifier,
    columns: Sequence[PostgresColumn],
    batches: Iterator[pa.RecordBatch],
) -> int:
    """Copy all rows. How many there were."""
    first = next(batches)
    encoders = [encoder(kind, column.type) for kind, column in zip(first.schema.types, columns, strict=True)]
    known = [each for each in encoders if each is not None]
    binary = len(known) == len(columns)
    query = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {})").format(
        into,
        sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
        sql.SQL("BINARY" if binary else "TEXT"),
    )
    rows = 0
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        if binary:
            copy.write(HEADER)
        for batch in chain([first], batches):
            for piece in _pieces(batch):
                copy.write(_binary(piece, known, columns) if binary else _text(piece, columns))
            rows += batch.num_rows
        if binary:
            copy.write(TRAILER)
    return rows


def _binary(piece: pa.RecordBatch, encoders: Sequence[Encode], columns: Sequence[PostgresColumn]) -> memoryview:
    fields = [
        _field(encode, array, column) for encode, array, column in zip(encoders, piece.columns, columns, strict=True)
    ]
    return as_bytes(lay_out(fields, piece.num_rows))


def _field(encode: Encode, array: pa.Array, column: PostgresColumn) -> Field:
    try:
        return encode(array)
    except (pa.ArrowInvalid, UserError) as error:
        raise UserError(
            f"column {column.name} of type {column.type.shown} cannot take a value: {error}: "
            "change the rows or the table"
        ) from None


def _text(piece: pa.RecordBatch, columns: Sequence[PostgresColumn]) -> memoryview:
    return text_rows(piece.columns, [column.name for column in columns])


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    count = min(batch.num_rows, -(-batch.nbytes // PIECE_BYTES)) or 1
    size = -(-batch.num_rows // count)
    yield from (batch.slice(begin, size) for begin in range(0, batch.num_rows, size))
