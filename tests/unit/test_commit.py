import pytest

from headgate.core import checkpoint_log, commit
from headgate.core.commit import PreCommit, SinkState
from headgate.core.ids import NO_BATCH, NO_CHECKPOINT, Batch, CheckpointId, Generation
from headgate.core.records import CommitPermit, Transaction
from tests.helpers import completed, line, transaction

FIRST = Generation(1)


def asked(*pre_commits: tuple[int, int], sink: SinkState | None = None) -> SinkState:
    """A sink that was asked to pre-commit for these checkpoints, through these batches."""
    sink = sink or SinkState()
    for checkpoint, through in pre_commits:
        sink, _ = commit.want_pre_commit(sink, CheckpointId(checkpoint), Batch(through))
    return sink


def pre_commit(checkpoint: int, through: int) -> PreCommit:
    return PreCommit(CheckpointId(checkpoint), Batch(through))


def permit(checkpoint: int) -> CommitPermit:
    return checkpoint_log.permit(completed(line("a"), checkpoint))


def pre_committed(*transactions: Transaction) -> SinkState:
    sink = SinkState()
    for one in transactions:
        sink, _ = commit.pre_committed(asked((one.checkpoint, one.through), sink=sink), one)
    return sink


ONE, TWO, THREE = transaction(1, -1, 4), transaction(2, 4, 6), transaction(3, 6, 9)


def test_one_pre_commit_is_ordered_at_a_time() -> None:
    sink, order = commit.want_pre_commit(SinkState(), CheckpointId(1), Batch(4))
    assert order == pre_commit(1, 4)
    sink, order = commit.want_pre_commit(sink, CheckpointId(2), Batch(6))
    assert order is None
    assert sink.wanted == (pre_commit(1, 4), pre_commit(2, 6))
    sink, order = commit.pre_committed(sink, ONE)
    assert order == pre_commit(2, 6)
    assert (sink.pre_committed, sink.pre_committed_through, sink.pre_committed_for) == ((ONE,), 4, 1)
    sink, order = commit.pre_committed(sink, TWO)
    assert order is None
    assert (sink.wanted, sink.pre_committed, sink.pre_committed_through, sink.pre_committed_for) == (
        (),
        (ONE, TWO),
        6,
        2,
    )


def test_a_pre_commit_of_nothing_needs_no_order() -> None:
    sink, order = commit.want_pre_commit(SinkState(), CheckpointId(1), NO_BATCH)
    assert order is None
    assert (sink.wanted, sink.pre_committed, sink.pre_committed_for) == ((), (), 1)


def test_a_pre_commit_of_nothing_that_waited_is_settled_by_the_one_before_it() -> None:
    sink, order = commit.pre_committed(asked((1, 4), (2, 4), (3, 4), (4, 5)), ONE)
    assert order == pre_commit(4, 5)
    assert sink.pre_committed_for == 3
    sink, order = commit.pre_committed(asked((1, 4), (2, 4)), ONE)
    assert order is None
    assert (sink.wanted, sink.pre_committed_for) == ((), 2)


def test_what_a_failed_pre_commit_would_have_pre_committed_is_left_for_the_next() -> None:
    sink, order = commit.pre_commit_failed(asked((1, 4), (2, 4)))
    assert order == pre_commit(2, 4)
    assert (sink.pre_committed_through, sink.pre_committed_for, sink.pre_committed) == (NO_BATCH, NO_CHECKPOINT, ())


def test_after_the_last_pre_commit_has_failed_nothing_is_ordered() -> None:
    assert commit.pre_commit_failed(asked((1, 4))) == (SinkState(), None)


def test_the_pre_commit_of_a_checkpoint_that_was_given_up_is_dropped_unless_it_is_under_way() -> None:
    sink = asked((1, 4), (2, 5), (3, 6))
    assert commit.forget_pre_commits(sink, CheckpointId(2)).wanted == (pre_commit(1, 4), pre_commit(3, 6))
    assert commit.forget_pre_commits(sink, CheckpointId(1)) == sink
    assert commit.forget_pre_commits(sink, CheckpointId(9)) == sink
    assert commit.forget_pre_commits(SinkState(), CheckpointId(1)) == SinkState()


