"""Transactions are ended by whoever knows them, on a real broker."""

import base64
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition

from headgate.connect.kafka.broker import (
    Broker,
    BrokerClient,
    CommittedOffset,
    Ended,
    KafkaProblem,
    Partition,
    Producer,
    TransactionOutcome,
)
from headgate.connect.kafka.broker.requests import TRANSACTION_COORDINATOR
from headgate.errors import ExternalError, UserError
from services.kafka import Kafka
from services.server import wait_until
from tests.connect.kafka.opening import (
    begun,
    committed,
    left_open,
    left_open_by_a_killed_process,
    the,
    unique,
)

PATIENT_S = 60.0
"""No test that should succeed depends on how fast the machine is."""
END_TXN = 26
COMMIT_ELSEWHERE = """
import base64, pickle, sys
client = pickle.loads(base64.b64decode(sys.argv[1]))
with client:
    found = client.describe([sys.argv[2]])[sys.argv[2]]
    print(client.end(sys.argv[2], found.producer_id, found.epoch, commit=True).outcome.name)
    client.see_through(sys.argv[2], found.producer_id, found.epoch)
"""


@pytest.fixture
def client(kafka: Kafka) -> Iterator[BrokerClient]:
    with BrokerClient(kafka.servers, timeout_s=PATIENT_S) as made:
        yield made


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    name = unique("topic")
    kafka.create_topic(name, partitions=3)
    return name


@pytest.fixture
def fresh_topic(kafka: Kafka) -> str:
    name = unique("topic")
    kafka.create_topic(name)
    return name


def test_a_transaction_whose_producer_is_gone_is_committed(
    kafka: Kafka, client: BrokerClient, fresh_topic: str
) -> None:
    name = unique("dropped")
    left_open(kafka.client, name, fresh_topic, ["a", "b"])
    found = the(client, name)
    assert found.state == "Ongoing"
    assert found.timeout_ms == 600_000
    assert found.started_ms is not None
    assert found.partitions == (Partition(fresh_topic, 0),)
    assert committed(kafka.client, fresh_topic) == []

    assert client.end(name, found.producer_id, found.epoch, commit=True) == Ended(TransactionOutcome.DONE)
    over = client.see_through(name, found.producer_id, found.epoch)
    assert over is not None
    assert over.state == "CompleteCommit"
    assert committed(kafka.client, fresh_topic) == ["a", "b"]

    again = client.end(name, found.producer_id, found.epoch, commit=True)
    assert again == Ended(TransactionOutcome.DONE)
    assert again.ok
    aborted = client.end(name, found.producer_id, found.epoch, commit=False)
    assert aborted == Ended(TransactionOutcome.WRONG_STATE, "INVALID_TXN_STATE")
    assert not aborted.ok
    assert committed(kafka.client, fresh_topic) == ["a", "b"]


def test_another_process_commits_for_one_that_was_killed(kafka: Kafka, client: BrokerClient, fresh_topic: str) -> None:
    name = unique("killed")
    left_open_by_a_killed_process(kafka.client, name, fresh_topic, ["a", "b", "c"])
    assert the(client, name).state == "Ongoing"
    carried = base64.b64encode(pickle.dumps(client)).decode()  # it is connected: only what it was built with goes along
    done = subprocess.run(
        [sys.executable, "-c", COMMIT_ELSEWHERE, carried, name], capture_output=True, text=True, check=True
    )
    assert done.stdout == "DONE\n"
    assert committed(kafka.client, fresh_topic) == ["a", "b", "c"]


def test_an_aborted_transaction_is_never_seen(kafka: Kafka, client: BrokerClient, fresh_topic: str) -> None:
    name = unique("aborted")
    left_open(kafka.client, name, fresh_topic, ["a"])
    found = the(client, name)
    assert client.end(name, found.producer_id, found.epoch, commit=False).outcome is TransactionOutcome.DONE
    client.see_through(name, found.producer_id, found.epoch)
    assert client.end(name, found.producer_id, found.epoch, commit=False).outcome is TransactionOutcome.DONE
    assert client.end(name, found.producer_id, found.epoch, commit=True).outcome is TransactionOutcome.WRONG_STATE
    assert committed(kafka.client, fresh_topic) == []


def test_taking_over_an_id_aborts_and_fences(kafka: Kafka, client: BrokerClient, fresh_topic: str) -> None:
    name = unique("taken")
    left_open(kafka.client, name, fresh_topic, ["a"])
    found = the(client, name)
    owner = client.init_producer(name, 60_000)
    assert (owner.producer_id, owner.epoch) > (found.producer_id, found.epoch)
    assert client.end(name, found.producer_id, found.epoch, commit=True) == Ended(
        TransactionOutcome.FENCED, "PRODUCER_FENCED"
    )
    assert client.end(name, owner.producer_id, owner.epoch, commit=True).outcome is TransactionOutcome.WRONG_STATE
    assert committed(kafka.client, fresh_topic) == []
    after = client.see_through(name, found.producer_id, found.epoch)
    assert after is not None
    assert after.state == "Empty"


