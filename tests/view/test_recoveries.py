"""How long recoveries took."""

from typing import Any

from headgate.core import events as e
from headgate.core.restart import FailureClass
from tests.helpers import line
from tests.step_helpers import OTHER
from tests.view.watched import Watched, watched

GRAPH = line("a", "b")


def told(core: Watched) -> list[dict[str, Any]]:
    return [one for one in core.lines if one["event"] in ("restored", "caught-up")]


def begin(core: Watched) -> None:
    """The checkpoint log is read, and what earlier generations pre-committed is committed."""
    core.read()
    core.create()
    for sink in core.state.sinks.values():
        for _, one in sink.due:
            generation = core.state.leadership.generation
            core.tell(e.TransactionCommitted(generation, one.sink, one.generation, one.checkpoint))


def test_a_job_that_begins_from_nothing_recovers_nothing() -> None:
    assert told(watched(GRAPH)) == []


def test_a_task_that_goes_back_is_restored_and_then_catches_up() -> None:
    core = watched(GRAPH)
    core.tell(core.committed("a", 0), core.entered("b", 0, 0))
    core.wait(500)
    core.tell(core.failed("b"))
    core.wait(1_000)
    assert told(core) == []
    core.wait(200)
    core.tell(core.started("b"))
    about = {"level": "task", "task": "b", "generation": 1, "base": None}
    restored = {"at": 1_700, "event": "restored", **about, "delay_ms": 1_000, "restore_ms": 200}
    assert told(core) == [restored]
    core.wait(40)
    core.tell(core.committed("b", 0, 0))
    assert told(core)[1:] == [{"at": 1_740, "event": "caught-up", **about, "replay_ms": 40}]
    core.tell(core.committed("a", 1))
    assert len(told(core)) == 2


def test_a_job_that_goes_back_is_restored_when_every_task_is_up() -> None:
    core = watched(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.complete(1)
    core.tell(core.committed("a", 1), core.entered("a", 2))
    core.tell(core.failed("a", FailureClass.INTERNAL))
    core.wait(1_000)
    begin(core)
    core.wait(30)
    core.tell(core.started("a"))
    assert told(core) == []
    core.wait(70)
    core.tell(core.started("b"))
    about = {"level": "job", "task": None, "generation": 2, "base": 1}
    restored = {"at": 1_100, "event": "restored", **about, "delay_ms": 1_000, "restore_ms": 100}
    assert told(core) == [restored]
    core.tell(core.committed("a", 1))
    core.wait(5)
    assert told(core) == [restored]
    core.tell(core.committed("a", 2))
    assert told(core)[1:] == [{"at": 1_105, "event": "caught-up", **about, "replay_ms": 5}]


def test_a_failure_on_the_way_back_makes_it_another_recovery() -> None:
    core = watched(GRAPH)
    core.tell(core.failed("b"))
    core.wait(1_000)
    core.tell(core.failed("b", FailureClass.INTERNAL))
    core.wait(1_000)
    begin(core)
    core.wait(10)
    core.start_all()
    assert [(one["event"], one["level"], one["at"]) for one in told(core)] == [
        ("restored", "job", 2_010),
        ("caught-up", "job", 2_010),
    ]


def test_a_process_that_takes_a_job_over_from_a_checkpoint_says_how_long_it_took() -> None:
    before = watched(GRAPH)
    before.tell(before.committed("a", 0), before.committed("b", 0, 0))
    before.ask()
    before.complete(1)
    core = Watched(GRAPH)
    core.store = before.store
    core.lead(OTHER)
    begin(core)
    core.wait(250)
    core.start_all()
    assert told(core) == [
        {
            "at": 250,
            "event": "restored",
            "level": "start",
            "task": None,
            "generation": 2,
            "base": 1,
            "delay_ms": 0,
            "restore_ms": 250,
        }
    ]
