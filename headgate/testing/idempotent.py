"""The tests that every idempotent sink passes, for Headgate's own sinks and for those of users.

One rule: a test looks at a sink as its readers do, once all is written: under each number one row, from who wrote last.

In a test module, with pytest and a fixture ``spark`` (a ``SparkSession``)::

    class TestMySink(IdempotentContract):
        def make_sink(self, place):
            return my_sink(place, key="number")

        def visible(self, place):
            return [(row.number, row.writer) for row in read_all(place)]
"""

# ruff: noqa: D102 - the name of a test is a sentence

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from unittest import SkipTest

from pyspark.sql import SparkSession

from headgate.core.ids import Generation, Run
from headgate.errors import FencedOff
from headgate.sink.api import FailedAttempts, Guarantee, SinkContext, StaleGenerations, TwoPhaseSink
from headgate.testing.two_phase import Row, compare, context_in, pre_commit, rows_in, rows_of, write, write_id


class IdempotentContract(ABC):
    """Subclass it as ``Test...`` and give it two methods. The key of a row is its ``number``."""

    @abstractmethod
    def make_sink(self, place: Path) -> TwoPhaseSink:
        """A sink that is not opened yet. All sinks made for one place write to the same readers."""

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
        assert sink.guarantee is Guarantee.EFFECTIVELY_ONCE
        assert sink.describe()

    def test_every_row_is_there_when_its_batch_is_written(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._open(tmp_path)
        write(sink, spark, write_id(0))
        write(sink, spark, write_id(1), partitions=3)
        sink.commit(pre_commit(sink, 1, write_id(0), write_id(1)))
        compare(self.visible(tmp_path), rows_of(write_id(0), write_id(1)))

    def test_a_batch_that_is_replayed_is_written_over_itself(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._open(tmp_path)
        write(sink, spark, write_id(0, run=1), partitions=3)
        write(sink, spark, write_id(0, run=2))
        sink.abort(FailedAttempts(Generation(1), Run(2)))
        compare(self.visible(tmp_path), rows_of(write_id(0, run=2)))

    def test_another_generation_writes_over_what_was_not_committed(self, spark: SparkSession, tmp_path: Path) -> None:
        before = self._open(tmp_path)
        write(before, spark, write_id(0))
        committable = pre_commit(before, 1, write_id(0))
        write(before, spark, write_id(1))
        sink = self._open(tmp_path)
        sink.recover_and_commit(committable)
        sink.abort(StaleGenerations(Generation(2)))
        again = write_id(1, generation=2)
        write(sink, spark, again, partitions=1)
        sink.commit(pre_commit(sink, 9, again, generation=2))
        compare(self.visible(tmp_path), rows_of(write_id(0), again))

    def test_a_leader_that_wakes_up_writes_over_nothing(self, spark: SparkSession, tmp_path: Path) -> None:
        frozen = self._open_fenced(tmp_path)
        write(frozen, spark, write_id(0))
        frozen.begin_transaction(write_id(1))
        sink = self._open(tmp_path)
        sink.abort(StaleGenerations(Generation(2)))
        again = [write_id(batch, generation=2) for batch in (0, 1)]
        for each in again:
            write(sink, spark, each, partitions=1)
        with suppress(FencedOff):  # What it was in the middle of.
            frozen.invoke(write_id(1), rows_in(spark, write_id(1)))
        with suppress(FencedOff):  # What it would do next.
            write(frozen, spark, write_id(1, run=2))
        compare(self.visible(tmp_path), rows_of(*again))

    def test_a_run_that_was_given_up_writes_over_nothing(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._open_fenced(tmp_path)
        sink.begin_transaction(write_id(0, run=1))
        write(sink, spark, write_id(0, run=2), partitions=1)
        with suppress(FencedOff):
            sink.invoke(write_id(0, run=1), rows_in(spark, write_id(0, run=1)))
        compare(self.visible(tmp_path), rows_of(write_id(0, run=2)))

    def _open_fenced(self, place: Path) -> TwoPhaseSink:
        """A sink that keeps out what comes late. Nothing is tested of one that does not say so."""
        sink = self._open(place)
        if not getattr(sink, "fenced", False):
            raise SkipTest("the sink does not say that it keeps out what comes late")
        return sink

    def _open(self, place: Path) -> TwoPhaseSink:
        sink = self.make_sink(place)
        sink.open(self.context(place))
        self.__dict__.setdefault("opened", []).append(sink)
        return sink
