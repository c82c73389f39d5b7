"""Orders that nobody has answered are given again, exactly those."""

from headgate.core import effects as o, events as e
from headgate.core.effects import Effect
from headgate.core.ids import Batch, ChannelId, CheckpointId, Generation, RequestId, Run, SinkId, TaskId
from headgate.core.restart import FailureClass
from headgate.core.timing import unanswered
from tests.helpers import line
from tests.step_helpers import ME, Core, running

GRAPH = line("a", "b")
ONE = Generation(1)
A, B = TaskId("a"), TaskId("b")
OUT = SinkId("out")
FIRST = CheckpointId(1)


def ask(task: str, run: int = 1) -> o.AskTask:
    return o.AskTask(ONE, TaskId(task), Run(run))


def gate(through: int) -> o.OpenGate:
    return o.OpenGate(ONE, ChannelId("a>b"), Batch(through))


QUIET: list[Effect] = [ask("a"), ask("b"), gate(-1)]
"""What a running job asks that waits for nothing: where its tasks stand; gates are cheap to open again."""


def again(core: Core) -> list[Effect]:
    return list(unanswered(core.state))


def test_the_clock_gives_again_just_what_is_unanswered() -> None:
    core = running(GRAPH, resend_ms=10)
    core.ask()
    expected = again(core)
    assert core.tell(e.Ticked(10)) == expected


def test_before_there_is_a_generation_the_read_and_then_the_fence() -> None:
    core = Core(GRAPH)
    assert again(core) == []
    assert core.lead() == again(core) == [o.ReadCheckpointLog(ME)]
    assert core.read() == again(core)
    assert [type(one) for one in again(core)] == [o.CreateRecord]


def test_tasks_are_started_until_they_say_that_they_are_up() -> None:
    core = Core(GRAPH)
    core.lead()
    core.read()
    start_a, start_b = core.create()[1:]
    abort = o.AbortStaleGenerations(ONE, OUT, ONE)
    assert again(core) == [abort, start_a, ask("a"), start_b, ask("b"), gate(-1)]
    core.tell(core.started("a"), core.stale_generations_aborted())
    assert again(core) == [ask("a"), start_b, ask("b"), gate(-1)]
    core.tell(core.started("b"))
    assert again(core) == QUIET


def test_a_failed_task_is_left_alone_until_its_delay_is_over_and_then_started_in_place() -> None:
    core = running(GRAPH)
    core.tell(core.failed("b"))
    assert again(core) == [ask("a"), gate(-1)]
    start = core.tell(e.Ticked(1000))
    assert start == [o.StartTask(ONE, B, Run(2), in_place=True)]
    assert again(core) == [ask("a"), *start, ask("b", 2), gate(-1)]


def test_a_task_that_is_to_finish_is_told_so_until_it_has() -> None:
    core = running(GRAPH)
    stop = core.tell(e.SourceEnded(*core.whose("a")))
    assert stop == [o.StopTask(ONE, A, Run(1), drain=True)]
    assert again(core) == [ask("a"), *stop, ask("b"), gate(-1)]
    core.tell(core.ended("a"))
    assert again(core) == [ask("b"), o.StopTask(ONE, B, Run(1), drain=True), gate(-1)]


def test_a_checkpoints_snapshots_and_pre_commits_until_each_is_answered() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    snapshot_a, snapshot_b, pre_commit = core.ask()
    assert again(core) == [pre_commit, ask("a"), ask("b"), gate(0), snapshot_a, snapshot_b]
    core.tell(core.acked("b", 1))
    assert again(core) == [pre_commit, ask("a"), ask("b"), gate(0), snapshot_a]
    core.tell(core.pre_committed(1))
    assert again(core) == [ask("a"), ask("b"), gate(0), snapshot_a]


def test_a_record_until_it_is_there_and_then_the_commit_and_the_copy() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.savepoint()
    create = core.make_ready(1)[-1]
    waiting = [ask("a"), ask("b"), gate(0)]
    assert again(core) == [create, *waiting]
    _, commit, copy = core.create()
    assert again(core) == [commit, copy, *waiting]
    core.tell(core.visible(1))
    assert again(core) == [copy, *waiting]
    core.tell(e.SavepointCopied(ME, FIRST))
    assert again(core) == waiting


def test_a_hold_until_the_store_knows_it() -> None:
    core = running(GRAPH)
    core.ask()
    core.complete(1)
    hold = core.tell(e.HoldAsked(RequestId("h"), FIRST))
    assert again(core) == [*hold, *QUIET]
    core.tell(e.HoldSet(ME, FIRST, held=True))
    assert again(core) == QUIET


def test_a_collection_begins_anew_until_the_records_are_gone() -> None:
    core = running(GRAPH)
    for number in (1, 2):
        core.ask()
        core.complete(number)
    assert again(core) == [o.ListFiles(ONE), *QUIET]
    core.tell(e.FilesListed(ONE, ()))
    assert again(core) == [o.ListFiles(ONE), *QUIET]
    core.tell(e.FilesDeleted(ONE, (FIRST,)))
    assert again(core) == QUIET


def test_a_collection_that_left_something_is_followed_by_another() -> None:
    core = running(GRAPH)
    for number in (1, 2):
        core.ask()
        core.complete(number)
    core.tell(e.FilesListed(ONE, ()))
    assert core.tell(e.FilesDeleted(ONE, ())) == [o.ListFiles(ONE)]


def test_tasks_are_stopped_again_while_the_job_restarts_or_closes() -> None:
    core = running(GRAPH)
    core.tell(e.SourceEnded(*core.whose("a")), core.ended("a"))
    core.tell(core.failed("b", FailureClass.INTERNAL))
    assert again(core) == [o.StopTask(ONE, B, Run(1))]
    core = running(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.make_ready(1)
    core.tell(core.failed("b", FailureClass.USER))
    assert again(core)[1:] == [o.StopTask(ONE, A, Run(1)), o.StopTask(ONE, B, Run(1))]
    assert isinstance(again(core)[0], o.CreateRecord)
