"""Prepared transactions: the base of sinks that commit by name passes the contract, and finds out what is wrong."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import headgate
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.errors import BadStorage, ExternalError
from headgate.sink.api import FailedAttempts, SinkContext, StaleGenerations, Unpublished, WriteId
from headgate.sink.form import Whose
from headgate.sink.owner import Owner
from headgate.sink.partitions import Place
from headgate.sink.transaction_committable import TransactionCommittable
from headgate.testing import CONTEXT, PreparedContract, Row, compare, pre_commit, rows_of, write_id
from tests.sink.ledger import Address, Book, Ledger, book_at, office

SINKS = Path(__file__).parent.parent.parent / "docs" / "sinks.md"
NOWHERE = "nowhere"
NOTHING = cast("DataFrame", None)


# -- the contract, on Spark ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    with office() as where:
        yield where


class TestLedger(PreparedContract):
    address: Address

    @pytest.fixture(autouse=True)
    def _address(self, address: Address) -> None:
        self.address = address

    def make_sink(self, place: Path) -> Ledger:
        return Ledger(self.address, place.as_posix())

    def visible(self, place: Path) -> Sequence[Row]:
        return [(number, writer) for number, writer in book_at(self.address).visible(place.as_posix())]


class TakesEverythingForCommitted(Ledger):
    def committed(
        self, session: Book, pre_committed: TransactionCommittable[str], gone: Collection[str]
    ) -> Collection[str]:
        del session, pre_committed
        return gone


class TakesWhatIsAnothers(Ledger):
    """Looks only at the numbers of a name."""

    def prepared(self, session: Book) -> dict[str, WriteId]:
        named = {name: self.owner.label + name[len(self.owner.label) :] for name in session.names()}
        found = self.owner.own(named.values())
        return {name: found[own] for name, own in named.items() if own in found}


class NamesByPartition(Ledger):
    """Lets the attempts at a batch share names."""

    def prepare(self, write_id: WriteId, dataframe: DataFrame) -> list[str]:
        return super().prepare(replace(write_id, run=Run(1)), dataframe)


class LeavesItPrepared(Ledger):
    def roll_back(self, session: Book, transaction: str) -> None:
        del session, transaction


Test = Callable[[PreparedContract, SparkSession, Path], None]


@pytest.mark.parametrize(
    ("flawed", "test", "finding"),
    [
        (
            TakesEverythingForCommitted,
            PreparedContract.test_what_somebody_rolled_back_is_named_and_nothing_of_its_checkpoint_is_committed,
            "a transaction that somebody rolled back was passed over",
        ),
        (
            TakesWhatIsAnothers,
            PreparedContract.test_what_another_incarnation_prepared_is_left_alone,
            "what another incarnation prepared is taken for the sink's own",
        ),
        (
            NamesByPartition,
            PreparedContract.test_of_a_replayed_batch_only_what_the_committed_run_wrote_counts,
            "of what was prepared for batch 0, 2 transactions are gone again",
        ),
        (
            LeavesItPrepared,
            PreparedContract.test_what_was_committed_or_thrown_away_leaves_nothing_prepared,
            "still prepared",
        ),
    ],
)
def test_the_contract_finds_the_flaw(
    flawed: type[Ledger], test: Test, finding: str, spark: SparkSession, tmp_path: Path, address: Address
) -> None:
    class Contract(TestLedger):
        def make_sink(self, place: Path) -> Ledger:
            return flawed(self.address, place.as_posix())

    contract = Contract()
    contract.address = address
    with pytest.raises((AssertionError, ExternalError), match=finding):
        test(contract, spark, tmp_path)


# -- the base alone, in one process ----------------------------------------------------------------------------------


class Local(Ledger):
    """A sink of a process that has the book itself, and writes the contract's rows in two partitions."""

    def __init__(self, book: Book) -> None:
        super().__init__(NOWHERE, "account")
        self.book = book
        self.said: list[str] = []
        self.attempts = 0
        self.after_listing: Callable[[], None] = lambda: None
        self.settled: list[CheckpointId] = []

    @contextmanager
    def connected(self, what: str) -> Iterator[Book]:
        self.said.append(what)
        yield self.book

    def prepare(self, write_id: WriteId, dataframe: DataFrame) -> list[str]:
        del dataframe
        return [self.one(write_id, partition) for partition in range(2)] + [""]

    def one(self, write_id: WriteId, partition: int) -> str:
        """Prepare a partition as a task does."""
        self.attempts += 1
        name = self.owner.name(write_id, Place(partition, self.attempts))
        self.book.prepare(name, "account", rows_of(write_id)[partition::2])
        return name

    def prepared(self, session: Book) -> dict[str, WriteId]:
        found = super().prepared(session)
        self.after_listing()
        return found

    def settle(self, session: Book, pre_committed: TransactionCommittable[str]) -> None:
        super().settle(session, pre_committed)
        self.settled.append(pre_committed.whose.checkpoint)


def opened(book: Book, context: SinkContext = CONTEXT) -> Local:
    sink = Local(book)
    sink.open(context)
    return sink


