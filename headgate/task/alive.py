"""Whether Spark is still there.

One rule: whoever runs a job hears within seconds that Spark is gone, whoever ended it. Its process may have died, or
its context was stopped (by its master or YARN, by its scheduler, by somebody's ``stop()``) while the process lives
on. Nothing that is merely slow counts as gone.
"""

import errno
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from headgate.errors import ExternalError

LOOK_S = 1.0
"""How often it is looked whether Spark is there."""
FAILED_MAX = 3
"""How many questions in a row that could not be asked: nobody is there. One may fail for want of a descriptor."""
GO_ON = "run the job again, and it goes on from its last checkpoint"
DIED = f"Spark's driver process has died: {GO_ON}"
STOPPED = f"Spark was stopped, by its cluster or by something else than Headgate: {GO_ON}"


class Alive:
    """Watches the Spark of one job. ``gone`` hears of its end, once."""

    def __init__(self, spark: SparkSession, gone: Callable[[ExternalError], None] = lambda _: None) -> None:
        """Nobody watches yet."""
        context = spark.sparkContext
        self._process: Any = getattr(context._gateway, "proc", None)  # noqa: SLF001 - there is no public way
        self._context: Any = context._jsc.sc()  # noqa: SLF001 - as above
        self._gone = gone
        self._told = threading.Event()
        self._closed = threading.Event()
        self._asked_s: float | None = None

    def watch(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._look, name="headgate-spark", daemon=True).start()
        if self._process is not None:
            threading.Thread(target=self._wait, name="headgate-jvm", daemon=True).start()

    def close(self) -> None:
        """Whatever happens to Spark from now on is nobody's business."""
        self._closed.set()

    def check(self) -> bool:
        """Whether Spark is there, as far as can be said at once. If not, whoever watches has heard of it."""
        why = self._why()
        if why is not None:
            self._tell(why)
        return why is None

    @property
    def silent_s(self) -> float:
        """For how long Spark's process has left a question without an answer."""
        asked_s = self._asked_s
        return 0.0 if asked_s is None else time.monotonic() - asked_s

    def _look(self) -> None:
        while not self._closed.wait(LOOK_S) and not self._told.is_set():
            self._asked_s = time.monotonic()
            try:
                self.check()
            finally:
                self._asked_s = None

    def _wait(self) -> None:
        self._process.wait()
        self._tell(DIED)

    def _why(self) -> str | None:
        for _ in range(FAILED_MAX):
            if self._process is not None and self._process.poll() is not None:
                return DIED
            try:
                return STOPPED if self._context.isStopped() else None
            except Exception as error:  # noqa: BLE001 - Py4J raises whatever its socket does
                if _names(error, errno.EMFILE, errno.ENFILE):
                    return None  # That is our own trouble, and no sign of Spark's.
            self._closed.wait(LOOK_S / FAILED_MAX)
        return DIED

    def _tell(self, why: str) -> None:
        if not self._closed.is_set() and not self._told.is_set():
            self._told.set()
            self._gone(ExternalError(why))


def why_gone(spark: SparkSession) -> str | None:
    """Why Spark is gone, in one line. None: it is there."""
    try:
        return Alive(spark)._why()  # noqa: SLF001 - our own
    except Exception:  # noqa: BLE001 - as above: it does not even say what it is
        return DIED


def _names(error: BaseException | None, *numbers: int) -> bool:
    """Whether an error, or what it comes from, is one of the system's with such a number."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in numbers:
            return True
        error = error.__cause__ or error.__context__
    return False
