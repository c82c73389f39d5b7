"""A job that has published files, as its storage shows it when nobody runs it.

The sink is the real one; only Spark is not there: its files are written by Arrow.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from headgate import files
from headgate.core.effects import CommitTransaction, PreCommitSink
from headgate.core.ids import Batch, CheckpointId, Generation, LeaderId, Run, SinkId, TaskId
from headgate.core.records import CommitPermit, CompletedCheckpoint, EpochRecord, Kind, TaskSnapshot, Transaction
from headgate.receipts.receipt import SECTION
from headgate.run.receipts import Receipts
from headgate.sink.api import SinkContext, WriteId
from headgate.sink.files import FileSink
from headgate.sink.staging import Staging
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore

JOB, OUT, TASK = "orders", SinkId("out"), TaskId("t")
LEADER = LeaderId("one")
ROWS = 5
GENERATION = Generation(1)


class PublishedJob:
    """Each checkpoint publishes a batch, a file with ``ROWS`` rows."""

    def __init__(self, place: Path) -> None:
        self.uri = str(place / "storage")
        self.target = place / "out"
        self.store = JobStore.open(open_store(self.uri), JOB)
        self.receipts = Receipts()
        sink = files.sink(self.target)
        assert isinstance(sink, FileSink)
        self.sink = sink
        self.sink.open(SinkContext(JOB, OUT))
        self.next = 1
        self.began(GENERATION, None)

    def began(self, generation: int, base: int | None) -> None:
        """A generation begins."""
        self.generation = Generation(generation)
        began = EpochRecord(
            CheckpointId(self.next),
            self.generation,
            LEADER,
            CheckpointId(self.next + 1),
            None if base is None else CheckpointId(base),
        )
        assert self.store.create_record(began, {}) is None
        self.next += 1
        self.append({"event": "generation", "generation": generation, "base": base, "leader": LEADER})

    def pre_commit(self, batch: int, checkpoint: int) -> Transaction:
        """Write a batch, and pre-commit it."""
        write_id = WriteId(JOB, OUT, self.generation, Batch(batch), Run(1))
        self.sink.begin_transaction(write_id)
        part = Staging(self.target, JOB, OUT).part(write_id)
        part.mkdir(parents=True)
        table = pa.table({"n": range(batch * ROWS, (batch + 1) * ROWS)})
        parquet.write_table(table, part / f"part-00000-{batch}.parquet")
        self.receipts.wrote(write_id, ROWS)
        order = PreCommitSink(self.generation, CheckpointId(checkpoint), OUT, Batch(batch - 1), Batch(batch))
        committable = self.sink.pre_commit(order.checkpoint, order.generation, [write_id])
        place, content = self.sink.place, self.sink.content_hash(committable)
        offsets = {"in": (None if batch == 0 else f"{batch}", f"{batch + 1}")}
        self.receipts.pre_committed(order, TASK, [write_id], (offsets, {}), place, content, 1_000 + batch)
        return Transaction(OUT, self.generation, order.checkpoint, order.after, order.through, committable)

    def complete(self, checkpoint: int, batch: int, transactions: Sequence[Transaction]) -> None:
        """The checkpoint counts."""
        snapshot = TaskSnapshot(TASK, (), (), 1, self.generation, Batch(batch), (), False, ())
        record = CompletedCheckpoint(
            CheckpointId(checkpoint), self.generation, LEADER, Kind.CHECKPOINT, (snapshot,), (), tuple(transactions)
        )
        assert self.store.create_record(record, {SECTION: self.receipts.section(record)}) is None
        self.next = checkpoint + 1

    def commit(self, transaction: Transaction, *, told: bool = True, at_ms: int = 2_000) -> None:
        """The sink commits; the process may die before it has written so."""
        self.sink.commit(transaction.committable)
        permit = CommitPermit(transaction.checkpoint, self.generation)
        line = self.receipts.committed(CommitTransaction(self.generation, permit, transaction), TASK, at_ms)
        if told:
            self.append({"event": "receipt", **line})

    def dies(self) -> None:
        """Its process is killed. The next one knows what is in the newest record, and nothing else."""
        self.receipts = Receipts()
        newest = CheckpointId(self.next - 1)
        self.receipts.know(self.store.read_record(newest)[1], f"the record of checkpoint {newest}")

    def publish(self, batch: int, *, told: bool = True) -> Transaction:
        """All of it for one batch. Returns what was published."""
        checkpoint = self.next
        transaction = self.pre_commit(batch, checkpoint)
        self.complete(checkpoint, batch, [transaction])
        self.commit(transaction, told=told)
        return transaction

    def append(self, line: dict[str, Any]) -> None:
        """A line of the history."""
        self.store.append_history([{"at": 2_000, **line}])

    def files(self) -> list[Path]:
        """What readers of the target see."""
        return sorted(path for path in self.target.iterdir() if not path.name.startswith("_"))
