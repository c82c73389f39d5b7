"""Spark's queries of one run: which is the present one, and which word is late."""

from types import SimpleNamespace
from typing import Any

import pytest

from headgate.errors import InternalError
from headgate.task.launches import Launches, QueryState


def query(run_id: str) -> Any:
    return SimpleNamespace(runId=run_id)


@pytest.fixture
def launches() -> Launches:
    made = Launches("job/t/g1/r1")
    made.add(query("first"))
    return made


def test_the_present_query_is_the_one_that_was_launched_last(launches: Launches) -> None:
    assert Launches("job/t/g1/r1").present is None
    second = launches.add(query("second"))
    assert launches.present is second


def test_the_end_of_a_query_that_was_halted_is_told_apart_from_that_of_a_live_one(launches: Launches) -> None:
    assert launches.mark_halted() is launches.present
    launches.add(query("second"))
    assert launches.mark_ended("first") is QueryState.HALTED
    assert launches.mark_ended("second") is QueryState.LIVE


def test_only_the_first_word_of_an_end_is_news(launches: Launches) -> None:
    assert launches.mark_ended("first") is QueryState.LIVE
    launches.mark_halted()
    assert launches.mark_ended("first") is QueryState.ENDED


def test_an_earlier_query_stays_known(launches: Launches) -> None:
    launches.mark_halted()
    for number in range(3):
        launches.add(query(f"later {number}"))
    assert launches.known("first").state is QueryState.HALTED


def test_word_of_a_query_that_was_never_launched_is_an_internal_error(launches: Launches) -> None:
    with pytest.raises(InternalError, match="job/t/g1/r1 was told of Spark's query other, which it never launched"):
        launches.mark_ended("other")


def test_nothing_is_halted_where_nothing_runs() -> None:
    assert Launches("job/t/g1/r1").mark_halted() is None


@pytest.mark.parametrize("error", [None, RuntimeError("it is dead")])
def test_a_query_is_stopped_dead_or_alive(launches: Launches, error: Exception | None) -> None:
    stopped: list[str] = []

    def stop() -> None:
        stopped.append("stopped")
        if error is not None:
            raise error

    launches.add(SimpleNamespace(runId="second", stop=stop)).stop()  # type: ignore[arg-type]
    assert stopped == ["stopped"]


def test_a_spark_that_cannot_be_asked_has_no_place(launches: Launches) -> None:
    assert launches.known("first").place() == "and Spark does not say where (AttributeError)"
