"""The table that a sink writes to, as the server describes it.

One rule: what the server can tell beforehand is asked beforehand: kind, columns, types, rights. So a job that cannot
write says so in one line, before it has read a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from headgate.connect.postgres.client import PostgresConnection
from headgate.errors import InvalidOption

_PLAIN, _PARTITIONED = "r", "p"
_KINDS = {"v": "a view", "m": "a materialised view", "f": "a foreign table", "S": "a sequence", "i": "an index"}
_TABLE = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relpersistence::text, row_security_active(c.oid),
       has_any_column_privilege(c.oid, 'INSERT'), has_any_column_privilege(c.oid, 'UPDATE'),
       has_any_column_privilege(c.oid, 'SELECT'), current_user::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%s)
"""
_COLUMNS = """
WITH RECURSIVE base AS (
    SELECT a.attnum, a.attname, a.attnotnull, a.atthasdef OR a.attidentity <> '' AS filled,
           a.attgenerated <> '' AS made, a.atttypid AS type
    FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
    SELECT b.attnum, b.attname, b.attnotnull, b.filled, b.made, t.typbasetype
    FROM base b JOIN pg_type t ON t.oid = b.type AND t.typtype = 'd'
)
SELECT b.attname, b.attnotnull AND NOT b.filled, b.made, format_type(t.oid, NULL), t.typname, t.typtype = 'e',
       e.oid, e.typname, e.typtype = 'e', e.oid IS NOT NULL AND e.typtype NOT IN ('b', 'e')
FROM base b JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd'
LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
ORDER BY b.attnum
"""
_KEYS = """
SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a
  ON a.attrelid = i.indrelid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
  AND i.indexprs IS NULL
GROUP BY i.indexrelid
"""


@dataclass(frozen=True)
class ColumnType:
    """The type of a column. A domain counts as what it is made of."""

    name: str
    """As the server's catalog calls it: ``int4``, ``timestamptz``, ``_text``."""
    shown: str
    """As people write it."""
    is_enum: bool = False
    element: "ColumnType | None" = None
    """Of an array, the type of its elements."""
    element_oid: int = 0


@dataclass(frozen=True)
class PostgresColumn:
    """A column of a table."""

    name: str
    type: ColumnType
    needed: bool
    """Whether it takes no null, and has no default."""
    made: bool
    """Whether the server works its values out from others."""


@dataclass(frozen=True)
class PostgresTable:
    """A table, found by its name."""

    schema: str
    name: str
    columns: tuple[PostgresColumn, ...]
    keys: tuple[frozenset[str], ...]
    """Each unique index that any row takes part in: its columns."""

    @property
    def identifier(self) -> sql.Identifier:
        """The name for a query."""
        return sql.Identifier(self.schema, self.name)

    def describe(self) -> str:
        """The name for people."""
        return f"{self.schema}.{self.name}"

    def column(self, name: str, who: str) -> PostgresColumn:
        """The column of this name, if rows may have it."""
        for column in self.columns:
            if column.name == name:
                if column.made:
                    raise InvalidOption(
                        f"{who}: column {name} of table {self.describe()} is worked out by PostgreSQL: leave it out"
                    )
                return column
        known = ", ".join(column.name for column in self.columns)
        raise InvalidOption(
            f"{who}: table {self.describe()} has no column {name}: it has {known}; rename or drop the column, "
            "or say columns={'of the rows': 'of the table'}"
        )


def read_table(connection: PostgresConnection, name: str, *, who: str, rights: Sequence[str]) -> PostgresTable:
    """Look the table up, and see that it can be written to with these rights (``INSERT``, ``UPDATE``, ``SELECT``)."""
    row = connection.execute(_TABLE, [name]).fetchone()
    if row is None:
        raise InvalidOption(
            f"{who}: there is no table {name}: create it, or correct the name (capitals need quotes, as in SQL)"
        )
    oid, schema, plain, kind, persistence, secured, inserts, updates, selects, user = row
    known = f"{schema}.{plain}"
    if kind not in (_PLAIN, _PARTITIONED):
        raise InvalidOption(f"{who}: {known} is {_KINDS.get(kind, 'no table')}: give a table")
    if persistence != "p":
        raise InvalidOption(
            f"{who}: table {known} is unlogged or temporary, so it would lose rows that are committed: "
            f"ALTER TABLE {known} SET LOGGED, or give another"
        )
    if secured:
        raise InvalidOption(
            f"{who}: table {known} has row-level security for user {user}, and COPY does not work with that: "
            "give a user that bypasses it"
        )
    held = {"INSERT": inserts, "UPDATE": updates, "SELECT": selects}
    if missing := [right for right in rights if not held[right]]:
        raise InvalidOption(
            f"{who}: user {user} has no right to {' and '.join(missing)} on table {known}: "
            f"GRANT {', '.join(missing)} ON {known} TO {user}"
        )
    columns = tuple(_column(*each) for each in connection.execute(_COLUMNS, [oid]))
    keys = tuple(frozenset(each) for (each,) in connection.execute(_KEYS, [oid]))
    return PostgresTable(schema, plain, columns, keys)


def _column(
    name: str,
    needed: bool,  # noqa: FBT001 - a row of the catalog
    made: bool,  # noqa: FBT001 - as above
    shown: str,
    catalog: str,
    enum: bool,  # noqa: FBT001 - as above
    *of_element: Any,
) -> PostgresColumn:
    element_oid, element, element_enum, complex_element = of_element
    of = None
    if element_oid is not None:
        # Elements of domains and the like have no binary form here: no known name.
        of = ColumnType("" if complex_element else element, element, element_enum)
    return PostgresColumn(name, ColumnType(catalog, shown, enum, of, element_oid or 0), needed, made)
