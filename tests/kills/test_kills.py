"""Five seeded rounds for each way out. The full campaigns are in ``docs/reports``."""

from pathlib import Path

import pytest

from tests.kills.campaign import Campaign
from tests.kills.ground import Ground
from tests.kills.ways import GROUPS, WAYS

ROUNDS = 5


@pytest.mark.parametrize(("group", "seed"), [("transactions", 11), ("others", 12)])
def test_nothing_is_lost_or_doubled_by_any_way_when_driver_executors_and_servers_are_killed(
    tmp_path: Path, group: str, seed: int
) -> None:
    with Ground(tmp_path) as ground:
        report = Campaign(ground, group, seed).run(ROUNDS)
    assert {one.victim for one in report.rounds} >= {"driver", "executor"}
    assert len(report.rounds) == ROUNDS
    assert report.rows > 0
    assert report.found == dict.fromkeys(GROUPS[group], (report.rows, 0, 0))


def test_every_way_is_in_a_group() -> None:
    assert sorted(WAYS) == sorted(name for group in GROUPS.values() for name in group)
