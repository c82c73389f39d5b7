"""Rows into a table, exactly once, in prepared transactions.

One rule: executors prepare, one transaction for each partition of a batch; a pre-commit only lists what is prepared,
and a commit only says ``COMMIT PREPARED``. Rows never pass through the driver.

A prepared transaction survives any crash of the server, and holds its locks until it is committed or rolled back. So
where a table has unique keys, the replay of a batch would wait for what the dead attempt prepared:

- what an earlier run of this generation prepared for the same batch is rolled back before the batch is written;
- what an earlier attempt of Spark at a partition prepared is rolled back before that partition is written;
- what an earlier generation prepared, and nobody will commit, is rolled back by ``abort``, which runs beside the first
  batches. A batch that meets its locks waits this long, at most for ``wait``; then it fails, and is replayed.

A task of a dead run may still be writing. Its session is ended before its transactions are rolled back; if it comes
later all the same, its transaction has a name that no committable lists, and goes with the next ``abort``.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

from headgate.connect.postgres import markers, prepared
from headgate.connect.postgres.client import PostgresConnection, Server, Sessions, translated
from headgate.connect.postgres.columns import in_partitions, matched
from headgate.connect.postgres.committable import PostgresCommittable
from headgate.connect.postgres.names import Part, PostgresOwner
from headgate.connect.postgres.opening import check_columns, check_server, opened
from headgate.connect.postgres.table import PostgresTable, read_table
from headgate.connect.postgres.writer import Preparing
from headgate.sink.api import SinkContext, WriteId
from headgate.sink.partitions import side_by_side, write_partitions
from headgate.sink.prepared import PreparedSink
from headgate.sink.transaction_committable import TransactionCommittable

COMMITS_AT_ONCE = 8
"""Sessions that commit side by side. Each commit is one wait for the server's disk, and those can be shared."""
FEW = 4
"""How many commits are not worth another session."""

logger = logging.getLogger("headgate")


