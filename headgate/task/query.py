"""One run of one task: a Spark streaming query, its hook, and what it tells.

One rule: a batch is committed when Spark's commit log says so, whatever else was heard; and before anybody is told, its
outputs are made visible (``on_commit``), so that whoever hears of a batch can read it.

Orders come from the serial executor of the task, one at a time. The hook runs in Spark's own thread of the query, the
listener in another; they share what is guarded by ``_lock``.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, functions as F  # noqa: N812 - Spark's custom
from pyspark.sql.streaming.query import StreamingQuery

from headgate import layout
from headgate.core.events import (
    BatchCommitted,
    BatchEntered,
    Event,
    OutputsWritten,
    Reported,
    SourceEnded,
    TaskEnded,
    TaskFailed,
    TaskStarted,
)
from headgate.core.ids import NO_BATCH, Batch, ChannelId, Generation, Run, TaskId
from headgate.core.records import Boundary
from headgate.core.restart import Failure, FailureClass
from headgate.errors import HeadgateError
from headgate.task.failure import classify, shorten
from headgate.task.listener import Listener
from headgate.task.logs import failures

BETWEEN = "no batch has begun, and Spark has not said that there is nothing to do,"
SET_BACK_S = 5.0
"""A clock that was set back by less is waited for."""
LOOK_S = 5.0
"""Whoever waits for the end of a query looks this often whether it is still there."""


@dataclass(frozen=True, kw_only=True)
class QuerySpec:
    """What a run of a task is to do. All callables are called on this machine."""

    generation: Generation
    task: TaskId
    run: Run
    name: str
    directory: Path
    """Spark's checkpoint directory for the task."""
    channels: tuple[ChannelId, ...]
    """Inputs, in the order of the graph."""
    begin: tuple[Batch, ...]
    """Where the inputs stood before the first batch."""
    inputs: Callable[[], list[DataFrame]]
    """The sources and channels that the query reads: apart, so that a batch can be run without its input."""
    output: Callable[[list[DataFrame]], DataFrame]
    """What comes out of the query, given its inputs."""
    write: Callable[[DataFrame, Batch], None]
    """Execute the batch's plan exactly once and write what comes out."""
    on_commit: Callable[[Batch], None]
    """Make what a committed batch wrote visible. Repeats are harmless."""
    on_stop: Callable[[], None]
    """Let nobody of this run wait any longer."""
    source_ended: Callable[[layout.Offsets], bool]
    output_mode: str
    trigger_ms: int | None
    stateful: int
    """How many stateful operators there are."""
    check: Callable[[], None] = lambda: None
    """See that all inputs can be read on from where the task stands. Once, before anything else."""


class Stopped(Exception):
    """Raised in the hook when the run is being stopped."""


class BatchFailed(Exception):
    """Raised in the hook when a batch could not be written. The run remembers the cause."""


@dataclass(frozen=True)
class Doing:
    """What a run is at: in words, for how long, for how long lately at most, and on which of our threads, if any."""

    text: str
    for_s: float
    usual_s: float
    thread: int | None


