"""What sinks have committed, and what they owe."""

from typing import Any

from headgate.core import events as e
from headgate.core.ids import CheckpointId, Generation, SinkId
from headgate.core.restart import FailureClass
from tests.helpers import line
from tests.view.test_job import live
from tests.view.watched import Watched, watched

GRAPH = line("a", "b")


def out(core: Watched) -> dict[str, Any]:
    [sink] = live(core)["sinks"]
    return dict(sink)


def some(core: Watched, *names: str) -> list[Any]:
    return [out(core)[name] for name in names]


def pre_committed(core: Watched) -> None:
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.make_ready(1)


def test_a_transaction_is_pre_committed_then_due_then_committed() -> None:
    core = watched(GRAPH)
    assert some(core, "sink", "task", "pre_committed", "due", "pre_commits", "committed") == ["out", "b", 0, 0, 0, 0]
    pre_committed(core)
    core.note("pre_commit", checkpoint=1, sink="out", ms=3.5)
    assert some(core, "pre_committed", "due", "pre_commits", "pre_commits_ms", "committed") == [1, 0, 1, 3.5, 0]
    core.create()
    assert some(core, "pre_committed", "due", "in_doubt") == [0, 1, 0]
    core.note("commit", checkpoint=1, sink="out", ms=2.0)
    core.tell(core.visible(1), core.visible(1))
    assert some(core, "pre_committed", "due", "committed", "commits_ms", "recovered_commits") == [0, 0, 1, 2.0, 0]


def test_batches_after_the_last_pre_commit_are_in_the_open_transaction() -> None:
    core = watched(GRAPH)
    assert some(core, "open_batches") == [0]
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    assert some(core, "open_batches") == [1]
    core.ask()
    core.make_ready(1)
    assert some(core, "open_batches", "pre_committed") == [0, 1]
    core.tell(core.committed("a", 1), core.committed("b", 1, 1))
    core.tell(core.committed("a", 2), core.committed("b", 2, 2))
    assert some(core, "open_batches", "pre_committed") == [2, 1]


def test_a_commit_that_fails_is_counted_and_leaves_its_transaction_in_doubt() -> None:
    core = watched(GRAPH)
    pre_committed(core)
    core.create()
    core.tell(core.commit_failed(1))
    assert some(core, "due", "in_doubt", "failed_commits", "committed") == [1, 1, 1, 0]
    core.wait(1_000)
    core.tell(core.visible(1))
    assert some(core, "due", "in_doubt", "failed_commits", "committed") == [0, 0, 1, 1]


def test_a_pre_commit_that_fails_is_counted() -> None:
    core = watched(GRAPH, tolerable_failed_checkpoints=9)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.tell(core.pre_commit_failed(1), core.pre_commit_failed(1))
    assert some(core, "failed_pre_commits", "pre_commits") == [1, 0]


def test_what_an_earlier_generation_left_is_in_doubt_until_it_is_recovered() -> None:
    core = watched(GRAPH)
    pre_committed(core)
    core.create()
    core.tell(core.failed("a", FailureClass.INTERNAL))
    core.wait(1_000)
    core.read()
    core.create()
    assert some(core, "due", "in_doubt") == [1, 1]
    core.tell(e.TransactionCommitted(Generation(2), SinkId("out"), Generation(1), CheckpointId(1)))
    assert some(core, "due", "in_doubt", "committed", "recovered_commits") == [0, 0, 1, 1]
