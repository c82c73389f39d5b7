"""How each order of the core is carried out.

One rule: an order is carried out as it is given, on the serial executor of what it is about, and its outcome is told as
a fact. Carrying it out twice does no more than once.

What belongs together keeps its order: a task's starts and stops, a sink's pre-commits and commits, the records of the
checkpoint log and its holds. Everything else does not wait for anything.
"""

import threading
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, assert_never

from headgate.about import about
from headgate.channel.gates import Gates
from headgate.core import effects as e
from headgate.core.effects import Effect
from headgate.core.events import (
    CommitFailed,
    Event,
    FailedAttemptsAborted,
    PreCommitFailed,
    SinkPreCommitted,
    SnapshotDeclined,
    SnapshotTaken,
    StaleGenerationsAborted,
    TransactionCommitted,
)
from headgate.core.graph import Graph
from headgate.core.ids import Batch, CheckpointId, Generation, SinkId
from headgate.core.records import CompletedCheckpoint
from headgate.core.state import JobState
from headgate.errors import HeadgateError, InternalError
from headgate.run.batch_runs import Past
from headgate.run.loop import Observation
from headgate.run.serial import SerialExecutors
from headgate.run.storage import Storage
from headgate.run.tasks import Tasks
from headgate.sink.api import AbortScope, FailedAttempts, StaleGenerations, TwoPhaseSink, Unpublished, WriteId
from headgate.snapshot.take import SnapshotCancelled, Snapshots