def test_only_an_answer_to_the_pre_commit_under_way_is_taken() -> None:
    sink = asked((1, 4), (2, 5))
    assert commit.pre_commit_under_way(sink, CheckpointId(1)) == pre_commit(1, 4)
    assert commit.pre_commit_under_way(sink, CheckpointId(2)) is None
    assert commit.pre_commit_under_way(SinkState(), CheckpointId(1)) is None


def test_a_published_checkpoint_makes_all_due_that_was_pre_committed_up_to_it() -> None:
    sink, order = commit.allow(pre_committed(ONE, TWO, THREE), permit(2))
    assert order
    assert sink.due == ((permit(2), ONE), (permit(2), TWO))
    assert sink.pre_committed == (THREE,)
    sink, order = commit.allow(sink, permit(3))
    assert not order, "one is under way already"
    assert sink.due == ((permit(2), ONE), (permit(2), TWO), (permit(3), THREE))


def test_a_published_checkpoint_without_output_orders_nothing() -> None:
    assert commit.allow(SinkState(), permit(1)) == (SinkState(), False)
    sink = pre_committed(TWO)
    assert commit.allow(sink, permit(1)) == (sink, False)


def test_commits_succeed_in_order_and_once() -> None:
    sink, _ = commit.allow(pre_committed(ONE, TWO), permit(2))
    assert commit.committed(sink, FIRST, CheckpointId(2)) == (sink, False)
    assert commit.committed(sink, Generation(2), CheckpointId(1)) == (sink, False)
    sink, ours = commit.committed(sink, FIRST, CheckpointId(1))
    assert ours
    assert sink.due == ((permit(2), TWO),)
    assert commit.committed(sink, FIRST, CheckpointId(1)) == (sink, False)
    sink, ours = commit.committed(sink, FIRST, CheckpointId(2))
    assert ours
    assert commit.committed(sink, FIRST, CheckpointId(2)) == (sink, False)


def test_a_failed_commit_is_tried_again_later_and_later() -> None:
    sink, _ = commit.allow(pre_committed(ONE, TWO), permit(2))
    waits = []
    for _ in range(6):
        sink = commit.commit_failed(sink, 1_000, 100, 900)
        waits.append((sink.retry_at_ms or 0) - 1_000)
    assert waits == [100, 200, 400, 800, 900, 900]
    assert sink.tries == 6
    assert sink.due == ((permit(2), ONE), (permit(2), TWO))
    sink, _ = commit.committed(sink, FIRST, CheckpointId(1))
    assert (sink.retry_at_ms, sink.tries) == (None, 0)


def test_a_commit_that_fails_for_ever_never_waits_longer_than_the_maximum() -> None:
    sink = SinkState(due=((permit(1), ONE),), tries=100_000)
    assert commit.commit_failed(sink, 5, 1, 10_000).retry_at_ms == 10_005


def test_what_is_uncommitted_is_all_that_is_due_and_all_that_was_pre_committed_by_then() -> None:
    sink, _ = commit.allow(pre_committed(ONE, TWO, THREE), permit(1))
    assert commit.uncommitted(sink, CheckpointId(2)) == (ONE, TWO)
    assert commit.uncommitted(sink, CheckpointId(3)) == (ONE, TWO, THREE)
    assert commit.uncommitted(SinkState(), CheckpointId(3)) == ()


@pytest.mark.parametrize(("generation", "checkpoint", "expected"), [(1, 1, True), (1, 2, False), (2, 1, False)])
def test_an_answer_is_about_the_commit_under_way_or_about_none(
    generation: int, checkpoint: int, expected: bool
) -> None:
    sink, _ = commit.allow(pre_committed(ONE, TWO), permit(2))
    assert commit.is_next(sink, Generation(generation), CheckpointId(checkpoint)) is expected
    assert not commit.is_next(SinkState(), Generation(generation), CheckpointId(checkpoint))