def test_a_transaction_past_its_timeout_is_not_committed(kafka: Kafka, client: BrokerClient, fresh_topic: str) -> None:
    name = unique("late")
    producer = begun(kafka.client, name, fresh_topic, ["a"], timeout_ms=8_000)
    found = the(client, name)
    wait_until(lambda: the(client, name).state == "CompleteAbort", 60, "the broker to abort the transaction")
    del producer
    ended = client.end(name, found.producer_id, 0, commit=True)
    assert not ended.ok
    assert ended.outcome in (TransactionOutcome.FENCED, TransactionOutcome.WRONG_STATE)
    assert committed(kafka.client, fresh_topic) == []


def test_an_id_that_never_was_is_told(client: BrokerClient) -> None:
    name = unique("never")
    assert client.describe([name]) == {}
    assert client.end(name, 4711, 0, commit=True) == Ended(TransactionOutcome.FENCED, "INVALID_PRODUCER_ID_MAPPING")
    assert client.see_through(name, 4711, 0) is None


def test_several_transactions_are_ended_and_then_waited_for_together(
    kafka: Kafka, client: BrokerClient, fresh_topic: str
) -> None:
    names = [unique("together") for _ in range(5)]
    ended = {unique("never"): Producer(4711, 0)}
    for name in names:
        left_open(kafka.client, name, fresh_topic, [name])
        found = the(client, name)
        ended[name] = Producer(found.producer_id, found.epoch)
    for name in names:
        assert client.end(name, ended[name].producer_id, ended[name].epoch, commit=True).ok
    over = client.see_all_through(ended)
    assert {name: found.state for name, found in over.items()} == dict.fromkeys(names, "CompleteCommit")
    assert sorted(committed(kafka.client, fresh_topic)) == sorted(names)


def test_transactions_are_listed_by_prefix_and_state(kafka: Kafka, client: BrokerClient, topic: str) -> None:
    ours, foreign = unique("ours"), unique("foreign")
    for name in (f"{ours}-1", f"{ours}-2", foreign):
        left_open(kafka.client, name, topic, ["x"])
    assert [each.transactional_id for each in client.list_transactions(ours)] == [f"{ours}-1", f"{ours}-2"]
    first = the(client, f"{ours}-1")
    client.end(f"{ours}-1", first.producer_id, first.epoch, commit=False)
    client.see_through(f"{ours}-1", first.producer_id, first.epoch)
    listed = client.list_transactions(ours, ["Ongoing"])
    assert [(each.transactional_id, each.state) for each in listed] == [(f"{ours}-2", "Ongoing")]
    assert listed[0].producer_id == the(client, f"{ours}-2").producer_id
    assert the(client, foreign).state == "Ongoing"
    for name in (f"{ours}-2", foreign):
        client.init_producer(name, 60_000)


def test_many_threads_share_a_client(kafka: Kafka, client: BrokerClient, fresh_topic: str) -> None:
    names = [unique("thread") for _ in range(8)]
    for name in names:
        left_open(kafka.client, name, fresh_topic, [name])
    known = client.describe(names)

    def commit(name: str) -> TransactionOutcome:
        found = known[name]
        outcome = client.end(name, found.producer_id, found.epoch, commit=True).outcome
        client.see_through(name, found.producer_id, found.epoch)
        return outcome

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(commit, names)) == [TransactionOutcome.DONE] * len(names)
    assert sorted(committed(kafka.client, fresh_topic)) == sorted(names)


def test_topics_are_described_or_missing(kafka: Kafka, client: BrokerClient, topic: str) -> None:
    found = client.metadata([topic, "no-such-topic"])
    assert found.topics == {topic: (1, 1, 1)}
    assert found.missing == ("no-such-topic",)
    assert found.brokers == (Broker(1, "127.0.0.1", kafka.port),)
    assert client.metadata().topics == {}
    assert client.coordinator("any") == found.brokers[0]


def test_a_name_that_no_topic_can_have_is_refused(client: BrokerClient) -> None:
    with pytest.raises(UserError, match="INVALID_TOPIC_EXCEPTION"):
        client.metadata(["no/topic"])


def test_settings_of_brokers_and_topics_are_shown(client: BrokerClient, topic: str) -> None:
    assert int(client.broker_config("transaction.max.timeout.ms") or 0) > 0
    assert client.broker_config("no.such.setting") is None
    assert int(client.topic_config(topic, "max.message.bytes") or 0) > 0


