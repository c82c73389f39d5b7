"""The table that tells a transaction that was committed from one that was lost.

One rule: each prepared transaction inserts its own identifier into this table. So when it is not among the prepared
ones any more, the identifier is there if and only if its rows are.

An identifier is removed when all transactions of its checkpoint are committed. In the same transaction the checkpoint's
number is noted, one row for each sink and life, and it only grows: a commit that is repeated later finds that number,
or a higher one. That is enough, because commits come in the order of checkpoints, and because a transaction that is
still prepared is committed whatever the number says. So the table has one row for each sink, and those of commits that
are under way.
"""

from collections.abc import Collection, Sequence

from psycopg import errors, sql

from headgate.connect.postgres.client import Connection
from headgate.connect.postgres.names import Owner
from headgate.core.ids import CheckpointId
from headgate.errors import InvalidOption

NAME = "headgate_commits"
_COLUMNS = "owner text NOT NULL, gid text NOT NULL, checkpoint bigint, PRIMARY KEY (owner, gid)"
_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_CREATION_LOCK = 0x6865616467617465
"""Two sinks that create the table at once take turns."""


def markers(schema: str) -> sql.Identifier:
    """The table of markers in the schema of the table that is written to."""
    return sql.Identifier(schema, NAME)


def ensure(connection: Connection, schema: str, *, who: str) -> None:
    """See that the table is there and can be written, and create it if it is not there."""
    name = f"{schema}.{NAME}"
    if not _rights(connection, markers(schema)):
        try:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_CREATION_LOCK])
                connection.execute(
                    sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(markers(schema), sql.SQL(_COLUMNS))
                )
        except errors.InsufficientPrivilege:
            raise InvalidOption(
                f"{who}: the user may not create {name}, in which Headgate notes what is committed: GRANT CREATE ON "
                f"SCHEMA {schema}, or have it made: CREATE TABLE {name} ({_COLUMNS})"
            ) from None
    held = _rights(connection, markers(schema)) or {}
    if missing := [right for right in _RIGHTS if not held.get(right)]:
        raise InvalidOption(
            f"{who}: the user may not {' or '.join(missing)} in {name}, in which Headgate notes what is committed: "
            f"GRANT {', '.join(_RIGHTS)} ON {name}"
        )
    try:
        connection.execute(sql.SQL("SELECT owner, gid, checkpoint FROM {} LIMIT 0").format(markers(schema)))
    except errors.UndefinedColumn:
        raise InvalidOption(
            f"{who}: {name} is not the table that Headgate makes: move it out of the way, or give a table in another "
            "schema"
        ) from None


def mark(connection: Connection, schema: str, owner: Owner, gid: str) -> None:
    """Note a transaction, inside of it."""
    connection.execute(
        sql.SQL("INSERT INTO {} (owner, gid) VALUES (%s, %s)").format(markers(schema)), [owner.name, gid]
    )


def committed(
    connection: Connection, schema: str, owner: Owner, checkpoint: CheckpointId, gids: Collection[str]
) -> set[str]:
    """Which of these transactions of a checkpoint are committed. They must be known not to be prepared any more."""
    if not gids:
        return set()
    # One query, so that what another process moves from the one to the other is seen once.
    query = sql.SQL("SELECT gid, checkpoint FROM {} WHERE owner = %s AND (gid = '' OR gid = ANY(%s))")
    found = connection.execute(query.format(markers(schema)), [owner.name, list(gids)]).fetchall()
    if any(gid == "" and through >= checkpoint for gid, through in found):
        return set(gids)
    return {gid for gid, _ in found if gid}


def settle(connection: Connection, schema: str, owner: Owner, checkpoint: CheckpointId, gids: Sequence[str]) -> None:
    """Note that all transactions of a checkpoint are committed, and forget them one by one."""
    with connection.transaction():
        connection.execute(
            sql.SQL(
                "INSERT INTO {0} AS known (owner, gid, checkpoint) VALUES (%s, '', %s) ON CONFLICT (owner, gid) "
                "DO UPDATE SET checkpoint = greatest(known.checkpoint, EXCLUDED.checkpoint)"
            ).format(markers(schema)),
            [owner.name, checkpoint],
        )
        connection.execute(
            sql.SQL("DELETE FROM {} WHERE owner = %s AND gid = ANY(%s)").format(markers(schema)),
            [owner.name, list(gids)],
        )


def _rights(connection: Connection, name: sql.Identifier) -> dict[str, bool] | None:
    """Which rights there are. None if there is no table."""
    asked = ", ".join(f"has_table_privilege(c, '{right}')" for right in _RIGHTS)
    query = sql.SQL("SELECT {} FROM to_regclass(%s) AS c WHERE c IS NOT NULL").format(sql.SQL(asked))
    row = connection.execute(query, [name.as_string(connection)]).fetchone()
    return None if row is None else dict(zip(_RIGHTS, row, strict=True))
