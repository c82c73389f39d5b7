"""Spark's events, handed to the run of a query that they are about.

One rule: an event is a hint that something has happened; whoever gets it looks at Spark's files to see what.
"""

import contextlib
import json
import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

EARLY_MAX = 64
"""Of this many queries that nobody follows the last event is kept: they may be about to be followed."""


class Heard(Protocol):
    """What a run wants to hear."""

    def progressed(self, progress: Any) -> None:
        """A batch is over."""

    def idled(self) -> None:
        """The query has looked, and has nothing to do."""

    def terminated(self, run_id: str, exception: str | None) -> None:
        """The query that Spark calls ``run_id`` has come to its end."""


class Listener(StreamingQueryListener):
    """One listener for all queries of a session. Runs are found by the id that Spark gives them."""

    def __init__(self, spark: SparkSession) -> None:
        """Begin to listen."""
        self._spark = spark
        self._lock = threading.Lock()
        self._runs: dict[str, Heard] = {}
        self._early: dict[str, Any] = {}
        spark.streams.addListener(self)

    @cached_property
    def _jlistener(self) -> Any:
        """What PySpark registers with Spark."""
        assert SparkContext._jvm is not None, "there is a session"  # noqa: SLF001 - PySpark has no other way
        return SparkContext._jvm.PythonStreamingQueryListenerWrapper(JsonProgressListener(self))  # noqa: SLF001 - as above

    def close(self) -> None:
        """Listen no more."""
        with contextlib.suppress(Exception):  # The session may be gone.
            self._spark.streams.removeListener(self)

    def follow(self, run_id: str, run: Heard) -> None:
        """Hand over the events of a run, also the last that came before anybody knew its id: it may be dead already."""
        with self._lock:
            early = self._early.pop(run_id, None)
            if early is None or hasattr(early, "progress"):
                self._runs[run_id] = run
        if early is not None:
            self._hand_over(run, early)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Not needed: the run knows."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """It lives, and has nothing to do. Spark says so every ten seconds."""
        with self._lock:
            run = self._runs.get(str(event.runId))
        if run is not None:
            run.idled()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """A batch is over."""
        self._take(str(event.progress.runId), event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """A query has come to its end."""
        self._take(str(event.runId), event, last=True)

    def _take(self, run_id: str, event: Any, *, last: bool = False) -> None:
        with self._lock:
            run = self._runs.pop(run_id, None) if last else self._runs.get(run_id)
            if run is None:  # Not followed yet, or one of the user's own, which is nobody's.
                self._early.pop(run_id, None)
                self._early[run_id] = event
                if len(self._early) > EARLY_MAX:
                    del self._early[next(iter(self._early))]
                return
        self._hand_over(run, event)

    def _hand_over(self, run: Heard, event: Any) -> None:
        if hasattr(event, "progress"):
            run.progressed(event.progress)
        else:
            run.terminated(str(event.runId), event.exception)


def said(progress: Any) -> Mapping[str, Any] | None:
    """What Spark says of a batch, as the JSON that it came in. None if it came in another way."""
    return getattr(progress, "_jdict", None)


class JsonProgressListener(JStreamingQueryListener):
    """Takes what Spark says of a batch over as one text. PySpark itself asks for every figure of it by a call."""

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        """A batch is over."""
        progress = StreamingQueryProgress.fromJson(json.loads(jevent.progress().json()))
        self.pylistener.onQueryProgress(QueryProgressEvent(progress))
