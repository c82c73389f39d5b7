"""Pre-commits and commits, as whole steps."""

from headgate.core import effects as o, events as e
from headgate.core.graph import Graph
from headgate.core.ids import CheckpointId, Generation, TaskId
from tests.helpers import line, task
from tests.step_helpers import only, published, running

GRAPH = line("a")
ONE = Generation(1)


def pre_commits(given: list[o.Effect]) -> list[tuple[int, int, int]]:
    return [(one.checkpoint, one.after, one.through) for one in only(o.PreCommitSink, given)]


def test_pre_commits_of_one_sink_go_one_after_the_other() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=2)
    core.tell(core.committed("a", 0))
    assert pre_commits(core.ask()) == [(1, -1, 0)]
    core.tell(core.committed("a", 1))
    assert pre_commits(core.ask()) == []
    assert pre_commits(core.tell(core.pre_committed(1))) == [(2, 0, 1)]


def test_a_checkpoint_without_new_output_needs_no_pre_commit() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.ask()
    core.complete(1)
    assert pre_commits(core.ask()) == []
    assert [type(one) for one in core.make_ready(2)] == [o.AnswerAck, o.CreateRecord]


def test_a_pre_commit_that_failed_goes_into_the_next_one_under_way() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=2, tolerable_failed_checkpoints=1)
    core.tell(core.committed("a", 0))
    core.ask()
    core.tell(core.committed("a", 1))
    core.ask()
    given = core.tell(core.pre_commit_failed(1))
    assert pre_commits(given) == [(2, -1, 1)]
    assert [one.checkpoint for one in only(o.AbortSnapshot, given)] == [1]


def test_a_pre_commit_that_fails_after_its_checkpoint_was_given_up_is_no_second_failure() -> None:
    core = running(GRAPH, tolerable_failed_checkpoints=1)
    core.tell(core.committed("a", 0))
    core.ask()
    core.tell(e.SnapshotDeclined(ONE, CheckpointId(1), TaskId("a")))
    assert core.tell(core.pre_commit_failed(1)) == []
    assert core.state.checkpoints.failures == 1


def test_what_was_pre_committed_for_a_checkpoint_that_was_given_up_may_be_all_that_the_next_one_needs() -> None:
    core = running(GRAPH, tolerable_failed_checkpoints=1)
    core.tell(core.committed("a", 0))
    core.ask()
    core.tell(e.SnapshotDeclined(ONE, CheckpointId(1), TaskId("a")))
    core.create()
    assert pre_commits(core.ask()) == []
    core.tell(core.acked("a", 2))
    given = core.tell(core.pre_committed(1))
    assert [one.record.id for one in only(o.CreateRecord, given)] == [2]
    assert [
        (one.permit.checkpoint, one.transaction.checkpoint) for one in only(o.CommitTransaction, core.create())
    ] == [(2, 1)]


def test_each_sink_waits_for_its_own_commits_alone() -> None:
    core = running(Graph((task("a", source=True, sinks=("x", "y")),)))
    core.tell(core.committed("a", 0))
    core.ask()
    core.make_ready(1)
    assert [one.transaction.sink for one in only(o.CommitTransaction, core.create())] == ["x", "y"]
    core.tell(core.committed("a", 1))
    core.ask()
    core.make_ready(2)
    assert only(o.CommitTransaction, core.create()) == []
    given = core.tell(core.visible(1, "y"))
    assert [(one.transaction.sink, one.transaction.checkpoint) for one in only(o.CommitTransaction, given)] == [
        ("y", 2)
    ]


def test_a_commit_that_fails_is_told_to_whoever_watches_and_tried_later_and_later() -> None:
    core = running(GRAPH, commit_retry_ms=10, commit_retry_max_ms=30)
    core.tell(core.committed("a", 0))
    core.ask()
    core.make_ready(1)
    core.create()
    waits = []
    for _ in range(4):
        assert [one.text for one in only(o.Notify, core.tell(core.commit_failed(1)))] == [
            "out: commit of checkpoint 1 failed, will be tried again: no answer"
        ]
        at = core.state.sinks[next(iter(core.state.sinks))].retry_at_ms
        assert at is not None
        waits.append(at - core.state.now_ms)
        assert len(only(o.CommitTransaction, core.tell(e.Ticked(at)))) == 1
    assert waits == [10, 20, 30, 30]


def test_a_checkpoint_keeps_what_its_predecessors_pre_committed_until_it_is_known_to_be_committed() -> None:
    core = running(GRAPH)
    core.tell(core.committed("a", 0))
    core.ask()
    core.make_ready(1)
    core.create()
    core.tell(core.committed("a", 1))
    core.ask()
    core.make_ready(2)
    core.create()
    assert [[one.checkpoint for one in record.transactions] for record in published(core)] == [[1], [1, 2]]
