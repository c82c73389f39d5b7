"""Kafka as a service."""

import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from services.kafka import Kafka, Mechanism
from services.processes import family
from services.server import HOST, ServiceError

QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


def write(settings: Mapping[str, str], topic: str, *values: str) -> None:
    """Write the values in one transaction."""
    producer = Producer({**settings, **QUIET, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    producer.commit_transaction(60)


def read(settings: Mapping[str, str], topic: str, count: int) -> list[str]:
    """The first values that a reader of committed records sees."""
    consumer = Consumer({**settings, **QUIET, "group.id": uuid.uuid4().hex, "enable.auto.commit": "false"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    deadline = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            values.append(value.decode())
    consumer.close()
    return values


def test_it_takes_and_gives_records(kafka: Kafka) -> None:
    kafka.create_topic("records", partitions=3, max_message_bytes=2000)
    assert len(kafka.admin().list_topics(timeout=60).topics["records"].partitions) == 3
    write(kafka.client, "records", "a", "b")
    assert read(kafka.client, "records", 2) == ["a", "b"]


def test_settings_of_a_topic_hold(kafka: Kafka) -> None:
    kafka.create_topic("small", max_message_bytes=2000)
    with pytest.raises(KafkaException) as failure:
        write(kafka.client, "small", "x" * 10_000)
    assert failure.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_deleted_topic_is_gone(kafka: Kafka) -> None:
    kafka.create_topic("deleted")
    kafka.delete_topic("deleted")
    assert "deleted" not in kafka.admin().list_topics(timeout=60).topics


def test_a_transaction_committed_right_before_a_kill_is_read_after_the_start(kafka: Kafka) -> None:
    kafka.create_topic("killed")
    for number in range(2):
        write(kafka.client, "killed", str(number))
        servers = kafka.servers
        assert kafka.pid is not None
        processes = family(kafka.pid)
        kafka.kill()
        assert not any(process.alive for process in processes)
        kafka.start()
        assert kafka.servers == servers
        assert read(kafka.client, "killed", number + 1) == [str(each) for each in range(number + 1)]


def test_a_stopped_broker_leaves_no_process_and_keeps_its_data(kafka: Kafka) -> None:
    kafka.create_topic("stopped")
    write(kafka.client, "stopped", "a")
    assert kafka.pid is not None
    processes = family(kafka.pid)
    kafka.stop()
    assert not any(process.alive for process in processes)
    kafka.start()
    assert read(kafka.client, "stopped", 1) == ["a"]


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ServiceError, match=f"^kafka cannot start: port {port} is in use; .*$"):
            Kafka(tmp_path, port=port).start()


def test_a_setting_that_cannot_hold_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"^kafka cannot format .*num\.io\.threads.*$"):
        Kafka(tmp_path, properties={"num.io.threads": "many"}).start()


def test_rights_without_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="give sasl, too"):
        Kafka(tmp_path, authorizer=True)


@pytest.mark.parametrize(
    ("mechanism", "tls"), [pytest.param("PLAIN", False, marks=pytest.mark.long), ("SCRAM-SHA-256", True)]
)
def test_clients_must_say_who_they_are_and_may_do_only_what_is_allowed(
    tmp_path: Path, mechanism: Mechanism, tls: bool
) -> None:
    with Kafka(tmp_path, sasl=mechanism, tls=tls, authorizer=True, users={"guest": "guest-secret"}) as server:
        server.create_topic("secret")
        write(server.client, "secret", "a")
        assert read(server.client, "secret", 1) == ["a"]

        producer = Producer({**server.client_of("guest"), **QUIET, "transactional.id": "guest"})
        with pytest.raises(KafkaException) as failure:
            producer.init_transactions(60)
        assert failure.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

        errors: list[KafkaError] = []
        other = Producer({**server.client, **QUIET, "sasl.password": "wrong", "error_cb": errors.append})
        deadline = time.monotonic() + 60
        while not errors and time.monotonic() < deadline:
            other.poll(0.1)
        assert errors[0].code() == KafkaError._AUTHENTICATION