class Performer:
    """Carries out the orders of one process."""

    def __init__(
        self,
        *,
        job: str,
        graph: Graph,
        tasks: Tasks,
        sinks: Mapping[SinkId, TwoPhaseSink],
        gates: Gates,
        snapshots: Snapshots,
        storage: Storage,
        serial_executors: SerialExecutors,
        tell: Callable[[Event | Observation], None],
        answer: Callable[[e.Notify], None],
    ) -> None:
        """Everything an order may need."""
        self._job = job
        self._graph = graph
        self._tasks = tasks
        self._sinks = sinks
        self._gates = gates
        self._snapshots = snapshots
        self._storage = storage
        self._serial_executors = serial_executors
        self._tell = tell
        self._answer = answer
        self._given_up: dict[CheckpointId, threading.Event] = {}
        self._newest: CheckpointId | None = None
        """The checkpoint that was completed last."""
        self._failed_commits: set[SinkId] = set()
        """Sinks whose last commit failed: what they staged is looked at more closely before the next try."""
        self._readers = {channel.id: channel.downstream for channel in graph.channels}

    def perform(self, order: Effect, state: JobState) -> None:
        """Carry out an order, or put it on its serial executor."""

        def put(serial_executor: str, work: Callable[..., object], *arguments: object) -> None:
            self._serial_executors.put(serial_executor, _telling(self._about(order), work), *arguments)

        match order:
            case e.StartTask():
                put(f"task-{order.task}", self._tasks.start, order, state.retained.base)
            case e.StopTask():
                if not order.drain:
                    self._tasks.interrupt(order)
                put(f"task-{order.task}", self._tasks.stop, order)
            case e.AskTask():
                put(f"ask-{order.task}", self._tasks.ask, order)
            case e.AdmitBatch():
                self._tasks.admit(order)
            case e.OpenGate():
                self._gates.open(order.generation, order.channel, self._readers[order.channel], order.through)
            case e.TakeSnapshot():
                flag = self._given_up.setdefault(order.checkpoint, threading.Event())
                put(f"snapshot-{order.task}", self._take_snapshot, order, flag)
            case e.AbortSnapshot():
                self._given_up.setdefault(order.checkpoint, threading.Event()).set()
            case e.NotifyCompleted():
                self._forget_through(order.checkpoint)
                done = next((c for c in state.retained.completed if c.id == order.checkpoint), None)
                if done is not None:
                    self._newest = done.id
                    put("notify", self._notify, done)
            case e.PreCommitSink():
                put(f"sink-{order.sink}", self._pre_commit, order)
            case e.CommitTransaction():
                put(f"sink-{order.transaction.sink}", self._commit, order)
            case e.AbortFailedAttempts():
                put(f"sink-{order.sink}", self._abort_failed_attempts, order)
            case e.AbortStaleGenerations():
                put(f"sink-{order.sink}", self._abort_stale_generations, order)
            case e.AbortUnpublished():
                put(f"sink-{order.sink}", self._abort, order.sink, Unpublished(order.generation, order.after))
            case e.ReadCheckpointLog():
                put("store", self._storage.read_checkpoint_log, order)
            case e.CreateRecord():
                put("store", self._storage.create_record, order)
            case e.SetHold():
                put("store", self._storage.set_hold, order)
            case e.CopySavepoint():
                put("copy", self._storage.copy_savepoint, order)
            case e.DeleteSavepoint():
                put("copy", self._storage.delete_savepoint, order)
            case e.ListFiles():
                self._serial_executors.put_once("garbage", self._storage.list_files, order)
            case e.DeleteFiles():
                put("garbage", self._storage.delete_files, order)
            case e.Notify():
                self._answer(order)
            case e.AnswerAck():
                pass  # A task's snapshot holds nothing open that would wait for the answer.
            case _:
                assert_never(order)

    def _about(self, order: Effect) -> dict[str, object]:
        """What an order is about, for the log."""
        given = order.transaction if isinstance(order, e.CommitTransaction) else order
        sink = getattr(given, "sink", None)
        record = order.record if isinstance(order, e.CreateRecord) else None
        return {
            "task": getattr(given, "task", None) if sink is None else self._graph.owner.get(sink),
            "checkpoint": getattr(given, "checkpoint", None) if record is None else record.id,
            "batch": getattr(given, "batch", getattr(given, "through", None)),
        }

    # -- a checkpoint's parts ------------------------------------------------------------------------------------------

    def _take_snapshot(self, order: e.TakeSnapshot, flag: threading.Event) -> None:
        if flag.is_set():
            return
        try:
            taken = self._snapshots.take(order.task, order.generation, order.batch, flag)
        except SnapshotCancelled:
            return
        except (HeadgateError, OSError) as error:
            self._tell(SnapshotDeclined(order.generation, order.checkpoint, order.task, str(error)))
            return
        self._note(
            "snapshot",
            checkpoint=order.checkpoint,
            task=order.task,
            sync_ms=taken.sync_ms,
            async_ms=taken.async_ms,
            total_bytes=taken.total_bytes,
            new_bytes=taken.new_bytes,
            files=len(taken.names),
            new_files=taken.new_files,
        )
        self._tell(SnapshotTaken(order.generation, order.checkpoint, order.task, order.batch, taken.names))
        sizes = taken.state_bytes()  # Nobody waits for this any more.
        if sizes:
            self._note("state", task=order.task, sizes=sizes)

    def _notify(self, completed: CompletedCheckpoint) -> None:
        """The newest says all that earlier ones would: those are passed over when the other side was slow."""
        if completed.id == self._newest:
            self._tasks.notify(completed)

    def _forget_through(self, checkpoint: CheckpointId) -> None:
        self._given_up = {other: flag for other, flag in self._given_up.items() if other > checkpoint}

    # -- sinks ---------------------------------------------------------------------------------------------------------

    def _write_ids(self, sink: SinkId, generation: Generation, after: Batch, through: Batch) -> list[WriteId]:
        """What was written for each batch. ``InternalError`` if of one of them nobody knows which run wrote it."""
        task = self._graph.owner[sink]
        return [
            WriteId(job=self._job, sink=sink, generation=generation, batch=Batch(number), run=run)
            for number in range(after + 1, through + 1)
            if not isinstance(run := self._tasks.run_of(generation, task, Batch(number)), Past)
        ]

    def _pre_commit(self, order: e.PreCommitSink) -> None:
        begun = time.monotonic()
        sink = self._sinks[order.sink]
        try:
            write_ids = self._write_ids(order.sink, order.generation, order.after, order.through)
        except InternalError as error:
            self._tasks.fail(order.generation, self._graph.owner[order.sink], error)
            self._tell(PreCommitFailed(order.generation, order.checkpoint, order.sink, _line(error)))
            return
        try:
            committable = sink.pre_commit(order.checkpoint, order.generation, write_ids)
            self._storage.staged.keep(order.sink, order.generation, sink.staged(committable))
            place, content = sink.place, sink.content_hash(committable)
        except Exception as error:  # noqa: BLE001 - a sink is the user's: whatever it raises, the pre-commit failed
            self._tell(PreCommitFailed(order.generation, order.checkpoint, order.sink, _line(error)))
            return
        task = self._graph.owner[order.sink]
        inputs = self._tasks.inputs(order.generation, task, order.after, order.through)
        self._storage.receipts.pre_committed(order, task, write_ids, inputs, place, content, _now_ms())
        self._note("pre_commit", checkpoint=order.checkpoint, sink=order.sink, ms=(time.monotonic() - begun) * 1000)
        self._tell(SinkPreCommitted(order.generation, order.checkpoint, order.sink, committable))

    def _commit(self, order: e.CommitTransaction) -> None:
        transaction = order.transaction
        sink = self._sinks[transaction.sink]
        begun = time.monotonic()
        ours = transaction.generation == order.generation
        try:
            needed = sink.staged(transaction.committable)
            doubted = not ours or transaction.sink in self._failed_commits
            self._storage.staged.bring(transaction.sink, transaction.generation, needed, thorough=doubted)
            if ours:
                sink.commit(transaction.committable)
            else:
                sink.recover_and_commit(transaction.committable)
            self._failed_commits.discard(transaction.sink)
            self._storage.staged.drop(transaction.sink, transaction.generation, needed)
        except Exception as error:  # noqa: BLE001 - as in _pre_commit
            self._failed_commits.add(transaction.sink)
            self._tell(
                CommitFailed(
                    order.generation, transaction.sink, transaction.generation, transaction.checkpoint, _line(error)
                )
            )
            return
        if ours:
            self._tasks.settled(transaction.generation, transaction.sink, transaction.through)
        self._note(
            "commit",
            checkpoint=transaction.checkpoint,
            sink=transaction.sink,
            ms=(time.monotonic() - begun) * 1000,
        )
        task = self._graph.owner[transaction.sink]
        self._note("receipt", **self._storage.receipts.committed(order, task, _now_ms()))
        self._tell(
            TransactionCommitted(order.generation, transaction.sink, transaction.generation, transaction.checkpoint)
        )

    def _abort_failed_attempts(self, order: e.AbortFailedAttempts) -> None:
        task = self._graph.owner[order.sink]
        try:
            committed = self._tasks.committed_runs(order.generation, task)
        except InternalError as error:
            self._tasks.fail(order.generation, task, error)
            return
        if self._abort(order.sink, FailedAttempts(order.generation, order.run, committed)):
            self._tell(FailedAttemptsAborted(order.generation, order.sink, order.run))

    def _abort_stale_generations(self, order: e.AbortStaleGenerations) -> None:
        if self._abort(order.sink, StaleGenerations(order.below)):
            self._tell(StaleGenerationsAborted(order.generation, order.sink, order.below))

    def _abort(self, sink: SinkId, scope: AbortScope) -> bool:
        """Whether it worked. If not, the order is given again."""
        try:
            self._sinks[sink].abort(scope)
            if isinstance(scope, StaleGenerations):
                self._storage.staged.clear(sink, scope.below)
        except Exception as error:  # noqa: BLE001 - as in _pre_commit
            self._note("warning", text=f"sink {sink} could not throw away what will never be committed: {_line(error)}")
            return False
        return True

    def _note(self, kind: str, **fields: Any) -> None:
        self._tell(Observation(kind, fields))


def _telling(what: Mapping[str, object], work: Callable[..., object]) -> Callable[..., object]:
    """The same work, whose lines in the log say what it is about."""

    @wraps(work)
    def told(*arguments: object) -> object:
        with about(**what):
            return work(*arguments)

    return told


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
