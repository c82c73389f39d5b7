"""A job that a test drives by hand, behind the real server: the real core, its history in a real storage.

One rule: nothing of what a page shows is made up here. The test only says what the tasks and the sinks of the job do.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import headgate.serve.app  # noqa: F401 - so that no page waits for that
from headgate.core import events as e
from headgate.core.effects import Effect, Notify
from headgate.core.ids import CheckpointId
from headgate.core.restart import FailureClass
from headgate.serve.process import ControlServer
from headgate.store.jobstore import JobStore
from tests.helpers import line
from tests.serve.described import DESCRIBED
from tests.step_helpers import ME
from tests.view.watched import Watched


class DrivenJob:
    """Two tasks, ``a`` and ``b``, with a source before and a sink behind them."""

    def __init__(self, store: JobStore) -> None:
        self.core = Watched(line("a", "b"))
        self.core.now_ms = now_ms()
        for begin in (self.core.lead, self.core.read, self.core.create, self.core.start_all):
            begin()
        self.lock = threading.RLock()
        self.asked = threading.Semaphore(0)
        self.stalled: list[str] = []
        self._store = store
        self._written = 0
        self._created: set[int] = set()
        self.warned: list[str] = []
        self.server = ControlServer(self.status, self.submit, "orders", ME, self.warned.append)
        self._keep()
        store.put_description(DESCRIBED)
        self.server.open(store, DESCRIBED)

    @property
    def token(self) -> str:
        return str(self._address()["token"])

    @property
    def read_token(self) -> str:
        return str(self._address()["read_token"])

    @property
    def address(self) -> str:
        there = self._address()
        return f"http://{there['host']}:{there['port']}/"

    def status(self) -> dict[str, Any]:
        with self.lock:
            return {**self.core.recorder.status(now_ms(), self.core.state), "stalled": list(self.stalled)}

    def submit(self, fact: e.Event) -> None:
        """What a user asks for."""
        self.do(lambda: self.core.tell(fact))
        self.asked.release()

    def do(self, act: Callable[[], Sequence[Effect]]) -> None:
        """Something happens, now."""
        with self.lock:
            self.core.now_ms = now_ms()
            given = act()
            self._keep()
        for effect in given:
            if isinstance(effect, Notify):
                self.server.answer(effect)

    def wait_until_asked(self) -> None:
        assert self.asked.acquire(timeout=60)

    # -- what tasks and sinks do ----------------------------------------------------------------------------------

    def batch(self, task: str, number: int, *positions: int) -> None:
        self.do(lambda: self.core.tell(self.core.committed(task, number, *positions)))

    def trigger(self) -> int:
        """A checkpoint begins."""
        self.do(self.core.ask)
        return int(self.core.state.checkpoints.pending[-1].id)

    def acknowledge(self, task: str, checkpoint: int) -> None:
        self.core.snapshot(task, checkpoint, sync_ms=4, async_ms=21, total_bytes=64_000, new_bytes=1_500, files=3)
        self.do(lambda: self.core.tell(self.core.acked(task, checkpoint)))

    def complete(self, checkpoint: int) -> None:
        """Everybody does their part; of a savepoint there is a copy then."""
        self.do(lambda: self.core.complete(checkpoint))

    def copied(self, checkpoint: int) -> None:
        self.do(lambda: self.core.tell(e.SavepointCopied(ME, CheckpointId(checkpoint))))

    def checkpoint(self) -> int:
        """One from its trigger to its commit."""
        number = self.trigger()
        for task in ("a", "b"):
            self.core.snapshot(task, number, sync_ms=4, async_ms=21, total_bytes=64_000, new_bytes=1_500, files=3)
        self.complete(number)
        return number

    def fail(self, task: str) -> None:
        """A task fails on something that only the user can put right."""
        self.do(lambda: self.core.tell(self.core.failed(task, FailureClass.USER)))

    def close(self) -> None:
        self.server.close()

    # -- what the storage has ---------------------------------------------------------------------------------------

    def _keep(self) -> None:
        fresh = self.core.lines[self._written :]
        self._written = len(self.core.lines)
        for number, record in self.core.store.items():
            if number not in self._created:
                self._created.add(number)
                self._store.create_record(record, {"files": {}, "segments": {}})
        self._store.append_history(fresh)
        self.server.publish(fresh)

    def _address(self) -> dict[str, Any]:
        there = self._store.read_control()
        assert there is not None
        return dict(there)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
