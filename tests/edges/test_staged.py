"""What sinks stage stands in the storage before its checkpoint counts, and comes back from there."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from headgate.channel.gates import Gates
from headgate.core import effects as e
from headgate.core.events import (
    CommitFailed,
    Event,
    PreCommitFailed,
    SinkPreCommitted,
    StaleGenerationsAborted,
    TransactionCommitted,
)
from headgate.core.graph import Graph, Operator, Task
from headgate.core.ids import Batch, CheckpointId, Generation, OperatorUid, Run, SinkId, TaskId
from headgate.core.records import CommitPermit, CompletedCheckpoint, Kind, Transaction
from headgate.core.state import JobState
from headgate.errors import ExternalError
from headgate.run.loop import Observation
from headgate.run.perform import Performer
from headgate.run.staged import StagedFiles
from headgate.run.storage import Storage
from headgate.sink.api import SinkContext, WriteId
from headgate.sink.committable import StagedCommittable
from headgate.sink.wal import WriteAheadBatch, WriteAheadSink
from headgate.snapshot.take import Snapshots
from headgate.store.jobstore import JobStore
from tests.edges.stores import FIRST, SECOND, US, open_job

SINK = SinkId("out")
TASK = TaskId("task")
GRAPH = Graph((Task(TASK, operators=(Operator(OperatorUid("operator")),), sinks=(SINK,), has_source=True),), ())
ROWS = 5


class SqliteSink(WriteAheadSink):
    """A sink whose other side is a real database, and whose batches are Arrow tables: no Spark is needed."""

    def __init__(self, database: Path) -> None:
        super().__init__(parallelism=2)
        self._database = database

    def describe(self) -> str:
        return f"table of {self._database}"

    def _open(self, _: SinkContext) -> None:
        with sqlite3.connect(self._database) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER)")
            connection.execute("CREATE TABLE IF NOT EXISTS marks (owner TEXT PRIMARY KEY, mark TEXT)")

    def _write(self, dataframe: Any, part: Path) -> None:
        part.mkdir(parents=True)
        for partition in range(2):
            parquet.write_table(dataframe.slice(partition * 3, 3), part / f"part-{partition:05}-x.parquet")

    def apply(self, batch: WriteAheadBatch) -> None:
        with sqlite3.connect(self._database, isolation_level="IMMEDIATE") as connection:
            mark = "{:020}.{:020}".format(*batch.mark)
            found = connection.execute("SELECT mark FROM marks WHERE owner = ?", (batch.owner,)).fetchone()
            if found is not None and found[0] >= mark:
                return
            for rows in batch.record_batches():
                numbers = [(number,) for number in rows.column("number").to_pylist()]
                connection.executemany("INSERT INTO numbers VALUES (?)", numbers)
            connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (batch.owner, mark))


class Ran:
    """A task whose every batch was committed by its first run."""

    def run_of(self, *_: object) -> Run:
        return Run(1)

    def committed_runs(self, *_: object) -> dict[Batch, Run]:
        return {}

    def settled(self, *_: object) -> None:
        pass

    def inputs(self, *_: object) -> tuple[None, None]:
        return None, None


class Inline:
    """SerialExecutors on which everything is done at once."""

    def put(self, _: str, job: Callable[..., Any], *arguments: Any) -> None:
        job(*arguments)


class Leader:
    """A process that leads: a storage, a working directory, and a sink that was opened here."""

    def __init__(self, store: JobStore, work: Path, database: Path, generation: Generation = FIRST) -> None:
        self.store, self.work, self.generation = store, work, generation
        self.told: list[Event | Observation] = []
        self.sink = SqliteSink(database)
        self.sink.open(SinkContext("job", SINK, store.incarnation(), work / "staged" / SINK))
        snapshots = Snapshots(work, None if work == store.local_root else store.copy_in)
        storage = Storage(store, work, snapshots, self.told.append, lambda _: True)
        self._performer = Performer(
            job="job",
            graph=GRAPH,
            tasks=Ran(),  # type: ignore[arg-type]
            sinks={SINK: self.sink},
            gates=Gates(),
            snapshots=snapshots,
            storage=storage,
            serial_executors=Inline(),  # type: ignore[arg-type]
            tell=self.told.append,
            answer=lambda _: None,
        )

    def write(self, batch: int) -> None:
        write_id = WriteId("job", SINK, self.generation, Batch(batch), Run(1))
        self.sink.begin_transaction(write_id)
        numbers = pa.table({"number": list(range(batch * ROWS, (batch + 1) * ROWS))})
        self.sink.invoke(write_id, numbers)

    def pre_commit(self, checkpoint: int, after: int, through: int) -> Transaction:
        order = e.PreCommitSink(self.generation, CheckpointId(checkpoint), SINK, Batch(after), Batch(through))
        self.perform(order)
        pre_committed = self.fact()
        assert isinstance(pre_committed, SinkPreCommitted), pre_committed
        return Transaction(
            SINK, self.generation, CheckpointId(checkpoint), Batch(after), Batch(through), pre_committed.committable
        )

    def publish(self, checkpoint: int, *transactions: Transaction) -> None:
        """The checkpoint counts from here on."""
        record = CompletedCheckpoint(
            CheckpointId(checkpoint), self.generation, US, Kind.CHECKPOINT, (), (), transactions
        )
        assert self.store.create_record(record, {}) is None

    def commit(self, *transactions: Transaction) -> Event | Observation:
        for transaction in transactions:
            permit = CommitPermit(transaction.checkpoint, self.generation)
            self.perform(e.CommitTransaction(self.generation, permit, transaction))
        return self.fact()

    def recover(self) -> Event | Observation:
        """Commit what the newest checkpoint owes, and then throw away what is left of earlier generations."""
        newest = [record for record in self.store.read_checkpoint_log() if isinstance(record, CompletedCheckpoint)][-1]
        return self.commit(*newest.transactions)

    def throw_away(self) -> None:
        self.perform(e.AbortStaleGenerations(self.generation, SINK, self.generation))
        assert self.fact() == StaleGenerationsAborted(self.generation, SINK, self.generation)

    def perform(self, order: e.Effect) -> None:
        self._performer.perform(order, JobState.__new__(JobState))

    def fact(self) -> Event | Observation:
        return next(each for each in reversed(self.told) if not isinstance(each, Observation) or each.kind == "warning")


class Place:
    """A storage, a working directory elsewhere, and the database that readers look at."""

    def __init__(self, place: Path, *, remote: bool) -> None:
        self.store = open_job(place / "storage", remote=remote)
        self.work = place / "work"
        self.database = place / "numbers.db"

    def lead(self, generation: Generation = FIRST, work: Path | None = None) -> Leader:
        return Leader(self.store, work or self.work, self.database, generation)

    def rows(self) -> list[int]:
        with sqlite3.connect(self.database) as connection:
            return sorted(number for (number,) in connection.execute("SELECT number FROM numbers"))

    def stored(self) -> list[str]:
        return [entry.path for entry in self.store.list("staged")]


@pytest.fixture(params=["a directory", "remote"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, remote=request.param == "remote")


def test_rows_of_a_published_checkpoint_come_back_when_the_working_directory_is_lost(place: Place) -> None:
    leader = place.lead()
    leader.write(0)
    leader.write(1)
    leader.publish(3, leader.pre_commit(3, -1, 1))
    shutil.rmtree(place.work)
    successor = place.lead(SECOND)
    assert isinstance(successor.recover(), TransactionCommitted)
    assert place.rows() == list(range(2 * ROWS))
    assert place.stored() == []
    assert isinstance(successor.recover(), TransactionCommitted), "a repeat is harmless, though nothing is there now"
    assert place.rows() == list(range(2 * ROWS))


def test_nothing_is_copied_where_the_working_directory_is_the_storage(tmp_path: Path) -> None:
    place = Place(tmp_path, remote=False)
    inside = place.store.local_root
    leader = place.lead(work=inside)
    leader.write(0)
    transaction = leader.pre_commit(3, -1, 0)
    before = place.stored()
    assert len(before) == 2
    assert all("/_headgate/" in path for path in before), "what is there is where the sink staged it, and no more"
    leader.publish(3, transaction)
    assert isinstance(leader.commit(transaction), TransactionCommitted)
    assert place.rows() == list(range(ROWS))
    assert place.stored() == []


def test_a_file_that_is_damaged_in_the_working_directory_is_brought_back_from_the_storage(place: Place) -> None:
    leader = place.lead()
    leader.write(0)
    leader.publish(3, leader.pre_commit(3, -1, 0))
    flip(staged_file(place.work))
    assert isinstance(place.lead(SECOND).recover(), TransactionCommitted)
    assert place.rows() == list(range(ROWS))


def test_a_file_that_is_damaged_while_its_leader_lives_is_refused_and_then_brought_back(place: Place) -> None:
    leader = place.lead()
    leader.write(0)
    transaction = leader.pre_commit(3, -1, 0)
    leader.publish(3, transaction)
    flip(staged_file(place.work))
    failed = leader.commit(transaction)
    assert isinstance(failed, CommitFailed)
    assert (
        "part-00000-x.parquet is damaged: its checksum does not match, as checkpoint 3 pre-committed it" in failed.why
    )
    assert isinstance(leader.commit(transaction), TransactionCommitted)
    assert place.rows() == list(range(ROWS))


def test_a_damaged_file_without_a_good_copy_is_never_committed_and_never_deleted(tmp_path: Path) -> None:
    place = Place(tmp_path, remote=False)
    inside = place.store.local_root
    assert inside is not None
    leader = place.lead(work=inside)
    leader.write(0)
    transaction = leader.pre_commit(3, -1, 0)
    leader.publish(3, transaction)
    victim = staged_file(inside)
    flip(victim)
    damaged = victim.read_bytes()
    for _ in range(2):
        failed = place.lead(SECOND, work=inside).recover()
        assert isinstance(failed, CommitFailed)
        assert f"{victim} is damaged" in failed.why
        assert "restore it from a copy" in failed.why
    assert victim.read_bytes() == damaged
    assert not set(range(3)) & set(place.rows()), "the rows of the damaged file"
    flip(victim)
    assert isinstance(place.lead(SECOND, work=inside).recover(), TransactionCommitted)
    assert place.rows() == list(range(ROWS))


def test_a_damaged_copy_takes_the_place_of_nothing_and_is_refused(place: Place, tmp_path: Path) -> None:
    leader = place.lead()
    leader.write(0)
    leader.publish(3, leader.pre_commit(3, -1, 0))
    copies = tmp_path / "storage/job/staged/out"
    for copy in copies.iterdir():
        flip(copy)
    shutil.copytree(place.work, tmp_path / "good")
    flip(staged_file(place.work))
    damaged = staged_file(place.work).read_bytes()
    failed = place.lead(SECOND).recover()
    assert isinstance(failed, CommitFailed)
    assert staged_file(place.work).read_bytes() == damaged
    shutil.rmtree(place.work)
    failed = place.lead(SECOND).recover()
    assert isinstance(failed, CommitFailed)
    assert "is damaged" in failed.why
    assert place.rows() == []
    assert len(list(copies.iterdir())) == 2
    shutil.copytree(tmp_path / "good", place.work, dirs_exist_ok=True)
    assert isinstance(place.lead(SECOND).recover(), TransactionCommitted)
    assert place.rows() == list(range(ROWS))


def test_what_was_pre_committed_for_a_checkpoint_that_was_given_up_is_carried_over(place: Place) -> None:
    leader = place.lead()
    leader.write(0)
    given_up = leader.pre_commit(3, -1, 0)
    leader.write(1)
    leader.publish(4, given_up, leader.pre_commit(4, 0, 1))
    shutil.rmtree(place.work)
    assert isinstance(place.lead(SECOND).recover(), TransactionCommitted)
    assert place.rows() == list(range(2 * ROWS))


def test_a_pre_commit_that_cannot_reach_the_storage_has_failed_and_the_next_one_has_it_all(place: Place) -> None:
    leader = place.lead()
    leader.write(0)
    copy_in, place.store.copy_in = place.store.copy_in, away  # type: ignore[method-assign]
    leader.perform(e.PreCommitSink(FIRST, CheckpointId(3), SINK, Batch(-1), Batch(0)))
    failed = leader.fact()
    assert isinstance(failed, PreCommitFailed)
    assert "the storage is away" in failed.why
    place.store.copy_in = copy_in  # type: ignore[method-assign]
    leader.write(1)
    leader.publish(4, leader.pre_commit(4, -1, 1))
    shutil.rmtree(place.work)
    assert isinstance(place.lead(SECOND).recover(), TransactionCommitted)
    assert place.rows() == list(range(2 * ROWS))


def test_copies_that_could_not_be_deleted_go_with_the_next_commit(place: Place) -> None:
    leader = place.lead()
    leader.write(0)
    first = leader.pre_commit(3, -1, 0)
    leader.publish(3, first)
    delete, place.store.delete = place.store.delete, away  # type: ignore[method-assign]
    assert isinstance(leader.commit(first), TransactionCommitted), "it is committed all the same"
    place.store.delete = delete  # type: ignore[method-assign]
    assert len(place.stored()) == 2
    leader.write(1)
    second = leader.pre_commit(4, 0, 1)
    leader.publish(4, second)
    assert isinstance(leader.commit(second), TransactionCommitted)
    assert place.stored() == []


def test_copies_of_what_never_counted_go_with_the_next_generation_and_no_others(place: Place) -> None:
    leader = place.lead()
    leader.write(0)
    leader.publish(3, leader.pre_commit(3, -1, 0))
    leader.write(1)
    leader.pre_commit(4, 0, 1)
    shutil.rmtree(place.work)
    successor = place.lead(SECOND)
    assert isinstance(successor.recover(), TransactionCommitted)
    successor.write(1)
    ours = successor.pre_commit(5, 0, 1)
    assert len(place.stored()) == 4
    successor.throw_away()
    assert len(place.stored()) == 2
    successor.publish(5, ours)
    shutil.rmtree(place.work)
    assert isinstance(place.lead(Generation(3)).recover(), TransactionCommitted)
    assert place.rows() == list(range(2 * ROWS))


def test_a_working_directory_that_was_moved_is_no_loss(tmp_path: Path) -> None:
    """Into the storage, and out of it, while a transaction is owed."""
    place = Place(tmp_path, remote=False)
    inside = place.store.local_root
    leader = place.lead()
    leader.write(0)
    leader.publish(3, leader.pre_commit(3, -1, 0))
    shutil.rmtree(place.work)
    successor = place.lead(SECOND, work=inside)
    assert isinstance(successor.recover(), TransactionCommitted)
    assert place.stored() == []
    successor.write(1)
    successor.publish(4, successor.pre_commit(4, 0, 1))
    assert isinstance(place.lead(Generation(3), work=tmp_path / "other").recover(), TransactionCommitted)
    assert place.rows() == list(range(2 * ROWS))


def test_a_file_that_is_brought_back_is_as_old_as_its_pre_commit(place: Place) -> None:
    leader = place.lead()
    leader.write(0)
    transaction = leader.pre_commit(3, -1, 0)
    pre_committed = StagedCommittable.from_text(transaction.committable)
    late = replace(pre_committed, pre_committed_ms=pre_committed.pre_committed_ms - 3_600_000)
    old = replace(transaction, committable=late.to_text())
    shutil.rmtree(place.work)
    successor = place.lead(SECOND)
    files = successor.sink.staged(old.committable)
    StagedFiles(place.store, place.work).bring(SINK, FIRST, files, thorough=True)
    assert staged_file(place.work).stat().st_mtime_ns // 1_000_000 == late.pre_committed_ms


def test_what_an_earlier_version_pre_committed_without_checksums_is_still_committed(place: Place) -> None:
    leader = place.lead()
    leader.write(0)
    transaction = leader.pre_commit(3, -1, 0)
    fields = json.loads(transaction.committable)
    del fields["pre_committed_ms"]
    for part in fields["parts"]:
        part[2] = [file[:2] for file in part[2]]
    leader.publish(3, replace(transaction, committable=json.dumps(fields)))
    assert isinstance(place.lead(SECOND).recover(), TransactionCommitted)
    assert place.rows() == list(range(ROWS))


def test_output_that_changes_before_its_pre_commit_is_not_pre_committed(place: Place) -> None:
    leader = place.lead()
    leader.write(0)
    victim = staged_file(place.work)
    victim.write_bytes(victim.read_bytes()[:-1])
    leader.perform(e.PreCommitSink(FIRST, CheckpointId(3), SINK, Batch(-1), Batch(0)))
    failed = leader.fact()
    assert isinstance(failed, PreCommitFailed)
    assert "has changed since it was written: restart the job from its last checkpoint" in failed.why


def flip(file: Path) -> None:
    """One bit, in the middle."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def staged_file(work: Path) -> Path:
    return next(work.glob("staged/out/_headgate/*/g1/b0-r1/part-00000-x.parquet"))


def away(*_: object, **__: object) -> None:
    raise ExternalError("the storage is away")
