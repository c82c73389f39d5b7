"""PostgreSQL, as a way out.

One rule: the server itself keeps what is not committed yet, in prepared transactions; any process that knows their
names can commit them.

psycopg 3 is needed: ``pip install 'headgate[postgres]'``. It is not loaded before a sink is built.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from headgate.errors import InvalidOption
from headgate.sink.api import TwoPhaseSink
from headgate.values import Duration, count, duration_ms

__all__ = ["sink", "upsert"]

Parameter = str | int


def sink(
    dsn: str = "",
    *,
    table: str,
    columns: Mapping[str, str] | None = None,
    lanes: int | None = None,
    wait: Duration = "60s",
    host: str | None = None,
    port: int | None = None,
    database: str | None = None,
    user: str | None = None,
    password: str | None = None,
    parameters: Mapping[str, Parameter] | None = None,
) -> TwoPhaseSink:
    """Write to a table, exactly once. Readers see the rows of a checkpoint when it is complete.

    Each partition of a batch with rows is one prepared transaction, from the batch until its checkpoint is complete:
    so ``max_prepared_transactions`` of the server must be at least ``lanes`` times the batches between two checkpoints.
    They are committed one after the other, so readers may see a part of a checkpoint's rows for a moment.

    ``dsn``: a connection string or URI of libpq. ``host``, ``port``, ``database``, ``user``, ``password`` and
    ``parameters`` (``sslmode``, ...) come before what it says. Executors connect with the same, directly or through a
    pooler that keeps a session for each client.
    ``table``: its name as in SQL, with or without the schema. It must be there.
    ``columns``: which column of the rows goes to which column of the table, and no others. By default all, by name.
    ``lanes``: at most so many transactions a batch, for the price of a shuffle. By default one for each partition.
    ``wait``: how long to wait for room for another prepared transaction, and for rows that others have locked.

    A table ``headgate_commits`` is made in the same schema, with a row for each sink. Leave ``spark.speculation`` off.
    """
    who = _who("postgres.sink", table)
    from headgate.connect.postgres.client import server  # noqa: PLC0415 - only now is psycopg known to be there
    from headgate.connect.postgres.twophase import PostgresSink  # noqa: PLC0415 - as above

    given = {"host": host, "port": port, "dbname": database, "user": user, "password": password, **(parameters or {})}
    where = server(dsn, given, who=who)
    return PostgresSink(where, table, _columns(columns, who), _lanes(lanes), duration_ms(wait, name="wait", least=1))


def upsert(
    dsn: str = "",
    *,
    table: str,
    key: Sequence[str],
    columns: Mapping[str, str] | None = None,
    lanes: int | None = None,
    wait: Duration = "60s",
    host: str | None = None,
    port: int | None = None,
    database: str | None = None,
    user: str | None = None,
    password: str | None = None,
    parameters: Mapping[str, Parameter] | None = None,
) -> TwoPhaseSink:
    """Write to a table under keys, effectively once: a row that is written again is written over itself.

    Readers see the rows of a batch as soon as it is written, before its checkpoint is complete. The server needs no
    prepared transactions for it.

    ``key``: the columns of the table that tell rows apart. There must be a unique index on them. In a batch that is
    replayed a row must come with the same key again. A row without one is refused.
    ``lanes``: at most so many sessions a batch, each with all rows of its keys, for the price of a shuffle. By default
    one for each partition; then of rows with the same key in several partitions of a batch any one may win. Of rows
    with the same key in one partition the last wins.
    The rest is as in ``sink``.
    """
    who = _who("postgres.upsert", table)
    from headgate.connect.postgres.client import server  # noqa: PLC0415 - only now is psycopg known to be there
    from headgate.connect.postgres.upserting import UpsertSink  # noqa: PLC0415 - as above

    if isinstance(key, str) or not key or not all(key):
        raise InvalidOption(f"{who}: key takes names of columns, like ['id']; got {key!r}")
    given = {"host": host, "port": port, "dbname": database, "user": user, "password": password, **(parameters or {})}
    where = server(dsn, given, who=who)
    mapping = _columns(columns, who)
    wait_ms = duration_ms(wait, name="wait", least=1)
    return UpsertSink(where, table, tuple(dict.fromkeys(key)), mapping, _lanes(lanes), wait_ms)


def _who(function: str, table: object) -> str:
    """How messages call it, if it can be built at all."""
    if find_spec("psycopg") is None:
        raise InvalidOption(f"{function} needs psycopg: pip install 'headgate[postgres]'")
    if not isinstance(table, str) or not table.strip():
        raise InvalidOption(f"{function}: table takes the name of a table, like 'public.orders'; got {table!r}")
    return f"{function}({table})"


def _columns(columns: Mapping[str, str] | None, who: str) -> Mapping[str, str] | None:
    if columns is None:
        return None
    if not columns or not hasattr(columns, "values"):
        raise InvalidOption(f"{who}: columns takes pairs like {{'of the rows': 'of the table'}}; got {columns!r}")
    if len(set(columns.values())) < len(columns):
        raise InvalidOption(f"{who}: columns names a column of the table twice: {', '.join(columns.values())}")
    return dict(columns)


def _lanes(lanes: int | None) -> int | None:
    return None if lanes is None else count(lanes, name="lanes", example=4, least=1)
