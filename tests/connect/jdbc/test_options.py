"""What users write is judged where it is written."""

import pickle
from typing import Any

import pytest

from headgate.connect import jdbc
from headgate.connect.jdbc.committable import JdbcCommittable
from headgate.connect.jdbc.names import JdbcOwner
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
    owner = JdbcOwner.of(SinkContext("contract", SinkId("sink"), incarnation="one"))
    other = JdbcOwner.of(SinkContext("contract", SinkId("sink"), incarnation="another"))
    what = write_id(123_456_789, run=40, generation=1_000)
    assert owner.stage(what) == "hg_4ae789102c65_rs_21i3v9_14", "what it was when a job was stopped"
    assert len(owner.stage(what)) <= 30
    assert owner.whose(owner.stage(what).upper()) == what
    assert other.whose(owner.stage(what)) is None
    assert owner.whose(f"{owner.label}_1_2") is None


def test_what_an_older_version_pre_committed_is_read() -> None:
    old = '{"version":1,"job":"contract","sink":"sink","generation":1,"checkpoint":9,"parts":[[5,1,10],[6,1,0]]}'
    pre_committed = JdbcCommittable.from_text(old)
    assert [(each.write_id, each.rows) for each in pre_committed.transactions] == [(write_id(5), 10), (write_id(6), 0)]
    assert JdbcCommittable.from_text(pre_committed.to_text()) == pre_committed
