"""A running job, as far as commands can tell: the real core behind the real address."""

import threading
from collections.abc import Callable
from typing import Any

from headgate.core import events as e
from headgate.core.effects import Effect, Notify
from headgate.run.control import ControlServer
from headgate.store.jobstore import JobStore
from tests.helpers import line
from tests.step_helpers import ME
from tests.view.watched import Watched, watched


class Job:
    """A core that is told what users ask, and whose answers go back to them."""

    def __init__(self, store: JobStore) -> None:
        self.core: Watched = watched(line("a"))
        self.lock = threading.Lock()
        self.asked = threading.Event()
        self.server = ControlServer(self.status, self.submit, "orders", ME)
        self.server.open(store)

    def status(self) -> dict[str, Any]:
        return self.core.recorder.status(self.core.now_ms, self.core.state)

    def submit(self, fact: e.Event) -> None:
        with self.lock:
            self._answer(self.core.tell(fact))
        self.asked.set()

    def do(self, act: Callable[[], list[Effect]]) -> None:
        """Something happens once a user has asked."""
        assert self.asked.wait(60)
        with self.lock:
            self._answer(act())

    def _answer(self, given: list[Effect]) -> None:
        for effect in given:
            if isinstance(effect, Notify):
                self.server.answer(effect)
