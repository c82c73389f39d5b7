"""The tests that every exactly-once sink passes, for Headgate's own sinks and for those of users.

One rule: a test looks at a sink as its readers do. Each row says which attempt wrote it, so that what is lost, doubled
or foreign is counted, not guessed.

In a test module, with pytest and a fixture ``spark`` (a ``SparkSession``)::

    class TestMySink(TwoPhaseContract):
        def make_sink(self, place):
            return my_sink(place)

        def visible(self, place):
            return [(row.number, row.writer) for row in read_all(place)]
"""

# ruff: noqa: D102 - the name of a test is a sentence

import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import time
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.sink.api import (
    FailedAttempts,
    Guarantee,
    SinkContext,
    StaleGenerations,
    TwoPhaseSink,
    Unpublished,
    WriteId,
)

Row = tuple[int, str]
"""``number`` (long) and ``writer`` (string), the columns of all that the tests write."""

JOB = "contract"
SINK = SinkId("sink")
CONTEXT = SinkContext(JOB, SINK)
"""For a sink that needs no incarnation and no directory to be told apart by."""
BEGUN_MS = 1_760_000_000_000
ROWS = 10
ANSWER_SECONDS = 300.0


def context_in(place: Path) -> SinkContext:
    """Who a sink works for, with an incarnation that is the place's own, and a directory next to it for what waits."""
    incarnation = hashlib.sha256(str(place).encode()).hexdigest()[:12]
    return SinkContext(
        JOB, SINK, incarnation=incarnation, staging=place.with_name(f"{place.name}-staged"), begun_ms=BEGUN_MS
    )


def write_id(batch: int, *, run: int = 1, generation: int = 1) -> WriteId:
    """The identity of what one run writes for one batch."""
    return WriteId(JOB, SINK, Generation(generation), Batch(batch), Run(run))


def rows_of(*write_ids: WriteId) -> list[Row]:
    """What these attempts write: numbers go by the batch alone, as in a replay."""
    return [
        (a.batch * ROWS + index, f"generation {a.generation} batch {a.batch} run {a.run}")
        for a in write_ids
        for index in range(ROWS)
    ]


def write(sink: TwoPhaseSink, spark: SparkSession, what: WriteId, *, partitions: int = 2) -> None:
    """Write what ``rows_of`` says."""
    sink.begin_transaction(what)
    sink.invoke(what, _frame(spark, what, ROWS, partitions))


def rows_in(spark: SparkSession, what: WriteId, *, partitions: int = 2) -> DataFrame:
    """What ``rows_of`` says, for ``invoke``."""
    return _frame(spark, what, ROWS, partitions)


def pre_commit(sink: TwoPhaseSink, checkpoint: int, *write_ids: WriteId, generation: int = 1) -> str:
    """Pre-commit these attempts for a checkpoint."""
    return sink.pre_commit(CheckpointId(checkpoint), Generation(generation), write_ids)


def compare(seen: Sequence[Row], expected: Sequence[Row]) -> None:
    """Fail unless every expected row is seen once and no other is seen."""
    found, wanted = Counter(seen), Counter(expected)
    lost, foreign = sorted(wanted - found), sorted(row for row in found if row not in wanted)
    doubled = sorted(row for row, times in found.items() if times > wanted[row] > 0)
    assert found == wanted, f"lost: {lost}; doubled: {doubled}; foreign: {foreign}"


