"""As much of Spark's streaming as a run of a task touches, without Spark.

It writes the two logs of a checkpoint directory, calls the hook in a thread of its own, and tells listeners of what
happened on another, late if it is told to.
"""

import queue
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.errors import StreamingQueryException

from headgate import layout
from headgate.core.ids import NO_BATCH, Batch
from tests.edges.spark_files import commit, metadata, offsets

Hook = Callable[[Any, int], None]
WAIT_S = 60.0


class MiniSpark:
    """A session. ``available`` batches have data."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.streams = self
        self.available = 0
        self.line = '{"offset":%d}'
        self.queries: list[MiniQuery] = []
        self.before_start: Callable[[], None] = lambda: None
        self.after_start: Callable[[], None] = lambda: None
        self.deaf = False
        """Events are dropped."""
        self.last_batches: int | None = 0
        """How many batches a running query plans once its watermark is after every event. None: one after the other."""
        self.being_planned = 0
        """How many batches with data are being planned when the watermark is moved: they come before those without."""
        self._listeners: list[Any] = []
        self._events: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        self._open = threading.Event()
        self._open.set()
        self._idle = threading.Event()
        self._bus = threading.Thread(target=self._deliver, daemon=True)
        self._bus.start()

    def addListener(self, listener: Any) -> None:  # noqa: N802 - Spark's name
        self._listeners.append(listener)

    def removeListener(self, listener: Any) -> None:  # noqa: N802 - Spark's name
        self._listeners.remove(listener)

    def hold_events(self) -> None:
        """Let events wait on the bus."""
        self._open.clear()

    def deliver_events(self) -> None:
        """Let them go, and wait until they have arrived."""
        self._open.set()
        arrived = threading.Event()
        self._events.put(("arrived", arrived))
        assert arrived.wait(WAIT_S)

    def post(self, what: str, event: Any) -> None:
        if not self.deaf:
            self._events.put((what, event))

    def close(self) -> None:
        for each in self.queries:
            each.stop()
        self._open.set()
        self._events.put(None)
        self._bus.join(WAIT_S)

    def _deliver(self) -> None:
        while (posted := self._events.get()) is not None:
            what, event = posted
            if what == "arrived":
                event.set()
                continue
            self._open.wait()
            for listener in list(self._listeners):
                getattr(listener, what)(event)

    @property
    def writeStream(self) -> "Writer":  # noqa: N802 - Spark's name
        return Writer(self)


class Writer:
    """Spark's builder of a query."""

    def __init__(self, spark: MiniSpark) -> None:
        self._spark = spark
        self._hook: Hook = lambda *_: None
        self._once = False

    def foreachBatch(self, hook: Hook) -> "Writer":  # noqa: N802 - Spark's name
        self._hook = hook
        return self

    def outputMode(self, mode: str) -> "Writer":  # noqa: N802 - Spark's name
        assert mode == "append"
        return self

    def option(self, name: str, value: str) -> "Writer":
        assert (name, value) == ("checkpointLocation", f"file://{self._spark.directory}")
        return self

    def queryName(self, name: str) -> "Writer":  # noqa: N802 - Spark's name
        assert name
        return self

    def trigger(self, *, once: bool = False, processingTime: str = "") -> "Writer":  # noqa: N803 - Spark's
        assert once or processingTime
        self._once = once
        return self

    def start(self) -> "MiniQuery":
        self._spark.before_start()
        made = MiniQuery(self._spark, self._hook, once=self._once)
        self._spark.queries.append(made)
        self._spark.after_start()
        return made


class MiniQuery:
    """A streaming query."""

    def __init__(self, spark: MiniSpark, hook: Hook, *, once: bool) -> None:
        self.runId = uuid.uuid4()
        self.once = once
        self.ran: list[int] = []
        self._spark = spark
        self._hook = hook
        self._stopped = threading.Event()
        self._error: Exception | None = None
        self._watermark_ms = 0
        self._last_batches = 0
        self._no_data = threading.Event()
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return self._thread.is_alive()

    def exception(self) -> Exception | None:
        return self._error

    @property
    def _jsq(self) -> "MiniQuery":
        return self

    def streamingQuery(self) -> "MiniQuery":  # noqa: N802 - Spark's name
        return self

    def watermarkTracker(self) -> "MiniQuery":  # noqa: N802 - Spark's name
        if self._spark.last_batches == 0:
            raise AttributeError("this Spark has no watermarkTracker")
        return self

    def setWatermark(self, watermark_ms: int) -> None:  # noqa: N802 - Spark's name
        self._watermark_ms = watermark_ms

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
        self._no_data.clear()
        self._asked.set()
        while self.isActive and not self._no_data.wait(0.002):
            pass
        if self._error is not None:
            raise StreamingQueryException("the query has failed") from self._error

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the hook does not come back"

    def wait_end(self) -> None:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                ran = self._run_batch()
                if self.once:
                    break
                if not ran:
                    self._no_data.set()
                    self._stopped.wait(0.002)
        except Exception as error:  # noqa: BLE001 - a hook raises whatever it likes
            self._error = error
        text = None if self._error is None else f"{type(self._error).__name__}: {self._error}"
        self._spark.post("onQueryTerminated", SimpleNamespace(runId=self.runId, exception=text))

    def _run_batch(self) -> bool:
        directory = self._spark.directory
        done, planned = layout.committed(directory), layout.planned(directory)
        number = done + 1
        if planned <= done:
            most = self._spark.last_batches
            if surprise := self._watermark_ms > 0 and self._spark.being_planned > 0:
                self._asked.wait(WAIT_S)
                self._spark.being_planned -= 1
                self._spark.available += 1
            last = not surprise and self._watermark_ms > 0 and (most is None or self._last_batches < most)
            if number >= self._spark.available and not last:
                return False
            line = self._spark.line
            at = number if number < self._spark.available else self._spark.available - 1
            watermark_ms = 0 if surprise else self._watermark_ms
            offsets(directory, number, line % at if "%d" in line else line, watermark_ms=watermark_ms)
            self._last_batches += watermark_ms > 0
        if planned == NO_BATCH:
            metadata(directory)
        self._hook(SimpleNamespace(), number)
        self.ran.append(number)
        commit(directory, number, {})
        about = SimpleNamespace(batchId=Batch(number), numInputRows=1, runId=self.runId)
        self._spark.post("onQueryProgress", SimpleNamespace(progress=about))
        return True
