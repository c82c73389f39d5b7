"""What a checkpoint and a start cost as files and records become many.

One rule: both sizes take turns in one run, with the same number of new files for each checkpoint. No Spark: the
directories are written as Spark leaves them, and what runs is Headgate's own part of a checkpoint: naming the files,
making them durable, publishing, listing, deleting.
"""

import json
import statistics
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from headgate.core import effects as o
from headgate.core.events import (
    BatchCommitted,
    CheckpointAsked,
    CheckpointLogRead,
    Event,
    LeadershipWon,
    SnapshotTaken,
    TaskStarted,
    Ticked,
)
from headgate.core.graph import Graph, Operator, Task
from headgate.core.ids import Batch, CheckpointId, Generation, LeaderId, OperatorUid, RequestId, TaskId
from headgate.core.job import step
from headgate.core.records import AbortedEntry, Boundary, EpochRecord, Record, Restore
from headgate.core.settings import Settings
from headgate.core.state import JobState
from headgate.run.loop import Observation
from headgate.run.storage import Storage
from headgate.snapshot.take import Snapshots, task_directory
from headgate.store import codec
from headgate.store.jobstore import JobStore
from headgate.store.local import LocalStore

FEW, MANY = 200, 20_000
PARTITIONS = 20
CHECKPOINTS = 60
RECORDS = 10_000
ME = LeaderId("bench")
TASK = TaskId("count")


