"""Prepared transactions and the sessions that make them, on the server.

One rule: only what parses as this owner's own name is ever touched.
"""

from collections.abc import Callable
from datetime import datetime

from psycopg import errors, sql

from headgate.connect.postgres.client import PostgresConnection
from headgate.connect.postgres.names import PREFIX, Part, PostgresOwner
from headgate.errors import ExternalError
from headgate.retry import Retry, RetryPolicy
from headgate.sink.api import WriteId

_ROOM_POLICY = RetryPolicy(first_s=0.1, longest_s=0.1)
"""Those who wait for room do not know who frees it: they look at a steady pace."""
_END = RetryPolicy(first_s=0.01, longest_s=0.1, seconds=10.0)
_FINISH = RetryPolicy(first_s=0.01, longest_s=0.1)
_SLOTS = 0x68656164
"""The first half of the names of the advisory locks that stand for room."""
_PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
_ROOM = f"""
SELECT slot FROM generate_series(1, current_setting('max_prepared_transactions')::int - (
    SELECT count(*)::int FROM pg_prepared_xacts
    WHERE database <> current_database() OR NOT starts_with(gid, '{PREFIX}:'))) AS slot
WHERE pg_try_advisory_xact_lock({_SLOTS}, slot) LIMIT 1
"""  # noqa: S608 - constants
_SESSIONS = """
SELECT application_name{} FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND {} AND pid <> pg_backend_pid()
"""


def found(connection: PostgresConnection, owner: PostgresOwner) -> list[Part]:
    """All prepared transactions of this owner."""
    rows = connection.execute(f"{_PREPARED} AND starts_with(gid, %s)", [f"{owner.label}:"]).fetchall()
    return [part for (gid,) in rows if (part := owner.part(gid)) is not None]


def other_incarnations(connection: PostgresConnection, owner: PostgresOwner) -> list[tuple[str, datetime]]:
    """The prepared transactions that other incarnations of this sink left, the oldest first, with their times."""
    query = (
        "SELECT gid, prepared FROM pg_prepared_xacts WHERE database = current_database() "
        "AND starts_with(gid, %s) AND NOT starts_with(gid, %s) ORDER BY prepared"
    )
    return connection.execute(query, [owner.any_incarnation, f"{owner.label}:"]).fetchall()


def free(connection: PostgresConnection) -> int:
    """How many more transactions the server has room to prepare."""
    row = connection.execute(
        "SELECT current_setting('max_prepared_transactions')::int - count(*)::int FROM pg_prepared_xacts"
    ).fetchone()
    return 0 if row is None else int(row[0])


class NoRoom(ExternalError):
    """The server has no room for another prepared transaction."""


def take_room(connection: PostgresConnection, wait_seconds: float) -> None:
    """Wait until there is room for one more prepared transaction, and keep it for this session's transaction.

    The server forgets rows that it has no room to prepare, so room is taken before the rows come. It is an advisory
    lock of the transaction, one of as many as the server may prepare; a prepared transaction keeps it until its end.
    """
    retry = Retry(_ROOM_POLICY.within(wait_seconds))
    while connection.execute(_ROOM).fetchone() is None:
        if not retry.again():
            raise NoRoom(
                f"PostgreSQL had no room for another prepared transaction for {wait_seconds:g} s: raise "
                "max_prepared_transactions, write in fewer partitions, or take checkpoints more often"
            )


def commit_prepared(connection: PostgresConnection, gid: str, wait_seconds: float) -> bool:
    """Commit one. Whether it was there."""
    return _finish(connection, "COMMIT PREPARED {}", gid, wait_seconds)


def roll_back_prepared(connection: PostgresConnection, gid: str, wait_seconds: float) -> bool:
    """Roll back one. Whether it was there."""
    return _finish(connection, "ROLLBACK PREPARED {}", gid, wait_seconds)


def end_sessions(connection: PostgresConnection, owner: PostgresOwner, covered: Callable[[WriteId], bool]) -> None:
    """End the sessions that still write for an attempt that is covered, so that they prepare nothing any more."""
    named = _SESSIONS.format("", "starts_with(application_name, %s)")
    ended = _SESSIONS.format(", pg_terminate_backend(pid)", "application_name = ANY(%s)")

    def left() -> list[str]:
        names = {name for (name,) in connection.execute(named, [f"{owner.session}:"])}
        return [name for name in names if (write_id := owner.write_id_of(name)) is not None and covered(write_id)]

    retry = Retry(_END)
    while names := left():
        connection.execute(ended, [names])
        if not retry.again():
            raise ExternalError(f"PostgreSQL does not end sessions that write for nobody ({', '.join(names)})")


def _finish(connection: PostgresConnection, order: str, gid: str, wait_seconds: float) -> bool:
    def ended_by_another(error: Exception) -> bool:
        return isinstance(error, errors.ObjectNotInPrerequisiteState)

    statement = sql.SQL(order).format(sql.Literal(gid))
    try:
        _FINISH.within(wait_seconds).call(lambda: connection.execute(statement), ended_by_another)
    except errors.UndefinedObject:
        return False
    return True
