"""The two-phase way into MariaDB: XA transactions.

One rule: a task writes its rows, and the note that will say that they are committed, in one transaction, prepares it
and closes its connection. From then on any process ends it by its name.
"""

# ruff: noqa: S608 - values go as parameters; names are our own, or quoted

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame

from headgate.connect.mariadb import applied, branches
from headgate.connect.mariadb.address import Address
from headgate.connect.mariadb.committable import XACommittable
from headgate.connect.mariadb.loading import load
from headgate.connect.mariadb.problems import speaking
from headgate.connect.mariadb.session import OPEN_SECONDS, Session, connected
from headgate.connect.mariadb.table import APPLIED, COMMITS, Table, check_durable, check_rights, find, make_notes
from headgate.connect.mariadb.xid import Owner, Xid
from headgate.core.ids import CheckpointId, Generation
from headgate.errors import BadStorage, InvalidOption
from headgate.sink.api import AbortScope, Guarantee, SinkContext, TwoPhaseSink, WriteId
from headgate.sink.partitions import Place, write_partitions

OLDEST = {"MariaDB": (10, 5), "MySQL": (8, 0)}


class XASink(TwoPhaseSink):
    """What ``mariadb.sink(mode="xa")`` makes."""

    _owner: Owner | None = None
    _table: Table | None = None
    _mark_owner = ""

    def __init__(self, address: Address, table: str) -> None:
        """All checked by ``build``."""
        self._address = address
        self._name = table
        self._written: dict[WriteId, tuple[Xid, ...]] = {}

    @property
    def guarantee(self) -> Guarantee:
        """Every row once."""
        return Guarantee.EXACTLY_ONCE

    def describe(self) -> str:
        """Table and server."""
        return f"MariaDB table {self._name} of {self._address}, by XA"

    def open(self, context: SinkContext) -> None:
        """See that server, table and rights are there, and make the tables of notes."""
        who = f"sink {context.sink}"
        self._address.warn_if_plain(who)
        with speaking(who, self._address), connected(self._address, OPEN_SECONDS) as session:
            _check_version(session, who)
            table = find(session, who, self._address, self._name)
            check_durable(session, who)
            check_rights(session, table, replace=False)
            make_notes(session, who, APPLIED)
            make_notes(session, who, COMMITS)
            self._owner = Owner.of(context)
            branches.prepared(session, self._owner)  # on some servers a right of its own
        self._table = table
        self._mark_owner = f"{context.job}/{context.sink}/{context.incarnation}"

    def begin_transaction(self, write_id: WriteId) -> None:
        """Roll back what an attempt of the same name left, if there was one."""
        self._written.pop(write_id, None)
        with self._speaking(f"cannot begin batch {write_id.batch}"), connected(self._address) as session:
            self._clear(session, lambda found: found == write_id)

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Have executors load each partition into a transaction of its own, and prepare it."""
        assert self._table is not None, "open comes first"
        self._table.check_rows(f"sink {write_id.sink}", dataframe, ())
        if write_id in self._written:
            self.begin_transaction(write_id)
        answers = write_partitions(dataframe, _Prepare(self._address, self._name, self._us, write_id))
        self._written[write_id] = tuple(Xid(*json.loads(answer)) for answer in answers if answer)

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, write_ids: Sequence[WriteId]) -> str:
        """Name the transactions of these attempts. They are prepared already."""
        for write_id in write_ids:
            if write_id not in self._written:
                raise BadStorage(
                    f"sink {self._us.sink}: nobody knows what batch {write_id.batch} wrote: "
                    "restart the job from its last checkpoint"
                )
        parts = tuple((write_id, self._written[write_id]) for write_id in write_ids)
        return XACommittable(self._us.job, self._us.sink, generation, checkpoint, parts).to_text()

    def commit(self, committable: str) -> None:
        """Commit every transaction that is named, then note that all are, in place of their own notes."""
        pre_committed = XACommittable.from_text(committable)
        mark = (int(pre_committed.generation), int(pre_committed.checkpoint))
        with (
            self._speaking(f"cannot commit checkpoint {pre_committed.checkpoint}"),
            connected(self._address) as session,
        ):
            if not self._is_done(session, mark):
                for xid in pre_committed.xids():
                    if not branches.commit(session, self._us, xid) and not self._was_committed(session, xid, mark):
                        raise BadStorage(
                            f"sink {pre_committed.sink}: {self._address} has lost the prepared transaction {xid} of "
                            f"checkpoint {pre_committed.checkpoint}: somebody rolled it back; "
                            "restore the server from a copy"
                        )
                # A task that was taken for dead may have left another transaction for its partition.
                mine = {write_id for write_id, _ in pre_committed.parts}
                self._clear(session, lambda found: found in mine)
                if applied.lock(session, self._mark_owner) < mark:
                    applied.note(session, self._mark_owner, mark)
                for xid in pre_committed.xids():
                    session.ask(f"DELETE FROM {COMMITS} WHERE owner = %s AND part = %s", (xid.gtrid, xid.bqual))
                session.commit()
        for write_id, _ in pre_committed.parts:
            self._written.pop(write_id, None)

    def abort(self, scope: AbortScope) -> None:
        """Roll back the transactions that are covered."""
        with self._speaking("cannot throw away what is abandoned"), connected(self._address) as session:
            self._clear(session, scope.covers)
        for write_id in list(self._written):
            if scope.covers(write_id):
                self._written.pop(write_id, None)

    def _clear(self, session: Session, covered: Callable[[WriteId], bool]) -> None:
        for xid, write_id in branches.prepared(session, self._us).items():
            if covered(write_id):
                branches.rollback(session, self._us, xid)

    def _is_done(self, session: Session, mark: applied.Mark) -> bool:
        """Whether this commit, and so each before it, was carried through to its end."""
        noted = applied.applied(session, self._mark_owner)
        return noted is not None and noted >= mark

    def _was_committed(self, session: Session, xid: Xid, mark: applied.Mark) -> bool:
        # In this order: who has carried the commit through removes the note and sets the mark in one transaction.
        return branches.is_committed(session, xid) or self._is_done(session, mark)

    def _speaking(self, what: str) -> AbstractContextManager[None]:
        return speaking(f"sink {self._us.sink}: {what}", self._address)

    @property
    def _us(self) -> Owner:
        assert self._owner is not None, "open comes first"
        return self._owner

    def __getstate__(self) -> dict[str, object]:
        """What the sink was built with; another process opens it anew."""
        return {"_address": self._address, "_name": self._name, "_written": {}}


@dataclass(frozen=True)
class _Prepare:
    """What an executor does with a partition."""

    address: Address
    table: str
    owner: Owner
    write_id: WriteId

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        """Load and prepare; the transaction's name. Without rows there is no transaction, and no name."""
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return ""
        xid = self.owner.xid(self.write_id, place.partition, place.task_attempt)
        what = f"sink {self.owner.sink}: cannot write batch {self.write_id.batch} to table {self.table}"
        with speaking(what, self.address), connected(self.address) as session:
            session.ask(f"XA START {xid}")
            load(session, self.table, chain([first], rows))
            branches.note(session, xid)
            session.ask(f"XA END {xid}")
            session.ask(f"XA PREPARE {xid}")
        return json.dumps([xid.gtrid, xid.bqual])


def _check_version(session: Session, who: str) -> None:
    version = str(session.ask("SELECT VERSION()")[0][0])
    product = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    numbers = tuple(int(part) for part in version.partition("-")[0].split(".")[:2])
    if numbers < OLDEST[product]:
        oldest = ".".join(map(str, OLDEST[product]))
        raise InvalidOption(
            f"{who}: {product} {version} forgets a prepared transaction when its connection ends: use {oldest} or "
            "newer, or mariadb.sink"
        )
