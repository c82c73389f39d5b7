"""SerialExecutors: work that must keep its order, apart from work that need not wait for it.

One rule: what is put on one serial executor is done one after the other, in the order in which it was put there.
"""

import queue
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

Action = Callable[[], Any]


class SerialExecutors:
    """Threads by name, made when they are first needed. ``failed`` hears of work that raised."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        """No serial executor yet."""
        self._failed = failed
        self._queues: dict[str, queue.SimpleQueue[tuple[str, Action] | None]] = {}
        self._waiting: set[tuple[str, Hashable]] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._busy: dict[str, tuple[str, float, int]] = {}

    def busy(self) -> dict[str, tuple[str, float, int]]:
        """What is being done on each serial executor: its name, since when, and on which thread."""
        return dict(self._busy)

    def put(self, serial_executor: str, job: Callable[..., Any], *arguments: Any) -> None:
        """Do this on a serial executor, after all that was put there before."""
        self._put(serial_executor, getattr(job, "__name__", "work"), lambda: job(*arguments))

    def _put(self, serial_executor: str, name: str, job: Action) -> None:
        with self._lock:
            waiting = self._queues.get(serial_executor)
            if waiting is None:
                waiting = self._queues[serial_executor] = queue.SimpleQueue()
                thread = threading.Thread(
                    target=self._serve, args=(serial_executor, waiting), name=f"headgate-{serial_executor}", daemon=True
                )
                self._threads.append(thread)
                thread.start()
        waiting.put((name, job))

    def put_once(self, serial_executor: str, job: Callable[..., Any], argument: Hashable) -> None:
        """The same, unless just this waits there already: orders that are given again do not pile up."""
        with self._lock:
            if (serial_executor, argument) in self._waiting:
                return
            self._waiting.add((serial_executor, argument))
        self._put(
            serial_executor, getattr(job, "__name__", "work"), lambda: self._begin(serial_executor, job, argument)
        )

    def _begin(self, serial_executor: str, job: Callable[..., Any], argument: Hashable) -> None:
        with self._lock:
            self._waiting.discard((serial_executor, argument))
        job(argument)

    def close(self, timeout_s: float) -> None:
        """Finish what was put on the serial executors, as far as that goes within the time."""
        with self._lock:
            for waiting in self._queues.values():
                waiting.put(None)
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _serve(self, serial_executor: str, waiting: "queue.SimpleQueue[tuple[str, Action] | None]") -> None:
        while (given := waiting.get()) is not None:
            name, job = given
            self._busy[serial_executor] = (name.strip("_").replace("_", " "), time.monotonic(), threading.get_ident())
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - handed to the loop, which ends the process
                self._failed(error)
            finally:
                del self._busy[serial_executor]
