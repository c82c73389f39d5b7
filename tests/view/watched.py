"""A core whose steps are recorded, and a clock that tests move by hand."""

from collections.abc import Sequence
from typing import Any

from headgate.core import events as e
from headgate.core.effects import Effect
from headgate.core.graph import Graph
from headgate.core.job import step
from headgate.core.state import Phase
from headgate.run.loop import Observation
from headgate.store.jobstore import JobStore
from headgate.view.recorder import PROGRESS, Recorder
from tests.step_helpers import Core


class Watched(Core):
    """A core under test with a recorder. ``lines`` is the history, without progress."""

    def __init__(self, graph: Graph, **settings: Any) -> None:
        super().__init__(graph, **settings)
        self.recorder = Recorder("orders")
        self.now_ms = 0
        self.lines: list[dict[str, Any]] = []
        self.progress: list[dict[str, Any]] = []

    def tell(self, *facts: e.Event) -> list[Effect]:
        given: list[Effect] = []
        for fact in facts:
            before = self.state
            self.state, effects = step(before, fact)
            self._keep(self.recorder.watch(self.now_ms, fact, before, self.state, effects))
            given += effects
        return given

    def note(self, kind: str, **fields: Any) -> None:
        self._keep(self.recorder.watch(self.now_ms, Observation(kind, fields), self.state, self.state, []))

    def wait(self, ms: int) -> list[Effect]:
        """Time passes."""
        self.now_ms += ms
        return self.tell(e.Ticked(self.now_ms))

    def snapshot(self, task: str, checkpoint: int, **measured: float) -> None:
        """A task's snapshot was measured."""
        zero = {"sync_ms": 0, "async_ms": 0, "total_bytes": 0, "new_bytes": 0, "files": 0, "new_files": 0}
        self.note("snapshot", checkpoint=checkpoint, task=task, **{**zero, **measured})

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]

    def only(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    def _keep(self, lines: Sequence[dict[str, Any]]) -> None:
        for line in lines:
            (self.progress if line["event"] == PROGRESS else self.lines).append(line)


def watched(graph: Graph, **settings: Any) -> Watched:
    """A job in its first generation with every task up."""
    core = Watched(graph, **settings)
    core.lead()
    core.read()
    core.create()
    core.start_all()
    assert core.state.phase is Phase.RUNNING
    return core


def keep(core: Watched, store: JobStore) -> None:
    """Put a job's records and history into a storage, as its process would have."""
    for record in core.store.values():
        assert store.create_record(record, {"files": {}, "segments": {}}) is None
    store.append_history(core.lines)
