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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pyspark.sql import DataFrame

from headgate.connect.postgres import markers, prepared
from headgate.connect.postgres.client import Connection, Server, Sessions, translated
from headgate.connect.postgres.columns import in_partitions, matched
from headgate.connect.postgres.committable import PostgresCommittable
from headgate.connect.postgres.names import Owner, Part
from headgate.connect.postgres.opening import check_columns, check_server, opened
from headgate.connect.postgres.table import Table, read_table
from headgate.connect.postgres.writer import Preparing, written
from headgate.core.ids import CheckpointId, Generation
from headgate.errors import BadStorage, ExternalError
from headgate.sink.api import AbortScope, Guarantee, SinkContext, TwoPhaseSink, WriteId
from headgate.sink.partitions import write_partitions

COMMITS_AT_ONCE = 8
"""Sessions that commit side by side. Each commit is one wait for the server's disk, and those can be shared."""
FEW = 4
"""How many commits are not worth another session."""

logger = logging.getLogger("headgate")


class PostgresSink(TwoPhaseSink):
    """What ``sink`` makes."""

    def __init__(
        self, server: Server, table: str, columns: Mapping[str, str] | None, parallelism: int | None, wait_ms: int
    ) -> None:
        """All checked by ``sink``."""
        self._server = server
        self._name = table
        self._columns = columns
        self._parallelism = parallelism
        self._wait_ms = wait_ms
        self._owner: Owner | None = None
        self._sessions: Sessions | None = None
        self._table: Table | None = None
        self._begun: WriteId | None = None
        self._written: dict[WriteId, tuple[Part, ...]] = {}
        self._needs = parallelism or 1
        """How many transactions a batch is expected to prepare."""

    @property
    def guarantee(self) -> Guarantee:
        """Every row once."""
        return Guarantee.EXACTLY_ONCE

    def describe(self) -> str:
        """Table and database."""
        return f"PostgreSQL table {self._name} in {self._server.describe()}, by prepared transactions"

    def open(self, context: SinkContext) -> None:
        """See that the server prepares transactions and the table takes rows, and make the table of markers."""
        who = f"sink {context.sink}"
        owner = Owner.of(context)
        with opened(self._server, owner, who) as connection:
            check_server(connection, parallelism=self._parallelism, who=who)
            table = read_table(connection, self._name, who=who, rights=("INSERT",))
            check_columns(table, self._columns, who=who)
            markers.ensure(connection, table.schema, who=who)
            self._tell_of_other_incarnations(connection, owner, who)
        self._owner = owner
        self._table = table
        self._sessions = Sessions(self._server, f"{owner.session}:driver")

    def has_room(self, write_id: WriteId) -> bool:
        """Whether the server has room for as many transactions as a batch needs, or nothing of ours would free any."""
        owner = self._whose

        def ours(part: Part) -> bool:
            return part.generation == write_id.generation and part.batch < write_id.batch

        with self._session(f"sink {write_id.sink}: cannot look for room for batch {write_id.batch}") as session:
            if prepared.free(session) >= self._needs:
                return True
            return not any(ours(part) for part in prepared.found(session, owner).values())

    def begin_transaction(self, write_id: WriteId) -> None:
        """Roll back what this attempt, and earlier runs at the same batch, left."""
        who = f"sink {write_id.sink}"
        with self._session(f"{who}: cannot begin batch {write_id.batch}") as connection:
            self._table = read_table(connection, self._name, who=who, rights=("INSERT",))

            def dead(other: WriteId) -> bool:
                same = (other.generation, other.batch) == (write_id.generation, write_id.batch)
                return same and other.run <= write_id.run

            self._throw_away(connection, dead)
        self._begun = write_id

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Have executors prepare a transaction for each partition that has rows; then see that all are there."""
        if self._begun != write_id:
            self.begin_transaction(write_id)
        self._begun = None
        assert self._table is not None, "open comes first"
        owner = self._whose
        rows, columns = matched(dataframe, self._table, self._columns, who=f"sink {write_id.sink}")
        writer = Preparing(self._server, self._table, columns, owner, write_id, self._wait_ms)
        try:
            parts = written(owner, write_partitions(in_partitions(rows, self._parallelism), writer))
        except prepared.NoRoom:
            self._needs *= 2  # The replay waits for more.
            raise
        self._needs = max(self._parallelism or 1, len(parts))
        gids = {owner.gid(part) for part in parts}
        with self._session(f"sink {write_id.sink}: cannot look for batch {write_id.batch}") as connection:
            there = {gid for gid, part in prepared.found(connection, owner).items() if owner.write_id(part) == write_id}
            if gids - there:
                raise ExternalError(
                    f"sink {write_id.sink}: of what was prepared for batch {write_id.batch}, {len(gids - there)} "
                    "transactions are gone again: leave spark.speculation off, and roll back nothing by hand"
                )
            if there - gids:  # Spark ran a partition again, though the first attempt had come to its end.
                self._roll_back(connection, owner, lambda part: owner.gid(part) in there - gids)
        self._written[write_id] = parts

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, write_ids: Sequence[WriteId]) -> str:
        """List the transactions, and see that they are prepared."""
        owner = self._whose
        assert self._table is not None, "open comes first"
        parts: list[Part] = []
        for write_id in write_ids:
            if write_id not in self._written:
                raise BadStorage(
                    f"sink {owner.sink}: nothing is known of batch {write_id.batch} of run {write_id.run}: "
                    "restart the job from its last checkpoint"
                )
            parts += self._written[write_id]
        pre_committed = PostgresCommittable(owner, generation, checkpoint, self._table.schema, tuple(parts))
        if parts:
            with self._session(f"sink {owner.sink}: cannot pre-commit checkpoint {checkpoint}") as connection:
                there = prepared.still_prepared(connection, pre_committed.gids)
            if lost := [gid for gid in pre_committed.gids if gid not in there]:
                raise BadStorage(
                    f"sink {owner.sink}: prepared transaction {lost[0]} is gone from the server, with {len(lost) - 1} "
                    "others: somebody rolled it back; restart the job from its last checkpoint"
                )
        return pre_committed.to_text()

    def commit(self, committable: str) -> None:
        """Commit every transaction, unless it is committed already; raise if one is neither prepared nor committed."""
        pre_committed = PostgresCommittable.from_text(committable)
        if pre_committed.parts:
            with self._session(
                f"sink {pre_committed.owner.sink}: cannot commit checkpoint {pre_committed.checkpoint}"
            ) as connection:
                there = prepared.still_prepared(connection, pre_committed.gids)
                _see_committed(connection, pre_committed, set(pre_committed.gids) - there)
                _see_committed(connection, pre_committed, self._commit_all(connection, sorted(there)))
                markers.settle(
                    connection, pre_committed.schema, pre_committed.owner, pre_committed.checkpoint, pre_committed.gids
                )
                # What a forgotten task prepared for the same batches: no committable lists it.
                write_ids = pre_committed.write_ids
                self._roll_back(
                    connection, pre_committed.owner, lambda part: pre_committed.owner.write_id(part) in write_ids
                )
        for write_id in pre_committed.write_ids:
            self._written.pop(write_id, None)

    def abort(self, scope: AbortScope) -> None:
        """End the sessions that still write for what is covered, and roll back what they prepared."""
        with self._session(f"sink {self._whose.sink}: cannot throw away what is abandoned") as connection:
            self._throw_away(connection, scope.covers)

    def close(self) -> None:
        """Close the sessions."""
        if self._sessions is not None:
            self._sessions.close()

    def _throw_away(self, connection: Connection, covered: Callable[[WriteId], bool]) -> None:
        owner = self._whose
        prepared.end_sessions(connection, owner, covered)
        self._roll_back(connection, owner, lambda part: covered(owner.write_id(part)))
        for write_id in [write_id for write_id in list(self._written) if covered(write_id)]:
            self._written.pop(write_id, None)

    def _roll_back(self, connection: Connection, owner: Owner, covered: Callable[[Part], bool]) -> None:
        prepared.roll_back(connection, owner, covered, self._wait_ms / 1_000)

    def _commit_all(self, connection: Connection, gids: Sequence[str]) -> set[str]:
        """Commit all of them, many side by side. Those that were gone, because another process did the same."""
        seconds = self._wait_ms / 1_000
        if len(gids) <= FEW:
            return {gid for gid in gids if not prepared.commit_prepared(connection, gid, seconds)}
        parallelism = min(COMMITS_AT_ONCE, -(-len(gids) // FEW))

        def work(partition: int) -> set[str]:
            with self._pool.borrow() as other:
                return {
                    gid for gid in gids[partition::parallelism] if not prepared.commit_prepared(other, gid, seconds)
                }

        with ThreadPoolExecutor(parallelism) as threads:
            return set().union(*threads.map(work, range(parallelism)))

    def _tell_of_other_incarnations(self, connection: Connection, owner: Owner, who: str) -> None:
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

    @property
    def _whose(self) -> Owner:
        assert self._owner is not None, "open comes first"
        return self._owner

    @property
    def _pool(self) -> Sessions:
        assert self._sessions is not None, "open comes first"
        return self._sessions

    @contextmanager
    def _session(self, what: str) -> Iterator[Connection]:
        with translated(what), self._pool.borrow() as connection:
            yield connection

    def __getstate__(self) -> dict[str, object]:
        """Another process opens it anew."""
        fresh: dict[str, object] = {"_owner": None, "_sessions": None, "_table": None, "_begun": None, "_written": {}}
        return {**self.__dict__, **fresh}


def _see_committed(connection: Connection, pre_committed: PostgresCommittable, gone: set[str]) -> None:
    """See that what is not prepared any more is committed."""
    known = markers.committed(connection, pre_committed.schema, pre_committed.owner, pre_committed.checkpoint, gone)
    if lost := sorted(gone - known):
        raise BadStorage(
            f"sink {pre_committed.owner.sink}: prepared transaction {lost[0]} of checkpoint "
            f"{pre_committed.checkpoint} is neither prepared nor committed, with {len(lost) - 1} others: the server "
            "or the database is another one, or somebody rolled it back; restore the server, or restart the job from "
            "an earlier savepoint"
        )
