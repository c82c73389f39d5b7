"""What an independent reader of Kafka sees, and an independent way to end a transaction."""

import socket
import struct
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import KafkaError

from headgate.connect.kafka.broker import BrokerClient
from services.kafka import Brokers, Kafka
from services.server import wait_until

READ_SECONDS = 60.0
ON_THE_WAY = ("PrepareCommit", "PrepareAbort")


class Read(NamedTuple):
    """A message as a reader has it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]


def read(kafka: Brokers, topic: str, *, isolation: str = "read_committed") -> list[Read]:
    """All that can be read once what was ended has come to readers, by partition and offset."""
    security = {key: str(value) for key, value in kafka.client.items() if key != "bootstrap.servers"}
    with BrokerClient(kafka.servers, security, READ_SECONDS) as client:
        wait_until(lambda: not client.list_transactions("", ON_THE_WAY), READ_SECONDS, "transactions to be over")
    consumer = Consumer(
        {
            **kafka.client,
            "group.id": "tests-reading",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    found = []
    try:
        waiting = set(consumer.list_topics(topic, timeout=READ_SECONDS).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
        while waiting:
            message = consumer.poll(READ_SECONDS)
            assert message is not None, f"{topic}: nothing came from partitions {sorted(waiting)}"
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                waiting.discard(partition)
                continue
            assert partition is not None
            assert offset is not None
            headers = [(name, _bytes(value)) for name, value in _pairs(message.headers())]
            key, value = _bytes(message.key()), _bytes(message.value())
            found.append(Read(partition, offset, key, value, message.timestamp()[1], headers))
    finally:
        consumer.close()
    return sorted(found, key=lambda one: (one.partition, one.offset))


def end(kafka: Kafka, transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> int:
    """End a transaction by one request on a plain connection to the only broker; Kafka's error code."""
    name = transactional_id.encode()
    body = struct.pack(f">hhihh{len(name)}sqhb", 26, 1, 1, -1, len(name), name, producer_id, epoch, commit)
    with socket.create_connection(("127.0.0.1", kafka.port), timeout=READ_SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        answer = connection.makefile("rb").read(14)
    return int(struct.unpack(">iiih", answer)[3])


def _pairs(headers: object) -> list[tuple[str, object]]:
    return list(headers.items()) if isinstance(headers, dict) else list(headers or [])  # type: ignore[call-overload]


def _bytes(value: object) -> bytes | None:
    assert value is None or isinstance(value, bytes)
    return value