class PostgresSink(PreparedSink[PostgresConnection, Part]):
    """What ``sink`` makes."""

    committable = PostgresCommittable

    def __init__(
        self, server: Server, table: str, columns: Mapping[str, str] | None, parallelism: int | None, wait_ms: int
    ) -> None:
        """All checked by ``sink``."""
        self._server = server
        self._name = table
        self._columns = columns
        self._parallelism = parallelism
        self._wait_ms = wait_ms
        self._sessions: Sessions | None = None
        self._table: PostgresTable | None = None
        self._needs = parallelism or 1
        """How many transactions a batch is expected to prepare."""

    @property
    def owner(self) -> PostgresOwner:
        """Whose the transactions and sessions are."""
        return PostgresOwner.of(self.context)

    @property
    def place(self) -> str | None:
        """The table."""
        return self._server.place(self._name)

    def describe(self) -> str:
        """PostgresTable and database."""
        return f"PostgreSQL table {self._name} in {self._server.describe()}, by prepared transactions"

    def open(self, context: SinkContext) -> None:
        """See that the server prepares transactions and the table takes rows, and make the table of markers."""
        who = f"sink {context.sink}"
        owner = PostgresOwner.of(context)
        with opened(self._server, owner, who) as connection:
            check_server(connection, parallelism=self._parallelism, who=who)
            table = read_table(connection, self._name, who=who, rights=("INSERT",))
            check_columns(table, self._columns, who=who)
            markers.ensure(connection, table.schema, who=who)
            self._tell_of_other_incarnations(connection, owner, who)
        self._table = table
        self._sessions = Sessions(self._server, f"{owner.session}:driver")
        super().open(context)

    @contextmanager
    def connected(self, what: str) -> Iterator[PostgresConnection]:
        """A session of this process, used again."""
        assert self._sessions is not None, "open comes first"
        with translated(what), self._sessions.borrow() as connection:
            yield connection

    def has_room(self, write_id: WriteId) -> bool:
        """Whether the server has room for as many transactions as a batch needs, or nothing of ours would free any."""

        def ours(other: WriteId) -> bool:
            return other.generation == write_id.generation and other.batch < write_id.batch

        with self.connected(f"sink {write_id.sink}: cannot look for room for batch {write_id.batch}") as session:
            return prepared.free(session) >= self._needs or not any(map(ours, self.prepared(session).values()))

    def prepare(self, write_id: WriteId, dataframe: DataFrame) -> Sequence[Part]:
        """Have executors prepare a transaction for each partition that has rows."""
        who, owner = f"sink {write_id.sink}", self.owner
        with self.connected(f"{who}: cannot look at table {self._name}") as connection:
            self._table = read_table(connection, self._name, who=who, rights=("INSERT",))
        rows, columns = matched(dataframe, self._table, self._columns, who=who)
        writer = Preparing(self._server, self._table, columns, owner, write_id, self._wait_ms)
        try:
            gids = write_partitions(in_partitions(rows, self._parallelism), writer)
        except prepared.NoRoom:
            self._needs *= 2  # The replay waits for more.
            raise
        parts = [part for gid in gids if (part := owner.part(gid)) is not None]
        self._needs = max(self._parallelism or 1, len(parts))
        return parts

    def facts(self) -> Mapping[str, Any]:
        """Where the markers are."""
        assert self._table is not None, "open comes first"
        return {"schema": self._table.schema}

    def name(self, transaction: Part) -> str:
        """By the identifier."""
        return f"prepared transaction {self._gid(transaction)}"

    def prepared(self, session: PostgresConnection) -> Mapping[Part, WriteId]:
        """Those in this database."""
        return {part: part.write_id for part in prepared.found(session, self.owner)}

    def commit_prepared(self, session: PostgresConnection, transaction: Part) -> bool:
        """``COMMIT PREPARED``."""
        return prepared.commit_prepared(session, self._gid(transaction), self._wait_ms / 1_000)

    def roll_back(self, session: PostgresConnection, transaction: Part) -> None:
        """``ROLLBACK PREPARED``."""
        prepared.roll_back_prepared(session, self._gid(transaction), self._wait_ms / 1_000)

    def commit_each(self, session: PostgresConnection, transactions: Sequence[Part]) -> Collection[Part]:
        """Commit many side by side."""
        if len(transactions) <= FEW:
            return super().commit_each(session, transactions)

        def commit_some(_: int, some: Sequence[Part]) -> Collection[Part]:
            assert self._sessions is not None, "open comes first"
            with self._sessions.borrow() as other:
                return super(PostgresSink, self).commit_each(other, some)

        return side_by_side(commit_some, transactions, min(COMMITS_AT_ONCE, -(-len(transactions) // FEW)))

    def committed(
        self, session: PostgresConnection, pre_committed: TransactionCommittable[Part], gone: Collection[Part]
    ) -> Collection[Part]:
        """Those whose marker is there, or that of their checkpoint."""
        gids = {self._gid(part): part for part in gone}
        schema, checkpoint = _schema(pre_committed), pre_committed.whose.checkpoint
        return [gids[gid] for gid in markers.committed(session, schema, self.owner, checkpoint, gids)]

    def settle(self, session: PostgresConnection, pre_committed: TransactionCommittable[Part]) -> None:
        """Put the checkpoint's marker in the place of those of its transactions."""
        gids = list(map(self._gid, pre_committed.transactions))
        markers.settle(session, _schema(pre_committed), self.owner, pre_committed.whose.checkpoint, gids)

    def throw_away(self, session: PostgresConnection, covered: Callable[[WriteId], bool]) -> None:
        """End the sessions that still write for what is covered, and roll back what they prepared."""
        prepared.end_sessions(session, self.owner, covered)
        super().throw_away(session, covered)

    def close(self) -> None:
        """Close the sessions."""
        if self._sessions is not None:
            self._sessions.close()

    def _gid(self, part: Part) -> str:
        return self.owner.name(part.write_id, part.place)

    def _tell_of_other_incarnations(self, connection: PostgresConnection, owner: PostgresOwner, who: str) -> None:
        if left := prepared.other_incarnations(connection, owner):
            oldest, since = left[0]
            logger.warning(
                "%s: an earlier incarnation of this job left %d prepared transactions, the oldest since %s: they hold "
                "locks and room. When its storage is given up for good, roll them back: ROLLBACK PREPARED '%s'",
                who,
                len(left),
                since.isoformat(timespec="seconds"),
                oldest,
            )

    def __getstate__(self) -> dict[str, object]:
        """Without what was found at ``open``."""
        return {**super().__getstate__(), "_sessions": None, "_table": None}


def _schema(pre_committed: TransactionCommittable[Part]) -> str:
    assert isinstance(pre_committed, PostgresCommittable)
    return pre_committed.schema
