"""The table that tells a transaction that was committed from one that was lost.

One rule: each prepared transaction inserts its own identifier into this table. So when it is not among the prepared
ones any more, the identifier is there if and only if its rows are.

An identifier is removed when all transactions of its checkpoint are committed. In the same transaction the checkpoint's
number is noted, one row for each sink and incarnation, and it only grows: a commit that is repeated later finds that
number, or a higher one. That is enough, because commits come in the order of checkpoints, and because a transaction
that is still prepared is committed whatever the number says. So the table has one row for each sink, and those of
commits that are under way.
"""

from collections.abc import Collection, Sequence

from psycopg import sql

from headgate.connect.postgres.client import PostgresConnection
from headgate.connect.postgres.making import OwnTable
from headgate.connect.postgres.names import PostgresOwner
from headgate.core.ids import CheckpointId

TABLE = OwnTable(
    name="headgate_commits",
    columns="owner text NOT NULL, gid text NOT NULL, checkpoint bigint, PRIMARY KEY (owner, gid)",
    read="owner, gid, checkpoint",
    rights=("SELECT", "INSERT", "UPDATE", "DELETE"),
    purpose="in which Headgate notes what is committed",
)
NAME = TABLE.name


def markers(schema: str) -> sql.Identifier:
    """The table of markers in the schema of the table that is written to."""
    return TABLE.identifier(schema)


def ensure(connection: PostgresConnection, schema: str, *, who: str) -> None:
    """See that the table is there and can be written, and create it if it is not there."""
    TABLE.ensure(connection, schema, who=who)


def mark(connection: PostgresConnection, schema: str, owner: PostgresOwner, gid: str) -> None:
    """Note a transaction, inside of it."""
    connection.execute(
        sql.SQL("INSERT INTO {} (owner, gid) VALUES (%s, %s)").format(markers(schema)), [owner.label, gid]
    )


def committed(
    connection: PostgresConnection, schema: str, owner: PostgresOwner, checkpoint: CheckpointId, gids: Collection[str]
) -> set[str]:
    """Which of these transactions of a checkpoint are committed. They must be known not to be prepared any more."""
    if not gids:
        return set()
    # One query, so that what another process moves from the one to the other is seen once.
    query = sql.SQL("SELECT gid, checkpoint FROM {} WHERE owner = %s AND (gid = '' OR gid = ANY(%s))")
    found = connection.execute(query.format(markers(schema)), [owner.label, list(gids)]).fetchall()
    if any(gid == "" and through >= checkpoint for gid, through in found):
        return set(gids)
    return {gid for gid, _ in found if gid}


def settle(
    connection: PostgresConnection, schema: str, owner: PostgresOwner, checkpoint: CheckpointId, gids: Sequence[str]
) -> None:
    """Note that all transactions of a checkpoint are committed, and forget them one by one.

    One statement outside of any transaction: a process that is frozen holds no lock.
    """
    connection.execute(
        sql.SQL(
            "WITH forgotten AS (DELETE FROM {0} WHERE owner = %s AND gid = ANY(%s)) "
            "INSERT INTO {0} AS known (owner, gid, checkpoint) VALUES (%s, '', %s) ON CONFLICT (owner, gid) "
            "DO UPDATE SET checkpoint = greatest(known.checkpoint, EXCLUDED.checkpoint)"
        ).format(markers(schema)),
        [owner.label, list(gids), owner.label, checkpoint],
    )
