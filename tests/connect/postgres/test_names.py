"""Names and committables say whose they are, fit the server, and read back as they were written."""

import sys

import pytest
from hypothesis import given, settings, strategies as st

from headgate.connect import postgres as connector
from headgate.connect.postgres.committable import PostgresCommittable
from headgate.connect.postgres.names import Owner, Part
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.errors import BadStorage, InvalidOption
from headgate.sink.api import WriteId

steady = settings(derandomize=True, deadline=None, database=None)
GID_BYTES = 200
SESSION_BYTES = 64

names = st.text(st.characters(codec="utf-8"), max_size=300)
owners = st.builds(Owner, names, names.map(SinkId), names)
numbers = st.integers(0, 10**9)
parts = st.builds(Part, numbers.map(Generation), numbers.map(Batch), numbers.map(Run), numbers, st.integers(0, 10**15))


@steady
@given(owners, parts, owners)
def test_a_transaction_is_found_by_its_owner_and_by_nobody_else(owner: Owner, part: Part, other: Owner) -> None:
    gid = owner.gid(part)
    assert len(gid.encode()) < GID_BYTES
    assert gid.isascii()
    assert "'" not in gid
    assert owner.part(gid) == part
    assert other == owner or other.part(gid) is None


@steady
@given(owners, parts)
def test_a_session_is_found_by_its_attempt(owner: Owner, part: Part) -> None:
    write_id = owner.write_id(part)
    name = owner.session_of(write_id)
    assert len(name.encode()) < SESSION_BYTES
    assert owner.write_id_of(name) == write_id
    assert owner.write_id_of(f"{owner.session}:driver") is None


@pytest.mark.parametrize("tail", ["", ":g1:b0:r1:p0", ":g1:b0:r1:p0:a0:", ":g-1:b0:r1:p0:a0", "x:g1:b0:r1:p0:a0"])
def test_what_does_not_parse_in_full_is_somebody_elses(tail: str) -> None:
    owner = Owner("job", SinkId("sink"), "incarnation")
    assert owner.part(f"{owner.name}{tail}") is None


def test_long_names_that_begin_alike_stay_apart() -> None:
    part = Part(Generation(1), Batch(2), Run(3), 4, 5)
    gids = {Owner("j" * 100 + end, SinkId("s" * 100 + other), "l" * 100).gid(part) for end in "ab" for other in "ab"}
    assert len(gids) == 4


@steady
@given(owners, st.lists(parts))
def test_a_committable_reads_back_as_it_was_written(owner: Owner, listed: list[Part]) -> None:
    own = tuple(Part(Generation(7), part.batch, part.run, part.partition, part.task_attempt) for part in listed)
    pre_committed = PostgresCommittable(owner, Generation(7), CheckpointId(9), "public", own)
    assert PostgresCommittable.from_text(pre_committed.to_text()) == pre_committed
    assert pre_committed.write_ids == {WriteId(owner.job, owner.sink, Generation(7), p.batch, p.run) for p in own}


@pytest.mark.parametrize("committable", ["", "{}", "[]", '{"version":1}', '{"version":2}', '{"version":1,"job":1}'])
def test_a_committable_that_is_none_is_refused(committable: str) -> None:
    with pytest.raises(BadStorage):
        PostgresCommittable.from_text(committable)


def test_without_psycopg_the_sink_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidOption, match=r"postgres\.sink needs psycopg: pip install 'headgate\[postgres\]'"):
        connector.sink("", table="t")
