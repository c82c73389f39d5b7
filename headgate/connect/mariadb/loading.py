"""Rows on their way into a table.

One rule: no statement for a single row, and as many rows arrive as were sent.
"""

# ruff: noqa: S608 - values go as parameters; names are our own, or quoted

from collections.abc import Iterable, Iterator
from itertools import groupby

import pyarrow as pa

from headgate.connect.mariadb.problems import Refused
from headgate.connect.mariadb.rows import insert_chunks, load_lines, load_target
from headgate.connect.mariadb.session import Session, quoted

STATEMENT_BYTES = 4 * 1024 * 1024
LOST = 1262  # the server's number for a row that was cut off


def load(session: Session, table: str, batches: Iterable[pa.RecordBatch]) -> int:
    """Write the rows in the transaction that is open; how many there were.

    By ``LOAD DATA LOCAL`` where the server takes it, else by an ``INSERT`` for each few megabytes.
    """
    local, packet = session.ask("SELECT @@local_infile, @@max_allowed_packet")[0]
    most = min(STATEMENT_BYTES, int(packet) // 2)
    rows = 0
    for schema, alike in groupby(batches, lambda batch: batch.schema):
        if int(local):
            rows += _by_file(session, table, schema, alike)
        else:
            rows += _by_insert(session, table, schema, alike, most)
    return rows


def _by_file(session: Session, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    sent = 0

    def feed() -> Iterator[memoryview]:
        nonlocal sent
        for batch in batches:
            sent += batch.num_rows
            yield load_lines(batch)

    loaded = session.run(
        f"LOAD DATA LOCAL INFILE 'rows' INTO TABLE {quoted(table)} CHARACTER SET utf8mb4 "
        rf"FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' {load_target(schema, quoted)}",
        feed(),
    )
    return _all_of(sent, loaded)


def _by_insert(session: Session, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], most: int) -> int:
    sent = loaded = 0
    names = ", ".join(quoted(name) for name in schema.names)
    head = f"INSERT INTO {quoted(table)} ({names}) VALUES ".encode()
    for batch in batches:
        sent += batch.num_rows
        for chunk in insert_chunks(batch, most):
            loaded += session.run(head + chunk)
    return _all_of(sent, loaded)


def _all_of(sent: int, loaded: int) -> int:
    if sent != loaded:
        raise Refused(LOST, f"{sent} rows were sent and {loaded} arrived")
    return sent
