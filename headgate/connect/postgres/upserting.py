"""Rows into a table under keys: a row that is written again is written over itself.

One rule: each partition is brought into a table of its session's own by COPY, and from there into the table in one
statement, in the order of keys: so partitions that meet do not wait for each other in a ring, and if they do, it is
tried again. The same statement sees that the attempt still leads (``leaders``), and is a transaction of its own: a
process that is frozen holds no lock.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from psycopg import errors, sql
from pyspark.sql import DataFrame

from headgate.connect.postgres import leaders
from headgate.connect.postgres.client import PostgresConnection, Server, Sessions, translated
from headgate.connect.postgres.columns import matched, partitioned_by_key
from headgate.connect.postgres.copying import copy_rows, writing
from headgate.connect.postgres.names import PostgresOwner
from headgate.connect.postgres.opening import check_columns, check_writable, opened
from headgate.connect.postgres.table import PostgresColumn, PostgresTable, read_table
from headgate.core.fencing import Order
from headgate.core.ids import NO_BATCH, NO_RUN
from headgate.errors import FencedOff, InvalidOption, UserError
from headgate.retry import RetryPolicy
from headgate.sink.api import AbortScope, SinkContext, StaleGenerations, WriteId
from headgate.sink.idempotent import IdempotentSink
from headgate.sink.partitions import Place, Write, first_rows, write_partitions

IN_THE_WAY = RetryPolicy(first_s=0.01, longest_s=0.2, jitter=1, tries=10)
"""How often a statement is tried that others were in the way of."""
RIGHTS = ("INSERT", "UPDATE", "SELECT")
_STAGE = sql.Identifier("pg_temp", "headgate_rows")
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
"""What is committed in this session is on the disk."""
_GIVEN_UP = (errors.DeadlockDetected, errors.SerializationFailure)


class UpsertSink(IdempotentSink):
    """What ``upsert`` makes."""

    def __init__(
        self,
        server: Server,
        table: str,
        key: tuple[str, ...],
        columns: Mapping[str, str] | None,
        parallelism: int | None,
        wait_ms: int,
    ) -> None:
        """All checked by ``upsert``."""
        self._server = server
        self._name = table
        self._key = key
        self._columns = columns
        self._parallelism = parallelism
        self._wait_ms = wait_ms
        self._owner: PostgresOwner | None = None
        self._table: PostgresTable | None = None
        self._sessions: Sessions | None = None
        self._begun: WriteId | None = None

    @property
    def fenced(self) -> bool:
        """By the leader row."""
        return True

    def describe(self) -> str:
        """PostgresTable, database and key."""
        return f"PostgreSQL table {self._name} in {self._server.describe()}, upserted by {', '.join(self._key)}"

    def open(self, context: SinkContext) -> None:
        """See that the table takes rows, and has a unique key of these columns."""
        who = f"sink {context.sink}"
        owner = PostgresOwner.of(context)
        with opened(self._server, owner, who) as connection:
            check_writable(connection, who=who)
            row = connection.execute("SELECT has_database_privilege(current_database(), 'TEMPORARY')").fetchone()
            if row is not None and not row[0]:
                raise InvalidOption(f"{who}: the user may not make temporary tables: GRANT TEMPORARY ON DATABASE")
            table = read_table(connection, self._name, who=who, rights=RIGHTS)
            leaders.TABLE.ensure(connection, table.schema, who=who)
        check_columns(table, self._columns, who=who)
        for name in self._key:
            table.column(name, who)
        if frozenset(self._key) not in table.keys:
            named = ", ".join(self._key)
            raise InvalidOption(
                f"{who}: table {table.describe()} has no unique key ({named}): "
                f"ALTER TABLE {table.describe()} ADD UNIQUE ({named}), or name the columns of a key that it has"
            )
        self._owner = owner
        self._table = table
        self._sessions = Sessions(self._server, f"{owner.session}:driver")

    def begin_transaction(self, write_id: WriteId) -> None:
        """Let nothing older be written from here on."""
        self._raise_to(write_id.order, f"sink {write_id.sink}: cannot begin batch {write_id.batch}")
        self._begun = write_id

    def abort(self, scope: AbortScope) -> None:
        """Let nothing of earlier generations be written from here on.

        Failed attempts end where the next batch begins.
        """
        if isinstance(scope, StaleGenerations):
            assert self._owner is not None, "open comes first"
            what = f"sink {self._owner.sink}: cannot fence off the generations before {scope.below}"
            try:
                self._raise_to((scope.below, NO_BATCH, NO_RUN), what)
            except FencedOff:
                return  # A batch of this generation, or of a later one, has begun: then they are fenced off.

    def close(self) -> None:
        """Close the session."""
        if self._sessions is not None:
            self._sessions.close()

    def _raise_to(self, order: Order, what: str) -> None:
        assert self._owner is not None, "open comes first"
        assert self._table is not None, "open comes first"
        assert self._sessions is not None, "open comes first"
        with translated(what), self._sessions.borrow() as connection:
            connection.execute("SELECT set_config('lock_timeout', %s, false)", [f"{self._wait_ms}ms"])
            connection.execute(_DURABLE)
            leaders.raise_to(connection, self._table.schema, self._owner, order)

    def writer(self, write_id: WriteId) -> Write:
        """What upserts a partition whose columns are those of the table."""
        assert self._table is not None, "open comes first"
        return self._upserting(write_id, self._table.columns)

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Have executors write the rows."""
        if self._begun != write_id:
            self.begin_transaction(write_id)
        self._begun = None
        assert self._table is not None, "open comes first"
        who = f"sink {write_id.sink}"
        rows, columns = matched(dataframe, self._table, self._columns, who=who)
        if missing := [name for name in self._key if name not in rows.columns]:
            raise InvalidOption(f"{who}: the rows have no {', '.join(missing)}, which is their key: add it")
        write_partitions(partitioned_by_key(rows, self._parallelism, self._key), self._upserting(write_id, columns))

    def _upserting(self, write_id: WriteId, columns: tuple[PostgresColumn, ...]) -> Write:
        assert self._table is not None, "open comes first"
        assert self._owner is not None, "open comes first"
        return Upserting(self._server, self._table, self._key, columns, self._owner, write_id, self._wait_ms)

    def __getstate__(self) -> dict[str, object]:
        """Another process opens it anew."""
        return {**self.__dict__, "_owner": None, "_table": None, "_sessions": None, "_begun": None}


