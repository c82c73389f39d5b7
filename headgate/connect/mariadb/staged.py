"""The write-ahead way into MariaDB.

One rule: the rows of a partition and the note that they were applied are written in one transaction, and that begins
with a lock on the note.
"""

# ruff: noqa: S608 - values go as parameters; names are our own, or quoted

from pyspark.sql import DataFrame

from headgate.connect.mariadb import applied
from headgate.connect.mariadb.address import Address
from headgate.connect.mariadb.loading import load
from headgate.connect.mariadb.problems import is_worth_another_try, speaking
from headgate.connect.mariadb.session import OPEN_SECONDS, Session, connected, quoted
from headgate.connect.mariadb.table import APPLIED, MariaDBTable, check_durable, check_rights, find, make_notes
from headgate.retry import RetryPolicy
from headgate.sink.api import SinkContext
from headgate.sink.wal import WriteAheadBatch, WriteAheadSink

GIVEN_UP = RetryPolicy(first_s=0.2, longest_s=0.2, jitter=1, tries=5)
"""How often a transaction is tried that the server gave up for the sake of another."""

_STAGE = "headgate_stage"
_ORDER = "headgate_order"


class MariaDBSink(WriteAheadSink):
    """What ``mariadb.sink`` makes."""

    _table: MariaDBTable | None = None

    def __init__(self, address: Address, table: str, key: tuple[str, ...], parallelism: int) -> None:
        """All checked by ``build``."""
        super().__init__(parallelism)
        self._address = address
        self._name = table
        self._key = key

    def describe(self) -> str:
        """MariaDBTable, key and server."""
        by = f", by {', '.join(self._key)}" if self._key else ""
        return f"MariaDB table {self._name} of {self._address}{by}"

    def _open(self, context: SinkContext) -> None:
        """See that server, table and rights are there, and make the table of notes."""
        who = f"sink {context.sink}"
        self._address.warn_if_plain(who)
        with speaking(who, self._address), connected(self._address, OPEN_SECONDS) as session:
            table = find(session, who, self._address, self._name)
            if self._key:
                table.check_key(who, self._key)
            check_durable(session, who)
            check_rights(session, table, replace=bool(self._key))
            make_notes(session, who, APPLIED)
            if self._key:
                _make_stage(session, table.name, [column.name for column in table.columns])
        self._table = table

    def _prepare(self, dataframe: DataFrame) -> DataFrame:
        """Check the columns. With a key, rows of one key go to one partition: the later one is applied later."""
        assert self._table is not None, "open comes first"
        assert self._context is not None, "open comes first"
        self._table.check_rows(f"sink {self._context.sink}", dataframe, self._key)
        return dataframe.repartition(self._parallelism, *self._key) if self._key else dataframe

    def apply(self, batch: WriteAheadBatch) -> None:
        """Apply the batch in one transaction. The server may choose it as the victim of a deadlock: then again."""
        what = f"sink {batch.sink}: cannot apply checkpoint {batch.mark[1]} to table {self._name}"

        def apply() -> None:
            with connected(self._address) as session:
                self._apply(session, batch)

        with speaking(what, self._address):
            GIVEN_UP.call(apply, is_worth_another_try)

    def _apply(self, session: Session, batch: WriteAheadBatch) -> None:
        mark = (int(batch.mark[0]), int(batch.mark[1]))
        if applied.lock(session, batch.owner) >= mark:
            session.rollback()
            return
        if self._key:
            self._replace(session, batch)
        else:
            load(session, self._name, batch.record_batches())
        applied.note(session, batch.owner, mark)
        session.commit()

    def _replace(self, session: Session, batch: WriteAheadBatch) -> None:
        """Load the rows beside the table, then write them over those with their keys, in their order."""
        columns: list[str] = []
        for rows in batch.record_batches():
            if rows.schema.names != columns:
                self._write_over(session, columns)
                columns = list(rows.schema.names)
                _make_stage(session, self._name, columns)
            load(session, _STAGE, [rows])
        self._write_over(session, columns)

    def _write_over(self, session: Session, columns: list[str]) -> None:
        if not columns:
            return
        key = {name.casefold() for name in self._key}
        changed = [name for name in columns if name.casefold() not in key] or columns[:1]
        names = ", ".join(map(quoted, columns))
        values = ", ".join(f"{quoted(name)} = {_STAGE}.{quoted(name)}" for name in changed)
        session.run(
            f"INSERT INTO {quoted(self._name)} ({names}) SELECT {names} FROM {_STAGE} ORDER BY {_ORDER} "
            f"ON DUPLICATE KEY UPDATE {values}"
        )

    def __getstate__(self) -> dict[str, object]:
        """Without what was found at ``open``."""
        state = super().__getstate__()
        state.pop("_table", None)
        return state


def _make_stage(session: Session, table: str, columns: list[str]) -> None:
    """A table for this connection alone, with columns like those of the table, and one for the order of rows.

    Being temporary, it does not end the transaction.
    """
    session.ask(f"DROP TEMPORARY TABLE IF EXISTS {_STAGE}")
    names = ", ".join(map(quoted, columns))
    session.ask(
        f"CREATE TEMPORARY TABLE {_STAGE} ({_ORDER} bigint NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB "
        f"SELECT {names} FROM {quoted(table)} WHERE 1 = 0"
    )
