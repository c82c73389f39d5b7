"""What the sinks need to know of tables, and what they need to exist.

One rule: what cannot work is found before the first row, and said in one line.
"""

# ruff: noqa: S608 - values go as parameters; names are our own, or quoted

from collections.abc import Sequence
from dataclasses import dataclass

import pymysql
from pyspark.sql import DataFrame

from headgate.connect.mariadb.address import Address
from headgate.connect.mariadb.rows import SPARK_TYPES
from headgate.connect.mariadb.session import Session, quoted
from headgate.errors import InvalidOption

APPLIED = "headgate_applied"
_APPLIED = (
    f"CREATE TABLE IF NOT EXISTS {APPLIED} (owner varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL "
    "PRIMARY KEY, generation bigint NOT NULL, checkpoint bigint NOT NULL) ENGINE=InnoDB"
)
COMMITS = "headgate_commits"
_COMMITS = (
    f"CREATE TABLE IF NOT EXISTS {COMMITS} (owner varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, "
    "part varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, PRIMARY KEY (owner, part)) ENGINE=InnoDB"
)
NOTES = {APPLIED: _APPLIED, COMMITS: _COMMITS}


@dataclass(frozen=True)
class MariaDBColumn:
    """A column that rows may have a value for."""

    name: str
    needed: bool
    """Whether a row without it is refused."""


@dataclass(frozen=True)
class MariaDBTable:
    """The table that a sink writes to."""

    name: str
    columns: tuple[MariaDBColumn, ...]
    unique: tuple[frozenset[str], ...]
    """The columns of each primary key and unique index, in lower case."""

    def check_key(self, who: str, key: Sequence[str]) -> None:
        """See that rows with equal values in these columns cannot both be there."""
        if frozenset(name.casefold() for name in key) not in self.unique:
            raise InvalidOption(
                f"{who}: table {self.name} has no primary key or unique index on ({', '.join(key)}): create one, "
                "or give the columns of the one it has"
            )

    def check_rows(self, who: str, rows: DataFrame, key: Sequence[str]) -> None:
        """See that rows of this shape fit."""
        known = {column.name.casefold() for column in self.columns}
        given = {field.name.casefold(): field for field in rows.schema.fields}
        for name, field in given.items():
            if name not in known:
                raise InvalidOption(
                    f"{who}: table {self.name} has no column {field.name} that can be written: it has "
                    f"{', '.join(column.name for column in self.columns)}"
                )
            if not isinstance(field.dataType, SPARK_TYPES):
                raise InvalidOption(
                    f"{who}: column {field.name} is {field.dataType.simpleString()}, for which MariaDB has no type: "
                    "write it with to_json, or as its parts"
                )
        if len(given) != len(rows.schema.fields):
            raise InvalidOption(f"{who}: two columns of the rows have the same name: rename one")
        for name in key:
            if name.casefold() not in given:
                raise InvalidOption(f"{who}: the rows have no column {name}, which is in the key: add it")
        for column in self.columns:
            if column.needed and column.name.casefold() not in given:
                raise InvalidOption(
                    f"{who}: column {column.name} of table {self.name} has no default and the rows lack it: "
                    "add it to the rows, or give it a default"
                )


def find(session: Session, who: str, address: Address, name: str) -> MariaDBTable:
    """Look at the table. Anything but a table of InnoDB is refused."""
    found = session.ask(
        "SELECT ENGINE, TABLE_TYPE, TABLE_NAME FROM information_schema.TABLES "
        "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
        (name,),
    )
    if not found:
        raise InvalidOption(f"{who}: {address} has no table {name} that the user may see: create it, or grant it")
    engine, kind, _ = found[0]
    if kind != "BASE TABLE":
        raise InvalidOption(f"{who}: {name} is a {str(kind).lower()}: give a table")
    if str(engine).casefold() != "innodb":
        raise InvalidOption(
            f"{who}: table {name} is of the engine {engine}, without transactions like InnoDB's: "
            f"ALTER TABLE {name} ENGINE=InnoDB"
        )
    columns = session.ask(
        "SELECT COLUMN_NAME, IS_NULLABLE, COLUMN_DEFAULT IS NOT NULL, EXTRA FROM information_schema.COLUMNS "
        "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        (name,),
    )
    indexes: dict[str, set[str]] = {}
    for index, column in session.ask(
        "SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS "
        "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND NON_UNIQUE = 0 AND COLUMN_NAME IS NOT NULL",
        (name,),
    ):
        indexes.setdefault(index, set()).add(str(column).casefold())
    return MariaDBTable(
        name,
        tuple(
            MariaDBColumn(str(column), nullable == "NO" and not default and "auto_increment" not in str(extra).lower())
            for column, nullable, default, extra in columns
            if not str(extra).upper().startswith(("VIRTUAL", "STORED", "PERSISTENT"))
        ),
        tuple(frozenset(names) for names in indexes.values()),
    )


def check_rights(session: Session, table: MariaDBTable, *, replace: bool) -> None:
    """See that the user may write, by writing no row."""
    names = [quoted(column.name) for column in table.columns]
    update = f" ON DUPLICATE KEY UPDATE {names[0]} = VALUES({names[0]})" if replace else ""
    nothing = f"SELECT {', '.join('NULL' for _ in names)} FROM DUAL WHERE 1 = 0"
    session.ask(f"INSERT INTO {quoted(table.name)} ({', '.join(names)}) {nothing}{update}")


def check_durable(session: Session, who: str) -> None:
    """See that what the server has committed is on its disk."""
    name = "innodb_flush_log_at_trx_commit"
    if int(value := session.ask(f"SELECT @@{name}")[0][0]) not in (1, 3):
        raise InvalidOption(
            f"{who}: the server may forget what it has committed ({name} is {value}): SET GLOBAL {name} = 1"
        )


def make_notes(session: Session, who: str, name: str) -> None:
    """See that one of Headgate's own tables is there and can be written, and make it if it is not."""
    there = session.ask(
        "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s", (name,)
    )
    if not there:
        try:
            session.ask(NOTES[name])
        except pymysql.OperationalError as error:
            if error.args[0] not in (1044, 1142):
                raise
            raise InvalidOption(f"{who}: the user may not create {name}: grant it, or run: {NOTES[name]}") from error
    session.ask(f"INSERT INTO {name} SELECT * FROM {name} WHERE 1 = 0")
    session.ask(f"UPDATE {name} SET owner = owner WHERE 1 = 0")
    session.ask(f"DELETE FROM {name} WHERE 1 = 0")
