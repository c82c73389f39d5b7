"""A running job, as far as commands can tell: the real core behind the real address."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import headgate.serve.app  # noqa: F401 - so that no test waits for that
from headgate.checksums import measure
from headgate.core import events as e
from headgate.core.effects import Effect, Notify
from headgate.core.ids import CheckpointId
from headgate.core.records import Kind
from headgate.run import control, savepoints
from headgate.serve.process import ControlServer
from headgate.store.jobstore import JobStore
from tests.edges.stores import UP, completed
from tests.helpers import line
from tests.step_helpers import ME
from tests.view.watched import Watched, watched


class Job:
    """A core that is told what users ask, and whose answers go back to them."""

    def __init__(self, store: JobStore, described: dict[str, Any] | None = None) -> None:
        self.core: Watched = watched(line("a"))
        self.lock = threading.Lock()
        self.asked = threading.Event()
        self.warned: list[str] = []
        self.server = ControlServer(self.status, self.submit, "orders", ME, self.warned.append)
        self.server.open(store, described)
        control._talk(store.read_control() or {}, "GET", "/v1/config", None, 600.0)  # From here on it is quick.

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


def crashed() -> Watched:
    """A job with one checkpoint, whose process is gone."""
    core = watched(line("a", "b"))
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.snapshot("a", 1, sync_ms=3, total_bytes=1000, new_bytes=10, files=4)
    core.complete(1)
    return core


def stopped() -> Watched:
    core = crashed()
    core.savepoint(stop=True)
    core.complete(2)
    core.tell(e.SavepointCopied(ME, CheckpointId(2)))
    core.write_closing_record()
    core.tell(core.stale_generations_aborted())
    return core


def copied(store: JobStore, number: int) -> dict[str, bytes]:
    """The copy of a savepoint, as a job makes it. Returns its files."""
    record = replace(completed(number, files={UP: ("tasks/up/g1/metadata",)}, kind=Kind.SAVEPOINT), leader=ME)
    data = b"what a task needs"
    assert store.local_root is not None
    file = store.local_root / "savepoints" / str(number) / "tasks/up/g1/metadata"
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    savepoints.finish(store, record, {"files": {"tasks/up/g1/metadata": list(measure(file))}, "segments": {}})
    return {"tasks/up/g1/metadata": data, "manifest.json": store.read(f"savepoints/{number}/manifest.json")}


def files_of(root: Path) -> dict[str, bytes]:
    """All files in a directory."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