@dataclass(frozen=True)
class Upserting:
    """Writes the partitions of one attempt."""

    server: Server
    table: PostgresTable
    key: tuple[str, ...]
    columns: tuple[PostgresColumn, ...]
    owner: PostgresOwner
    write_id: WriteId
    wait_ms: int

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        """Write all rows. How many there were."""
        del place
        filled = first_rows(batches)
        if filled is None:
            return "0"
        with writing(self.server, self.table, self.owner, self.write_id, self.wait_ms) as connection:
            names = sql.SQL(", ").join(sql.Identifier(column.name) for column in self.columns)
            connection.execute(
                sql.SQL("CREATE TEMPORARY TABLE headgate_rows AS SELECT {} FROM {} WITH NO DATA").format(
                    names, self.table.identifier
                )
            )
            rows = copy_rows(connection, _STAGE, self.columns, self._with_keys(filled))
            self._merge(connection, names)
        return str(rows)

    def _with_keys(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, if no key has a null in it: PostgreSQL would add such a row again and again."""
        keys = [(index, column.name) for index, column in enumerate(self.columns) if column.name in self.key]
        for batch in batches:
            for index, name in keys:
                if batch.column(index).null_count:
                    raise UserError(
                        f"sink {self.write_id.sink}: a row has no {name}, which is its key: leave out such rows, or "
                        "give them one"
                    )
            yield batch

    def _merge(self, connection: PostgresConnection, names: sql.Composed) -> None:
        others = [column.name for column in self.columns if column.name not in self.key]
        action: sql.Composable = sql.SQL("NOTHING")
        if others:
            changes = (sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others)
            action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(changes))
        # Of rows with the same key the last one counts: ctid is the order in which they came.
        query = sql.SQL(
            "WITH headgate_leader AS MATERIALIZED ({leading}), headgate_merged AS ("
            "INSERT INTO {table} ({names}) SELECT DISTINCT ON ({key}) {names} FROM {stage} "
            "WHERE EXISTS (SELECT FROM headgate_leader) "
            "ORDER BY {key}, ctid DESC ON CONFLICT ({key}) DO {action}) SELECT count(*) FROM headgate_leader"
        ).format(
            leading=leaders.still_leading(self.table.schema, self.owner, self.write_id.order),
            table=self.table.identifier,
            names=names,
            key=sql.SQL(", ").join(sql.Identifier(name) for name in self.key),
            stage=_STAGE,
            action=action,
        )
        connection.execute(_DURABLE)  # The batch counts as written when this returns.
        leading = IN_THE_WAY.call(
            lambda: connection.execute(query).fetchone(), lambda error: isinstance(error, _GIVEN_UP)
        )
        if leading != (1,):
            raise leaders.refused(connection, self.table.schema, self.owner, self.write_id.order)
