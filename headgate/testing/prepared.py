"""The tests that every sink for a system with prepared transactions passes, besides those of every exactly-once sink.

One rule: a test does to the other system what somebody else might, and looks at the sink as its readers do.
"""

# ruff: noqa: D102 - the name of a test is a sentence

import threading
from abc import abstractmethod
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.core.ids import Batch, Generation, Run
from headgate.errors import BadStorage
from headgate.sink.api import FailedAttempts, StaleGenerations
from headgate.sink.prepared import PreparedSink
from headgate.testing.two_phase import TwoPhaseContract, compare, pre_commit, rows_of, write, write_id

COMMITTERS = 3


class PreparedContract(TwoPhaseContract):
    """Subclass it as ``Test...`` and give it the two methods of ``TwoPhaseContract``."""

    @abstractmethod
    def make_sink(self, place: Path) -> PreparedSink[Any, Any]:
        """A sink that is not opened yet. All sinks made for one place write to the same readers."""

    def test_what_somebody_rolled_back_is_named_and_nothing_of_its_checkpoint_is_committed(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = self._prepared(tmp_path)
        write(sink, spark, write_id(0), partitions=3)
        committable = pre_commit(sink, 1, write_id(0))
        gone = self._listed(sink)[0]
        with sink.connected("cannot roll back") as session:
            sink.roll_back(session, gone)
        for attempt in (lambda: sink.commit(committable), lambda: pre_commit(sink, 2, write_id(0))):
            try:
                attempt()
            except BadStorage as error:
                assert sink.name(gone) in str(error), f"{error} does not name {sink.name(gone)}"  # noqa: PT017 - no pytest here
            else:
                raise AssertionError("a transaction that somebody rolled back was passed over")
            compare(self.visible(tmp_path), [])

    def test_what_was_committed_or_thrown_away_leaves_nothing_prepared(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = self._prepared(tmp_path)
        for batch in range(3):
            write(sink, spark, write_id(batch))
        sink.commit(pre_commit(sink, 1, write_id(0)))
        sink.abort(FailedAttempts(Generation(1), Run(2), {Batch(1): Run(1)}))
        with sink.connected("cannot list") as session:
            left = set(sink.prepared(session).values())
        assert left == {write_id(1)}, f"still prepared: {left}"
        sink.abort(StaleGenerations(Generation(2)))
        still = self._listed(sink)
        assert still == [], f"still prepared: {still}"
        compare(self.visible(tmp_path), rows_of(write_id(0)))

    def test_what_another_incarnation_prepared_is_left_alone(self, spark: SparkSession, tmp_path: Path) -> None:
        sink, other = self._prepared(tmp_path), self.make_sink(tmp_path)
        other.open(replace(self.context(tmp_path), incarnation="another"))
        self.__dict__["opened"].append(other)
        write(other, spark, write_id(0))
        committable = pre_commit(other, 1, write_id(0))
        taken = self._listed(sink)
        assert taken == [], f"what another incarnation prepared is taken for the sink's own: {taken}"
        write(sink, spark, write_id(0))
        sink.abort(StaleGenerations(Generation(2)))
        other.commit(committable)
        compare(self.visible(tmp_path), rows_of(write_id(0)))

    def test_several_that_commit_the_same_at_once_commit_it_once(self, spark: SparkSession, tmp_path: Path) -> None:
        sinks = [self._prepared(tmp_path) for _ in range(COMMITTERS)]
        done = []
        for batch in range(COMMITTERS):
            write(sinks[0], spark, write_id(batch), partitions=4)
            committable = pre_commit(sinks[0], batch + 1, write_id(batch))
            errors: list[BaseException] = []
            ready = threading.Barrier(COMMITTERS)
            threads = [threading.Thread(target=_commit, args=(sink, committable, ready, errors)) for sink in sinks]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert errors == []
            done += rows_of(write_id(batch))
            compare(self.visible(tmp_path), done)

    def _prepared(self, place: Path) -> PreparedSink[Any, Any]:
        sink = self._open(place)
        assert isinstance(sink, PreparedSink)
        return sink

    def _listed(self, sink: PreparedSink[Any, Any]) -> list[Any]:
        with sink.connected("cannot list") as session:
            return list(sink.prepared(session))


def _commit(
    sink: PreparedSink[Any, Any], committable: str, ready: threading.Barrier, errors: list[BaseException]
) -> None:
    with suppress(threading.BrokenBarrierError):
        ready.wait()
    try:
        sink.commit(committable)
    except BaseException as error:  # noqa: BLE001 - for the test to judge
        errors.append(error)
