"""The two-phase way into MariaDB: XA transactions.

One rule: a task writes its rows, and the note that will say that they are committed, in one transaction, prepares it
and closes its connection. From then on any process ends it by its name.
"""

# ruff: noqa: S608 - values go as parameters; names are our own, or quoted

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from headgate.connect.mariadb import applied, branches
from headgate.connect.mariadb.address import Address
from headgate.connect.mariadb.committable import XACommittable
from headgate.connect.mariadb.loading import load
from headgate.connect.mariadb.problems import speaking
from headgate.connect.mariadb.session import OPEN_SECONDS, Session, connected
from headgate.connect.mariadb.table import APPLIED, COMMITS, MariaDBTable, check_durable, check_rights, find, make_notes
from headgate.connect.mariadb.xid import Xid
from headgate.errors import InvalidOption
from headgate.sink.api import SinkContext, WriteId
from headgate.sink.owner import Owner
from headgate.sink.partitions import Place, first_rows, write_partitions
from headgate.sink.prepared import PreparedSink
from headgate.sink.transaction_committable import TransactionCommittable

OLDEST = {"MariaDB": (10, 5), "MySQL": (8, 0)}


class XASink(PreparedSink[Session, Xid]):
    """What ``mariadb.sink(mode="xa")`` makes."""

    committable = XACommittable
    _table: MariaDBTable | None = None

    def __init__(self, address: Address, table: str) -> None:
        """All checked by ``build``."""
        self._address = address
        self._name = table

    def describe(self) -> str:
        """MariaDBTable and server."""
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
        self._table = table
        super().open(context)  # what is prepared can be seen with a right of its own on some servers

    @contextmanager
    def connected(self, what: str) -> Iterator[Session]:
        """A session that is closed at the end."""
        with speaking(what, self._address), connected(self._address) as session:
            yield session

    def prepare(self, write_id: WriteId, dataframe: DataFrame) -> Sequence[Xid]:
        """Have executors load each partition into a transaction of its own, and prepare it."""
        assert self._table is not None, "open comes first"
        self._table.check_rows(f"sink {write_id.sink}", dataframe, ())
        names = write_partitions(dataframe, _Prepare(self._address, self._name, self.owner, write_id))
        return [Xid.of(name) for name in names if name]

    def prepared(self, session: Session) -> Mapping[Xid, WriteId]:
        """Those of the server."""
        return branches.prepared(session, self.owner)

    def commit_prepared(self, session: Session, transaction: Xid) -> bool:
        """``XA COMMIT``."""
        return branches.commit(session, self.owner, transaction)

    def roll_back(self, session: Session, transaction: Xid) -> None:
        """``XA ROLLBACK``."""
        branches.rollback(session, self.owner, transaction)

    def committed(
        self, session: Session, pre_committed: TransactionCommittable[Xid], gone: Collection[Xid]
    ) -> Collection[Xid]:
        """Those whose note is there, or all if the checkpoint's is."""
        # In this order: who has carried the commit through removes the notes and sets the mark in one transaction.
        noted = [xid for xid in gone if branches.is_committed(session, xid)]
        done = applied.applied(session, self._mark_owner)
        return gone if done is not None and done >= _mark(pre_committed) else noted

    def settle(self, session: Session, pre_committed: TransactionCommittable[Xid]) -> None:
        """Note that all are committed, in place of their own notes."""
        if applied.lock(session, self._mark_owner) < _mark(pre_committed):
            applied.note(session, self._mark_owner, _mark(pre_committed))
        for xid in pre_committed.transactions:
            session.ask(f"DELETE FROM {COMMITS} WHERE owner = %s AND part = %s", (xid.gtrid, xid.bqual))
        session.commit()

    @property
    def _mark_owner(self) -> str:
        return f"{self.context.job}/{self.context.sink}/{self.context.incarnation}"

    def __getstate__(self) -> dict[str, object]:
        """Without what was found at ``open``."""
        return {**super().__getstate__(), "_table": None}


@dataclass(frozen=True)
class _Prepare:
    """What an executor does with a partition."""

    address: Address
    table: str
    owner: Owner
    write_id: WriteId

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        """Load and prepare; the transaction's name. Without rows there is no transaction, and no name."""
        rows = first_rows(batches)
        if rows is None:
            return ""
        name = self.owner.name(self.write_id, place)
        xid = Xid.of(name)
        what = f"sink {self.owner.sink}: cannot write batch {self.write_id.batch} to table {self.table}"
        with speaking(what, self.address), connected(self.address) as session:
            session.ask(f"XA START {xid}")
            load(session, self.table, rows)
            branches.note(session, xid)
            session.ask(f"XA END {xid}")
            session.ask(f"XA PREPARE {xid}")
        return name


def _mark(pre_committed: TransactionCommittable[Xid]) -> applied.AppliedMark:
    return int(pre_committed.whose.generation), int(pre_committed.whose.checkpoint)


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
