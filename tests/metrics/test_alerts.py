"""When an alert fires: rules as they are shipped, over what a Prometheus has scraped."""

import pytest

from headgate.metrics.reading import STATES
from tests.metrics.promeval import Series, value
from tests.metrics.promql import BadQuery
from tests.metrics.test_deploy import RULES

EXPRS = {rule["alert"]: rule["expr"] for rule in RULES}
EVERY_S, HOUR_S = 15, 3_600
NOW_S = 10 * HOUR_S


def scraped(until_s: float, state: str, *, instance: str = "a", live: bool = True, since_s: float = 0) -> Series:
    """What was scraped of a job every quarter of a minute, the newest checkpoint a minute old each time."""
    times = [float(at_s) for at_s in range(int(since_s), int(until_s) + 1, EVERY_S)]
    about = {("job", "orders"), ("instance", instance)}
    found = {
        ("headgate_job_state", frozenset({*about, ("state", each)})): [(at_s, float(each == state)) for at_s in times]
        for each in STATES
    }
    if live:
        found["headgate_job_generation", frozenset(about)] = [(at_s, 3.0) for at_s in times]
        completed = "headgate_checkpoint_last_completed_timestamp_seconds"
        found[completed, frozenset(about)] = [(at_s, at_s - 60) for at_s in times]
    return found


def firing(series: Series, now_s: float = NOW_S) -> set[str]:
    names = ("HeadgateJobNotRunning", "HeadgateJobGone", "HeadgateCheckpointOld")
    found = {name: value(EXPRS[name], series, now_s) for name in names}
    for labels in (labels for each in found.values() for labels in each):
        assert dict(labels)["job"] == "orders"
    return {name for name, each in found.items() if each}


def test_of_a_job_that_runs_nothing_is_said() -> None:
    assert firing(scraped(NOW_S, "running")) == set()


def test_a_job_whose_process_is_gone_is_noticed() -> None:
    series = scraped(NOW_S, "running")
    assert firing(series, NOW_S + 240) == set()
    assert firing(series, NOW_S + 360) == {"HeadgateJobGone"}
    assert firing(series, NOW_S + 1_000) == {"HeadgateJobGone", "HeadgateCheckpointOld"}
    assert firing(series, NOW_S + 20 * HOUR_S) == {"HeadgateJobGone"}
    assert firing(series, NOW_S + 25 * HOUR_S) == set(), "after a day it is forgotten"


def test_a_job_that_goes_on_at_another_address_is_not_gone() -> None:
    later = NOW_S + 2 * HOUR_S
    series = {**scraped(NOW_S, "running"), **scraped(later, "running", instance="b", since_s=NOW_S)}
    assert firing(series, later) == set()


@pytest.mark.parametrize(("state", "said"), [("crashed", True), ("failed", True), ("stopped", False)])
def test_where_a_server_is_scraped_a_stop_is_told_from_a_failure(state: str, said: bool) -> None:
    later = NOW_S + 2 * HOUR_S
    series = {**scraped(NOW_S, "running"), **scraped(later, state, instance="b", live=False, since_s=NOW_S + 15)}
    assert firing(series, later) == ({"HeadgateJobNotRunning"} if said else set())
    old = {"HeadgateJobNotRunning", "HeadgateCheckpointOld"}
    assert firing(series, NOW_S + 1_200) == (old if said else set())


def test_a_checkpoint_that_is_old_is_said_of_a_job_that_runs() -> None:
    key = ("headgate_checkpoint_last_completed_timestamp_seconds", frozenset({("job", "orders"), ("instance", "a")}))
    series = {**scraped(NOW_S, "running"), key: [(NOW_S, NOW_S - 1_000.0)]}
    assert firing(series) == {"HeadgateCheckpointOld"}


def test_what_is_no_query_that_is_known_here_is_refused() -> None:
    for text in ("rate(a[5m])", "max (a)", "1", "a )"):
        with pytest.raises(BadQuery):
            value(text, {}, 0)
