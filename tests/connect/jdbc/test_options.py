"""What users write is judged where it is written."""

import pickle
from typing import Any

import pytest

from headgate.connect import jdbc
from headgate.connect.jdbc.names import Owner
from headgate.core.ids import SinkId
from headgate.errors import InvalidOption
from headgate.sink.api import SinkContext
from headgate.testing import write_id

GOOD: dict[str, Any] = {"url": "jdbc:postgresql://db:5432/shop?ssl=true&password=hidden", "table": "public.orders"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "postgresql://db/shop"}, "not a valid JDBC URL"),
        ({"url": None}, "not a valid JDBC URL"),
        ({"table": " "}, "table=' '"),
        ({"url": "jdbc:unheard://db"}, "nobody knows the driver of jdbc:unheard"),
        ({"packages": "org.postgresql:postgresql:42.7.8"}, "not Maven coordinates"),
        ({"packages": ("postgresql",)}, "not Maven coordinates"),
        ({"properties": {"numPartitions": "3"}}, "set by Headgate"),
    ],
)
def test_an_option_that_cannot_hold_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        jdbc.sink(**GOOD | options)


def test_a_sink_describes_itself_without_secrets_and_can_be_pickled() -> None:
    packages = ("org.postgresql:postgresql:42.7.8",)
    made = jdbc.sink(**GOOD, user="etl", password="hidden", properties={"secret": "hidden"}, packages=packages)  # noqa: S106
    sink = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own
    assert sink.describe() == "table public.orders of jdbc:postgresql://db:5432/shop"
    assert sink.packages == packages


def test_the_name_of_a_waiting_table_says_whose_it_is() -> None:
    owner = Owner.of(SinkContext("contract", SinkId("sink"), incarnation="one"))
    other = Owner.of(SinkContext("contract", SinkId("sink"), incarnation="another"))
    what = write_id(123_456_789, run=40, generation=1_000)
    assert len(owner.stage(what)) <= 30
    assert owner.write_id(owner.stage(what).upper()) == what
    assert other.write_id(owner.stage(what)) is None
    assert owner.write_id(f"{owner.prefix}1_2") is None
