"""Which attempts of a sink that writes at once still count."""

from itertools import pairwise

import pytest

from headgate.core.fencing import COUNT_BITS, EPOCH_S, Order, may_lead, still_leads, version
from headgate.core.ids import Batch, Generation, Run

NOW_MS = 1_800_000_000_000


def order(generation: int, batch: int, run: int) -> Order:
    return Generation(generation), Batch(batch), Run(run)


IN_TURN = [
    order(1, 0, 1),
    order(1, 0, 2),
    order(1, 1, 2),
    order(1, 900, 2),
    order(1, 900, 30),
    order(2, 0, 1),
    order(2, 899, 1),
    order(3, 4, 1),
]
"""Attempts as they come in one incarnation of a storage; the last generations have gone back to earlier checkpoints."""


@pytest.mark.parametrize(("earlier", "later"), list(pairwise(IN_TURN)))
def test_what_comes_later_leads_and_what_came_earlier_does_not(earlier: Order, later: Order) -> None:
    assert may_lead(earlier, later)
    assert may_lead(later, later)
    assert not may_lead(later, earlier)


def test_only_who_has_the_leader_row_writes() -> None:
    assert still_leads(order(2, 5, 1), order(2, 5, 1))
    assert not still_leads(order(2, 6, 1), order(2, 5, 1))
    assert not still_leads(order(2, 5, 2), order(2, 5, 1))
    assert not still_leads(order(3, 5, 1), order(2, 5, 1))


@pytest.mark.parametrize("begun_ms", [0, NOW_MS])
def test_versions_have_the_same_order(begun_ms: int) -> None:
    versions = [version(begun_ms, each) for each in IN_TURN]
    assert versions == sorted(set(versions))
    assert all(0 < each < 1 << 63 for each in versions)


def test_whoever_begins_anew_is_ahead_of_all_that_was_before() -> None:
    an_hour_later = NOW_MS + 3_600_000
    assert version(an_hour_later, order(1, 0, 1)) > version(NOW_MS, order(3_000, 1 << 40, 1))


def test_there_is_room_for_a_long_time() -> None:
    in_sixty_years = (EPOCH_S + 60 * 366 * 86_400) * 1_000
    assert version(in_sixty_years, order(1_000_000, 1 << 40, 1)) < 1 << 63
    assert version(0, order(1, 1 << COUNT_BITS, 1)) < version(0, order(2, 0, 1))


def test_versions_come_after_what_servers_number_and_date_by_themselves() -> None:
    """Documents count their changes, and cells have milliseconds: a job that goes on writes over both."""
    assert version(NOW_MS, order(1, 0, 1)) > NOW_MS * 1_000
