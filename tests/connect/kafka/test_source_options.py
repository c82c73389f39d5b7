"""What a Kafka source is told, and the mode of a sink, before there is a broker."""

import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headgate.connect.kafka import sink, source
from headgate.connect.kafka.reading.options import checked, for_java, for_librdkafka
from headgate.connect.kafka.reading.source import Memory, offsets_of
from headgate.errors import BadStorage, InvalidOption

SASL = {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "pass"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "give one of topic="),
        ({"topic": "a", "pattern": "b"}, "topic and pattern: give one of"),
        ({"topics": "orders"}, "topics='orders' is one text"),
        ({"pattern": "("}, "is not a valid expression"),
        ({"topic": "a", "isolation_level": "serializable"}, "choose read_committed or read_uncommitted"),
        ({"topic": "a", "fail_on_data_loss": "no"}, "fail_on_data_loss='no': write True or False"),
        ({"topic": "a", "on_new_partitions": "cry"}, "choose fail or read"),
        ({"topic": "a", "max_offsets_per_trigger": 0}, "max_offsets_per_trigger=0 is too few"),
        ({"topic": "a", "min_partitions": "2"}, "min_partitions='2' is not a valid whole number"),
        ({"topic": "a", "starting_offsets": "yesterday"}, "write starting_offsets='earliest'"),
        ({"topic": "a", "starting_offsets": datetime(2025, 1, 1)}, "a datetime with a time zone"),  # noqa: DTZ001
        ({"topic": "a", "starting_offsets": {}}, "write starting_offsets='earliest'"),
        ({"topic": "a", "starting_offsets": {0: -5}}, "write starting_offsets='earliest'"),
        ({"topic": "a", "starting_offsets": {"b": {0: 5}}}, "names topic b, which is not read"),
        ({"topics": ["a", "b"], "starting_offsets": {0: 5}}, "name the topics"),
        ({"topic": "a", "options": {"bootstrap.servers": "x"}}, "use servers="),
        ({"topic": "a", "options": {"group.id": "x"}}, "use group="),
        ({"topic": "a", "options": {"isolation.level": "x"}}, "use isolation_level="),
        ({"topic": "a", "options": {"sasl.jaas.config": "x"}}, "write sasl.username and sasl.password"),
        ({"topic": "a", "options": {"ssl.truststore.location": "x"}}, "write ssl.ca.location"),
        ({"topic": "a", "options": {"security.protocol": "x"}}, "security.protocol X is unknown"),
        ({"topic": "a", "options": {"fetch.max.bytes": None}}, "must be text or a number"),
        ({"topic": "a", "options": SASL | {"enable.ssl.certificate.verification": "false"}}, "give ssl.ca.location"),
    ],
)
def test_what_cannot_hold_is_refused_where_it_is_written(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        source("127.0.0.1:9092", **settings)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_server_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"servers='host:9092'"):
        source([], topic="orders")


def test_a_source_says_what_it_reads_and_no_password() -> None:
    made = source(["a:1", "b:2"], topic="orders", bounded=True, options=SASL)
    assert made.describe() == "Kafka topic orders at a:1,b:2, in batches that size themselves, to its present end"
    like = source("a:1", pattern="o.*", max_offsets_per_trigger=9)
    assert like.describe() == "Kafka topics like o.* at a:1, at most 9 offsets a batch"
    assert "pass" not in repr(made)
    assert made.replayable
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - our own


def test_javas_client_is_told_the_same_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("the authority")
    given: dict[str, str | int | float | bool] = {
        **SASL,
        "sasl.password": 'a"b\\c',
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.endpoint.identification.algorithm": "none",
        "fetch.max.bytes": 1000,
    }
    options = checked(given)
    assert for_java(options) == {
        "fetch.max.bytes": "1000",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="a\\"b\\\\c";',
        "ssl.endpoint.identification.algorithm": "",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "the authority",
    }
    assert "fetch.max.bytes" not in for_librdkafka(options)
    assert for_librdkafka(options)["sasl.password"] == 'a"b\\c'


