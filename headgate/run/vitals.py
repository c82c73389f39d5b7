"""Asks Spark from time to time how its tasks spend their time.

One rule: it only looks and tells, one task at a time, and costs the same however many there are. The history notes what
it told with each checkpoint, for ``headgate doctor``.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from headgate.core.ids import TaskId
from headgate.run.loop import Observation
from headgate.task.query import Query
from headgate.task.vitals import GarbageShare, PythonShare

LOOK_S = 10.0


class Vitals:
    """Looks on a thread of its own."""

    def __init__(
        self,
        spark: SparkSession,
        cores: int,
        tell: Callable[[Observation], None],
        queries: Callable[[], Mapping[TaskId, Query]],
    ) -> None:
        """``cores`` is how many the job has, ``queries`` the present run of each task."""
        self._garbage = GarbageShare(spark)
        self._cores = cores
        self._tell = tell
        self._queries = queries
        self._python: dict[TaskId, PythonShare] = {}
        self._turn = 0
        self._closed = threading.Event()

    def watch(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._serve, name="headgate-vitals", daemon=True).start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def _serve(self) -> None:
        while not self._closed.wait(LOOK_S):
            with contextlib.suppress(Exception):  # Spark may be gone, or busy: others see to that.
                self.look()

    def look(self) -> None:
        """See how garbage collection does, and the task whose turn it is."""
        share = self._garbage.look()
        if share is not None:
            self._tell(Observation("gc", {"ratio": share}))
        queries = self._queries()
        if not queries:
            return
        task = list(queries)[self._turn % len(queries)]
        self._turn += 1
        launched = queries[task].launched
        if launched is None:
            return
        share = self._python.setdefault(task, PythonShare(self._cores)).look(launched)
        if share is not None:
            self._tell(Observation("python", {"task": task, "ratio": share}))
