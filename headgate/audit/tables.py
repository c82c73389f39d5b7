"""Records in a table of PostgreSQL.

One rule: one statement reads all of them, so they are those of one moment.
"""

import io

import pyarrow as pa
import pyarrow.csv as pa_csv

from headgate.audit.counting import SCHEMA
from headgate.audit.fields import picked
from headgate.audit.places import Columns
from headgate.errors import ExternalError, InvalidOption, UserError

try:
    import psycopg
    from psycopg import sql
except ImportError as error:
    raise InvalidOption("postgres needs psycopg: pip install 'headgate[postgres]'") from error

PIECE_BYTES = 16 << 20
"""How much text is parsed together."""
UNITS = {"key": pa.large_string(), "seq": pa.int64()}


def read(dsn: str, table: str, columns: Columns, shown: str) -> pa.Table:
    """All records of a table. ``shown`` is the place without its password."""
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            return _copied(connection, table, columns, shown)
    except psycopg.OperationalError as error:
        raise ExternalError(f"{shown} cannot be reached: {_line(error)}") from error
    except psycopg.Error as error:
        raise UserError(f"{shown} cannot be read: {_line(error)}") from error


def count_rows(dsn: str, table: str, shown: str) -> int:
    """How many rows a table has."""
    query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(*table.split(".")))
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            row = connection.execute(query).fetchone()
    except psycopg.OperationalError as error:
        raise ExternalError(f"{shown} cannot be reached: {_line(error)}") from error
    except psycopg.Error as error:
        raise UserError(f"{shown} cannot be read: {_line(error)}") from error
    return int(str(row[0])) if row is not None else 0


def _copied(connection: "psycopg.Connection[tuple[object, ...]]", table: str, columns: Columns, shown: str) -> pa.Table:
    key = sql.SQL("NULL") if columns.key is None else sql.Identifier(columns.key)
    several = _is_list(connection, table, columns.seq)
    seq = sql.SQL("unnest({})" if several else "{}").format(sql.Identifier(columns.seq))
    query = sql.SQL("COPY (SELECT {}::text AS key, {}::bigint AS seq FROM {}) TO STDOUT (FORMAT csv)").format(
        key, seq, sql.Identifier(*table.split("."))
    )
    tables = [SCHEMA.empty_table()]
    held: list[bytes] = []
    size = 0
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for line in copy:  # A row each, whole.
            held.append(bytes(line))
            size += len(line)
            if size >= PIECE_BYTES:
                tables.append(_parsed(held))
                held, size = [], 0
    if held:
        tables.append(_parsed(held))
    found = pa.concat_tables(tables)
    return picked(found, Columns(None if columns.key is None else "key", "seq"), shown)


def _is_list(connection: "psycopg.Connection[tuple[object, ...]]", table: str, column: str) -> bool:
    """Whether a column has several numbers in each row."""
    query = sql.SQL("SELECT pg_typeof((SELECT {} FROM {} LIMIT 1))::text").format(
        sql.Identifier(column), sql.Identifier(*table.split("."))
    )
    row = connection.execute(query).fetchone()
    return row is not None and str(row[0]).endswith("[]")


def _parsed(lines: list[bytes]) -> pa.Table:
    return pa_csv.read_csv(
        io.BytesIO(b"".join(lines)),
        read_options=pa_csv.ReadOptions(column_names=["key", "seq"], block_size=2 * PIECE_BYTES),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=UNITS, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
