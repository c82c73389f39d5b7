"""What is seen to before a sink is used.

One rule: all of it is asked in one session that gives up after a few seconds, and what cannot work is refused in one
line that says what to set.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from headgate.connect.plain import warn_if_plain
from headgate.connect.postgres.client import PostgresConnection, Server, translated
from headgate.connect.postgres.names import PostgresOwner
from headgate.connect.postgres.table import PostgresTable
from headgate.errors import InvalidOption

ANSWER_MS = 5_000
"""How long one question may take."""
OLDEST = 120_000
"""The oldest version of the server that has all that is used here: 12."""


@contextmanager
def opened(server: Server, owner: PostgresOwner, who: str) -> Iterator[PostgresConnection]:
    """A session for the questions."""
    with (
        translated(f"{who}: cannot be opened"),
        closing(server.connect(f"{owner.session}:open", statement_timeout=ANSWER_MS)) as connection,
    ):
        if not connection.pgconn.ssl_in_use:
            places = [connection.info.host]
            warn_if_plain(who, places, what="rows go", remedy="set up TLS at the server, and sslmode=verify-full")
        yield connection


def check_writable(connection: PostgresConnection, *, who: str) -> None:
    """See that the server is new enough, and takes changes."""
    version = connection.info.server_version
    if version < OLDEST:
        raise InvalidOption(f"{who}: PostgreSQL {version // 10_000} is too old: 12 is the oldest that works")
    row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    if row is not None and row[0]:
        raise InvalidOption(
            f"{who}: the server is a standby, which takes no changes: give the primary, or all hosts with "
            "target_session_attrs=read-write"
        )


def check_server(connection: PostgresConnection, *, parallelism: int | None, who: str) -> None:
    """See that the server prepares transactions, as many as a batch needs."""
    check_writable(connection, who=who)
    row = connection.execute("SELECT current_setting('max_prepared_transactions')::int").fetchone()
    allowed = 0 if row is None else int(row[0])
    if allowed == 0:
        raise InvalidOption(
            f"{who}: the server prepares no transactions: set max_prepared_transactions = 100 in postgresql.conf and "
            "restart PostgreSQL, or use mode='upsert'"
        )
    if parallelism is not None and allowed < parallelism:
        raise InvalidOption(
            f"{who}: max_prepared_transactions = {allowed} is less than parallelism={parallelism}, which one batch "
            f"needs: set it to {4 * parallelism} or more in postgresql.conf and restart PostgreSQL, or lower "
            "parallelism"
        )


def check_columns(table: PostgresTable, columns: Mapping[str, str] | None, *, who: str) -> None:
    """See that the columns that the user named are there."""
    for name in (columns or {}).values():
        table.column(name, who)
