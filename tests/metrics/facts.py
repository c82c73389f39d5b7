"""A job to which everything has happened that metrics tell of: real steps, and reports of real batches."""

from typing import Any

from headgate.core.restart import FailureClass
from headgate.metrics.reading import Facts
from headgate.metrics.totals import EventTotals
from tests.view.reports import said
from tests.view.test_figures import GRAPH
from tests.view.test_job import live
from tests.view.test_recoveries import begin
from tests.view.watched import Watched, watched


def batch(core: Watched, task: str, number: int) -> None:
    told = said(task, number)
    rows = float(told["numInputRows"])
    core.note("progress", task=task, value=rows, about=None, said=told, sources=("orders",), batch_rows=600)


def eventful() -> Watched:
    """Two checkpoints that completed and one that failed, a commit that was retried, two restarts, and batches."""
    core = watched(GRAPH, tolerable_failed_checkpoints=3)
    core.tell(core.entered("rows", 0))
    core.wait(1_000)
    batch(core, "rows", 1)
    core.note("segment", generation=1, task="rows", channel="windows.0", batch=3, bytes=5_000)
    batch(core, "windows", 1)
    batch(core, "windows", 4)
    core.note("state", task="windows", sizes={0: {0: 300, 1: 100}})
    core.note("wait_ms", task="rows", value=250.0, about=1)
    core.tell(core.committed("rows", 0), core.committed("windows", 0, 0))
    core.ask()
    core.wait(40)
    core.snapshot("windows", 1, sync_ms=3, async_ms=7, total_bytes=900, new_bytes=400, files=5)
    core.make_ready(1)
    core.note("pre_commit", checkpoint=1, sink="out", ms=12.0)
    core.wait(10)
    core.create()
    core.tell(core.commit_failed(1))
    core.wait(1_000)
    core.note("commit", checkpoint=1, sink="out", ms=30.0)
    core.tell(core.visible(1))
    core.tell(core.committed("rows", 1), core.committed("windows", 1, 1))
    core.ask()
    core.tell(core.pre_commit_failed(2))
    core.tell(core.failed("windows"))
    core.wait(1_000)
    core.wait(60)
    core.tell(core.started("windows"))
    core.tell(core.failed("rows", FailureClass.INTERNAL))
    core.wait(1_000)
    begin(core)
    core.wait(80)
    core.start_all()
    core.wait(30)
    core.tell(core.committed("rows", 1), core.committed("windows", 1, 1))
    core.wait(500)
    return core


def facts_of(core: Watched) -> Facts:
    told = EventTotals()
    for line in core.lines:
        told.take(line)
    return Facts(live(core), told)


def events_of(core: Watched, name: str) -> list[dict[str, Any]]:
    return [line for line in core.lines if line["event"] == name]
