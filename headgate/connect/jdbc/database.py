"""What is asked of a database, in the SQL that all of them have.

One rule: the note of what was applied is changed first in the transaction that applies, so that of two who do the same
one waits for the other, and then finds it done.
"""

# ruff: noqa: S608 - values go as parameters; names are our own, quoted, or the user's own words

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError

from headgate.connect.jdbc.jvm import Access, connect, state
from headgate.connect.jdbc.names import JdbcOwner
from headgate.errors import BadStorage, InvalidOption
from headgate.sink.api import WriteId

NOTES = "headgate_jdbc"
_NOTES = (
    f"CREATE TABLE {NOTES} (owner CHAR(64) NOT NULL PRIMARY KEY, hg_generation NUMERIC(19) NOT NULL, "
    "hg_checkpoint NUMERIC(19) NOT NULL)"
)
READ_COMMITTED = 2
IDLE_SECONDS = 30
"""How long a transaction may wait for its client before the server ends it. A process that is frozen in the middle of
one would hold its locks, and so hold up whoever has taken its place."""
_END_IDLE = {
    "PostgreSQL": "SET SESSION idle_in_transaction_session_timeout = '{}s'",
    "MariaDB": "SET SESSION idle_transaction_timeout = {}",
}
"""How databases are told so, by their product names. Others have no such setting, or one for administrators only."""
ENGINES = ("MySQL", "MariaDB")
"""Databases where a table may be without transactions."""


