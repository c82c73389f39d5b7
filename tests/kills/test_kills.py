"""A few seeded rounds for each sink, one of them the driver, one an executor. Campaigns are in ``docs/reports``."""

from pathlib import Path

import pytest

from tests.kills.campaign import Campaign
from tests.kills.cases import CASES, GROUPS
from tests.kills.ground import Ground

ROUNDS_MIN = 2
"""With these seeds they are a driver and an executor."""


@pytest.mark.parametrize(("group", "seed"), [("transactions", 13), pytest.param("others", 12, marks=pytest.mark.long)])
def test_nothing_is_lost_or_doubled_in_any_sink_when_driver_executors_and_servers_are_killed(
    tmp_path: Path, kills: int, group: str, seed: int
) -> None:
    rounds = max(kills, ROUNDS_MIN)
    with Ground(tmp_path) as ground:
        report = Campaign(ground, group, seed).run(rounds)
    assert {one.victim for one in report.rounds} >= {"driver", "executor"}
    assert len(report.rounds) == rounds
    assert report.rows > 0
    assert report.found == dict.fromkeys(GROUPS[group], (report.rows, 0, 0))


def test_every_sink_is_in_a_group() -> None:
    assert sorted(CASES) == sorted(name for group in GROUPS.values() for name in group)
