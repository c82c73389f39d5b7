"""PostgreSQL, as a sink.

One rule: the server itself keeps what is not committed yet, in prepared transactions; any process that knows their
names can commit them. With ``mode="upsert"`` rows are written under keys at once, over themselves when they come again.

psycopg 3 is needed: ``pip install 'headgate[postgres]'``. It is not loaded before a sink is built.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Literal, get_args

from headgate.errors import InvalidOption
from headgate.sink.api import TwoPhaseSink
from headgate.values import Duration, count, duration_ms

__all__ = ["sink"]

PostgresMode = Literal["two-phase", "upsert"]
Parameter = str | int


def sink(
    dsn: str = "",
    *,
    table: str,
    mode: PostgresMode = "two-phase",
    key: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    parallelism: int | None = None,
    wait: Duration = "60s",
    host: str | None = None,
    port: int | None = None,
    database: str | None = None,
    user: str | None = None,
    password: str | None = None,
    parameters: Mapping[str, Parameter] | None = None,
) -> TwoPhaseSink:
    """Write to a table.

    ``mode``: ``two-phase``, exactly once: readers see the rows of a checkpoint when it is complete. ``upsert``,
    effectively once: rows are written under their ``key`` with their batch, before the checkpoint is complete, and a
    row that is written again is written over itself.

    ``dsn``: a connection string or URI of libpq. ``host``, ``port``, ``database``, ``user``, ``password`` and
    ``parameters`` (``sslmode``, ...) come before what it says. Executors connect with the same, directly or through a
    pooler that keeps a session for each client.
    ``table``: its name as in SQL, with or without the schema. It must be there.
    ``columns``: which column of the rows goes to which column of the table, and no others. By default all, by name.
    ``wait``: how long to wait for room for another prepared transaction, and for rows that others have locked.

    Two-phase: each partition of a batch with rows is one prepared transaction, from the batch until its checkpoint is
    complete: so ``max_prepared_transactions`` of the server must be at least ``parallelism`` times the batches between
    two checkpoints. They are committed one after the other, so readers may see a part of a checkpoint's rows for a
    moment.
    ``parallelism``: at most this many transactions a batch, for the price of a shuffle. By default one for each
    partition. A table ``headgate_commits`` is made in the same schema, with a row for each sink. Leave
    ``spark.speculation`` off.

    Upsert: the server needs no prepared transactions for it.
    ``key``: the columns of the table that tell rows apart. There must be a unique index on them. In a batch that is
    replayed a row must come with the same key again. A row without one is refused.
    ``parallelism``: at most this many sessions a batch, each with all rows of its keys, for the price of a shuffle. By
    default one for each partition; then of rows with the same key in several partitions of a batch any one may win. Of
    rows with the same key in one partition the last wins.
    """
    who = _who(table)
    if mode not in get_args(PostgresMode):
        raise InvalidOption(f"{who}: mode={mode!r} is unknown: choose {' or '.join(get_args(PostgresMode))}")
    from headgate.connect.postgres.client import server  # noqa: PLC0415 - only now is psycopg known to be there
    from headgate.connect.postgres.twophase import PostgresSink  # noqa: PLC0415 - as above
    from headgate.connect.postgres.upserting import UpsertSink  # noqa: PLC0415 - as above

    names = _key(mode, key, who)
    given = {"host": host, "port": port, "dbname": database, "user": user, "password": password, **(parameters or {})}
    where = server(dsn, given, who=who)
    mapping = _columns(columns, who)
    wait_ms = duration_ms(wait, name="wait", least=1)
    if mode == "upsert":
        return UpsertSink(where, table, names, mapping, _parallelism(parallelism), wait_ms)
    return PostgresSink(where, table, mapping, _parallelism(parallelism), wait_ms)


def _key(mode: PostgresMode, key: Sequence[str] | None, who: str) -> tuple[str, ...]:
    if mode != "upsert":
        if key is not None:
            raise InvalidOption(f"{who}: key={key!r} is for mode='upsert', not for mode={mode!r}: leave it out")
        return ()
    if isinstance(key, str) or not key or not all(key):
        raise InvalidOption(f"{who}: mode='upsert' needs key, the names of columns, like ['id']; got {key!r}")
    return tuple(dict.fromkeys(key))


def _who(table: object) -> str:
    """How messages call it, if it can be built at all."""
    if find_spec("psycopg") is None:
        raise InvalidOption("postgres.sink needs psycopg: pip install 'headgate[postgres]'")
    if not isinstance(table, str) or not table.strip():
        raise InvalidOption(f"postgres.sink: table takes the name of a table, like 'public.orders'; got {table!r}")
    return f"postgres.sink({table})"


def _columns(columns: Mapping[str, str] | None, who: str) -> Mapping[str, str] | None:
    if columns is None:
        return None
    if not columns or not hasattr(columns, "values"):
        raise InvalidOption(f"{who}: columns takes pairs like {{'of the rows': 'of the table'}}; got {columns!r}")
    if len(set(columns.values())) < len(columns):
        raise InvalidOption(f"{who}: columns names a column of the table twice: {', '.join(columns.values())}")
    return dict(columns)


def _parallelism(parallelism: int | None) -> int | None:
    return None if parallelism is None else count(parallelism, name="parallelism", example=4, least=1)
