"""Names and committables say whose they are, fit the server, and read back as they were written."""

import sys

import pytest
from hypothesis import given, settings, strategies as st

from headgate.connect import postgres as connector
from headgate.connect.postgres.committable import PostgresCommittable
from headgate.connect.postgres.names import Part, PostgresOwner
from headgate.core.ids import CheckpointId, Generation, SinkId
from headgate.errors import BadStorage, InvalidOption
from headgate.sink.form import Whose
from headgate.sink.partitions import Place
from headgate.testing import write_id

steady = settings(derandomize=True, deadline=None, database=None)
GID_BYTES = 200
SESSION_BYTES = 64

names = st.text(st.characters(codec="utf-8"), max_size=300)
owners = st.builds(PostgresOwner, names, names.map(SinkId), names)
numbers = st.integers(0, 10**9)
orders = st.tuples(numbers, numbers, numbers)
places = st.builds(Place, numbers, st.integers(0, 10**15))


@steady
@given(owners, orders, places, owners)
def test_a_transaction_is_found_by_its_owner_and_by_nobody_else(
    owner: PostgresOwner, order: tuple[int, int, int], place: Place, other: PostgresOwner
) -> None:
    what = owner.write_id(*order)
    gid = owner.name(what, place)
    assert len(gid.encode()) < GID_BYTES
    assert gid.isascii()
    assert "'" not in gid
    assert owner.part(gid) == Part(what, place)
    assert owner.whose(gid) == what
    assert other == owner or other.part(gid) is None


def test_a_name_is_what_it_was_when_a_job_was_stopped() -> None:
    owner = PostgresOwner("a job", SinkId("out"), "b" * 40)
    name = owner.name(owner.write_id(7, 5, 2), Place(1, 33))
    assert name == "headgate:a%20job:out:bbbbbbbbbbbbbbbbbbb~e26d2da3ab585c98:g7:b5:r2:p1:a33"


@steady
@given(owners, orders)
def test_a_session_is_found_by_its_attempt(owner: PostgresOwner, order: tuple[int, int, int]) -> None:
    what = owner.write_id(*order)
    name = owner.session_of(what)
    assert len(name.encode()) < SESSION_BYTES
    assert owner.write_id_of(name) == what
    assert owner.write_id_of(f"{owner.session}:driver") is None


@pytest.mark.parametrize("tail", ["", ":g1:b0:r1:p0", ":g1:b0:r1:p0:a0:", ":g-1:b0:r1:p0:a0", "x:g1:b0:r1:p0:a0"])
def test_what_does_not_parse_in_full_is_somebody_elses(tail: str) -> None:
    owner = PostgresOwner("job", SinkId("sink"), "incarnation")
    assert owner.part(f"{owner.label}{tail}") is None


def test_long_names_that_begin_alike_stay_apart() -> None:
    owners = [PostgresOwner("j" * 100 + end, SinkId("s" * 100 + other), "l" * 100) for end in "ab" for other in "ab"]
    assert len({owner.name(write_id(2), Place(4, 5)) for owner in owners}) == 4


@steady
@given(st.dictionaries(st.tuples(numbers, numbers), st.lists(places)))
def test_a_committable_reads_back_as_it_was_written(written: dict[tuple[int, int], list[Place]]) -> None:
    whose = Whose("job", SinkId("sink"), Generation(7), CheckpointId(9))
    attempts = {whose.write_id(*numbers): found for numbers, found in written.items()}
    parts = tuple((what, tuple(Part(what, place) for place in found)) for what, found in attempts.items())
    pre_committed = PostgresCommittable(whose, parts, "public")
    assert PostgresCommittable.from_text(pre_committed.to_text()) == pre_committed


def test_what_an_older_version_pre_committed_is_read() -> None:
    old = (
        '{"version":1,"job":"job","sink":"out","generation":7,"checkpoint":9,"incarnation":"i","schema":"public",'
        '"parts":[[5,2,0,33],[5,2,1,34],[6,2,0,35]]}'
    )
    pre_committed = PostgresCommittable.from_text(old)
    first, second = (pre_committed.whose.write_id(batch, 2) for batch in (5, 6))
    assert pre_committed.parts == (
        (first, (Part(first, Place(0, 33)), Part(first, Place(1, 34)))),
        (second, (Part(second, Place(0, 35)),)),
    )


@pytest.mark.parametrize("committable", ["", "{}", "[]", '{"version":1}', '{"version":2}', '{"version":1,"job":1}'])
def test_a_committable_that_is_none_is_refused(committable: str) -> None:
    with pytest.raises(BadStorage):
        PostgresCommittable.from_text(committable)


def test_without_psycopg_the_sink_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidOption, match=r"postgres\.sink needs psycopg: pip install 'headgate\[postgres\]'"):
        connector.sink("", table="t")
