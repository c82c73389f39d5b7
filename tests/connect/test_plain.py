"""Who sends a login or rows in the clear is warned, unless nobody else can read along."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.connect import hbase, mariadb, search
from headgate.connect.kafka.security import warn_of_login
from headgate.connect.plain import is_here
from headgate.connect.rest import sink as rest
from headgate.connect.rest.endpoint import endpoint, warn_of_login as warn_of_http_login
from headgate.errors import ExternalError
from headgate.sink.api import TwoPhaseSink
from headgate.testing import context_in

FAR = "http://nowhere.invalid:9"
PASSWORD = "hidden"  # noqa: S105 - of nobody

SINKS: dict[str, tuple[Callable[[], TwoPhaseSink], str]] = {
    "search": (
        lambda: search.sink(FAR, index="orders", id="id", user="etl", password=PASSWORD),
        f"the login goes to {FAR} unencrypted",
    ),
    "hbase": (
        lambda: hbase.sink(FAR, table="orders", row_key="id", family="f", user="etl", password=PASSWORD),
        f"the login goes to {FAR} unencrypted",
    ),
    "mariadb": (
        lambda: mariadb.sink("nowhere.invalid", 9, "etl", PASSWORD, "shop", table="orders"),
        "rows go to nowhere.invalid:9 unencrypted",
    ),
    "mariadb.xa": (
        lambda: mariadb.sink("nowhere.invalid", 9, "etl", PASSWORD, "shop", table="orders", mode="xa"),
        "rows go to nowhere.invalid:9 unencrypted",
    ),
}


@pytest.mark.parametrize("name", SINKS)
def test_a_sink_that_is_opened_warns(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "OPEN_SECONDS", 0.1)
    build, words = SINKS[name]
    with caplog.at_level("WARNING", "headgate"), pytest.raises(ExternalError):
        build().open(context_in(tmp_path / "place"))
    assert f"sink sink: {words}, for all on the way to read" in caplog.text
    assert PASSWORD not in caplog.text


def login(url: str, user: str | None) -> None:
    password = None if user is None else PASSWORD
    place = endpoint(url, user=user, password=password, ca=None, certificate=None, key=None)
    warn_of_http_login("sink out", place)


def test_nobody_is_warned_of_what_nobody_else_can_read(caplog: pytest.LogCaptureFixture) -> None:
    login("https://nowhere.invalid", "etl")
    login("http://nowhere.invalid", None)
    login("http://127.0.0.1:9200", "etl")
    scram = {"security.protocol": "sasl_plaintext", "sasl.username": "etl", "sasl.password": PASSWORD}
    warn_of_login("sink out", "nowhere.invalid:9092", {**scram, "sasl.mechanism": "SCRAM-SHA-256"})
    warn_of_login("sink out", "localhost:9092,[::1]:9092", {**scram, "sasl.mechanism": "PLAIN"})
    warn_of_login("sink out", "nowhere.invalid:9092", {})
    assert caplog.text == ""
    warn_of_login("sink out", "localhost:9092,nowhere.invalid:9092", {**scram, "sasl.mechanism": "PLAIN"})
    assert "sink out: the password goes to nowhere.invalid:9092 unencrypted" in caplog.text


@pytest.mark.parametrize("place", ["localhost", "127.0.0.1:3306", "[::1]:9", "http://127.8.8.8", "/run/x"])
def test_this_machine_is_known(place: str) -> None:
    assert is_here(place)


@pytest.mark.parametrize("place", ["db", "10.0.0.1:3306", "http://example.com", "[2001:db8::1]:9", "localhost.example"])
def test_others_are_known(place: str) -> None:
    assert not is_here(place)