class TwoPhaseContract(ABC):
    """Subclass it as ``Test...`` and give it two methods."""

    kills: ClassVar[int] = 8
    """How often the commit of each of four batches is killed."""

    @abstractmethod
    def make_sink(self, place: Path) -> TwoPhaseSink:
        """A sink that is not opened yet. All sinks made for one place write to the same readers.

        ``place`` is an empty directory. A sink that is not on a file system takes a fresh name from it.
        """

    @abstractmethod
    def visible(self, place: Path) -> Sequence[Row]:
        """What a reader of the place sees, in any order."""

    def context(self, place: Path) -> SinkContext:
        """Who the sinks of a place work for."""
        return context_in(place)

    def teardown_method(self) -> None:
        for sink in self.__dict__.pop("opened", []):
            sink.close()

    def test_it_promises_what_is_tested_here(self, tmp_path: Path) -> None:
        sink = self.make_sink(tmp_path)
        assert sink.guarantee is Guarantee.EXACTLY_ONCE
        assert sink.describe()

    def test_nothing_is_visible_before_the_commit_and_all_of_it_after(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = self._open(tmp_path)
        write(sink, spark, write_id(0))
        compare(self.visible(tmp_path), [])
        committable = pre_commit(sink, 1, write_id(0))
        compare(self.visible(tmp_path), [])
        write(sink, spark, write_id(1))
        sink.commit(committable)
        compare(self.visible(tmp_path), rows_of(write_id(0)))

    def test_a_commit_that_is_repeated_changes_nothing(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._open(tmp_path)
        write(sink, spark, write_id(0))
        first = pre_commit(sink, 1, write_id(0))
        sink.commit(first)
        sink.commit(first)
        write(sink, spark, write_id(1))
        second = pre_commit(sink, 2, write_id(1))
        sink.commit(second)
        sink.commit(first)
        sink.recover_and_commit(second)
        compare(self.visible(tmp_path), rows_of(write_id(0), write_id(1)))

    def test_another_process_commits_with_the_committable_alone(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._open(tmp_path)
        write(sink, spark, write_id(0))
        committable = pre_commit(sink, 1, write_id(0))
        for _ in range(2):
            process = multiprocessing.get_context("spawn").Process(
                target=_recover, args=(self.make_sink(tmp_path), self.context(tmp_path), committable)
            )
            process.start()
            process.join()
            assert process.exitcode == 0, "the other process could not commit"
            compare(self.visible(tmp_path), rows_of(write_id(0)))

    def test_what_was_pre_committed_is_committed_from_copies_when_the_staging_directory_is_lost(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        before = self._open(tmp_path)
        write(before, spark, write_id(0))
        committable = pre_commit(before, 1, write_id(0))
        staging = self.context(tmp_path).staging
        copies: dict[Path, bytes] = {}
        if staging is not None:
            for file in before.staged(committable):
                copies[staging / file.path] = data = (staging / file.path).read_bytes()
                assert (file.size, file.checksum) in {(len(data), None), (len(data), zlib.crc32(data))}
            shutil.rmtree(staging, ignore_errors=True)
        sink = self._open(tmp_path)
        for path, data in copies.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        sink.recover_and_commit(committable)
        compare(self.visible(tmp_path), rows_of(write_id(0)))
        assert not any(path.exists() for path in copies), "what is committed is not needed any more"

    def test_of_a_replayed_batch_only_what_the_committed_run_wrote_counts(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = self._open(tmp_path)
        write(sink, spark, write_id(0, run=1), partitions=3)
        write(sink, spark, write_id(0, run=2))
        sink.commit(pre_commit(sink, 1, write_id(0, run=2)))
        compare(self.visible(tmp_path), rows_of(write_id(0, run=2)))

    def test_an_attempt_that_is_written_again_replaces_itself(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._open(tmp_path)
        write(sink, spark, write_id(0), partitions=3)
        write(sink, spark, write_id(0))
        sink.invoke(write_id(0), _frame(spark, write_id(0), ROWS, 2))
        sink.commit(pre_commit(sink, 1, write_id(0)))
        compare(self.visible(tmp_path), rows_of(write_id(0)))

    def test_an_empty_batch_and_a_pre_commit_of_nothing_show_nothing(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._open(tmp_path)
        sink.begin_transaction(write_id(0))
        sink.invoke(write_id(0), _frame(spark, write_id(0), 0, 2))
        write(sink, spark, write_id(1))
        sink.commit(pre_commit(sink, 1, write_id(0)))
        sink.commit(pre_commit(sink, 2))
        compare(self.visible(tmp_path), [])
        sink.commit(pre_commit(sink, 3, write_id(1)))
        compare(self.visible(tmp_path), rows_of(write_id(1)))

    def test_what_was_pre_committed_for_a_checkpoint_that_was_given_up_is_committed_with_the_next(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = self._open(tmp_path)
        write(sink, spark, write_id(0))
        given_up = pre_commit(sink, 1, write_id(0))
        write(sink, spark, write_id(1))
        completed = pre_commit(sink, 2, write_id(1))
        sink.commit(given_up)
        sink.commit(completed)
        compare(self.visible(tmp_path), rows_of(write_id(0), write_id(1)))

    def test_what_was_pre_committed_unheard_is_pre_committed_again(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._open(tmp_path)
        write(sink, spark, write_id(0))
        pre_commit(sink, 1, write_id(0))
        write(sink, spark, write_id(1))
        pre_commit(sink, 2, write_id(0), write_id(1))
        sink.commit(pre_commit(sink, 2, write_id(0), write_id(1)))
        compare(self.visible(tmp_path), rows_of(write_id(0), write_id(1)))

    def test_failed_attempts_lose_what_they_did_not_commit_and_nothing_else(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = self._open(tmp_path)
        for what in (write_id(0), write_id(1), write_id(2)):
            write(sink, spark, what)
        pre_committed = pre_commit(sink, 1, write_id(0))
        dead = FailedAttempts(Generation(1), Run(2), {Batch(0): Run(1), Batch(1): Run(1)})
        sink.abort(dead)
        write(sink, spark, write_id(2, run=2))
        sink.abort(dead)
        sink.commit(pre_committed)
        sink.commit(pre_commit(sink, 2, write_id(1), write_id(2, run=2)))
        sink.abort(dead)
        compare(self.visible(tmp_path), rows_of(write_id(0), write_id(1), write_id(2, run=2)))

    def test_stale_generations_lose_what_is_not_committed_and_nobody_else_loses_anything(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        before = self._open(tmp_path)
        write(before, spark, write_id(0))
        write(before, spark, write_id(1))
        decided = pre_commit(before, 1, write_id(0))
        pre_commit(before, 2, write_id(1))
        sink = self._open(tmp_path)
        sink.recover_and_commit(decided)
        again = write_id(1, generation=2)
        write(sink, spark, again)
        sink.abort(StaleGenerations(Generation(2)))
        sink.abort(StaleGenerations(Generation(2)))
        before.commit(decided)
        compare(self.visible(tmp_path), rows_of(write_id(0)))
        sink.commit(pre_commit(sink, 9, again, generation=2))
        compare(self.visible(tmp_path), rows_of(write_id(0), again))

    def test_a_deposed_process_throws_away_what_it_never_published_and_nothing_else(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = self._open(tmp_path)
        write(sink, spark, write_id(0))
        write(sink, spark, write_id(1))
        published, never = pre_commit(sink, 1, write_id(0)), pre_commit(sink, 2, write_id(1))
        sink.abort(Unpublished(Generation(1), Batch(0)))
        sink.abort(Unpublished(Generation(1), Batch(0)))
        sink.commit(published)
        try:
            sink.commit(never)
        except Exception:  # noqa: BLE001, S110 - in whatever words
            pass
        else:
            raise AssertionError("what was thrown away could still be committed")
        compare(self.visible(tmp_path), rows_of(write_id(0)))

    def test_a_commit_that_is_killed_again_and_again_is_exact_in_the_end(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        chance = random.Random(7)
        sink = self._open(tmp_path)
        done: list[Row] = []
        whole = 0.0
        with _killer(self.make_sink(tmp_path), self.context(tmp_path)) as kill:
            for batch in range(4):
                write(sink, spark, write_id(batch), partitions=8)
                committable = pre_commit(sink, batch + 1, write_id(batch))
                if batch == 0:
                    whole = kill(committable, None)
                for _ in range(self.kills):
                    kill(committable, chance.uniform(0, whole))
                    self._is_part_of(tmp_path, done, rows_of(write_id(batch)))
                sink.recover_and_commit(committable)
                done += rows_of(write_id(batch))
                compare(self.visible(tmp_path), done)

    def _open(self, place: Path) -> TwoPhaseSink:
        sink = self.make_sink(place)
        sink.open(self.context(place))
        self.__dict__.setdefault("opened", []).append(sink)
        return sink

    def _is_part_of(self, place: Path, done: Sequence[Row], under_way: Sequence[Row]) -> None:
        """All that is done is visible, and of what is under way any part, once."""
        seen = self.visible(place)
        compare(seen, [*done, *(row for row in under_way if row in seen)])


def _frame(spark: SparkSession, what: WriteId, rows: int, partitions: int) -> DataFrame:
    first = what.batch * ROWS
    numbers = spark.range(first, first + rows, 1, partitions)
    return numbers.select(col("id").alias("number"), lit(rows_of(what)[0][1]).alias("writer"))


def _recover(sink: TwoPhaseSink, context: SinkContext, committable: str) -> None:
    sink.open(context)
    sink.recover_and_commit(committable)
    sink.close()


@contextmanager
def _killer(sink: TwoPhaseSink, context: SinkContext) -> Iterator[Callable[[str, float | None], float]]:
    """A function that has a process commit a committable and be killed this many seconds later, or never.

    It returns how many seconds the process had.
    """
    ours, theirs = multiprocessing.Pipe()
    # Spawned and not forked, so that it has no threads: only then may it fork.
    process = multiprocessing.get_context("spawn").Process(target=_kill_commits, args=(sink, context, theirs))
    process.start()

    def kill(committable: str, seconds: float | None) -> float:
        ours.send((committable, seconds))
        assert ours.poll(ANSWER_SECONDS), "the process that kills commits does not answer"
        return float(ours.recv())

    try:
        yield kill
    finally:
        process.kill()
        process.join()


def _kill_commits(sink: TwoPhaseSink, context: SinkContext, orders: Connection) -> None:
    while True:
        committable, seconds = orders.recv()
        opened, opening = os.pipe()
        committing = os.fork()
        if committing == 0:
            sink.open(context)
            os.write(opening, b"!")
            sink.recover_and_commit(committable)
            os._exit(0)
        os.close(opening)
        os.read(opened, 1)
        began = time.monotonic()
        if seconds is not None:
            time.sleep(seconds)
            os.kill(committing, signal.SIGKILL)
        os.waitpid(committing, 0)
        orders.send(time.monotonic() - began)
        os.close(opened)