class Query:
    """One run. ``tell`` takes facts, from any thread."""

    def __init__(
        self,
        work: QuerySpec,
        listener: Listener,
        tell: Callable[[Event], None],
        measure: Callable[[str, float, Any], None],
    ) -> None:
        """A run that has not started."""
        self.work = work
        self._listener = listener
        self._tell = tell
        self._measure = measure
        self._lock = threading.Condition()
        self._admitted = NO_BATCH
        self._waiting: Batch | None = None
        self._halting = False
        """The present query is being stopped. Another one of this run may follow."""
        self._interrupted = False
        """Nobody wants this run any more."""
        self._known = NO_BATCH
        self._source_ended = False
        self._ended = False
        self._failure: Failure | None = None
        self._cause: BaseException | None = None
        self.error: BaseException | None = None
        """What was raised on this machine when the run failed."""
        self._query: StreamingQuery | None = None
        self._query_id = ""
        """What Spark calls the present query."""
        self._halted_id = ""
        """The one that was stopped on purpose. Its end may be heard of much later."""
        self._heard_id = ""
        """The one whose end was heard of. Only the first who hears of it knows the cause."""
        self._final = False
        self._over = threading.Event()
        self._skipping = False
        self._last: Batch | None = None
        """No batch after this one is wanted."""
        self._passed_last = False
        self.up = False
        self._stage: str | None = None
        """What the run is at, if that should not take long."""
        self._stage_thread: int | None = None
        self._signed_s = time.monotonic()
        """When it was last heard of."""
        self._usual_s = 0.0
        self._clock_s = _clock_s()
        """The wall's clock against one that only runs on, when the query was launched."""

    # -- orders --------------------------------------------------------------------------------------------------------

    def start(self, *, skip: bool = False) -> None:
        """Bring the query up. With ``skip``, run the batch that was under way without its input first."""
        work = self.work
        try:
            work.check()
            self._commit_through(layout.committed(work.directory), tell=False)
            if skip and layout.planned(work.directory) > layout.committed(work.directory):
                self._leave_out(layout.planned(work.directory))
            self._launch()
            boundary = self.boundary()
        except Stopped:
            return  # Whoever interrupted it wants no answer.
        except Exception as error:  # noqa: BLE001 - whatever keeps a query from starting is its failure
            self._fail(classify(f"{type(error).__name__}: {error}", error), error)
            return
        self.up = True
        self._tell(TaskStarted(work.generation, work.task, work.run, boundary))

    def pause(self, seconds: float) -> None:
        """Wait before the start, unless nobody wants this run any more."""
        with self._lock:
            self._lock.wait_for(lambda: self._interrupted, timeout=seconds)

    def admit(self, batch: Batch) -> None:
        """Let a batch go on from the hook."""
        with self._lock:
            self._admitted = max(self._admitted, batch)
            self._lock.notify_all()

    def wait_for_news(self, seconds: float) -> None:
        """Wait, in the hook, until there is news or the time is over. ``Stopped`` if the run is being stopped."""
        with self._lock:
            if not self._stopping:
                self._lock.wait(seconds)
            if self._stopping:
                raise Stopped

    def tell_news(self) -> None:
        """Let whoever waits for news look again. From any thread."""
        with self._lock:
            self._lock.notify_all()

    def interrupt(self) -> None:
        """Let nothing of this run wait any longer, and nothing begin: it is about to be stopped. From any thread."""
        with self._lock:
            self._interrupted = True
            self._lock.notify_all()
        self.work.on_stop()

    def stop(self) -> None:
        """Stop as soon as Spark lets go."""
        self.interrupt()
        self._halt()
        if self.over:
            return
        try:
            boundary = self.boundary()
        except (HeadgateError, OSError) as error:
            self._fail(classify(str(error), error), error)
            return
        self._end(boundary)

    def drain(self) -> None:
        """Nothing more will come: finish the batch under way, let time run out for stateful operators, and stop."""
        with self._lock:
            if self._final or self.over:
                return
            self._final = True
        self._halt()
        try:
            done = self._run_last_batches()
            boundary = self.boundary()
        except Stopped:
            return  # As in start.
        except Exception as error:  # noqa: BLE001 - as in start
            self._fail(classify(f"{type(error).__name__}: {error}", error), error)
            return
        if done:
            self._end(boundary)
        elif not self._interrupted:
            self._fail(Failure(FailureClass.EXTERNAL, "its last batch did not run"))

    # -- when it was last heard of ---------------------------------------------------------------------------------

    @property
    def doing(self) -> Doing | None:
        """What the run has been at since it was last heard of.

        None: nothing that should come to an end.
        """
        stage, thread, signed_s = self._stage, self._stage_thread, self._signed_s
        if stage is None or self.over or self._stopping:
            return None
        return Doing(stage, time.monotonic() - signed_s, self._usual_s, thread)

    @property
    def waits_for_the_past(self) -> bool:
        """Whether the next batch waits for a time that is far away since the machine's clock was set back."""
        trigger_s = (self.work.trigger_ms or 0) / 1000
        return (
            trigger_s > 0
            and self.up
            and self._stage == BETWEEN
            and _clock_s() < self._clock_s - SET_BACK_S
            and time.monotonic() - self._signed_s > trigger_s + SET_BACK_S
        )

    def relaunch(self, ready: Callable[[], None]) -> None:
        """Start Spark's query again, between two batches, as if nothing had happened.

        From the serial executor of the task.
        """
        with self._lock:
            if not self.waits_for_the_past or self._final or self._stopping or self.over:
                return
        self._halt()
        ready()
        try:
            self._launch()
        except Stopped:
            return  # As in start.
        except Exception as error:  # noqa: BLE001 - as in start
            self._fail(classify(f"{type(error).__name__}: {error}", error))

    def spark_place(self) -> str | None:
        """Where Spark says that the query is: its own words, and the line of its thread that is not Java's."""
        with self._lock:
            query, run_id = self._query, self._query_id
        try:
            said = str(query.status["message"]) if query is not None else ""
            frame = _frame_of(run_id)
        except Exception as error:  # noqa: BLE001 - Spark may be gone, or busy
            return f"and Spark does not say where ({type(error).__name__})"
        return f"Spark says: {said}" + (f" (at {frame})" if frame else "")

    def idled(self) -> None:
        """Spark says that there is nothing to do."""
        self._sign_between()

    def _sign_between(self) -> None:
        if self._waiting is None and self._stage_thread is None:  # Else it is at the next batch already.
            self._sign(BETWEEN)

    def _sign(self, stage: str | None, thread: int | None = None) -> None:
        now_s = time.monotonic()
        if self._stage is not None:
            self._usual_s = max(now_s - self._signed_s, self._usual_s * 0.9)
        self._stage, self._stage_thread, self._signed_s = stage, thread, now_s

    def _end(self, boundary: Boundary) -> None:
        with self._lock:
            if self.over:
                return
            self._ended = True
        self._tell(TaskEnded(self.work.generation, self.work.task, self.work.run, boundary))

    def _run_last_batches(self) -> bool:
        """Run what was under way, and what the end of time brings. Whether all of it is committed."""
        work = self.work
        if work.stateful and not self.over:
            layout.plan_last_batch(work.directory)
        planned = layout.planned(work.directory)
        if planned > layout.committed(work.directory) and not self.over:
            # Time reaches one stateful operator after the other, a batch later each.
            self._last = Batch(planned + max(0, work.stateful - 1))
            self._launch(available_now=True)
            self._await_end()
        return layout.committed(work.directory) >= planned

    @property
    def over(self) -> bool:
        """Whether this run has told its end."""
        return self._ended or self._failure is not None

    def report(self) -> Reported:
        """All that this run has to say."""
        self._look()
        work = self.work
        with self._lock:
            return Reported(
                work.generation,
                work.task,
                work.run,
                self.boundary(),
                entered=self._waiting,
                source_ended=self._source_ended,
                ended=self._ended,
                failure=self._failure,
                chance=random.random(),
            )

    def boundary(self) -> Boundary:
        """Where the task stands in Spark's files, once what it has committed can be read."""
        batch = layout.committed(self.work.directory)
        self._commit_through(batch, tell=False)
        return self._boundary_at(batch)

    @property
    def _stopping(self) -> bool:
        return self._halting or self._interrupted

    # -- the hook ------------------------------------------------------------------------------------------------------

    def _hook(self, frame: DataFrame, number: int) -> None:
        batch = Batch(number)
        try:
            self._commit_through(Batch(batch - 1))
            self._refuse_past_last(batch)
            waited = self._enter(batch)
            begun = time.monotonic()
            self._sign(f"batch {batch} has been running", threading.get_ident())
            self.work.write(frame, batch)
            self._measure("write_ms", (time.monotonic() - begun) * 1000, batch)
            self._measure("wait_ms", waited * 1000, batch)
        except Stopped:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again in few words
            with self._lock:
                if self._stopping:
                    raise Stopped from None
                self._cause = self._cause or error
            # In few words: Spark searches the account of a failed hook with an expression that overflows the stack.
            raise BatchFailed(f"{type(error).__name__}: {shorten(str(error))}") from None
        self._sign(f"batch {batch} has been written, and not committed,")
        self._tell(OutputsWritten(self.work.generation, self.work.task, self.work.run, batch))

    def _refuse_past_last(self, batch: Batch) -> None:
        if self._last is not None and batch > self._last:
            self._passed_last = True
            raise Stopped

    def _enter(self, batch: Batch) -> float:
        """Say that a batch is in the hook, and wait there until it is admitted."""
        work = self.work
        if self._skipping:
            return 0.0
        begun = time.monotonic()
        self._sign(None)  # How long that takes is others' doing.
        with self._lock:
            self._waiting = batch
        self._tell(BatchEntered(work.generation, work.task, work.run, self._boundary_at(batch)))
        with self._lock:
            self._lock.wait_for(lambda: self._stopping or self._admitted >= batch)
            self._waiting = None
            if self._stopping:
                raise Stopped
        return time.monotonic() - begun

    def _boundary_at(self, batch: Batch) -> Boundary:
        work = self.work
        if batch == NO_BATCH:
            return Boundary(NO_BATCH, work.begin)
        found = layout.read_offsets(work.directory, batch).positions() if work.channels else {}
        return Boundary(batch, tuple(found[channel] for channel in work.channels))

    # -- what Spark says -----------------------------------------------------------------------------------------------

    def progressed(self, progress: Any) -> None:
        """Spark says that a batch is over."""
        batch = Batch(progress.batchId)
        self._sign_between()
        self._measure("progress", float(progress.numInputRows), progress)
        if layout.is_committed(self.work.directory, batch):
            self._commit_through(batch)

    def terminated(self, run_id: str, exception: str | None) -> None:
        """Spark says that the query has come to its end: the present one, or one that was stopped a moment ago."""
        with self._lock:
            if run_id != self._query_id or run_id == self._heard_id:
                return
            self._heard_id = run_id
            over, cause, self._cause = self._over, self._cause, None
            halted = self._interrupted or run_id == self._halted_id
            wanted = halted or self._skipping or (self._final and self._passed_last)
            expected = wanted or self._final
        try:
            if exception is not None and not wanted:
                failures.error("%s failed: %s", self.work.name, cause or exception)
                self._fail(classify(exception, cause), cause)
            elif exception is None and not expected:
                self.stop()
        finally:
            over.set()

    def _look(self) -> None:
        """See for ourselves whether the query is dead: Spark may drop its word for it."""
        with self._lock:
            query, query_id = self._query, self._query_id
        with contextlib.suppress(Exception):  # Spark itself may be gone. That is noticed elsewhere.
            if query is not None and not query.isActive:
                error = query.exception()
                self.terminated(query_id, None if error is None else str(error))

    def _await_end(self) -> None:
        while not self._over.wait(LOOK_S):
            self._look()

    def _commit_through(self, batch: Batch, *, tell: bool = True) -> None:
        with self._lock:
            if batch <= self._known:
                return
            first = Batch(self._known + 1) if self._known != NO_BATCH else batch
            for number in range(first, batch + 1):
                self.work.on_commit(Batch(number))
            self._known = batch
            ended = self.work.source_ended(layout.read_offsets(self.work.directory, batch))
            newly, self._source_ended = ended and not self._source_ended, ended
        work = self.work
        if tell:
            self._tell(BatchCommitted(work.generation, work.task, work.run, self._boundary_at(batch)))
        if newly:
            self._tell(SourceEnded(work.generation, work.task, work.run))

    # -- Spark's query -------------------------------------------------------------------------------------------------

    def _launch(self, *, available_now: bool = False, silent: bool = False) -> None:
        work = self.work
        inputs = work.inputs()
        if silent:
            inputs = [frame.where(F.rand() < -1) for frame in inputs]
        writer = (
            work.output(inputs)
            .writeStream.foreachBatch(self._hook)
            .outputMode(work.output_mode)
            .option("checkpointLocation", f"file://{work.directory}")  # As it is: Hadoop decodes nothing.
            .queryName(work.name)
        )
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif work.trigger_ms:
            writer = writer.trigger(processingTime=f"{work.trigger_ms} milliseconds")
        with self._lock:
            if self._interrupted:
                raise Stopped
            self._halting = False
        self._clock_s = _clock_s()
        self._sign(BETWEEN)
        query = writer.start()
        with self._lock:
            self._query, self._query_id, self._over = query, str(query.runId), threading.Event()
        self._listener.follow(self._query_id, self)

    def _leave_out(self, batch: Batch) -> None:
        """At-most-once: run the batch that was under way with nothing in it, so that its input counts as read."""
        self._skipping, self._last = True, batch
        # What is there now, and no more: else it would wait for the next batch, only to refuse it.
        self._launch(available_now=True, silent=True)
        self._await_end()
        self._skipping, self._last = False, None
        if self._interrupted:
            raise Stopped
        if not layout.is_committed(self.work.directory, batch):
            raise RuntimeError(f"batch {batch} could not be left out")
        self._commit_through(batch, tell=False)

    def _halt(self) -> None:
        with self._lock:
            self._halting, self._halted_id, query = True, self._query_id, self._query
            self._lock.notify_all()
        self.work.on_stop()
        if query is not None:
            with contextlib.suppress(Exception):  # A query that is dead already cannot be stopped.
                query.stop()

    def _fail(self, failure: Failure, error: BaseException | None = None) -> None:
        with self._lock:
            if self._failure is not None or self._ended:
                return
            self._failure, self.error = failure, error
            self.up = True
        work = self.work
        self._tell(TaskFailed(work.generation, work.task, work.run, failure, random.random()))


def _clock_s() -> float:
    """By how much the wall's clock is ahead of one that only runs on. Less than before: it was set back."""
    return time.time() - time.monotonic()


def _frame_of(run_id: str) -> str | None:
    """The line at which Spark's thread of a query is: the innermost that is not Java's or Scala's own."""
    assert SparkContext._jvm is not None, "there is a session"  # noqa: SLF001 - PySpark has no other way
    stacks = SparkContext._jvm.java.lang.Thread.getAllStackTraces()  # noqa: SLF001 - as above
    for thread in stacks.keySet().toArray():
        if run_id in thread.getName():
            frames = [str(frame.toString()) for frame in thread.getStackTrace()]
            return next((frame for frame in frames if not frame.startswith(JAVAS)), None)
    return None


JAVAS = ("java.", "jdk.", "sun.", "scala.")
