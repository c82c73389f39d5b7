"""What a running job can be asked about itself beyond its status: flame graphs, what a checkpoint waits for, and state.

One rule: it only looks, and nothing of it is done unless somebody asks.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession

from headgate.browse import kept
from headgate.browse.reader import StateReader
from headgate.browse.spark import SparkStateReader
from headgate.core.ids import TaskId
from headgate.errors import HeadgateError
from headgate.profile import workers
from headgate.profile.sampling import Profiler, profiler_of
from headgate.profile.threads import JvmSampler, stack_of
from headgate.profile.workers import NO_WORKERS
from headgate.run.stalls import place_of
from headgate.store.jobstore import JobStore
from headgate.task.query import Query

AGAIN_S = 2.0
"""Workers are looked at no more often than this."""
LOOKING = "the Python workers are being looked at for the first time: ask again in a moment"


class Inspection:
    """Of the job that this process runs."""

    def __init__(
        self,
        queries: Callable[[], Mapping[TaskId, Query]] = dict,
        jvm: Callable[[], JvmSampler | None] = lambda: None,
        state: StateReader | None = None,
    ) -> None:
        """``queries`` gives the run of each task, ``jvm`` how the JVM of Spark's driver is sampled.

        ``state`` reads the state of kept checkpoints.
        """
        self.state = state
        self.profiler: Profiler = profiler_of(jvm)
        self._queries = queries
        self._lock = threading.Lock()
        self._workers_s: float | None = None
        self._workers: Mapping[str, Any] = {"workers": [], "workers_missing": LOOKING}

    def waiting(
        self, progress: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], *, stacks: bool
    ) -> dict[str, Any]:
        """What a checkpoint under way waits for: tasks whose snapshot is not there yet, and where they are.

        ``progress`` and ``tasks`` are the status' own. With ``stacks`` threads and workers are looked at, too.
        """
        queries = self._queries()
        missing = [task for task in tasks if task["task"] not in progress["acknowledged"]]
        found = [
            _waiting(task, queries.get(task["task"]), cut=task["task"] in progress["cut"], stacks=stacks)
            for task in missing
        ]
        return {"id": progress["id"], "waiting_for": found, **(self._look_at_workers() if stacks else NO_WORKERS)}

    def close(self) -> None:
        """Nobody looks any more."""
        self.profiler.close()

    def _look_at_workers(self) -> Mapping[str, Any]:
        """Python workers that are at something. Of which task one is nobody knows: Spark gives it to whoever asks next.

        One look at a time, and what was seen is good for a moment. Nobody waits for the look of another.
        """
        if self._lock.acquire(blocking=False):
            try:
                if self._workers_s is None or time.monotonic() - self._workers_s >= AGAIN_S:
                    self._workers = _busy_workers()
                    self._workers_s = time.monotonic()
            finally:
                self._lock.release()
        return self._workers


def _busy_workers() -> Mapping[str, Any]:
    try:
        found = workers.look()
    except HeadgateError as error:
        return {"workers": [], "workers_missing": str(error)}
    told = [
        {"pid": each.pid, "process": each.process, "thread": each.thread, "stack": list(each.frames)}
        for each in found
        if each.running
    ]
    return {"workers": told, "workers_missing": None}


def jvm_sampler(spark: SparkSession) -> JvmSampler | None:
    """How the JVM of a session is sampled. None if it runs without our jar."""
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way
    found = jvm.headgate.profile.ThreadSamples
    return None if isinstance(found, JavaPackage) else lambda samples, ms: str(found.take(samples, ms))


def state_reader(spark: SparkSession, store: JobStore, root: Path) -> StateReader:
    """Reads kept state with the session of a job, whose working directory ``root`` is."""
    here = str(spark.sparkContext.master).startswith("local[") or spark.sparkContext.master == "local"
    scratch = None if here else root / "inspected"
    kept.clean(scratch)
    return SparkStateReader(spark, store.for_looking(), scratch)


def _waiting(task: Mapping[str, Any], query: Query | None, *, cut: bool, stacks: bool) -> dict[str, Any]:
    doing = None if query is None else query.doing
    thread = None if doing is None else doing.thread
    place, stack = None, []
    if stacks and query is not None and doing is not None:
        place = place_of(query, thread)
        stack = [] if thread is None else list(stack_of(sys._current_frames().get(thread)))  # noqa: SLF001 - as documented
    return {
        "task": task["task"],
        "cut": cut,
        "batch": task["batch"] + 1,
        "doing": None if doing is None else doing.text.rstrip(","),
        "for_ms": None if doing is None else round(doing.for_s * 1000),
        "place": place,
        "stack": stack,
    }
