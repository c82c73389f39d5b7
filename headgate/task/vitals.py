"""What Spark knows of how its tasks spend their time, beside what it reports of each batch.

One rule: it asks for sums that Spark keeps anyway, and looks at no row. Nothing depends on the answer: whatever cannot
be had is None.
"""

from collections import deque
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

EXECUTORS_MAX = 64
"""Of this many executors the time is summed up: they are alike."""
NODES_MAX = 256
"""At most this many nodes of a plan are looked at."""
PYTHON_MS = "pythonProcessingTime"
"""Spark's name for the time that went by in the user's functions, summed over tasks."""
RUN_LEAST_MS = 1_000
"""In less time of Spark's tasks a share says nothing."""
LOOKS = 12
"""A share is that of the tasks that ended since this many looks. Collections are rare and long, so each of these looks
sees much of them or nothing."""


class GarbageShare:
    """What part of the time of Spark's tasks has gone into garbage collection of late."""

    def __init__(self, spark: SparkSession) -> None:
        """Nothing was seen yet."""
        self._context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001 - there is no public way
        self._seen: deque[tuple[int, int]] = deque(maxlen=LOOKS + 1)

    def look(self) -> float | None:
        """The share. None until enough has been done, and if no task has ended since the last look."""
        executors = self._context.statusStore().executorList(True)
        gc_ms = run_ms = 0
        for number in range(min(executors.size(), EXECUTORS_MAX)):
            each = executors.apply(number)
            gc_ms += each.totalGCTime()
            run_ms += each.totalDuration()
        if self._seen and run_ms < self._seen[-1][1]:  # An executor has gone, and its sums with it.
            self._seen.clear()
        if self._seen and run_ms == self._seen[-1][1]:
            return None
        self._seen.append((gc_ms, run_ms))
        gc_before_ms, run_before_ms = self._seen[0]
        if run_ms - run_before_ms < RUN_LEAST_MS:
            return None
        return round(min(1.0, max(0, gc_ms - gc_before_ms) / (run_ms - run_before_ms)), 3)


class PythonShare:
    """What part of a batch of one task goes by in Python functions of the user's.

    The plan of a batch under way is remembered, and read when Spark has reported that batch: only then its sums are
    whole, and by then the query has another plan.
    """

    def __init__(self, cores: int) -> None:
        """``cores`` is how many the job has."""
        self._cores = max(1, cores)
        self._plan: Any = None

    def look(self, query: StreamingQuery) -> float | None:
        """The share, of the time that the cores had which the batch could use. None if it has none, or is not over."""
        execution = query._jsq.streamingQuery()  # noqa: SLF001 - PySpark has no other way
        plan, self._plan = self._plan, execution.lastExecution()
        if plan is None:
            return None
        spent_ms = _spent_ms(list(execution.recentProgress()), int(plan.currentBatchId()))
        if not spent_ms:
            return None
        found = _python_ms(plan.executedPlan())
        if found is None:
            return None
        at_once = min(self._cores, max(1, int(plan.toRdd().getNumPartitions())))
        return round(min(1.0, found / (spent_ms * at_once)), 3)


def _spent_ms(reported: list[Any], batch: int) -> int | None:
    """How long Spark has worked on a batch, if it is one of those that it reported of late."""
    for progress in reversed(reported[-16:]):
        if int(progress.batchId()) == batch:
            spent = progress.durationMs().get("addBatch")
            return None if spent is None else int(spent)
    return None


def _python_ms(plan: Any) -> int | None:
    """The sum over all nodes of a plan. None if none of them runs Python."""
    found: int | None = None
    nodes, seen = [plan], 0
    while nodes and seen < NODES_MAX:
        node, seen = nodes.pop(), seen + 1
        metrics = node.metrics()
        if metrics.contains(PYTHON_MS):
            found = (found or 0) + int(metrics.apply(PYTHON_MS).value())
        children = node.children()
        nodes += [children.apply(number) for number in range(children.size())]
    return found
