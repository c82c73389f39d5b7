"""Noticing that something has stood still for much longer than it usually takes, and saying where.

One rule: it only looks and tells. An idle job is not a stalled one: Spark says every few seconds that a query has
nothing to do, so what stands still is a call that does not return: into Spark's process, a planner or a source, a batch
under way, a sink, the storage.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

from headgate.core.ids import TaskId
from headgate.run.loop import Observation
from headgate.task.query import Query

STALLED_S = 60.0
"""Nothing is called stalled before."""
USUAL_TIMES = 5
"""Nor before it has taken this many times as long as it lately did."""
LOOK_S = 5.0
ASK_S = 5.0
"""How long Spark is given to say what it is doing."""
LIBRARIES = ("/py4j/", "/pyspark/", "/threading.py", "/socket.py", "/queue.py", "/concurrent/", "/contextlib.py")
WATCHED = {"store": "the storage", "sink-": "sink ", "snapshot-": "the snapshot of task "}
"""SerialExecutors, by how their names begin, and what is on them."""


@dataclass(frozen=True)
class Still:
    """Something under way: what, for how long, how long it may take, and who can say where it is."""

    name: str
    text: str
    for_s: float
    most_s: float
    where: Callable[[], str | None]


class Stalls:
    """Looks from time to time, on a thread of its own."""

    def __init__(
        self,
        *,
        tell: Callable[[Observation], None],
        silent_s: Callable[[], float],
        queries: Callable[[], dict[TaskId, Query]],
        serial_executors: Callable[[], dict[str, tuple[str, float, int]]],
        clock_went_back: Callable[[TaskId, Query], None],
    ) -> None:
        """``silent_s`` says for how long Spark's process has not answered, ``queries`` and ``serial_executors`` what is
        under way.

        ``clock_went_back`` hears of a query that waits for a time that was near once, and is far away now.
        """
        self._tell = tell
        self._silent_s = silent_s
        self._queries = queries
        self._serial_executors = serial_executors
        self._clock_went_back = clock_went_back
        self._stalled_s = STALLED_S
        self._told: dict[str, float] = {}
        self._closed = threading.Event()

    def watch(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._serve, name="headgate-stalls", daemon=True).start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def _serve(self) -> None:
        while not self._closed.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """See what stands still, and tell what is new: again each time that it has taken twice as long."""
        found = {still.name: still for still in self._found() if still.for_s >= still.most_s}
        for name in [name for name in self._told if name not in found]:
            del self._told[name]
            self._tell(Observation("stall-over", {"name": name}))
        for name, still in found.items():
            told_s = self._told.get(name)
            if told_s is None or still.for_s >= 2 * told_s:
                self._told[name] = still.for_s
                place = still.where()
                text = f"{still.text.format(for_s=still.for_s)}" + (f", {place}" if place else "")
                self._tell(Observation("stall", {"name": name, "text": text}))

    def _found(self) -> Iterable[Still]:
        silent_s = self._silent_s()
        if silent_s >= self._stalled_s:
            text = "Spark's driver process has not answered for {for_s:.0f} s: it hangs, or the machine is too busy"
            yield Still("spark", text, silent_s, self._stalled_s, lambda: None)
            return  # Nobody else can say anything of Spark.
        for task, query in self._queries().items():
            if query.waits_for_the_past:
                self._clock_went_back(task, query)
            doing = query.doing
            if doing is None:
                continue
            most_s = max(self._stalled_s, USUAL_TIMES * doing.usual_s, 3 * (query.work.trigger_ms or 0) / 1000)
            text = f"task {task}: {doing.text} for {{for_s:.0f}} s"
            yield Still(f"task {task}", text, doing.for_s, most_s, partial(place_of, query, doing.thread))
        for serial_executor, (what, since_s, thread) in self._serial_executors().items():
            begins = next((begin for begin in WATCHED if serial_executor.startswith(begin)), None)
            if begins is not None:
                who = f"{WATCHED[begins]}{serial_executor.removeprefix(begins)}"
                text = f"{who}: {what} has been running for {{for_s:.0f}} s"
                yield Still(
                    serial_executor, text, time.monotonic() - since_s, self._stalled_s, partial(python_place, thread)
                )


def place_of(query: Query, thread: int | None) -> str | None:
    """Where a query is: in Python, if a thread of ours has its batch, and else as Spark says."""
    if thread is not None:
        return python_place(thread)
    answer: list[str | None] = []
    asking = threading.Thread(target=lambda: answer.append(query.spark_place()), daemon=True)
    asking.start()
    asking.join(ASK_S)
    return answer[0] if answer else "and Spark does not say where"


def python_place(thread: int) -> str | None:
    """The line at which a thread of this process is: the innermost that is not a library's."""
    frame: FrameType | None = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way
    if frame is None:
        return None
    stack: list[Any] = list(traceback.walk_stack(frame))
    inner = stack[0][0].f_code.co_filename
    found = next(((each, line) for each, line in stack if not _is_library(each.f_code.co_filename)), stack[0])
    code = found[0].f_code
    waits = ", which waits for Spark" if "/py4j/" in inner or inner.endswith("/socket.py") else ""
    return f"in {code.co_name} ({code.co_filename}:{found[1]}){waits}"


def _is_library(file: str) -> bool:
    return any(part in file for part in LIBRARIES)