def test_a_clients_certificate_and_key_are_handed_over(tmp_path: Path) -> None:
    (tmp_path / "me.pem").write_text("certificate")
    (tmp_path / "me.key").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    options = {
        "security.protocol": "ssl",
        "ssl.certificate.location": str(tmp_path / "me.pem"),
        "ssl.key.location": str(tmp_path / "me.key"),
        "ssl.key.password": "secret",
    }
    found = for_java(checked(options))
    assert (found["ssl.keystore.type"], found["ssl.keystore.certificate.chain"]) == ("PEM", "certificate")
    assert found["ssl.key.password"] == "secret"
    (tmp_path / "me.key").write_text("-----BEGIN RSA PRIVATE KEY-----")
    with pytest.raises(InvalidOption, match=r"openssl pkcs8 -topk8"):
        for_java(checked(options))
    (tmp_path / "me.key").unlink()
    with pytest.raises(InvalidOption, match=r"ssl\.key\.location .*No such file"):
        for_java(checked(options))


def test_what_is_remembered_is_read_as_it_was_written() -> None:
    memory = Memory({"orders": ("id", 2)}, {"orders": {0: 5, 1: 7}})
    assert Memory.of(memory.text) == memory
    assert Memory.of(Memory({}, None).text) == Memory({}, None)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2, "topics": {}}', '{"version": 1, "topics": {"a": 1}}'])
def test_a_memory_that_is_damaged_or_newer_is_refused(text: str) -> None:
    with pytest.raises(BadStorage):
        Memory.of(text)


def test_an_offset_of_something_else_is_refused() -> None:
    assert offsets_of('{"orders":{"1":7,"0":5}}') == {"orders": {0: 5, 1: 7}}
    for text in ("17", "[1]", '{"orders": 5}', '{"orders": {"a": 5}}', ""):
        with pytest.raises(BadStorage, match=r"is not an offset in topics of Kafka"):
            offsets_of(text)


@pytest.mark.parametrize(
    ("starting", "options"),
    [
        ("latest", {"startingOffsets": "latest"}),
        (
            datetime(2025, 1, 1, tzinfo=UTC),
            {"startingTimestamp": 1735689600000, "startingOffsetsByTimestampStrategy": "latest"},
        ),
        ({1: 17, 0: "latest"}, {"startingOffsets": '{"orders": {"1": 17, "0": -1}}'}),
    ],
)
def test_where_it_begins_is_said_as_spark_says_it(starting: Any, options: dict[str, Any]) -> None:
    assert source("a:1", topic="orders", starting_offsets=starting)._begin() == options


@pytest.mark.parametrize(
    ("options", "timeouts"),
    [
        ({}, {"default.api.timeout.ms": "30000"}),
        ({"fetch.max.bytes": 1}, {"default.api.timeout.ms": "30000"}),
        # Java's client takes no default that is shorter than the time for a single answer.
        ({"request.timeout.ms": 40_000}, {}),
        ({"default.api.timeout.ms": 5}, {}),
    ],
)
def test_spark_is_told_how_long_to_ask_a_broker_unless_the_user_says(
    options: dict[str, int], timeouts: dict[str, str]
) -> None:
    assert source("a:1", topic="orders", options=options)._timeouts == timeouts


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"write_ahead": False}, "write_ahead=False"),
        ({"max_open": 5}, "max_open=5"),
        ({"allowed_downtime": "1h"}, "allowed_downtime='1h'"),
    ],
)
def test_an_option_of_another_mode_is_refused_by_the_sink(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=f"{said} is for mode='two-phase', not for mode='staged': leave it out$"):
        sink("host:9092", topic="out", transactional_id_prefix="out", mode="staged", **options)
    assert sink("host:9092", topic="out", transactional_id_prefix="out", **options).describe()
