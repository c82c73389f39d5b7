"""What users write is judged where it is written."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from headgate.connect import mariadb as connect
from headgate.errors import InvalidOption
from headgate.sink.api import TwoPhaseSink
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
