"""One run of one task: a Spark streaming query, its hook, and what it tells.

One rule: a batch is committed when Spark's commit log says so, whatever else was heard; and before anybody is told, its
outputs are made visible (``on_commit``), so that whoever hears of a batch can read it.

Orders come from the serial executor of the task, one at a time. The hook runs in Spark's own thread of the query, the
listener in another; they share what is guarded by ``_lock``. What may happen when is said by ``lifecycle``: whoever is
about to do something, or hears of something, takes that event there first, and does as it is answered.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, functions as F  # noqa: N812 - Spark's custom
from pyspark.sql.streaming.query import StreamingQuery

from headgate import layout
from headgate.about import about
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
from headgate.core.ids import NO_BATCH, Batch
from headgate.core.records import Boundary
from headgate.core.restart import Failure, FailureClass
from headgate.errors import HeadgateError, InternalError
from headgate.task.failure import classify, shorten
from headgate.task.heartbeat import Doing, Heartbeat
from headgate.task.launches import Launched, Launches, QueryState
from headgate.task.lifecycle import Lifecycle, Reaction, RunEvent, RunState
from headgate.task.listener import Listener
from headgate.task.logs import failures
from headgate.task.spec import QuerySpec
from headgate.task.watermark import end_time

SOON_MS = 500
"""A query that begins a batch at most this often need not be launched again for its last ones."""
LOOK_S = 5.0
"""Whoever waits for the end of a query looks this often whether it is still there."""


class Stopped(Exception):
    """Raised in the hook when the run is being stopped."""


class BatchFailed(Exception):
    """Raised in the hook when a batch could not be written. The run remembers the cause."""


@dataclass
class Admission:
    """How far batches may go on from the hook, and which one waits there."""

    through: Batch = NO_BATCH
    waiting: Batch | None = None


@dataclass
class Progress:
    """What is known of the run's batches."""

    committed: Batch = NO_BATCH
    """The outputs of all through this one are visible."""
    source_ended: bool = False


