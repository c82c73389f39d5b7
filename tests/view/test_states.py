"""How long a job was in which state."""

from headgate.core.restart import FailureClass
from headgate.view.states import States
from tests.helpers import line
from tests.view.test_job import live
from tests.view.test_recoveries import begin
from tests.view.watched import watched


def test_a_state_that_comes_again_goes_on_counting() -> None:
    states = States()
    for at, word in ((10, "starting"), (30, "running"), (100, "restarting"), (150, "running"), (160, "running")):
        states.take(at, word)
    assert states.of(200, "running") == {
        "starting": {"entered_ms": 10, "current_ms": 0, "total_ms": 20},
        "running": {"entered_ms": 150, "current_ms": 50, "total_ms": 120},
        "restarting": {"entered_ms": 100, "current_ms": 0, "total_ms": 50},
    }


def test_a_job_is_down_while_all_of_it_goes_back() -> None:
    core = watched(line("a", "b"))
    core.wait(100)
    assert live(core)["downtime_ms"] == 0
    core.tell(core.failed("a", FailureClass.INTERNAL))
    core.wait(300)
    seen = live(core)
    assert (seen["state"], seen["downtime_ms"]) == ("restarting", 300)
    assert seen["states"]["running"] == {"entered_ms": 0, "current_ms": 0, "total_ms": 100}
    core.wait(700)
    begin(core)
    core.wait(40)
    seen = live(core)
    assert (seen["state"], seen["downtime_ms"]) == ("running", 0)
    assert (seen["states"]["restarting"]["total_ms"], seen["states"]["running"]["total_ms"]) == (1_000, 140)


def test_a_run_of_a_task_has_a_beginning_and_an_end_and_is_idle_between_batches() -> None:
    core = watched(line("a", "b"))
    core.wait(100)

    def seen(name: str) -> list[int | None]:
        [task] = [task for task in live(core)["tasks"] if task["task"] == name]
        return [task["run_started_ms"], task["run_ended_ms"], task["idle_ms"]]

    assert seen("b") == [0, None, 100]
    core.tell(core.failed("b"))
    core.wait(1_000)
    assert seen("b") == [0, 100, 100]
    core.tell(core.started("b"))
    core.wait(50)
    assert seen("b") == [1_100, None, 150]
    core.tell(core.entered("a", 0))
    core.wait(30)
    assert seen("a") == [0, None, 1_150], "what is under way in the hook is not idle"
