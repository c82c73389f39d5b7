"""What keeps a job with long intervals, or many tasks, going."""

from headgate.core import effects as o, events as e
from headgate.core.graph import Graph
from headgate.core.ids import TaskId
from headgate.core.restart import ExponentialDelay, FailureClass, FixedDelay
from headgate.core.state import Phase
from headgate.core.timing import next_deadline
from tests.helpers import line, task
from tests.step_helpers import Core, only, running

MINUTE = 60_000


def go_back(core: Core, name: str, at_ms: int) -> None:
    """The whole job goes back to its last checkpoint at this time, and runs again."""
    core.tell(e.Ticked(at_ms), core.failed(name, FailureClass.INTERNAL))
    assert core.state.restarts.restart_at_ms is not None
    core.tell(e.Ticked(core.state.restarts.restart_at_ms))
    core.read()
    core.create()
    core.start_all()
    assert core.state.phase is Phase.RUNNING


def test_a_restart_does_not_put_the_next_checkpoint_off() -> None:
    core = running(line("a", "b"), interval_ms=10 * MINUTE, restart=FixedDelay(0))
    go_back(core, "a", 6 * MINUTE)
    core.tell(core.committed("a", 0))
    assert only(o.TakeSnapshot, core.tell(e.Ticked(10 * MINUTE - 1))) == []
    assert only(o.TakeSnapshot, core.tell(e.Ticked(10 * MINUTE))) != []
    core.tell(core.committed("b", 0, 0))
    core.complete(core.state.checkpoints.pending[0].id)
    assert next_deadline(core.state) == 20 * MINUTE


def test_a_checkpoint_that_fell_due_while_the_job_went_back_waits_for_something_new() -> None:
    core = running(line("a", "b"), interval_ms=10 * MINUTE, restart=FixedDelay(3 * MINUTE))
    go_back(core, "a", 8 * MINUTE)
    assert not core.state.checkpoints.pending, "it would only repeat what the job went back to"
    assert next_deadline(core.state) == 21 * MINUTE, "an idle job takes it an interval later"
    assert only(o.TakeSnapshot, core.tell(core.committed("a", 0))) != []


def test_a_checkpoint_is_in_time_however_often_the_job_goes_back() -> None:
    core = running(Graph((task("a", source=True),), ()), interval_ms=10 * MINUTE, restart=FixedDelay(0))
    triggered = 0
    for minute in range(4, 64, 4):
        go_back(core, "a", minute * MINUTE)
        core.tell(core.committed("a", core.state.execution.tasks[TaskId("a")].boundary.batch + 1))
        core.tell(e.Ticked((minute + 3) * MINUTE))
        if core.state.checkpoints.pending:
            triggered += 1
            core.complete(core.state.checkpoints.pending[0].id)
    assert triggered >= 5


def restarted(core: Core, name: str, at_ms: int) -> None:
    """A task fails at this time, with a batch in the hook, and runs again at once."""
    core.tell(e.Ticked(at_ms), core.failed(name), e.Ticked(at_ms))
    core.tell(core.started(name))


def test_a_checkpoint_waits_until_a_task_restarted_in_place_has_something_new() -> None:
    core = running(line("a"), interval_ms=1_000, restart=FixedDelay(0))
    core.tell(core.committed("a", 0), core.entered("a", 1))
    restarted(core, "a", 900)
    assert only(o.TakeSnapshot, core.tell(e.Ticked(1_000))) == []
    core.tell(core.committed("a", 1))
    assert only(o.TakeSnapshot, core.tell(e.Ticked(1_200))) == [], "it has only done again what it had begun"
    assert only(o.TakeSnapshot, core.tell(core.committed("a", 2))) != []
    core.complete(core.state.checkpoints.pending[0].id)
    assert next_deadline(core.state) == 2_200


def test_a_checkpoint_waits_three_intervals_for_a_task_that_has_nothing_new_and_no_longer() -> None:
    core = running(line("a", "b"), interval_ms=1_000, restart=FixedDelay(0))
    core.tell(core.committed("a", 0), core.entered("a", 1))
    restarted(core, "a", 900)
    core.tell(core.entered("a", 1))
    restarted(core, "a", 1_300)
    assert next_deadline(core.state) == 3_900, "however often it fails meanwhile"
    assert only(o.TakeSnapshot, core.tell(e.Ticked(3_900))) != []


def test_with_a_long_interval_a_checkpoint_waits_ten_seconds_for_a_task_that_was_restarted() -> None:
    core = running(line("a"), interval_ms=10 * MINUTE, restart=FixedDelay(0))
    core.tell(core.committed("a", 0))
    restarted(core, "a", 10 * MINUTE - 1_000)
    assert next_deadline(core.state) == 10 * MINUTE + 9_000


def test_the_first_failure_of_each_task_waits_for_the_first_delay() -> None:
    tasks = [f"t{number}" for number in range(12)]
    graph = Graph(tuple(task(name, source=True) for name in tasks), ())
    core = running(graph, restart=ExponentialDelay(initial_ms=1_000, maximum_ms=60_000, multiplier=1.5, jitter=0))
    for name in tasks:
        core.tell(core.failed(name))
    assert {stands.restart_at_ms for stands in core.state.execution.tasks.values()} == {1_000}
    core.tell(e.Ticked(1_000), core.started("t3"), core.failed("t3"))
    assert core.state.execution.tasks[TaskId("t3")].restart_at_ms == 2_500


def test_a_task_that_fails_in_every_generation_waits_longer_each_time() -> None:
    core = running(line("a"), restart=ExponentialDelay(initial_ms=100, maximum_ms=60_000, multiplier=2, jitter=0))
    waits = []
    for _ in range(8):
        before = core.state.now_ms
        core.tell(core.failed("a"))
        at_ms = core.state.restarts.restart_at_ms or core.state.execution.tasks[TaskId("a")].restart_at_ms
        assert at_ms is not None
        waits.append(at_ms - before)
        core.tell(e.Ticked(at_ms))
        if core.state.phase is Phase.READING:
            core.read()
            core.create()
        core.start_all()
    assert waits == [100, 200, 400, 100, 800, 1_600, 3_200, 200], "every fourth time the whole job goes back"
