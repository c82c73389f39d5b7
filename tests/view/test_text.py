"""What people read."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from headgate.core import events as e
from headgate.core.ids import CheckpointId, Generation, TaskId
from headgate.core.restart import FailureClass
from headgate.view import job, text
from tests.helpers import line
from tests.view.watched import Watched, watched


def rendered(what: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=160, markup=False).print(what)
    return out.getvalue()


def eventful() -> Watched:
    """A job with a checkpoint, a failed one, and a restart."""
    core = watched(line("a", "b"), tolerable_failed_checkpoints=3)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.snapshot("a", 1, sync_ms=3, async_ms=1200, total_bytes=2_500_000, new_bytes=1500, files=7)
    core.wait(61_000)
    core.complete(1)
    core.ask()
    core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(2), TaskId("a"), "no [bold]space"))
    core.tell(core.failed("b", FailureClass.LOST_EXECUTOR))
    core.wait(2_000)
    return core


def test_a_status_names_the_facts() -> None:
    core = eventful()
    shown = rendered(text.status(core.recorder.status(core.now_ms, core.state)))
    for part in ("orders", "running", "1, 2.0 s ago", "1 of a task, 0 of the job", "task b: boom (lost-executor)"):
        assert part in shown
    assert "a>b: 0" in shown


def test_a_job_without_anything_is_shown_too() -> None:
    shown = rendered(text.status(job.status("orders", (), (), now_ms=0)))
    assert "new" in shown
    assert "none yet" in shown


def test_checkpoints_are_a_table_with_the_reasons_of_failures_below() -> None:
    core = eventful()
    views = job.checkpoints(tuple(core.store.values()), (), core.lines)
    shown = rendered(text.checkpoints(views))
    first, second = (shown.splitlines()[n] for n in (1, 2))
    for part in ("kept", "1 min 1 s", "2.5 MB", "1.5 kB"):
        assert part in first
    assert "failed" in second
    assert shown.splitlines()[-1].startswith("2: checkpoint 2 given up")
    assert "no [bold]space" in shown
    one = rendered(text.checkpoint(views[0]))
    for part in ("start delay", "alignment", "1.2 s", "3 ms", "commit retries"):
        assert part in one
    assert "no [bold]space" in rendered(text.checkpoint(views[1]))


def test_jobs_are_a_row_each() -> None:
    core = eventful()
    view = core.recorder.status(core.now_ms, core.state)
    assert len(rendered(text.jobs([view, view])).splitlines()) == 3


def test_a_task_shows_how_busy_it_is_and_how_much_held_up() -> None:
    core = watched(line("a", "b"), max_batches_ahead=1)
    core.tell(core.entered("a", 0), core.committed("a", 0), core.entered("a", 1))
    core.wait(10_000)
    shown = rendered(text.status(core.recorder.status(core.now_ms, core.state))).splitlines()
    assert [row.split()[-1] for row in shown[-3:]] == ["backpressure", "high", "ok"]
    assert [row.split()[-4] for row in shown[-2:]] == ["0%", "0%"]


def test_progress_is_one_line_with_rates_lag_and_the_last_checkpoint() -> None:
    core = eventful()
    core.note("progress", task="a", value=3_000_000, about=None)
    core.tell(core.committed("a", 1), core.committed("a", 2))
    core.now_ms += 2_000
    core.note("write_ms", task="a", value=1, about=0)
    core.now_ms += 2_000
    core.note("write_ms", task="a", value=1, about=0)
    shown = text.progress(core.progress[-1])
    assert shown.startswith("running | a ")
    assert " rows/s | b starting, 2 behind | checkpoint 1, 6.0 s ago" in shown


def test_events_are_sentences_and_some_are_only_for_programs() -> None:
    core = eventful()
    shown = [text.event(one) for one in core.lines]
    assert [one for one in shown if one is not None] == [
        "generation 1 begins from the beginning",
        "checkpoint 1 completed in 1 min 1 s, 1.5 kB new",
        "checkpoint 2 given up: a part of the job declined it (a: no [bold]space)",
        "task b failed (lost-executor): boom",
        "restarting task b in 1.0 s: task b failed: boom (lost-executor)",
    ]
    others: list[dict[str, Any]] = [
        {"event": "guarantee", "guarantee": "exactly-once", "because": []},
        {"event": "guarantee", "guarantee": "effectively-once", "because": ["sink a is effectively-once", "b"]},
        {"event": "generation", "generation": 2, "base": 1},
        {"event": "restart", "level": "job", "task": None, "delay_ms": 5, "cause": "c", "class": "internal"},
        {"event": "savepoint-copied", "id": 3},
        {"event": "notice", "text": "n"},
        {"event": "warning", "text": "w"},
    ]
    assert [text.event(one) for one in others] == [
        "the guarantee is exactly-once",
        "the guarantee is effectively-once; sink a is effectively-once; b",
        "generation 2 begins from checkpoint 1",
        "restarting the job in 5 ms: c (internal)",
        "savepoint 3 is copied and stands on its own",
        "n",
        "warning: w",
    ]


def test_a_checkpoint_to_which_nothing_came_says_nothing_but_a_savepoint_does() -> None:
    done = {"event": "checkpoint-completed", "id": 7, "duration_ms": 5, "tasks": {"a": {"new_bytes": 0}}}
    assert text.event({**done, "kind": "checkpoint"}) is None
    assert text.event({**done, "kind": "savepoint"}) == "savepoint 7 completed in 5 ms, 0 B new"


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (None, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_500, "1.5 s"),
        (60_000, "1 min"),
        (3_599_000, "59 min 59 s"),
        (3_600_000, "1 h"),
        (86_399_000, "23 h 59 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_a_time_span_has_two_units_at_most(ms: int | None, shown: str) -> None:
    assert text.duration(ms) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (2_540_000, "2.5 MB"),
        (3e9, "3.0 GB"),
        (5e15, "5000.0 TB"),
    ],
)
def test_a_size_is_short(count: float | None, shown: str) -> None:
    assert text.size(count) == shown
