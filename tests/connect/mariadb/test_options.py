"""What users write is judged where it is written."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from headgate.connect import mariadb as connect
from headgate.connect.mariadb.committable import XACommittable
from headgate.connect.mariadb.xid import Xid
from headgate.core.ids import SinkId
from headgate.errors import InvalidOption
from headgate.sink.api import SinkContext, TwoPhaseSink
from headgate.sink.owner import Owner
from headgate.sink.partitions import Place
from headgate.testing import write_id
from tests.connect.mariadb.places import xa

Make = Callable[..., TwoPhaseSink]
GOOD: dict[str, Any] = {"host": "db", "user": "etl", "password": "hidden", "database": "shop", "table": "orders"}


@pytest.mark.parametrize("make", [connect.sink, xa])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": ""}, "host=''"),
        ({"user": None}, "user=None"),
        ({"database": ""}, "database=''"),
        ({"password": 3}, "the password is not a text"),
        ({"port": "3306"}, "port='3306'"),
        ({"port": 70_000}, "too high"),
        ({"table": ""}, "table=''"),
        ({"table": "t" * 65}, "too long"),
        ({"ssl_key": "key.pem"}, "ssl_key goes with ssl_cert"),
        ({"ssl_cert": "cert.pem"}, "ssl_cert goes with ssl_ca"),
    ],
)
def test_an_option_that_cannot_hold_is_refused(make: Make, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        make(**GOOD | options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "id"}, "key='id'"),
        ({"key": []}, r"key=\[\]"),
        ({"key": ["id", "ID"]}, "twice"),
        ({"parallelism": 0}, "parallelism=0"),
        ({"parallelism": "2"}, "parallelism='2'"),
    ],
)
def test_a_key_or_partitions_that_cannot_hold_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        connect.sink(**GOOD | options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "two-phase"}, "mode='two-phase' is unknown: choose staged or xa"),
        ({"mode": "xa", "key": ["id"]}, r"key=\['id'\] is for mode='staged', not for mode='xa': leave it out"),
        ({"mode": "xa", "parallelism": 2}, "parallelism=2 is for mode='staged', not for mode='xa': leave it out"),
    ],
)
def test_an_option_of_another_mode_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=f"^mariadb.sink: {words}$"):
        connect.sink(**GOOD | options)


@pytest.mark.parametrize("make", [connect.sink, xa])
def test_a_sink_describes_itself_without_its_password_and_can_be_pickled(make: Make) -> None:
    sink = pickle.loads(pickle.dumps(make(**GOOD)))  # noqa: S301 - our own
    assert "orders of etl@db:3306/shop" in sink.describe()
    assert "hidden" not in sink.describe() + repr(vars(sink))


def test_a_name_is_what_it_was_when_a_job_was_stopped_and_comes_in_two_parts() -> None:
    owner = Owner.of(SinkContext("contract", SinkId("sink"), incarnation="one"))
    name = owner.name(write_id(123_456_789, run=40, generation=1_000), Place(3, 77))
    xid = Xid.of(name)
    assert str(xid) == "'hg-4ae789102c65177bdfca73a35c0c506c0e20fa2b-1000','123456789-40-3-77',18503"
    assert xid.name == name


def test_what_an_older_version_pre_committed_is_read() -> None:
    old = (
        '{"version":1,"job":"contract","sink":"sink","generation":1,"checkpoint":9,'
        '"parts":[[5,1,[["hg-0-1","5-1-0-33"],["hg-0-1","5-1-1-34"]]],[6,1,[]]]}'
    )
    pre_committed = XACommittable.from_text(old)
    assert pre_committed.parts == (
        (write_id(5), (Xid("hg-0-1", "5-1-0-33"), Xid("hg-0-1", "5-1-1-34"))),
        (write_id(6), ()),
    )
    assert pre_committed.to_text() == old
