"""Records into and out of topics, as any client of Kafka writes and reads them.

One rule: nothing here knows Headgate.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.cimpl import OFFSET_BEGINNING, KafkaError

from services.kafka import Kafka
from services.server import ServiceError

ANSWER_S = 60.0
Isolation = Literal["read_committed", "read_uncommitted"]


class Record(NamedTuple):
    """A JSON object under a key, in a partition."""

    partition: int
    key: str
    value: Mapping[str, Any]


class Writer:
    """A plain producer. Its records are counted against what comes out, so it must not double any itself."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        """Nothing is written yet."""
        self._producer = Producer({**kafka.client, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
        self._topic = topic
        self._failed: list[str] = []

    def write(self, record: Record) -> None:
        """Send one. `flush` says whether it arrived."""
        self._producer.produce(
            self._topic, json.dumps(record.value), record.key, partition=record.partition, on_delivery=self._delivered
        )
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all have arrived."""
        left = self._producer.flush(ANSWER_S)
        if left or self._failed:
            raise ServiceError(f"{left or len(self._failed)} records could not be written: {self._failed[:1]}")

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failed.append(str(error))


def write_all(kafka: Kafka, topic: str, records: Iterable[Record]) -> None:
    """Write records, and return when all have arrived."""
    writer = Writer(kafka, topic)
    for record in records:
        writer.write(record)
    writer.flush()


def read_all(kafka: Kafka, topic: str, isolation: Isolation = "read_committed") -> list[dict[str, Any]]:
    """Every value that a reader sees now, from the beginning of each partition to its end."""
    return [json.loads(value) for _, _, value in _messages(kafka, topic, isolation)]


def steal(kafka: Kafka, topic: str) -> None:
    """Delete the first committed record of a topic, behind everybody's back."""
    first = next(_messages(kafka, topic, "read_committed"), None)
    if first is None:
        raise ServiceError(f"topic {topic} has no record to steal")
    partition, offset, _ = first
    before = TopicPartition(topic, partition, offset + 1)
    admin = kafka.admin()  # The answer comes only while it lives.
    admin.delete_records([before], request_timeout=ANSWER_S)[before].result(ANSWER_S)


def _messages(kafka: Kafka, topic: str, isolation: Isolation) -> Iterator[tuple[int, int, bytes]]:
    consumer = Consumer(
        {
            **kafka.client,
            "group.id": "examples",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    try:
        waiting = set(consumer.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in waiting])
        while waiting:
            message = consumer.poll(ANSWER_S)
            if message is None:
                raise ServiceError(f"topic {topic} cannot be read to its end: nothing came for {ANSWER_S:g} s")
            error, value, partition, offset = message.error(), message.value(), message.partition(), message.offset()
            if error is None and isinstance(value, bytes) and partition is not None and offset is not None:
                yield partition, offset, value
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own codes
                waiting.discard(partition)
            else:
                raise ServiceError(f"topic {topic} cannot be read: {error or 'a record has no value'}")
    finally:
        consumer.close()
