"""Rows into one Kafka transaction, beside what librdkafka does by itself. A real broker is started for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from bench.side_by_side import compare
from bench.spark import scratch
from headgate.connect.kafka.producer import native
from headgate.connect.kafka.producer.messages import Together, build
from headgate.connect.kafka.producer.transaction import PIECE, ROOM_MS, TransactionWriter
from services.kafka import Kafka

PARTITIONS = 4
TIMEOUT_MS = 15 * 60_000


@contextmanager
def broker() -> Iterator[Kafka]:
    """A Kafka that is gone afterwards."""
    with scratch() as where, Kafka(where / "kafka") as server:
        yield server


def publish(rows: int = 500_000) -> None:
    """Keyed rows from Arrow into one transaction, and its commit; librdkafka alone is given its messages ready made."""
    numbers = range(rows)
    keys = pa.array([f"customer-{number % 50_000:06}" for number in numbers])
    values = pa.array([f"{number:012}" + "x" * 88 for number in numbers])
    whole = pa.record_batch({"key": keys, "value": values})
    batches = [whole.slice(begin, 10_000) for begin in range(0, rows, 10_000)]
    with broker() as kafka:
        kafka.create_topic("out", PARTITIONS)

        def opened(name: str) -> TransactionWriter:
            return TransactionWriter.open(kafka.servers, {}, f"bench-{name}", TIMEOUT_MS, "out")

        with opened("ours") as writer, opened("raw") as raw:
            client = raw._client  # noqa: SLF001 - its handle, and nothing of what it does
            topic = client.find("out")
            ready = [
                build(whole.slice(begin, PIECE), handle=topic.handle, topic="out", partition_count=PARTITIONS)
                for begin in range(0, rows, PIECE)
            ]

            def ours() -> float:
                writer.begin()
                for batch in batches:
                    writer.write(batch)
                writer.send_marker("bench-marker", "out", 0, 1)
                writer.commit()
                return rows

            def alone() -> float:
                library, handle = client.library, client.handle
                assert native.taken(library.rd_kafka_begin_transaction(handle)) is None
                for messages in ready:
                    assert isinstance(messages, Together)
                    _produce(library, handle, topic.handle, messages)
                while library.rd_kafka_flush(handle, 100):
                    pass
                assert native.taken(library.rd_kafka_commit_transaction(handle, 60_000)) is None
                return rows

            with _row_by_row(kafka, keys, values) as singly:
                compare(
                    f"{rows:,} keyed rows in a transaction (wanted: at least 0.5)",
                    "rows",
                    {
                        "librdkafka alone, messages ready made": alone,
                        "TransactionWriter, with a marker": ours,
                        "confluent-kafka, one call for each row": singly,
                    },
                )


def _produce(library: Any, handle: int, topic: int, messages: Together) -> None:
    produce, poll = library.rd_kafka_produce_batch, library.rd_kafka_poll
    base, errors, done = messages.messages.ctypes.data, messages.messages["err"], 0
    while done < len(messages):
        rest = len(messages) - done
        place = base + done * native.MESSAGE.itemsize
        if produce(topic, native.NO_PARTITION, native.F_COPY, place, rest) == rest:
            return
        done += int((errors[done:] != 0).argmax())
        poll(handle, ROOM_MS)


@contextmanager
def _row_by_row(kafka: Kafka, keys: pa.Array, values: pa.Array) -> Iterator[Callable[[], float]]:
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": kafka.servers,
        "transactional.id": "bench-client",
        "linger.ms": 20,
        "queue.buffering.max.messages": 200_000,
        "partitioner": "murmur2_random",
    }
    producer = Producer(settings)
    producer.init_transactions(60)

    def work() -> float:
        producer.begin_transaction()
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            while True:
                try:
                    producer.produce("out", key=key, value=value)
                    break
                except BufferError:
                    producer.poll(0.002)
        producer.commit_transaction(60)
        return len(keys)

    yield work
    producer.close()