def write(sink: Local, what: WriteId) -> None:
    sink.begin_transaction(what)
    sink.invoke(what, NOTHING)


def visible(book: Book) -> list[Row]:
    return book.visible("account")


def test_rows_are_shown_by_the_commit_and_a_repeat_shows_nothing() -> None:
    book = Book()
    sink = opened(book)
    for batch in range(2):
        write(sink, write_id(batch))
    first, second = pre_commit(sink, 1, write_id(0)), pre_commit(sink, 2, write_id(1))
    assert visible(book) == []
    sink.commit(first)
    sink.commit(second)
    opened(book).recover_and_commit(first)
    compare(visible(book), rows_of(write_id(0), write_id(1)))
    assert sink.settled == [1, 2]
    assert sink.said[-2:] == ["sink sink: cannot commit checkpoint 1", "sink sink: cannot commit checkpoint 2"]


def test_whoever_commits_at_the_same_time_is_no_loss() -> None:
    book = Book()
    sink, other = opened(book), opened(book)
    write(sink, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))

    def other_is_faster() -> None:
        sink.after_listing = lambda: None
        other.commit(committable)

    sink.after_listing = other_is_faster
    sink.commit(committable)
    compare(visible(book), rows_of(write_id(0)))


def test_what_somebody_rolls_back_after_the_list_was_read_is_not_passed_over() -> None:
    book = Book()
    sink = opened(book)
    write(sink, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    lost = book.names()[0]

    def roll_back() -> None:
        sink.after_listing = lambda: None
        book.roll_back(lost)

    sink.after_listing = roll_back
    with pytest.raises(BadStorage, match=f"transaction {lost} is gone, which checkpoint 1 pre-committed and nobody"):
        sink.commit(committable)
    assert sink.settled == []


def test_of_a_checkpoint_of_which_something_is_gone_nothing_is_committed() -> None:
    book = Book()
    sink = opened(book)
    write(sink, write_id(0))
    write(sink, write_id(1))
    committable = pre_commit(sink, 1, write_id(0), write_id(1))
    lost = book.names()[1:3]
    for name in lost:
        book.roll_back(name)
    with pytest.raises(BadStorage, match=rf"sink sink: transaction {min(lost)}, with 1 others, is gone, which"):
        sink.commit(committable)
    with pytest.raises(BadStorage, match=rf"{min(lost)}, with 1 others, is gone before its checkpoint"):
        pre_commit(sink, 2, write_id(0), write_id(1))
    assert visible(book) == []


def test_what_a_forgotten_task_prepared_is_rolled_back_and_never_committed() -> None:
    book = Book()
    sink = opened(book)
    write(sink, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    sink.one(write_id(0), 1)
    sink.one(write_id(1), 1)
    sink.commit(committable)
    compare(visible(book), rows_of(write_id(0)))
    assert set(sink.prepared(book).values()) == {write_id(1)}


def test_a_partition_that_spark_ran_twice_counts_once() -> None:
    book = Book()
    sink = opened(book)
    sink.begin_transaction(write_id(0))
    sink.one(write_id(0), 0)
    sink.invoke(write_id(0), NOTHING)
    assert len(book.names()) == 2
    sink.commit(pre_commit(sink, 1, write_id(0)))
    compare(visible(book), rows_of(write_id(0)))


def test_a_batch_of_which_something_is_gone_again_fails() -> None:
    book = Book()
    sink = opened(book)
    sink.begin_transaction(write_id(0))
    sink.prepare = lambda *_: ["hg-of-nobody"]  # type: ignore[method-assign]
    with pytest.raises(ExternalError, match="of what was prepared for batch 0, 1 transactions are gone again"):
        sink.invoke(write_id(0), NOTHING)
    with pytest.raises(BadStorage, match="nobody knows what run 1 wrote for batch 0"):
        pre_commit(sink, 1, write_id(0))


def test_a_batch_that_is_begun_again_throws_away_what_earlier_runs_prepared_and_nothing_else() -> None:
    book = Book()
    sink = opened(book)
    for what in (write_id(0), write_id(1), write_id(1, run=3), write_id(1, generation=2)):
        sink.one(what, 0)
    sink.begin_transaction(write_id(1, run=2))
    assert set(sink.prepared(book).values()) == {write_id(0), write_id(1, run=3), write_id(1, generation=2)}


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        (FailedAttempts(Generation(1), Run(2), {Batch(0): Run(1)}), {write_id(0), write_id(0, generation=2)}),
        (StaleGenerations(Generation(2)), {write_id(0, generation=2)}),
        (Unpublished(Generation(1), Batch(0)), {write_id(0), write_id(0, generation=2)}),
    ],
)
def test_what_is_covered_is_thrown_away_whoever_prepared_it(scope: Any, left: set[WriteId]) -> None:
    book = Book()
    before = opened(book)
    for what in (write_id(0), write_id(1), write_id(0, generation=2)):
        write(before, what)
    sink = opened(book)
    sink.abort(scope)
    assert set(sink.prepared(book).values()) == left
    before.abort(scope)
    with pytest.raises(BadStorage, match="nobody knows"):
        pre_commit(before, 2, write_id(1))


