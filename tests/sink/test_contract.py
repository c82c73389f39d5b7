"""The file sink passes the contract, and the contract finds out sinks that are wrong in one point."""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate import files
from headgate.core.ids import CheckpointId, Generation
from headgate.errors import BadStorage
from headgate.sink.api import AbortScope, StaleGenerations, TwoPhaseSink, WriteId
from headgate.sink.committable import StagedCommittable
from headgate.sink.files import FileSink
from headgate.sink.staging import Staging, discard
from headgate.testing import Row, TwoPhaseContract
from tests.sink.readers import read_json_by_writer, read_parquet


class TestParquet(TwoPhaseContract):
    def make_sink(self, place: Path) -> TwoPhaseSink:
        return files.sink(place)

    def visible(self, place: Path) -> Sequence[Row]:
        return read_parquet(place)


class TestPartitionedJson(TwoPhaseContract):
    def make_sink(self, place: Path) -> TwoPhaseSink:
        return files.sink(place, format="json", partition_by=("writer",))

    def visible(self, place: Path) -> Sequence[Row]:
        return read_json_by_writer(place)


class Flawed(FileSink):
    """Right in all but one point."""

    def __init__(self, place: Path) -> None:
        super().__init__(place, "parquet", (), None, {})


class ShowsAtOnce(Flawed):
    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        super().invoke(write_id, dataframe)
        self.commit(self.pre_commit(CheckpointId(0), write_id.generation, [write_id]))
        self._staging.part(write_id).mkdir()


class CommitsEveryTime(Flawed):
    """Copies instead of renaming, under a new name each time."""

    def commit(self, committable: str) -> None:
        pre_committed = StagedCommittable.from_text(committable)
        staging = Staging(self._target, pre_committed.job, pre_committed.sink)
        for write_id, part in pre_committed.write_ids():
            for file in part.files:
                shutil.copy(staging.part(write_id) / file.path, self._target / f"part-{uuid4()}")


class CountsOnLiving(Flawed):
    """Remembers at the very end that it has committed."""

    def commit(self, committable: str) -> None:
        pre_committed = StagedCommittable.from_text(committable)
        staging = Staging(self._target, pre_committed.job, pre_committed.sink)
        for write_id, part in pre_committed.write_ids():
            if staging.part(write_id).exists():
                for file in part.files:
                    shutil.copy(staging.part(write_id) / file.path, self._target / f"_{file.path}")
                    (self._target / f"_{file.path}").rename(self._target / f"part-{uuid4()}")
                    time.sleep(0.01)
                discard(staging.part(write_id))


class PreCommitsEveryRun(Flawed):
    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, write_ids: Sequence[WriteId]) -> str:
        batches = {write_id.batch for write_id in write_ids}
        return super().pre_commit(
            checkpoint, generation, [each for each in self._staging.write_ids() if each.batch in batches]
        )


class ThrowsTooMuchAway(Flawed):
    def abort(self, scope: AbortScope) -> None:
        del scope
        super().abort(StaleGenerations(Generation(99)))


class KnowsOnlyItself(Flawed):
    """Commits what it pre-committed itself, and nothing else."""

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, write_ids: Sequence[WriteId]) -> str:
        self.pre_committed = super().pre_commit(checkpoint, generation, write_ids)
        return "mine"

    def commit(self, committable: str) -> None:
        del committable
        super().commit(self.pre_committed)


Test = Callable[[TwoPhaseContract, SparkSession, Path], None]


@pytest.mark.parametrize(
    ("flawed", "test", "finding"),
    [
        (
            ShowsAtOnce,
            TwoPhaseContract.test_nothing_is_visible_before_the_commit_and_all_of_it_after,
            r"foreign: \[\(",
        ),
        (
            CommitsEveryTime,
            TwoPhaseContract.test_a_commit_that_is_repeated_changes_nothing,
            r"doubled: \[\(",
        ),
        (
            CountsOnLiving,
            TwoPhaseContract.test_a_commit_that_is_killed_again_and_again_is_exact_in_the_end,
            r"doubled: \[\(",
        ),
        (
            PreCommitsEveryRun,
            TwoPhaseContract.test_of_a_replayed_batch_only_what_the_committed_run_wrote_counts,
            r"foreign: \[\(",
        ),
        (
            ThrowsTooMuchAway,
            TwoPhaseContract.test_stale_generations_lose_what_is_not_committed_and_nobody_else_loses_anything,
            "the output of batch 1 is gone",
        ),
        (
            KnowsOnlyItself,
            TwoPhaseContract.test_another_process_commits_with_the_committable_alone,
            "the other process could not commit",
        ),
    ],
)
def test_the_contract_finds_the_flaw(
    flawed: type[Flawed], test: Test, finding: str, spark: SparkSession, tmp_path: Path
) -> None:
    class Contract(TestParquet):
        def make_sink(self, place: Path) -> TwoPhaseSink:
            return flawed(place)

    with pytest.raises((AssertionError, BadStorage), match=finding):
        test(Contract(), spark, tmp_path)