class Job:
    """One job with ``kept`` files: the core, and the edges that it orders about."""

    def __init__(self, home: Path, kept: int) -> None:
        self.root = home / "job"
        store = JobStore.open(LocalStore(home), "job")
        self._snapshots = Snapshots(self.root, None)
        self._facts: list[Event] = []
        self._storage = Storage(store, self.root, self._snapshots, self._hear, lambda _: True)
        graph = Graph((Task(TASK, operators=(Operator(OperatorUid("o"), stateful=True),), has_source=True),), ())
        self._state = JobState(graph=graph, settings=Settings(interval_ms=None, resend_ms=3_600_000))
        self._batch = -1
        self._per_store = kept // PARTITIONS
        self._tell(LeadershipWon(ME, Restore()))
        self._query = self.root / task_directory(TASK, Generation(1))
        self._query.mkdir(parents=True)
        _put(self._query / "metadata", json.dumps({"id": str(UUID(int=0))}))
        self.checkpoint()

    def checkpoint(self) -> tuple[float, float]:
        """One more batch, and a checkpoint of it with all that follows. Its seconds, and its seconds of CPU."""
        self._batch += 1
        self._spark_runs(self._batch)
        begun, cpu = time.perf_counter(), time.process_time()
        self._tell(Ticked(int(time.monotonic() * 1000)))
        self._tell(BatchCommitted(Generation(1), TASK, self._run, Boundary(Batch(self._batch))))
        self._tell(CheckpointAsked(RequestId(f"r{self._batch}")))
        return time.perf_counter() - begun, time.process_time() - cpu

    def _spark_runs(self, batch: int) -> None:
        """Each batch changes one version of each store; every tenth, a snapshot with one new table."""
        version = batch + 1
        _put(self._query / "offsets" / str(batch), 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"offset":0}')
        for store in range(PARTITIONS):
            home = self._query / "state/0" / str(store)
            unique = UUID(int=1000 * version + store)
            _put(home / f"{version}_{unique}.changelog", f"{version}/{store}")
            if batch % 10 == 0:
                self._upload(home, version, str(unique))
        ids = [[str(UUID(int=1000 * version + store))] for store in range(PARTITIONS)]
        _put(self._query / "commits" / str(batch), "v2\n" + json.dumps({"stateUniqueIds": {"0": ids}}))

    def _upload(self, home: Path, version: int, unique: str) -> None:
        first = version // 10

        tables = [f"{number:06d}.sst" for number in range(first, first + self._per_store - 2)]
        for name in tables:
            if not (home / "SSTs" / name).exists():
                _put(home / "SSTs" / name, name)
        listed = [{"dfsSstFileName": name, "sizeBytes": 1} for name in tables]
        with zipfile.ZipFile(home / f"{version}_{unique}.zip", "w") as archive:
            archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": listed}))

    # -- the driver loop, without threads ------------------------------------------------------------------------------

    def _hear(self, fact: Event | Observation) -> None:
        if not isinstance(fact, Observation):
            self._facts.append(fact)

    def _tell(self, fact: Event) -> None:
        self._facts.append(fact)
        while self._facts:
            self._state, orders = step(self._state, self._facts.pop(0))
            for order in orders:
                self._perform(order)

    def _perform(self, order: o.Effect) -> None:
        handlers: dict[type, Callable[..., None]] = {
            o.ReadCheckpointLog: self._storage.read_checkpoint_log,
            o.CreateRecord: self._storage.create_record,
            o.ListFiles: self._storage.list_files,
            o.DeleteFiles: self._storage.delete_files,
            o.StartTask: self._start,
            o.TakeSnapshot: self._take,
        }
        if type(order) in handlers:
            handlers[type(order)](order)

    def _start(self, order: o.StartTask) -> None:
        self._run = order.run
        self._facts.append(TaskStarted(order.generation, order.task, order.run, Boundary(Batch(-1))))

    def _take(self, order: o.TakeSnapshot) -> None:
        taken = self._snapshots.take(order.task, order.generation, order.batch, threading.Event())
        self._facts.append(SnapshotTaken(order.generation, order.checkpoint, TASK, order.batch, taken.names))

    @property
    def files(self) -> int:
        """How many files the newest checkpoint names."""
        return len(self._state.retained.completed[-1].tasks[0].files)


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def checkpoint_growth() -> None:
    """A checkpoint with many kept files, compared with one that has few. Wanted: at most 1.3 times as long."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as scratch:
        few, many = (Job(Path(scratch) / str(kept), kept) for kept in (FEW, MANY))
        seen: dict[int, list[tuple[float, float]]] = {FEW: [], MANY: []}
        for _ in range(CHECKPOINTS):
            seen[FEW].append(few.checkpoint())
            seen[MANY].append(many.checkpoint())
        print(f"growth: {CHECKPOINTS} checkpoints each, with {few.files} and {many.files} files kept")
        for kind, place in (("wall", 0), ("CPU", 1)):
            totals = [sum(each[place] for each in seen[kept]) / CHECKPOINTS * 1000 for kept in (FEW, MANY)]
            medians = [statistics.median(each[place] for each in seen[kept]) * 1000 for kept in (FEW, MANY)]
            print(
                f"  {kind}: mean {totals[0]:.1f} ms and {totals[1]:.1f} ms, ratio {totals[1] / totals[0]:.2f};"
                f" median {medians[0]:.1f} ms and {medians[1]:.1f} ms, ratio {medians[1] / medians[0]:.2f}"
            )


def start_growth() -> None:
    """Reading a checkpoint log of many records at a start. Wanted: at most a second, on a local disk."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as scratch:
        store = JobStore.open(LocalStore(Path(scratch)), "job")
        checkpoint_log = Path(scratch) / "job" / "checkpoint-log"
        checkpoint_log.mkdir()
        for number in range(RECORDS):
            place, generation, leader = CheckpointId(number), Generation(number + 1), LeaderId("x")
            record: Record = EpochRecord(place, generation, leader, CheckpointId(number + 1), None)
            if number % 2 == 0:
                record = AbortedEntry(place, generation, leader)
            (checkpoint_log / f"{number:010d}.json").write_bytes(codec.encode(record, {}))
        heard: list[object] = []
        for turn in ("first", "second"):
            root = Path(scratch) / "job"
            storage = Storage(store, root, Snapshots(root, None), heard.append, lambda _: True)
            begun = time.perf_counter()
            storage.read_checkpoint_log(o.ReadCheckpointLog(LeaderId("x")))
            taken = time.perf_counter() - begun
            read = next(fact for fact in reversed(heard) if isinstance(fact, CheckpointLogRead))
            print(f"growth: the {turn} start with {RECORDS} records: {taken:.3f} s, {len(read.records)} of them read")


def growth() -> None:
    """Both."""
    checkpoint_growth()
    start_growth()