class Database:
    """A connection. Each statement is a transaction of its own, unless ``transaction`` is open."""

    def __init__(self, connection: Any) -> None:
        """Take over a ``java.sql.Connection``."""
        self._connection = connection
        self._facts = connection.getMetaData()

    def ask(self, sql: str, *values: object) -> list[tuple[str | None, ...]]:
        """The rows of a query, as texts."""
        statement = self._prepared(sql, values)
        try:
            rows = statement.executeQuery()
            columns = range(1, rows.getMetaData().getColumnCount() + 1)
            found = []
            while rows.next():
                found.append(tuple(rows.getString(column) for column in columns))
            return found
        finally:
            statement.close()

    def change(self, sql: str, *values: object) -> int:
        """Run a statement that changes something; how many rows it changed."""
        statement = self._prepared(sql, values)
        try:
            return int(statement.executeUpdate())
        finally:
            statement.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. ``rollback`` may end it early, and so may the server where the client falls silent."""
        if ends_idle := _END_IDLE.get(str(self._facts.getDatabaseProductName())):
            self.change(ends_idle.format(IDLE_SECONDS))
        self._connection.setTransactionIsolation(READ_COMMITTED)
        self._connection.setAutoCommit(False)
        try:
            yield
            self._connection.commit()
        except BaseException:
            self.rollback()
            raise
        finally:
            self._connection.setAutoCommit(True)

    def rollback(self) -> None:
        """Undo what the transaction did so far. The connection may be gone, and then that is done already."""
        if not self._connection.isClosed():
            self._connection.rollback()

    def columns(self, table: str) -> dict[str, str]:
        """The columns of a table as SQL has them, by their names in lower case."""
        statement = self._prepared(f"SELECT * FROM {table} WHERE 1 = 0", ())
        try:
            facts = statement.executeQuery().getMetaData()
            names = [str(facts.getColumnName(index)) for index in range(1, facts.getColumnCount() + 1)]
            return {name.casefold(): self.quoted(name) for name in names}
        finally:
            statement.close()

    def stages(self, owner: JdbcOwner) -> dict[WriteId, str]:
        """The owner's tables that are there, by whose they are."""
        return {write_id: name for name, write_id in owner.own(self._tables(f"{owner.label}_%")).items()}

    def make_stage(self, stage: str, table: str, columns: Mapping[str, str], row: str) -> bool:
        """Make a table with these columns of another, and one for the number of a row.

        False if the database does not know how. It is not a part of SQL that all have.
        """
        names = ", ".join(f"{theirs} AS {self.quoted(ours)}" for ours, theirs in columns.items())
        number = f"CAST(0 AS DECIMAL(19)) AS {self.quoted(row)}"
        try:
            self.change(f"CREATE TABLE {stage} AS SELECT {names}, {number} FROM {table} WHERE 1 = 0")
        except Py4JJavaError as error:
            if state(error).startswith("42"):
                return False
            raise
        return True

    def drop(self, owner: JdbcOwner, write_id: WriteId) -> None:
        """Remove an attempt's table, if it is there. Another process may be doing the same."""
        name = self.stages(owner).get(write_id)
        if name is None:
            return
        try:
            self.change(f"DROP TABLE {owner.stage(write_id)}")
        except Py4JJavaError:
            if write_id in self.stages(owner):
                raise

    def check_transactions(self, who: str, table: str) -> None:
        """See that the database can undo what it was told, in this table."""
        name = str(self._facts.getDatabaseProductName())
        if not self._facts.supportsTransactions():
            raise InvalidOption(f"{who}: {name} has no transactions: nothing can be written exactly once there")
        if name in ENGINES:
            schema, _, short = table.replace("`", "").rpartition(".")
            sql = "SELECT engine FROM information_schema.tables WHERE table_schema = COALESCE(?, DATABASE())"
            for each, where in ((short, schema or None), (NOTES, None)):
                engine = self.ask(f"{sql} AND table_name = ?", where, each)
                if engine and str(engine[0][0]).lower() != "innodb":
                    raise InvalidOption(
                        f"{who}: table {each} is of the engine {engine[0][0]}, without transactions like InnoDB's: "
                        f"ALTER TABLE {each} ENGINE=InnoDB"
                    )

    def make_notes(self, who: str) -> None:
        """Make the table of notes unless it is there."""
        if self._tables(NOTES):
            return
        try:
            self.change(_NOTES)
        except Py4JJavaError as error:
            if self._tables(NOTES):
                return  # another process was faster
            if state(error).startswith("42"):
                raise InvalidOption(f"{who}: the user may not create {NOTES}: grant it, or run: {_NOTES}") from error
            raise

    def make_note(self, owner: JdbcOwner) -> None:
        """Make the owner's note unless it is there."""
        try:
            if not self.ask(f"SELECT owner FROM {NOTES} WHERE owner = ?", owner.digest):
                self.change(f"INSERT INTO {NOTES} VALUES (?, -1, -1)", owner.digest)
        except Py4JJavaError:
            if not self.ask(f"SELECT owner FROM {NOTES} WHERE owner = ?", owner.digest):
                raise

    def note(self, owner: JdbcOwner, generation: int, checkpoint: int) -> bool:
        """Note that a commit is applied; False if it was. Whoever wants the same waits until the transaction ends."""
        changed = self.change(
            f"UPDATE {NOTES} SET hg_generation = ?, hg_checkpoint = ? WHERE owner = ? "
            "AND (hg_generation < ? OR (hg_generation = ? AND hg_checkpoint < ?))",
            *(generation, checkpoint, owner.digest, generation, generation, checkpoint),
        )
        if not changed and not self.ask(f"SELECT owner FROM {NOTES} WHERE owner = ?", owner.digest):
            raise BadStorage(f"sink {owner.sink}: somebody removed its row from {NOTES}: restore it from a copy")
        return bool(changed)

    def quoted(self, name: str) -> str:
        """A name as SQL has it, letter by letter."""
        quote = str(self._facts.getIdentifierQuoteString()).strip()
        return f"{quote}{name.replace(quote, quote * 2)}{quote}" if quote else name

    def _tables(self, pattern: str) -> list[str]:
        if self._facts.storesUpperCaseIdentifiers():
            pattern = pattern.upper()
        found = self._facts.getTables(self._connection.getCatalog(), self._connection.getSchema(), pattern, None)
        try:
            names = []
            while found.next():
                names.append(str(found.getString("TABLE_NAME")))
            return names
        finally:
            found.close()

    def _prepared(self, sql: str, values: tuple[object, ...]) -> Any:
        statement = self._connection.prepareStatement(sql)
        for index, value in enumerate(values, start=1):
            if isinstance(value, int):
                statement.setLong(index, value)
            else:
                statement.setString(index, value)
        return statement


@contextmanager
def connected(who: str, access: Access) -> Iterator[Database]:
    """A connection that is closed at the end, in order or not."""
    connection = connect(who, access)
    try:
        yield Database(connection)
    finally:
        connection.close()