@dataclass
class Trouble:
    """What went wrong: ``cause`` in the hook of the present query, ``failure`` and ``error`` with the run."""

    cause: BaseException | None = None
    failure: Failure | None = None
    error: BaseException | None = None


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
        self._lifecycle = Lifecycle()
        self._admission = Admission()
        self._progress = Progress()
        self._trouble = Trouble()
        self._launches = Launches(work.name)
        self._last: Batch | None = None
        """No batch after this one is wanted of the present query."""
        self._entered: int | None = None
        """The last batch that came to the hook, for the log."""
        self._heartbeat = Heartbeat()
        self._held_up_s = 0.0
        """How long the batch in the hook has waited for news, once it was admitted."""
        self._exhausted = False
        """The run has come up without a query: it is only drained."""

    # -- orders --------------------------------------------------------------------------------------------------------

    def start(self, *, skip: bool = False, exhausted: bool = False) -> None:
        """Bring the query up. With ``skip``, run the batch that was under way without its input first.

        One that is ``exhausted`` reads nothing: it waits for the order to drain, and has no query until then.
        """
        work = self.work
        self._exhausted = exhausted
        try:
            self._take(RunEvent.START)
            work.check()
            self._commit_through(layout.committed(work.directory), tell=False)
            if skip and layout.planned(work.directory) > layout.committed(work.directory):
                self._leave_out(layout.planned(work.directory))
            if not exhausted:
                self._launch()
            boundary = self.boundary()
        except Stopped:
            return  # Whoever interrupted it wants no answer.
        except Exception as error:  # noqa: BLE001 - whatever keeps a query from starting is its failure
            self.fail(error)
            return
        if self._take(RunEvent.UP) is Reaction.GO:
            self._tell(TaskStarted(work.generation, work.task, work.run, boundary))

    def pause(self, seconds: float) -> None:
        """Wait before the start, unless nobody wants this run any more."""
        with self._lock:
            self._lock.wait_for(lambda: self._lifecycle.state is not RunState.CREATED, timeout=seconds)

    def admit(self, batch: Batch) -> None:
        """Let a batch go on from the hook."""
        with self._lock:
            self._admission.through = max(self._admission.through, batch)
            self._lock.notify_all()

    def wait_for_news(self, seconds: float) -> None:
        """Wait, in the hook, until there is news or the time is over. ``Stopped`` if the run is being stopped."""
        with self._lock:
            begun = time.monotonic()
            if not self._lifecycle.is_halting:
                self._lock.wait(seconds)
            self._held_up_s += time.monotonic() - begun
            self._refuse_if_halting()

    def tell_news(self) -> None:
        """Let whoever waits for news look again. From any thread."""
        with self._lock:
            self._lock.notify_all()

    def interrupt(self) -> None:
        """Let nothing of this run wait any longer, and nothing begin: it is about to be stopped. From any thread."""
        self._take(RunEvent.INTERRUPT)
        self.work.on_stop()

    def stop(self) -> None:
        """Stop as soon as Spark lets go."""
        self.interrupt()
        self._halt()
        if self._lifecycle.is_over:
            return
        try:
            boundary = self.boundary()
        except (HeadgateError, OSError) as error:
            self.fail(error)
            return
        self._end(boundary)

    def drain(self) -> None:
        """Nothing more will come: finish the batch under way, let time run out for stateful operators, and stop."""
        try:
            launched = self._launched_to_run_out()
            if launched is None and not self._halt_on(RunEvent.DRAIN):
                return
            if launched is not None and self._take(RunEvent.RUN_OUT) is not Reaction.GO:
                return
            done = self._run_last_batches(0 if launched is None else self._run_out(launched))
            boundary = self.boundary()
        except Stopped:
            return  # As in start.
        except Exception as error:  # noqa: BLE001 - as in start
            self.fail(error)
            return
        if done:
            self._end(boundary)
        else:
            self._fail(RunEvent.INCOMPLETE, Failure(FailureClass.EXTERNAL, "its last batch did not run"))

    def relaunch(self, ready: Callable[[], None]) -> None:
        """Start Spark's query again, between two batches, as if nothing had happened.

        From the serial executor of the task.
        """
        if self._exhausted or not self._heartbeat.waits_for_the_past(self.work.trigger_ms):
            return
        try:
            if self._halt_on(RunEvent.RELAUNCH):
                ready()
                self._launch()
        except Stopped:
            return  # As in start.
        except Exception as error:  # noqa: BLE001 - as in start
            self.fail(error)

    def fail(self, error: BaseException) -> bool:
        """The run cannot go on. Whether that is news. From any thread."""
        return self._fail(RunEvent.FAIL, classify(f"{type(error).__name__}: {error}", error), error)

    # -- what it is at -------------------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """Whether the run can be asked where it stands."""
        return self._lifecycle.is_up

    @property
    def ended(self) -> bool:
        """Whether the run has told its end, and did not fail."""
        return self._lifecycle.state is RunState.ENDED

    @property
    def error(self) -> BaseException | None:
        """What was raised on this machine when the run failed."""
        return self._trouble.error

    @property
    def doing(self) -> Doing | None:
        """What the run has been at since it was last heard of. None: nothing that should come to an end."""
        return None if self._lifecycle.is_halting else self._heartbeat.doing()

    @property
    def waits_for_the_past(self) -> bool:
        """Whether the next batch waits for a time that is far away since the machine's clock was set back."""
        running = self._lifecycle.state is RunState.RUNNING
        return running and self._heartbeat.waits_for_the_past(self.work.trigger_ms)

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
                entered=self._admission.waiting,
                source_ended=self._progress.source_ended,
                ended=self.ended,
                failure=self._trouble.failure,
                chance=random.random(),
            )

    def boundary(self) -> Boundary:
        """Where the task stands in Spark's files, once what it has committed can be read."""
        batch = layout.committed(self.work.directory)
        self._commit_through(batch, tell=False)
        return self._boundary_at(batch)

    @property
    def launched(self) -> StreamingQuery | None:
        """Spark's query, if there is one."""
        with self._lock:
            present = self._launches.present
        return None if present is None else present.query

    def spark_place(self) -> str | None:
        """Where Spark says that the query is: its own words, and the line of its thread that is not Java's."""
        with self._lock:
            present = self._launches.present
        return None if present is None else present.place()

    # -- the states of the run -----------------------------------------------------------------------------------------

    def _take(self, event: RunEvent) -> Reaction:
        """What is to be done about an event. ``Stopped`` if it is refused; what cannot be is a failure, and raised."""
        try:
            with self._lock:
                answer = self._lifecycle.take(event)
                self._lock.notify_all()
        except InternalError as error:
            self.fail(error)
            raise
        if answer is Reaction.REFUSE:
            raise Stopped
        return answer

    def _refuse_if_halting(self) -> None:
        if self._lifecycle.is_halting:
            raise Stopped

    def _end(self, boundary: Boundary) -> None:
        if self._take(RunEvent.END) is Reaction.GO:
            self._tell(TaskEnded(self.work.generation, self.work.task, self.work.run, boundary))

    def _fail(self, event: RunEvent, failure: Failure, error: BaseException | None = None) -> bool:
        """Tell that the run has failed, if that is news."""
        news = self._note_failure(event, failure, error)
        if news:
            self._tell_failure()
        return news

    def _note_failure(self, event: RunEvent, failure: Failure, error: BaseException | None) -> bool:
        with self._lock:
            news = self._take(event) is Reaction.GO
            if news:
                self._trouble.failure, self._trouble.error = failure, error
        return news

    def _tell_failure(self) -> None:
        work, failure = self.work, self._trouble.failure
        assert failure is not None, "it was noted"
        self._tell(TaskFailed(work.generation, work.task, work.run, failure, random.random()))

    # -- the hook ------------------------------------------------------------------------------------------------------

    def _hook(self, frame: DataFrame, number: int) -> None:
        self._entered = number
        with about(task=self.work.task, batch=number):
            self._run_batch(frame, Batch(number))

    def _run_batch(self, frame: DataFrame, batch: Batch) -> None:
        try:
            self._commit_through(Batch(batch - 1))
            self._refuse_past_last(batch)
            waited = self._enter(batch)
            begun, self._held_up_s = time.monotonic(), 0.0
            self._heartbeat.sign(f"batch {batch} has been running", threading.get_ident())
            self.work.write(frame, batch)
            self._measure("write_ms", (time.monotonic() - begun) * 1000, batch)
            self._measure("wait_ms", waited * 1000, batch)
            if self._held_up_s:
                self._measure("held_up_ms", self._held_up_s * 1000, batch)
            self._resize(batch, time.monotonic() - begun - self._held_up_s)
        except Stopped:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again in few words
            with self._lock:
                if self._lifecycle.is_halting:
                    raise Stopped from None
                self._trouble.cause = self._trouble.cause or error
            # In few words: Spark searches the account of a failed hook with an expression that overflows the stack.
            raise BatchFailed(f"{type(error).__name__}: {shorten(str(error))}") from None
        self._heartbeat.sign(f"batch {batch} has been written, and not committed,")
        self._tell(OutputsWritten(self.work.generation, self.work.task, self.work.run, batch))

    def _resize(self, batch: Batch, took_s: float) -> None:
        """Size the next batch. A query that is just being launched begins with the size that every one begins with."""
        with self._lock:
            present = self._launches.present
        if present is not None and present.state is QueryState.LIVE:
            self.work.resize(present.query, batch, took_s * 1000)

    def _refuse_past_last(self, batch: Batch) -> None:
        with self._lock:
            self._refuse_if_halting()
            if self._last is not None and batch > self._last:
                self._take(RunEvent.LAST_PASSED)

    def _enter(self, batch: Batch) -> float:
        """Say that a batch is in the hook, and wait there until it is admitted. One that is left out does not."""
        work = self.work
        begun = time.monotonic()
        with self._lock:
            self._refuse_if_halting()
            if self._lifecycle.state is RunState.SKIPPING:
                return 0.0
            self._heartbeat.sign(None)  # How long that takes is others' doing.
            self._admission.waiting = batch
        self._tell(BatchEntered(work.generation, work.task, work.run, self._boundary_at(batch)))
        with self._lock:
            self._lock.wait_for(lambda: self._lifecycle.is_halting or self._admission.through >= batch)
            self._admission.waiting = None
            self._refuse_if_halting()
        return time.monotonic() - begun

    def _boundary_at(self, batch: Batch) -> Boundary:
        work = self.work
        if batch == NO_BATCH:
            return Boundary(NO_BATCH, work.begin)
        found = layout.read_offsets(work.directory, batch).positions() if work.channels else {}
        return Boundary(batch, tuple(found[channel] for channel in work.channels))

    # -- what Spark says -----------------------------------------------------------------------------------------------

    def idled(self) -> None:
        """Spark says that there is nothing to do."""
        if self._admission.waiting is None:  # Else it is at the next batch already.
            self._heartbeat.sign_between()

    def progressed(self, progress: Any) -> None:
        """Spark says that a batch is over: of the present query, or of one that was stopped a moment ago."""
        batch = Batch(progress.batchId)
        if self._known(str(progress.runId)).state is QueryState.LIVE:
            self.idled()
        self._measure("progress", float(progress.numInputRows), progress)
        if layout.is_committed(self.work.directory, batch):
            with contextlib.suppress(InternalError):  # It has been told as the failure of the run.
                self._commit_through(batch)

    def terminated(self, run_id: str, exception: str | None) -> None:
        """Spark says that a query has come to its end: the present one, or one that was stopped a moment ago."""
        launched = self._known(run_id)
        try:
            with self._lock:
                live = self._launches.mark_ended(run_id) is QueryState.LIVE
                cause = self._trouble.cause
                failed = live and exception is not None and self._has_failed(exception, cause)
                stopped = live and exception is None and self._take(RunEvent.QUERY_STOPPED) is Reaction.STOP
            if failed:
                with about(task=self.work.task, batch=self._entered):
                    failures.error("%s failed: %s", self.work.name, cause or exception)
                self._tell_failure()
            elif stopped:
                self.stop()
        finally:
            launched.over.set()

    def _has_failed(self, exception: str, cause: BaseException | None) -> bool:
        return self._note_failure(RunEvent.QUERY_FAILED, classify(exception, cause), cause)

    def _known(self, run_id: str) -> Launched:
        try:
            with self._lock:
                return self._launches.known(run_id)
        except InternalError as error:
            self.fail(error)
            raise

    def _look(self) -> None:
        """See for ourselves whether the query is dead: Spark may drop its word for it."""
        with self._lock:
            present = self._launches.present
        with contextlib.suppress(Exception):  # Spark itself may be gone. That is noticed elsewhere.
            if present is not None and not present.query.isActive:
                error = present.query.exception()
                self.terminated(present.id, None if error is None else str(error))

    def _commit_through(self, batch: Batch, *, tell: bool = True) -> None:
        work, progress = self.work, self._progress
        try:
            with self._lock:
                if batch <= progress.committed:
                    return
                first = Batch(progress.committed + 1) if progress.committed != NO_BATCH else batch
                for number in range(first, batch + 1):
                    work.on_commit(Batch(number))
                ended = work.source_ended(layout.read_offsets(work.directory, batch))
                newly, progress.source_ended = ended and not progress.source_ended, ended
                progress.committed = batch
        except InternalError as error:
            self.fail(error)
            raise
        if tell:
            self._tell(BatchCommitted(work.generation, work.task, work.run, self._boundary_at(batch)))
        if newly:
            self._tell(SourceEnded(work.generation, work.task, work.run))

    # -- Spark's query -------------------------------------------------------------------------------------------------

    def _launch(self, *, once: bool = False, silent: bool = False) -> Launched:
        """Have Spark start the query; with ``once``, to run the batch that is planned, and to plan no other."""
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
        if once:
            writer = writer.trigger(once=True)
        elif work.trigger_ms:
            writer = writer.trigger(processingTime=f"{work.trigger_ms} milliseconds")
        with self._lock:
            self._take(RunEvent.LAUNCH)
            self._trouble.cause = None
        self._heartbeat.launch()
        query = writer.start()
        with self._lock:
            launched = self._launches.add(query)
        self._listener.follow(launched.id, self)
        return launched

    def _leave_out(self, batch: Batch) -> None:
        """At-most-once: run the batch that was under way with nothing in it, so that its input counts as read."""
        self._take(RunEvent.SKIP)
        self._last = batch
        self._await_end(self._launch(once=True, silent=True))
        self._last = None
        self._take(RunEvent.SKIPPED)
        if not layout.is_committed(self.work.directory, batch):
            raise RuntimeError(f"batch {batch} could not be left out")
        self._commit_through(batch, tell=False)

    def _launched_to_run_out(self) -> Launched | None:
        """The present query, once time runs out in it: if it finds nothing more by itself, it need not be stopped."""
        work = self.work
        with self._lock:
            ended, present = self._progress.source_ended, self._launches.present
        soon = work.trigger_ms is None or work.trigger_ms <= SOON_MS
        if present is None or present.state is not QueryState.LIVE or not (work.stateful and ended and soon):
            return None
        return present if work.still(present.query) and end_time(present.query) else None

    def _run_out(self, launched: Launched) -> int:
        """Wait until time has run out in the running query, which has its state at hand. How many batches that took.

        Spark may have been planning a batch when its watermark was moved: that one comes before those of the end. An
        operator whose timers go by the clock always wants one batch more, which is refused after them.
        """
        directory = self.work.directory
        self._last = Batch(layout.planned(directory) + 1 + self.work.stateful)
        try:
            launched.query.processAllAvailable()
        except StreamingQueryException:  # What it died of is heard of by itself.
            self._await_end(launched)
        else:
            self._halt()
        self._last = None
        self._refuse_if_halting()
        return layout.last_batches(directory)

    def _run_last_batches(self, done: int) -> bool:
        """Run what was under way, and what the end of time brings. Whether all of it is committed.

        ``done``: how many of these have run already. Every other one is planned here, and run by itself. Left alone,
        Spark would plan the next one with what its sources have by then, and it would come behind the end of time.
        """
        work = self.work
        # Time reaches one stateful operator after the other, a batch later each.
        for _ in range(max(1, work.stateful) - done):
            if work.stateful and not self._lifecycle.is_unwanted:
                layout.plan_last_batch(work.directory)
            planned = layout.planned(work.directory)
            if planned > layout.committed(work.directory):
                self._last = planned
                self._await_end(self._launch(once=True))
            if layout.committed(work.directory) < planned:
                return False
        return True

    def _await_end(self, launched: Launched) -> None:
        while not launched.over.wait(LOOK_S):
            self._look()

    def _halt_on(self, event: RunEvent) -> bool:
        """Take an event for which the present query is stopped. From that moment on its end is as wanted."""
        with self._lock:
            if self._take(event) is not Reaction.GO:
                return False
            self._launches.mark_halted()
        self._halt()
        return True

    def _halt(self) -> None:
        with self._lock:
            present = self._launches.mark_halted()
        self.work.on_stop()
        if present is not None:
            present.stop()