def test_transactions_of_others_are_left_alone() -> None:
    book = Book()
    sink, other = opened(book), opened(book, replace(CONTEXT, incarnation="another"))
    write(other, write_id(0))
    for name in ("somebody's", f"{sink.owner.label}-1", f"{sink.owner.name(write_id(0), Place(0, 0))}-0"):
        book.prepare(name, "account", [])
    before = book.names()
    sink.abort(StaleGenerations(Generation(99)))
    assert book.names() == before


def test_a_checkpoint_without_rows_asks_nobody() -> None:
    sink = opened(Book())
    sink.prepare = lambda *_: [""]  # type: ignore[method-assign]
    write(sink, write_id(0))
    said = len(sink.said)
    sink.commit(pre_commit(sink, 1, write_id(0)))
    sink.commit(pre_commit(sink, 2))
    assert sink.said[said:] == []


def test_a_committable_names_every_transaction_and_reads_back_as_it_was_written() -> None:
    whose = Whose("job", SinkId("out"), Generation(7), CheckpointId(9))
    parts = ((whose.write_id(5, 2), ("a", "b")), (whose.write_id(6, 2), ()))
    pre_committed = TransactionCommittable(whose, parts)
    written = '{"version":1,"job":"job","sink":"out","generation":7,"checkpoint":9,"parts":[[5,2,["a","b"]],[6,2,[]]]}'
    assert pre_committed.to_text() == written
    assert TransactionCommittable.from_text(written) == pre_committed


@pytest.mark.parametrize("parts", ["3", "[3]", "[[5]]", "[[5,2,[3]]]", "[[-5,2,[]]]", "[[5,2,[null]]]"])
def test_a_committable_that_is_none_is_refused(parts: str) -> None:
    text = f'{{"version":1,"job":"job","sink":"out","generation":7,"checkpoint":9,"parts":{parts}}}'
    with pytest.raises(BadStorage, match="cannot be read"):
        TransactionCommittable.from_text(text)


def test_a_name_fits_and_is_found_by_its_owner_and_by_nobody_else() -> None:
    owner = Owner("j" * 300, SinkId("s" * 300), "i" * 300)
    what = owner.write_id(10**9, 10**12, 10**9)
    name = owner.name(what, Place(10**6, 10**15))
    assert re.fullmatch("[a-z0-9-]{1,127}", name)
    assert owner.whose(name) == what
    for other in (replace(owner, job="j"), replace(owner, sink=SinkId("s")), replace(owner, incarnation="i")):
        assert other.own([name]) == {}


# -- the example in the documentation --------------------------------------------------------------------------------


def test_the_sink_in_the_documentation_works_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book()

    class Client:
        """What the example calls ``connect()``."""

        def __enter__(self) -> Self:
            self.rows: list[Row] = []
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def insert(self, rows: pa.RecordBatch) -> None:
            self.rows += [(row["number"], row["writer"]) for row in rows.to_pylist()]

        def insert_marker(self, name: str) -> None:
            self.marker = name

        def prepare(self, name: str) -> None:
            assert self.marker == name
            book.prepare(name, "account", self.rows)

        def __getattr__(self, name: str) -> Any:
            known: Mapping[str, Any] = {
                "list_prepared": book.names,
                "commit_prepared": book.commit,
                "roll_back_prepared": book.roll_back,
                "has_marker": book.has_marker,
            }
            return known[name]

    def in_this_process(rows: list[list[Row]], write: headgate.Write) -> list[str]:
        schema = pa.schema([("number", pa.int64()), ("writer", pa.string())])
        return [
            write(Place(number, number), iter([pa.RecordBatch.from_pylist(named(part), schema)]))
            for number, part in enumerate(rows)
        ]

    def named(rows: list[Row]) -> list[dict[str, object]]:
        return [{"number": number, "writer": writer} for number, writer in rows]

    (block,) = re.findall(r"```python\n((?:(?!```).)*hg\.PreparedSink.*?)```", SINKS.read_text("utf-8"), re.DOTALL)
    there: dict[str, Any] = {"connect": Client, "hg": headgate, "__name__": "example"}
    monkeypatch.setattr(headgate, "write_partitions", in_this_process, raising=False)
    exec(block, there)  # noqa: S102 - our own documentation
    (made,) = (each for each in there.values() if isinstance(each, type) and issubclass(each, headgate.PreparedSink))
    sink: Any = made()
    sink.open(CONTEXT)
    for batch in range(2):
        sink.begin_transaction(write_id(batch))
        sink.invoke(write_id(batch), [rows_of(write_id(batch))[:7], rows_of(write_id(batch))[7:]])
    committable = pre_commit(sink, 1, write_id(0))
    assert visible(book) == []
    sink.commit(committable)
    sink.commit(committable)
    sink.abort(StaleGenerations(Generation(2)))
    compare(visible(book), rows_of(write_id(0)))
    assert book.names() == []
