"""Which run wrote what counts of a batch: known, past, or an internal error."""

import pytest

from headgate.core.ids import NO_BATCH, Batch, Generation, Run, TaskId
from headgate.errors import InternalError
from headgate.run.batch_runs import BatchRuns, Past

ONE, TWO, TASK = Generation(1), Generation(2), TaskId("t")


@pytest.fixture
def runs() -> BatchRuns:
    """A generation that began behind batch 4; run 1 wrote 5 and 6, and run 2 wrote 6 once more, and 7."""
    made = BatchRuns()
    made.restore(ONE, TASK, Batch(4))
    for batch, run in ((5, 1), (6, 1), (6, 2), (7, 2)):
        made.write(ONE, TASK, Batch(batch), Run(run))
    return made


def test_the_last_run_that_was_in_the_hook_counts(runs: BatchRuns) -> None:
    assert [runs.run_of(ONE, TASK, Batch(batch)) for batch in (5, 6, 7)] == [1, 2, 2]


def test_what_an_earlier_generation_wrote_is_restored(runs: BatchRuns) -> None:
    assert [runs.run_of(ONE, TASK, Batch(batch)) for batch in (0, 4)] == [Past.RESTORED] * 2


def test_what_everybody_has_is_settled_and_takes_no_room(runs: BatchRuns) -> None:
    runs.settle(ONE, TASK, Batch(6))
    assert [runs.run_of(ONE, TASK, Batch(batch)) for batch in (4, 5, 6, 7)] == [
        *(Past.RESTORED, Past.SETTLED, Past.SETTLED),
        2,
    ]
    assert runs.runs(ONE, TASK, Batch(7)) == {7: 2}


def test_what_is_settled_stays_settled_whatever_is_said_later(runs: BatchRuns) -> None:
    runs.settle(ONE, TASK, Batch(6))
    runs.settle(ONE, TASK, NO_BATCH)
    assert runs.run_of(ONE, TASK, Batch(6)) is Past.SETTLED


def test_the_runs_of_batches_through_one_are_told(runs: BatchRuns) -> None:
    assert runs.runs(ONE, TASK, Batch(6)) == {5: 1, 6: 2}
    assert runs.runs(ONE, TASK, Batch(4)) == {}


@pytest.mark.parametrize(("generation", "task", "batch"), [(ONE, TASK, 8), (TWO, TASK, 5), (ONE, TaskId("other"), 0)])
def test_a_batch_that_nobody_is_known_to_have_written_is_an_internal_error(
    runs: BatchRuns, generation: Generation, task: TaskId, batch: int
) -> None:
    runs.settle(ONE, TASK, Batch(6))
    with pytest.raises(InternalError, match=f"batch {batch} of task {task} is committed, and no run is known"):
        runs.run_of(generation, task, Batch(batch))


def test_a_gap_is_not_settled_by_what_came_after_it(runs: BatchRuns) -> None:
    runs.write(ONE, TASK, Batch(9), Run(2))
    with pytest.raises(InternalError, match="batch 8 of task t"):
        runs.run_of(ONE, TASK, Batch(8))
    with pytest.raises(InternalError, match="batch 8 of task t"):
        runs.runs(ONE, TASK, Batch(9))


def test_a_generation_begins_with_nothing_of_the_one_before(runs: BatchRuns) -> None:
    runs.restore(TWO, TASK, Batch(6))
    assert runs.run_of(TWO, TASK, Batch(6)) is Past.RESTORED
    assert runs.runs(TWO, TASK, Batch(6)) == {}
    assert runs.run_of(ONE, TASK, Batch(7)) == 2
