"""The sink for any database with JDBC.

One rule: each attempt has a table of its own, in which no row can be written twice, and the target changes only in the
transaction that notes the commit.
"""

# ruff: noqa: S608 - names are our own, quoted, or the user's own words

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame
from pyspark.sql.functions import monotonically_increasing_id

from headgate.connect.jdbc.committable import JdbcCommittable
from headgate.connect.jdbc.database import Database, connected
from headgate.connect.jdbc.jvm import Access, is_worth_another_try, let_go, speaking
from headgate.connect.jdbc.names import Owner
from headgate.core.ids import CheckpointId, Generation
from headgate.errors import BadStorage, InvalidOption
from headgate.retry import RetryPolicy
from headgate.sink.api import AbortScope, Guarantee, SinkContext, TwoPhaseSink, WriteId

ROW = "hg_row"
"""The column of a waiting table that numbers its rows. A task that is run again gives the same numbers, so that, with
an index that has each number once, a partition cannot be there twice."""
GIVEN_UP = RetryPolicy(first_s=0.2, longest_s=0.2, jitter=1, tries=5)
"""How often a transaction is tried that the database gave up for the sake of another."""


class JdbcSink(TwoPhaseSink):
    """What ``jdbc.sink`` makes."""

    _owner: Owner | None = None

    def __init__(self, access: Access, table: str) -> None:
        """All checked by ``build``."""
        self._access = access
        self._table = table
        self._written: dict[WriteId, int] = {}

    @property
    def guarantee(self) -> Guarantee:
        """Every row once."""
        return Guarantee.EXACTLY_ONCE

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
        owner = Owner.of(context)
        with speaking(who, self._access), connected(who, self._access) as database:
            names = ", ".join(database.columns(self._table).values())
            database.check_transactions(who, self._table)
            database.change(f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {self._table} WHERE 1 = 0")
            database.make_notes(who)
            database.check_transactions(who, self._table)
            database.make_note(owner)
        self._owner = owner

    def begin_transaction(self, write_id: WriteId) -> None:
        """Drop what an attempt of the same name left, if there was one."""
        self._written.pop(write_id, None)
        with self._connected(f"cannot begin batch {write_id.batch}") as database:
            database.drop(self._us, write_id)

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Have Spark write the batch into its own table; then see that every row is there once."""
        who, stage = f"sink {write_id.sink}", self._us.stage(write_id)
        self._written.pop(write_id, None)
        with self._connected(f"cannot write batch {write_id.batch}") as database:
            columns = self._check_columns(who, database, dataframe)
            database.drop(self._us, write_id)
            made = database.make_stage(stage, self._table, columns, ROW)
            numbered = dataframe.withColumn(ROW, monotonically_increasing_id())
            writer = numbered.write.format("jdbc").options(**self._access.spark_options(), dbtable=stage)
            try:
                writer.mode("append" if made else "overwrite").save()
            except (AnalysisException, IllegalArgumentException) as error:
                reason = str(error).partition("\n")[0]
                raise InvalidOption(f"{who}: Spark cannot write {self.describe()}: {reason}") from error
            # From here on a task that was taken for dead, and still writes, is refused.
            database.change(f"CREATE UNIQUE INDEX {stage}_r ON {stage} ({database.quoted(ROW)})")
            self._take_over(database, stage, " WHERE 1 = 0")  # types that do not fit are found now, not by the commit
            self._written[write_id] = int(str(database.ask(f"SELECT COUNT(*) FROM {stage}")[0][0]))

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, write_ids: Sequence[WriteId]) -> str:
        """Name the attempts, with their rows. Their tables stay as they are."""
        for write_id in write_ids:
            if write_id not in self._written:
                raise BadStorage(
                    f"sink {self._us.sink}: nobody knows what batch {write_id.batch} wrote: "
                    "restart the job from its last checkpoint"
                )
        parts = tuple((write_id, self._written[write_id]) for write_id in write_ids)
        return JdbcCommittable(self._us.job, self._us.sink, generation, checkpoint, parts).to_text()

    def commit(self, committable: str) -> None:
        """Take the rows over in one transaction, unless that is done; then drop their tables."""
        pre_committed = JdbcCommittable.from_text(committable)
        with self._connected(f"cannot commit checkpoint {pre_committed.checkpoint}") as database:
            GIVEN_UP.call(lambda: self._commit(database, pre_committed), is_worth_another_try)
            for write_id, _ in pre_committed.parts:
                database.drop(self._us, write_id)
        for write_id, _ in pre_committed.parts:
            self._written.pop(write_id, None)

    def abort(self, scope: AbortScope) -> None:
        """Drop the tables that are covered."""
        with self._connected("cannot throw away what is abandoned") as database:
            for write_id in database.stages(self._us):
                if scope.covers(write_id):
                    database.drop(self._us, write_id)
        for write_id in list(self._written):
            if scope.covers(write_id):
                self._written.pop(write_id, None)

    def close(self) -> None:
        """End the JVM that was started for a process without Spark."""
        let_go()

    def _commit(self, database: Database, pre_committed: JdbcCommittable) -> None:
        with database.transaction():
            if not database.note(self._us, int(pre_committed.generation), int(pre_committed.checkpoint)):
                return
            there = database.stages(self._us)
            for write_id, rows in pre_committed.parts:
                if write_id not in there:
                    raise BadStorage(
                        f"sink {pre_committed.sink}: table {self._us.stage(write_id)} is gone, which checkpoint "
                        f"{pre_committed.checkpoint} pre-committed and nobody has committed: restore it from a copy"
                    )
                if (taken := self._take_over(database, self._us.stage(write_id), "")) != rows:
                    raise BadStorage(
                        f"sink {pre_committed.sink}: table {self._us.stage(write_id)} has {taken} rows, checkpoint "
                        f"{pre_committed.checkpoint} pre-committed {rows}: it is not committed; restore it from a copy"
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

    @contextmanager
    def _connected(self, what: str) -> Iterator[Database]:
        who = f"sink {self._us.sink}"
        with speaking(f"{who}: {what}", self._access), connected(who, self._access) as database:
            yield database

    @property
    def _us(self) -> Owner:
        assert self._owner is not None, "open comes first"
        return self._owner

    def __getstate__(self) -> dict[str, object]:
        """What the sink was built with; another process opens it anew."""
        return {"_access": self._access, "_table": self._table, "_written": {}}
