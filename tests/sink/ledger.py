"""A system in memory that prepares transactions, and a sink that writes to it."""

import multiprocessing
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.managers import BaseManager
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import DataFrame

from headgate.sink.api import WriteId
from headgate.sink.owner import Owner
from headgate.sink.partitions import Place, first_rows, write_partitions
from headgate.sink.prepared import PreparedSink
from headgate.sink.transaction_committable import TransactionCommittable
from headgate.testing import Row

KEY = b"for tests"
Address = str


@dataclass
class Book:
    """What the system keeps. Whoever asks may be in any process; each answer is given before the next question."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    waiting: dict[str, tuple[str, list[Row]]] = field(default_factory=dict)
    markers: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self, name: str, account: str, rows: list[Row]) -> None:
        """Keep rows and marker until somebody says what becomes of them."""
        with self.lock:
            assert name not in self.waiting, f"{name} is prepared already"
            self.waiting[name] = (account, rows)

    def names(self) -> list[str]:
        """What is prepared, whoever did."""
        with self.lock:
            return list(self.waiting)

    def commit(self, name: str) -> bool:
        """Show rows and marker, at once. Whether they were there."""
        with self.lock:
            account, rows = self.waiting.pop(name, ("", []))
            if account:
                self.rows.setdefault(account, []).extend(rows)
                self.markers.add(name)
            return bool(account)

    def roll_back(self, name: str) -> None:
        """Forget rows and marker, if they are there."""
        with self.lock:
            self.waiting.pop(name, None)

    def has_marker(self, name: str) -> bool:
        """Whether a transaction was committed."""
        with self.lock:
            return name in self.markers

    def visible(self, account: str) -> list[Row]:
        """What readers see."""
        with self.lock:
            return list(self.rows.get(account, []))


class Office(BaseManager):
    """Where the book is kept for other processes."""

    def book(self) -> Book:
        raise NotImplementedError("registered below")


_kept = Book()
"""Of the process that keeps it."""


def _the_book() -> Book:
    return _kept


EXPOSED = ("prepare", "names", "commit", "roll_back", "has_marker", "visible")
Office.register("book", callable=_the_book, exposed=EXPOSED)


@contextmanager
def office() -> Iterator[Address]:
    """The system, in a process of its own; where it is."""
    with TemporaryDirectory(prefix="headgate-book-") as directory:
        # Not TCP: it holds short messages back for 40 ms, and each question here is several.
        keeper = Office(f"{directory}/book", KEY, ctx=multiprocessing.get_context("spawn"))
        keeper.start()
        try:
            assert isinstance(keeper.address, str)
            yield keeper.address
        finally:
            keeper.shutdown()


def book_at(address: Address) -> Book:
    """The book as others have it."""
    there = Office(address, KEY)
    there.connect()
    return there.book()


class Ledger(PreparedSink[Book, str]):
    """A sink into one account of the book."""

    def __init__(self, address: Address, account: str) -> None:
        self._address = address
        self._account = account

    def describe(self) -> str:
        return f"account {self._account} of the book"

    @contextmanager
    def connected(self, what: str) -> Iterator[Book]:
        del what
        yield book_at(self._address)

    def prepare(self, write_id: WriteId, dataframe: DataFrame) -> list[str]:
        return write_partitions(dataframe, Booking(self._address, self._account, self.owner, write_id))

    def prepared(self, session: Book) -> dict[str, WriteId]:
        return self.owner.own(session.names())

    def commit_prepared(self, session: Book, transaction: str) -> bool:
        return session.commit(transaction)

    def committed(
        self, session: Book, pre_committed: TransactionCommittable[str], gone: Collection[str]
    ) -> Collection[str]:
        del pre_committed
        return [name for name in gone if session.has_marker(name)]

    def roll_back(self, session: Book, transaction: str) -> None:
        session.roll_back(transaction)


@dataclass(frozen=True)
class Booking:
    """What an executor does with a partition."""

    address: Address
    account: str
    owner: Owner
    write_id: WriteId

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        filled = first_rows(batches)
        if filled is None:
            return ""
        name = self.owner.name(self.write_id, place)
        rows = [(row["number"], row["writer"]) for batch in filled for row in batch.to_pylist()]
        book_at(self.address).prepare(name, self.account, rows)
        return name
