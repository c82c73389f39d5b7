"""Spark's queries of one run, one after the other.

One rule: late word is word of a query that is known to be halted or to have ended. Word of one that this run never
launched is not late: it is an internal error.
"""

import contextlib
import threading
from dataclasses import dataclass, field
from enum import Enum

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from headgate.errors import InternalError

JAVAS = ("java.", "jdk.", "sun.", "scala.")


class QueryState(Enum):
    """What is known of one of Spark's queries."""

    LIVE = "live"
    HALTED = "halted"
    """It was stopped on purpose: its end, which may be heard of much later, says nothing of the run."""
    ENDED = "ended"
    """Its end was heard of. Only the first who hears of it knows the cause."""


@dataclass
class Launched:
    """One of Spark's queries."""

    id: str
    """What Spark calls it."""
    query: StreamingQuery
    state: QueryState = QueryState.LIVE
    over: threading.Event = field(default_factory=threading.Event)
    """Set once its end was heard of, and what follows from it is done."""

    def stop(self) -> None:
        """Have Spark stop it, and wait until it has."""
        with contextlib.suppress(Exception):  # A query that is dead already cannot be stopped.
            self.query.stop()

    def place(self) -> str:
        """Where Spark says that it is: Spark's own words, and the line of its thread that is not Java's."""
        try:
            said = str(self.query.status["message"])
            frame = _frame_of(self.id)
        except Exception as error:  # noqa: BLE001 - Spark may be gone, or busy
            return f"and Spark does not say where ({type(error).__name__})"
        return f"Spark says: {said}" + (f" (at {frame})" if frame else "")


class Launches:
    """The queries that were launched, the present one last. Whoever uses it from several threads guards it."""

    def __init__(self, name: str) -> None:
        """None yet. ``name`` is that of the run."""
        self._name = name
        self._by_id: dict[str, Launched] = {}

    @property
    def present(self) -> Launched | None:
        """The one that was launched last."""
        return next(reversed(self._by_id.values()), None)

    def add(self, query: StreamingQuery) -> Launched:
        """Spark has launched a query."""
        launched = Launched(str(query.runId), query)
        self._by_id[launched.id] = launched
        return launched

    def known(self, run_id: str) -> Launched:
        """The query that Spark calls so. ``InternalError`` if this run never had it."""
        if run_id not in self._by_id:
            raise InternalError(
                f"{self._name} was told of Spark's query {run_id}, which it never launched. This is an error in "
                "Headgate, please report it"
            )
        return self._by_id[run_id]

    def mark_halted(self) -> Launched | None:
        """The present query, if there is one, is stopped on purpose from now on."""
        present = self.present
        if present is not None and present.state is QueryState.LIVE:
            present.state = QueryState.HALTED
        return present

    def mark_ended(self, run_id: str) -> QueryState:
        """The end of a query is heard of. What was known of it before."""
        launched = self.known(run_id)
        before, launched.state = launched.state, QueryState.ENDED
        return before


def _frame_of(run_id: str) -> str | None:
    """The line at which Spark's thread of a query is: the innermost that is not Java's or Scala's own."""
    assert SparkContext._jvm is not None, "there is a session"  # noqa: SLF001 - PySpark has no other way
    stacks = SparkContext._jvm.java.lang.Thread.getAllStackTraces()  # noqa: SLF001 - as above
    for thread in stacks.keySet().toArray():
        if run_id in thread.getName():
            frames = [str(frame.toString()) for frame in thread.getStackTrace()]
            return next((frame for frame in frames if not frame.startswith(JAVAS)), None)
    return None
