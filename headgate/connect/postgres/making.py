"""The small tables that Headgate makes next to those it writes to.

One rule: a table is made once, by whoever comes first; if the user may not make it, the statement that does is in the
error.
"""

from dataclasses import dataclass

from psycopg import errors, sql

from headgate.connect.postgres.client import PostgresConnection
from headgate.errors import InvalidOption

_CREATION_LOCK = 0x6865616467617465
"""Two sinks that create a table at once take turns."""


@dataclass(frozen=True)
class OwnTable:
    """A table of Headgate's own, in the schema of the one that is written to."""

    name: str
    columns: str
    """As in CREATE TABLE."""
    read: str
    """The columns that are read, as in SELECT."""
    rights: tuple[str, ...]
    purpose: str
    """``in which Headgate ...``."""

    def identifier(self, schema: str) -> sql.Identifier:
        """Its name in SQL."""
        return sql.Identifier(schema, self.name)

    def ensure(self, connection: PostgresConnection, schema: str, *, who: str) -> None:
        """See that the table is there and can be written, and create it if it is not there."""
        name = f"{schema}.{self.name}"
        if not self._held(connection, schema):
            try:
                # Both at once, which the server runs as one transaction: a process that is frozen holds no lock.
                connection.execute(
                    sql.SQL("SELECT pg_advisory_xact_lock({}); CREATE TABLE IF NOT EXISTS {} ({})").format(
                        _CREATION_LOCK, self.identifier(schema), sql.SQL(self.columns)
                    )
                )
            except errors.InsufficientPrivilege:
                raise InvalidOption(
                    f"{who}: the user may not create {name}, {self.purpose}: GRANT CREATE ON "
                    f"SCHEMA {schema}, or have it made: CREATE TABLE {name} ({self.columns})"
                ) from None
        held = self._held(connection, schema) or {}
        if missing := [right for right in self.rights if not held.get(right)]:
            raise InvalidOption(
                f"{who}: the user may not {' or '.join(missing)} in {name}, {self.purpose}: "
                f"GRANT {', '.join(self.rights)} ON {name}"
            )
        try:
            query = sql.SQL("SELECT {} FROM {} LIMIT 0")
            connection.execute(query.format(sql.SQL(self.read), self.identifier(schema)))
        except errors.UndefinedColumn:
            raise InvalidOption(
                f"{who}: {name} is not the table that Headgate makes: move it out of the way, or give a table in "
                "another schema"
            ) from None

    def _held(self, connection: PostgresConnection, schema: str) -> dict[str, bool] | None:
        """Which rights there are. None if there is no table."""
        asked = ", ".join(f"has_table_privilege(c, '{right}')" for right in self.rights)
        query = sql.SQL("SELECT {} FROM to_regclass(%s) AS c WHERE c IS NOT NULL").format(sql.SQL(asked))
        row = connection.execute(query, [self.identifier(schema).as_string(connection)]).fetchone()
        return None if row is None else dict(zip(self.rights, row, strict=True))