def test_a_transaction_timeout_that_the_broker_does_not_allow_is_refused(client: BrokerClient) -> None:
    with pytest.raises(UserError, match="INVALID_TRANSACTION_TIMEOUT: lower the transaction timeout"):
        client.init_producer(unique("long"), 2**31 - 1)


def test_offsets_are_stored_for_others_to_see(kafka: Kafka, client: BrokerClient, topic: str) -> None:
    group = unique("group")
    partitions = [Partition(topic, number) for number in range(3)]
    assert client.fetch_offsets(group, partitions) == {}
    client.commit_offsets(group, {partitions[0]: 5, partitions[2]: CommittedOffset(7, "so far")})
    expected = {partitions[0]: CommittedOffset(5), partitions[2]: CommittedOffset(7, "so far")}
    assert client.fetch_offsets(group, partitions) == expected
    client.commit_offsets(group, {partitions[0]: 6})
    consumer = Consumer({**kafka.client, "group.id": group, "enable.auto.commit": False})
    try:
        stored = consumer.committed([TopicPartition(*partition) for partition in partitions], timeout=PATIENT_S)
    finally:
        consumer.close()
    assert [each.offset for each in stored if each.offset >= 0] == [6, 7]


def test_offsets_for_a_topic_that_is_not_there_are_refused(client: BrokerClient) -> None:
    with pytest.raises(KafkaProblem, match="UNKNOWN_TOPIC_OR_PARTITION") as refused:
        client.commit_offsets(unique("group"), {Partition("no-such-topic", 0): 1})
    again = pickle.loads(pickle.dumps(refused.value))  # noqa: S301 - our own
    assert isinstance(again, KafkaProblem)
    assert (again.code, again.name, str(again)) == (3, "UNKNOWN_TOPIC_OR_PARTITION", str(refused.value))


def test_offsets_of_an_open_transaction_are_waited_for(kafka: Kafka, client: BrokerClient, topic: str) -> None:
    group, name, partition = unique("group"), unique("offsets"), Partition(topic, 0)
    producer = begun(kafka.client, name, topic, ["x"])
    consumer = Consumer({**kafka.client, "group.id": group, "enable.auto.commit": False})
    try:
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 9)], metadata, PATIENT_S)
    finally:
        consumer.close()
    del producer
    with BrokerClient(kafka.servers, timeout_s=2.0) as hasty, pytest.raises(ExternalError):
        hasty.fetch_offsets(group, [partition])
    assert client.fetch_offsets(group, [partition], stable=False) == {}
    found = the(client, name)
    client.end(name, found.producer_id, found.epoch, commit=True)
    assert client.fetch_offsets(group, [partition]) == {partition: CommittedOffset(9)}


@contextmanager
def _cutting(port: int, cut: threading.Event) -> Iterator[int]:
    """A way to the broker that breaks when an answer to EndTxn comes back: the broker has done it, nobody hears it."""

    def forward(near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", port)) as far:
            while size := near.recv(4, socket.MSG_WAITALL):
                request = near.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
                far.sendall(size + request)
                size = far.recv(4, socket.MSG_WAITALL)
                answer = far.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
                if int.from_bytes(request[:2], "big") == END_TXN:
                    cut.set()
                    return
                near.sendall(size + answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: forward(server.accept()[0]))
        thread.start()
        yield server.getsockname()[1]
        thread.join(PATIENT_S)


def test_a_commit_whose_answer_was_lost_is_made_again(kafka: Kafka, client: BrokerClient, fresh_topic: str) -> None:
    name = unique("unheard")
    left_open(kafka.client, name, fresh_topic, ["a", "b"])
    found = the(client, name)
    cut = threading.Event()
    with _cutting(kafka.port, cut) as port:
        client._cluster._coordinators[TRANSACTION_COORDINATOR, name] = Broker(1, "127.0.0.1", port)
        assert client.end(name, found.producer_id, found.epoch, commit=True) == Ended(TransactionOutcome.DONE)
    assert cut.is_set()
    client.see_through(name, found.producer_id, found.epoch)
    assert committed(kafka.client, fresh_topic) == ["a", "b"]


def test_a_broker_that_hangs_is_named_in_time_and_used_again_after(kafka: Kafka, topic: str) -> None:
    with BrokerClient(kafka.servers, timeout_s=2.0) as hasty:
        kafka.pause()
        began = time.monotonic()
        try:
            with pytest.raises(ExternalError, match=f"127.0.0.1:{kafka.port} did not answer"):
                hasty.metadata([topic])
        finally:
            kafka.resume()
        assert time.monotonic() - began < 10
        wait_until(lambda: _answers(hasty, topic), 60, "the broker to answer again")


def _answers(client: BrokerClient, topic: str) -> bool:
    try:
        return client.metadata([topic]).topics == {topic: (1, 1, 1)}
    except ExternalError:
        return False
