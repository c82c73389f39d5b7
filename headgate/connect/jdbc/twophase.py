"""The sink for any database with JDBC.

One rule: each attempt has a table of its own, in which no row can be written twice, and the target changes only in the
transaction that notes the commit.
"""

# ruff: noqa: S608 - names are our own, quoted, or the user's own words

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame
from pyspark.sql.functions import monotonically_increasing_id

from headgate.connect.jdbc.committable import JdbcCommittable, Stage
from headgate.connect.jdbc.database import Database, connected
from headgate.connect.jdbc.jvm import Access, is_worth_another_try, let_go, speaking
from headgate.connect.jdbc.names import JdbcOwner
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.retry import RetryPolicy
from headgate.sink.api import SinkContext, WriteId
from headgate.sink.tally import wrote
from headgate.sink.transaction_committable import TransactionCommittable
from headgate.sink.transactions import TransactionSink

ROW = "hg_row"
"""The column of a waiting table that numbers its rows. A task that is run again gives the same numbers, so that, with
an index that has each number once, a partition cannot be there twice."""
FAILED = "FAILED_JDBC"
"""Spark's condition where the database did not do what it was asked for; Spark calls it an error of analysis."""
GIVEN_UP = RetryPolicy(first_s=0.2, longest_s=0.2, jitter=1, tries=5)
"""How often a transaction is tried that the database gave up for the sake of another."""


class JdbcSink(TransactionSink[Database, Stage]):
    """What ``jdbc.sink`` makes."""

    committable = JdbcCommittable

    def __init__(self, access: Access, table: str) -> None:
        """All checked by ``build``."""
        self._access = access
        self._table = table

    @property
    def packages(self) -> tuple[str, ...]:
        """The driver."""
        return self._access.packages

    def describe(self) -> str:
        """Table and database."""
        return f"table {self._table} of {self._access}"

    def open(self, context: SinkContext) -> None:
        """See that database, table and rights are there, and make the table of notes."""
        who = f"sink {context.sink}"
        with speaking(who, self._access), connected(who, self._access) as database:
            names = ", ".join(database.columns(self._table).values())
            database.check_transactions(who, self._table)
            database.change(f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {self._table} WHERE 1 = 0")
            database.make_notes(who)
            database.check_transactions(who, self._table)
            database.make_note(JdbcOwner.of(context))
        super().open(context)

    @contextmanager
    def connected(self, what: str) -> Iterator[Database]:
        """A connection that is closed at the end."""
        with speaking(what, self._access), connected(f"sink {self.context.sink}", self._access) as database:
            yield database

    def prepare(self, write_id: WriteId, dataframe: DataFrame) -> Sequence[Stage]:
        """Have Spark write the batch into its own table; then see that every row is there once."""
        who, stage = f"sink {write_id.sink}", self._owner.stage(write_id)
        with self.connected(f"{who}: cannot write batch {write_id.batch}") as database:
            columns = self._check_columns(who, database, dataframe)
            made = database.make_stage(stage, self._table, columns, ROW)
            numbered = dataframe.withColumn(ROW, monotonically_increasing_id())
            writer = numbered.write.format("jdbc").options(**self._access.spark_options(), dbtable=stage)
            try:
                writer.mode("append" if made else "overwrite").save()
            except (AnalysisException, IllegalArgumentException) as error:
                what = f"{who}: Spark cannot write {self.describe()}: {str(error).partition(chr(10))[0]}"
                if (error.getCondition() or "").startswith(FAILED):
                    raise ExternalError(f"{what}: see that the database runs") from error
                raise InvalidOption(what) from error
            # From here on a task that was taken for dead, and still writes, is refused.
            database.change(f"CREATE UNIQUE INDEX {stage}_r ON {stage} ({database.quoted(ROW)})")
            self._take_over(database, stage, " WHERE 1 = 0")  # types that do not fit are found now, not by the commit
            rows = int(str(database.ask(f"SELECT COUNT(*) FROM {stage}")[0][0]))
            wrote(rows)
            return [Stage(write_id, rows)]

    def name(self, transaction: Stage) -> str:
        """By the table."""
        return f"table {self._owner.stage(transaction.write_id)}"

    def missing(self, session: Database, pre_committed: TransactionCommittable[Stage]) -> Collection[Stage]:
        """Those whose table is gone."""
        there = session.stages(self._owner)
        return [stage for stage in pre_committed.transactions if stage.write_id not in there]

    def commit_all(self, session: Database, pre_committed: TransactionCommittable[Stage]) -> None:
        """Take the rows over in one transaction, unless that is done; then drop their tables."""
        GIVEN_UP.call(lambda: self._commit(session, pre_committed), is_worth_another_try)
        self.throw_away(session, set(pre_committed.write_ids).__contains__)

    def replaces(self, write_id: WriteId, other: WriteId) -> bool:
        """Only what it left itself: to drop a table is to wait for whoever still writes to it."""
        return other == write_id

    def throw_away(self, session: Database, covered: Callable[[WriteId], bool]) -> None:
        """Drop the tables that are covered."""
        for write_id in session.stages(self._owner):
            if covered(write_id):
                session.drop(self._owner, write_id)

    def close(self) -> None:
        """End the JVM that was started for a process without Spark."""
        let_go()

    def _commit(self, database: Database, pre_committed: TransactionCommittable[Stage]) -> None:
        whose = pre_committed.whose
        with database.transaction():
            if not database.note(self._owner, int(whose.generation), int(whose.checkpoint)):
                return
            if gone := self.missing(database, pre_committed):
                raise self.lost(pre_committed, gone)
            for stage in pre_committed.transactions:
                if (taken := self._take_over(database, self._owner.stage(stage.write_id), "")) != stage.rows:
                    raise BadStorage(
                        f"sink {whose.sink}: {self.name(stage)} has {taken} rows, checkpoint {whose.checkpoint} "
                        f"pre-committed {stage.rows}: it is not committed; restore it from a copy"
                    )

    def _take_over(self, database: Database, stage: str, which: str) -> int:
        """Copy the rows of a waiting table into the target; how many there were."""
        target = database.columns(self._table)
        ours = {name: quoted for name, quoted in database.columns(stage).items() if name != ROW}
        into, values = ", ".join(target[name] for name in ours), ", ".join(ours.values())
        return database.change(f"INSERT INTO {self._table} ({into}) SELECT {values} FROM {stage}{which}")

    def _check_columns(self, who: str, database: Database, dataframe: DataFrame) -> dict[str, str]:
        """What the target calls the columns of the rows, by their names there."""
        target = database.columns(self._table)
        seen: set[str] = set()
        for name in dataframe.columns:
            if name.casefold() not in target:
                raise InvalidOption(
                    f"{who}: table {self._table} has no column {name}: it has {', '.join(target.values())}"
                )
            if name.casefold() in seen:
                raise InvalidOption(f"{who}: two columns of the rows have the same name: rename one")
            seen.add(name.casefold())
        return {name: target[name.casefold()] for name in dataframe.columns}

    @property
    def _owner(self) -> JdbcOwner:
        return JdbcOwner.of(self.context)
