"""What a task's facts change."""

from headgate.core import effects as o, events as e
from headgate.core.graph import Graph
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId, TaskId
from headgate.core.records import Ending
from headgate.core.restart import Failure, FailureClass, FixedDelay, NoRestart
from headgate.core.state import Phase
from tests.helpers import channel, line, task
from tests.step_helpers import only, running, told

GRAPH = line("a", "b")
ONE = Generation(1)
A, B = TaskId("a"), TaskId("b")


def test_what_entered_may_write_and_what_was_written_is_noted() -> None:
    core = running(GRAPH)
    assert core.tell(core.entered("a", 0)) == [o.AdmitBatch(ONE, A, Run(1), Batch(0))]
    assert core.tell(core.entered("a", 0)) == [], "told twice"
    assert core.tell(e.OutputsWritten(*core.whose("a"), Batch(0))) == []
    stands = core.state.execution.tasks[A]
    assert (stands.entered, stands.written, stands.boundary.batch) == (0, 0, -1)
    core.tell(core.committed("a", 2))
    stands = core.state.execution.tasks[A]
    assert (stands.entered, stands.written, stands.boundary.batch) == (2, 2, 2)


def test_a_query_that_stops_by_itself_has_failed() -> None:
    core = running(GRAPH)
    given = core.tell(core.ended("a", 0))
    assert [one.text for one in only(o.Notify, given)] == [
        "task a failed (external: its query was stopped from outside): restarting the task in 1000 ms"
    ]
    stands = core.state.execution.tasks[A]
    assert (stands.ended, stands.run, stands.boundary.batch) == (False, 2, 0)


def test_a_task_that_may_not_restart_ends_the_job() -> None:
    core = running(GRAPH, restart=NoRestart())
    given = core.tell(core.failed("a"))
    assert [type(one) for one in given] == [o.Notify, o.StopTask, o.StopTask, o.CreateRecord]
    assert [type(one) for one in core.write_closing_record()] == [o.AbortStaleGenerations]
    assert core.state.termination.ending is Ending.FAILED


def test_failed_checkpoints_end_a_job_that_may_not_restart() -> None:
    core = running(GRAPH, restart=NoRestart())
    core.ask()
    core.tell(e.SnapshotDeclined(ONE, CheckpointId(1), A))
    assert (core.state.phase, core.state.termination.ending, core.state.checkpoints.failures) == (
        Phase.CLOSING,
        Ending.FAILED,
        0,
    )


def test_a_run_that_starts_throws_away_what_the_runs_before_it_left() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0), core.failed("b"), e.Ticked(1000))
    assert core.tell(core.started("b", 0, 0)) == [o.AbortFailedAttempts(ONE, SinkId("out"), Run(2))]
    assert core.tell(core.started("b", 0, 0)) == []


def test_a_run_that_starts_tells_what_the_run_before_it_had_committed() -> None:
    core = running(GRAPH)
    core.tell(core.failed("a"), e.Ticked(1000))
    given = core.tell(core.started("a", 3))
    assert [(one.channel, one.through) for one in only(o.OpenGate, given)] == [("a>b", 3)]


def test_a_task_that_was_draining_when_it_failed_is_drained_again() -> None:
    core = running(GRAPH)
    core.tell(e.SourceEnded(*core.whose("a")), core.failed("a"), e.Ticked(1000))
    assert core.state.execution.tasks[A].draining is False
    assert core.tell(core.started("a")) == [o.StopTask(ONE, A, Run(2), drain=True)]


def test_a_task_with_a_source_and_an_input_is_drained_when_both_have_ended() -> None:
    graph = Graph((task("a", source=True), task("b", source=True)), (channel("a", "b"),))
    core = running(graph)
    core.tell(core.committed("a", 0), e.SourceEnded(*core.whose("a")), core.ended("a"))
    assert core.tell(core.committed("b", 0, 0)) == []
    assert core.tell(e.SourceEnded(*core.whose("b"))) == [o.StopTask(ONE, B, Run(1), drain=True)]


def test_a_task_with_two_inputs_is_drained_when_it_has_read_both_to_their_end() -> None:
    graph = Graph((task("a", source=True), task("b", source=True), task("c")), (channel("a", "c"), channel("b", "c")))
    core = running(graph)
    for name in "ab":
        core.tell(core.committed(name, 0), e.SourceEnded(*core.whose(name)))
    core.tell(core.ended("a"), core.committed("c", 0, 0, 0))
    assert core.state.execution.tasks[TaskId("c")].draining is False
    assert core.tell(core.ended("b", 1)) == [o.OpenGate(ONE, graph.channels[1].id, Batch(1))]
    given = core.tell(core.committed("c", 1, 0, 1))
    assert given == [o.StopTask(ONE, TaskId("c"), Run(1), drain=True)]


def test_a_report_says_that_a_run_is_up_where_it_stands_and_that_its_source_has_ended() -> None:
    core = running(GRAPH)
    core.tell(core.failed("a"), e.Ticked(1000))
    given = core.tell(core.reported("a", 2, source_ended=True))
    assert [type(one) for one in given] == [o.OpenGate, o.StopTask]
    assert core.state.execution.tasks[A].started


def test_a_report_says_that_a_run_is_dead_or_has_ended() -> None:
    core = running(GRAPH)
    given = core.tell(core.reported("a", 1, source_ended=True, ended=True))
    assert [type(one) for one in given] == [o.OpenGate, o.StopTask]
    assert core.state.execution.tasks[A].ended
    core.tell(core.reported("b", 0, 1, failure=Failure(FailureClass.EXTERNAL, "gone")))
    stands = core.state.execution.tasks[B]
    assert (stands.run, stands.boundary.batch) == (2, 0)


def test_what_failed_attempts_wrote_is_thrown_away_until_the_sink_has_done_so() -> None:
    core = running(GRAPH, resend_ms=10)
    core.tell(core.committed("a", 0), core.failed("b"), e.Ticked(1000))
    abort = o.AbortFailedAttempts(ONE, SinkId("out"), Run(2))
    assert only(o.AbortFailedAttempts, core.tell(core.reported("b", 0, 0))) == [abort]
    assert only(o.AbortFailedAttempts, core.tell(e.Ticked(1010))) == [abort]
    core.tell(
        e.FailedAttemptsAborted(Generation(9), SinkId("out"), Run(2)),
        e.FailedAttemptsAborted(ONE, SinkId("out"), Run(1)),
    )
    assert only(o.AbortFailedAttempts, core.tell(e.Ticked(1020))) == [abort]
    core.tell(e.FailedAttemptsAborted(ONE, SinkId("out"), Run(2)))
    assert only(o.AbortFailedAttempts, core.tell(e.Ticked(1030))) == []


def test_no_checkpoint_starts_while_a_task_is_down() -> None:
    core = running(GRAPH, restart=FixedDelay(10))
    core.tell(core.failed("a"))
    assert core.ask() == []
    core.tell(e.Ticked(10))
    assert [one.task for one in only(o.TakeSnapshot, core.tell(core.started("a")))] == ["a", "b"]


def test_checkpoints_may_end_with_the_first_task_that_finishes() -> None:
    core = running(GRAPH, interval_ms=10, checkpoints_after_tasks_finish=False)
    core.tell(e.SourceEnded(*core.whose("a")), core.ended("a"))
    assert core.tell(e.Ticked(1000)) == []


def test_a_restart_is_told_to_whoever_watches() -> None:
    core = running(GRAPH)
    assert told(core.tell(core.failed("a"))) == [("notice", "None")]
