"""One sink under every order of asks, answers, failures and publications.

The driver plays the coordinator and the sink, and keeps its own books: which pre-commit and which commit it was told to
carry out, what was pre-committed, what became visible.
"""

from dataclasses import dataclass, field

from hypothesis import given, strategies as st

from headgate.core import checkpoint_log, commit
from headgate.core.commit import PreCommit, SinkState
from headgate.core.ids import NO_BATCH, Batch, CheckpointId, Generation
from headgate.core.records import CommitPermit, Transaction
from tests.helpers import completed, line, transaction

GRAPH = line("a")
FIRST = Generation(1)


@dataclass
class Driver:
    """A sink, and the books of whoever drives it."""

    sink: SinkState = field(default_factory=SinkState)
    batch: int = int(NO_BATCH)
    next_id: int = 1
    pre_commit: PreCommit | None = None
    committing: Transaction | None = None
    asked: dict[int, int] = field(default_factory=dict)
    """Checkpoints under way, and the batch each was cut at."""
    published: int = 0
    pre_committed: list[Transaction] = field(default_factory=list)
    visible: list[Transaction] = field(default_factory=list)

    def want(self, batches: int) -> None:
        self.batch += batches
        self.asked[self.next_id] = self.batch
        self.sink, order = commit.want_pre_commit(self.sink, CheckpointId(self.next_id), Batch(self.batch))
        self.take(order)
        self.next_id += 1

    def take(self, order: PreCommit | None) -> None:
        if order is not None:
            assert self.pre_commit is None, "two pre-commits are ordered at once"
            self.pre_commit = order

    def answer_pre_commit(self, *, well: bool) -> None:
        """As the coordinator does it: a transaction begins where the last one ended."""
        if self.pre_commit is None:
            return
        done, self.pre_commit = self.pre_commit, None
        assert commit.pre_commit_under_way(self.sink, done.checkpoint) == done
        if well:
            made = transaction(done.checkpoint, self.sink.pre_committed_through, done.through)
            self.pre_committed.append(made)
            self.sink, order = commit.pre_committed(self.sink, made)
        else:
            self.asked.pop(done.checkpoint, None)
            self.sink, order = commit.pre_commit_failed(self.sink)
        self.take(order)

    def give_up(self, pick: int) -> None:
        if self.asked:
            number = list(self.asked)[pick % len(self.asked)]
            del self.asked[number]
            self.sink = commit.forget_pre_commits(self.sink, CheckpointId(number))

    def publish(self, pick: int) -> None:
        """A checkpoint can be published when the sink has pre-committed for it; the older ones are given up with it."""
        ready = [number for number in self.asked if number <= self.sink.pre_committed_for]
        if not ready:
            return
        number = ready[pick % len(ready)]
        expected = [one for one in self.pre_committed if one not in self.visible and one.checkpoint <= number]
        assert list(commit.uncommitted(self.sink, CheckpointId(number))) == expected
        for older in [other for other in self.asked if other < number]:
            del self.asked[older]
            self.sink = commit.forget_pre_commits(self.sink, CheckpointId(older))
        through = self.asked.pop(number)
        self.published = number
        self.sink, order = commit.allow(self.sink, permit(number))
        if order:
            assert self.committing is None, "two commits are ordered at once"
            self.committing = self.sink.due[0][1]
        allowed = self.visible + [one for _, one in self.sink.due]
        assert (allowed[-1].through if allowed else NO_BATCH) == through, "a published checkpoint has all its output"

    def answer_commit(self, *, well: bool) -> None:
        if self.committing is None:
            return
        done = self.committing
        assert done.checkpoint <= self.published, "a commit without a permit"
        before = self.sink
        if not well:
            self.sink = commit.commit_failed(self.sink, 1_000, 10, 100)
            assert self.sink.due == before.due, "a failed commit stays first"
            assert 1_010 <= (self.sink.retry_at_ms or 0) <= 1_100
            return
        self.visible.append(done)
        self.sink, ours = commit.committed(self.sink, done.generation, done.checkpoint)
        assert ours
        self.committing = self.sink.due[0][1] if self.sink.due else None

    def answer_twice(self, pick: int) -> None:
        """An answer about a commit that is long done, or not yet ordered."""
        others = [one for one in self.pre_committed if one != self.committing]
        if others:
            late = others[pick % len(others)]
            assert commit.committed(self.sink, late.generation, late.checkpoint) == (self.sink, False)

    def check(self) -> None:
        assert self.pre_commit == (self.sink.wanted[0] if self.sink.wanted else None), "the first wanted is under way"
        assert self.committing == (self.sink.due[0][1] if self.sink.due else None), "the first due is under way"
        assert self.visible == self.pre_committed[: len(self.visible)], "commits go in order, each once"
        line_up = [*self.visible, *(one for _, one in self.sink.due), *self.sink.pre_committed]
        assert line_up == self.pre_committed, "nothing that was pre-committed is lost"
        ends = [int(NO_BATCH), *(int(one.through) for one in self.pre_committed)]
        assert [one.after for one in self.pre_committed] == ends[:-1], "each begins where the one before it ends"
        assert all(one.after < one.through for one in self.pre_committed), "none is empty"
        assert all(allowed.checkpoint >= one.checkpoint for allowed, one in self.sink.due)


def permit(number: int) -> CommitPermit:
    return checkpoint_log.permit(completed(GRAPH, number))


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["pre-committed", "pre-commit failed", "committed", "commit failed"]), st.just(0)),
        st.tuples(st.sampled_from(["give up", "publish", "answer twice"]), st.integers(0, 5)),
    ),
    max_size=40,
)


def drive(operations: list[tuple[str, int]]) -> Driver:
    driver = Driver()
    for name, number in operations:
        match name:
            case "want":
                driver.want(number)
            case "pre-committed" | "pre-commit failed":
                driver.answer_pre_commit(well=name == "pre-committed")
            case "committed" | "commit failed":
                driver.answer_commit(well=name == "committed")
            case "give up":
                driver.give_up(number)
            case "publish":
                driver.publish(number)
            case _:
                driver.answer_twice(number)
        driver.check()
    return driver


@given(OPERATIONS)
def test_a_sink_commits_in_order_each_transaction_once_and_only_what_was_published(
    operations: list[tuple[str, int]],
) -> None:
    """The driver asserts after every operation, and once more at the end."""
    drive(operations).check()


@given(OPERATIONS, st.integers(0, 3))
def test_a_sink_that_is_answered_in_the_end_commits_exactly_what_was_asked(
    operations: list[tuple[str, int]], batches: int
) -> None:
    driver = drive(operations)
    driver.want(batches)
    last = driver.next_id - 1
    while driver.pre_commit is not None:
        driver.answer_pre_commit(well=True)
    driver.check()
    assert all(number <= driver.sink.pre_committed_for for number in driver.asked), (
        "all that was asked for is pre-committed"
    )
    driver.publish(len([number for number in driver.asked if number < last]))
    assert driver.published == last
    while driver.committing is not None:
        driver.answer_commit(well=True)
    driver.check()
    covered = [batch for one in driver.visible for batch in range(one.after + 1, one.through + 1)]
    assert covered == list(range(driver.batch + 1)), "every batch is visible, once"
