"""Transactions that stay open when their producer is gone, and what a reader sees of them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from uuid import uuid4

from confluent_kafka import Consumer, Producer as RecordProducer, TopicPartition
from confluent_kafka.cimpl import KafkaError

from headgate.connect.kafka.broker import BrokerClient, TransactionDescription

WAIT_S = 60.0
PRODUCER = """
import json, signal, sys
from confluent_kafka import Producer
options, topic, values = json.loads(sys.argv[1])
producer = Producer(options)
producer.init_transactions(60)
producer.begin_transaction()
for value in values:
    producer.produce(topic, value)
assert producer.flush(60) == 0
print("open", flush=True)
signal.pause()
"""


def unique(name: str) -> str:
    """A name that no other test has."""
    return f"{name}-{uuid4().hex[:12]}"


def options_of(
    settings: Mapping[str, str], transactional_id: str, timeout_ms: int = 600_000
) -> dict[str, str | int | float | bool]:
    """What a producer of records needs."""
    return {
        **settings,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": min(60_000, timeout_ms),
        "enable.sparse.connections": False,
        "log_level": 0,
    }


def begun(
    settings: Mapping[str, str], transactional_id: str, topic: str, values: list[str], timeout_ms: int = 600_000
) -> RecordProducer:
    """A producer with an open transaction, all of which the broker has. To drop it leaves the transaction open."""
    producer = RecordProducer(options_of(settings, transactional_id, timeout_ms))
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(WAIT_S) == 0
    return producer


def left_open(settings: Mapping[str, str], transactional_id: str, topic: str, values: list[str]) -> None:
    """Begin a transaction, and drop its producer without closing it."""
    begun(settings, transactional_id, topic, values)


def left_open_by_a_killed_process(
    settings: Mapping[str, str], transactional_id: str, topic: str, values: list[str]
) -> None:
    """The same in another process, which is killed when the broker has everything."""
    arguments = json.dumps([options_of(settings, transactional_id), topic, values])
    with subprocess.Popen([sys.executable, "-c", PRODUCER, arguments], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait(WAIT_S) == -signal.SIGKILL


def the(client: BrokerClient, transactional_id: str) -> TransactionDescription:
    """What the broker knows of the id, which must be there."""
    return client.describe([transactional_id])[transactional_id]


def committed(settings: Mapping[str, str], topic: str) -> list[str]:
    """The values that a read_committed reader finds, in order of partition and offset."""
    consumer = Consumer(
        {
            **settings,
            "group.id": unique("reader"),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
        found: dict[int, list[str]] = {number: [] for number in sorted(partitions)}
        consumer.assign([TopicPartition(topic, number, 0) for number in found])
        ended: set[int] = set()
        while ended != set(found):
            message = consumer.poll(WAIT_S)
            assert message is not None, f"the reader waits for the end of {topic}"
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                value = message.value()
                assert isinstance(value, bytes)
                found[partition].append(value.decode())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
    finally:
        consumer.close()
    return [value for values in found.values() for value in values]
