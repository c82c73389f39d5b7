"""Orders from Kafka to sums of windows, to Kafka: exactly once, but for plain Spark, whose sink cannot.

The last record of each partition is of an order far in the future, so that all windows before it close for everyone.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.case import Case, Contender, Measured, Settings, WrongOutput, scratch
from bench.cases.etl import (
    COLLECTOR,
    FLINK_ANYWAY,
    FLINK_TUNED,
    HEADGATE_TUNED,
    SCHEMA,
    SPARK_STATE,
    compare,
    worker,
)
from bench.meter import Meter
from bench.peers import flink
from bench.profiling import sampled
from bench.programs.orders import STEP_MS, USERS
from bench.worker import Worker
from headgate.connect.kafka.reading.source import FETCHING
from services.kafka import Kafka

PARTITIONS = 4
FAR_MS = 10 * 365 * 86_400_000
END = "user-end"


class KafkaToKafka(Case):
    """With a broker that is started for it."""

    name: ClassVar[str] = "kafka"
    title: ClassVar[str] = "Kafka to windows to Kafka, checkpoints every second"
    value: ClassVar[str] = "rows_per_s"
    unit: ClassVar[str] = "rows/s"
    more_is_better: ClassVar[bool] = True
    also: ClassVar[dict[str, str]] = {"cpu_us_per_row": "CPU µs a row, without the broker"}
    full: ClassVar[Settings] = {"rows": 6_000_000, "warm_up": 600_000, "rows_per_batch": 1_000_000}
    quick: ClassVar[Settings] = {"rows": 600_000, "warm_up": 60_000, "rows_per_batch": 200_000}

    def every(self) -> Sequence[Contender]:
        """Everyone, and what it takes to read and write as many records with librdkafka alone."""
        tuned = {"rows_per_batch": self.size["rows_per_batch"]}
        flinks = {**FLINK_ANYWAY, "state.backend.type": "rocksdb"}
        # With what Headgate sets by itself.
        spark = {"conf": {**HEADGATE_TUNED, **SPARK_STATE, **COLLECTOR}, "client": FETCHING, **tuned}
        return [
            Contender("Headgate, defaults", "headgate", {"conf": {}}),
            Contender("Flink SQL, defaults", "flink", {"conf": flinks}),
            Contender("Headgate, tuned", "headgate", {"conf": HEADGATE_TUNED, **tuned}),
            Contender("Flink SQL, tuned", "flink", {"conf": {**flinks, **FLINK_TUNED}}),
            Contender("plain Spark, at least once", "spark", spark),
            Contender("librdkafka alone, no windows", "librdkafka"),
        ]

    def prepare(self) -> None:
        """Start a broker, and fill the topics."""
        self._kafka = self.keep(Kafka(self.keep(scratch()) / "kafka"))
        self._broker = tuple(filter(None, [self._kafka.pid]))
        self._topics = count()
        for name in ("warm_up", "rows"):
            self._kafka.create_topic(name, PARTITIONS)
            fill(self._kafka, name, self.size[name])
        self._workers: dict[str, Worker] = {}

    def warm_up(self, contender: Contender) -> None:
        """Start it, and let it see the job once."""
        if contender.peer != "librdkafka":
            self._workers[contender.name] = self.keep(worker(contender, self.logs / f"{contender.name}.log"))
        self._ask(contender, "warm_up")

    def round(self, contender: Contender) -> Measured:
        """Once through the topic."""
        return self._ask(contender, "rows")

    def profile(self, contender: Contender) -> Settings:
        """A round more, sampled."""
        found: dict[str, Any] = {}
        if contender.peer != "librdkafka":
            if contender.name not in self._workers:
                self.warm_up(contender)
            with sampled(self._workers[contender.name].pid, found, "CPU of the JVM in a round more."):
                self._ask(contender, "rows")
        return found

    def _ask(self, contender: Contender, topic: str) -> Measured:
        rows, out = self.size[topic], f"sums-{next(self._topics)}"
        self._kafka.create_topic(out, PARTITIONS)
        if contender.peer == "librdkafka":
            meter, cpu_s = Meter(beside=self._broker), time.process_time()
            alone(self._kafka, topic, out, rows)
            used = replace(meter.read(), cpu_s=time.process_time() - cpu_s)
            wall_s = used.wall_s
        else:
            with scratch() as where:
                told: dict[str, Any] = {"topic": topic, "out": out, "servers": self._kafka.servers, "interval": "1s"}
                told |= {"backend": "rocksdb", "where": str(where), "jar": str(_jar(contender)), **contender.settings}
                answer, used = self._workers[contender.name].ask("kafka", beside=self._broker, **told)
            wall_s = answer["wall_s"]
            compare(summaries(self._kafka, out), rows)
        self._kafka.delete_topic(out)
        return Measured({"rows_per_s": rows / wall_s, "cpu_us_per_row": used.cpu_s / rows * 1e6}, used)


def _jar(contender: Contender) -> str:
    return str(flink.find().connector) if contender.peer == "flink" else ""


def fill(kafka: Kafka, topic: str, rows: int) -> None:
    """Orders, dealt to the partitions in turn, and one far in the future in each."""
    producer = Producer(
        {"bootstrap.servers": kafka.servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )

    def put(partition: int, order: Mapping[str, Any]) -> None:
        while True:
            try:
                producer.produce(topic, json.dumps(order).encode(), partition=partition)
            except BufferError:
                producer.poll(0.05)
            else:
                return

    for n in range(rows):
        order = {"user": f"user-{USERS + n * 7919 % USERS}", "amount": (n * 31 % 12800) / 128, "at_ms": n * STEP_MS}
        put(n % PARTITIONS, order)
    for partition in range(PARTITIONS):
        put(partition, {"user": END, "amount": 0.0, "at_ms": FAR_MS})
    producer.flush(120)


def summaries(kafka: Kafka, topic: str) -> pa.Table:
    """What a reader of committed records sees, without that of the future."""
    rows = [json.loads(value) for value in _values(kafka, topic)]
    return pa.Table.from_pylist([row for row in rows if row["user"] != END], SCHEMA)


def alone(kafka: Kafka, topic: str, out: str, rows: int) -> None:
    """Read all orders, and write as many records as there are sums: the least that this can take."""
    read = sum(1 for _ in _values(kafka, topic))
    if read != rows + PARTITIONS:
        raise WrongOutput(f"{read} records were read, not {rows + PARTITIONS}")
    producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20})
    for number in range(len(np.unique(np.arange(0, rows, 600_000))) * USERS):
        while True:
            try:
                producer.produce(out, b'{"user": "user-10000", "orders": 60, "total": 1.5}', key=str(number % USERS))
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush(60)


def _values(kafka: Kafka, topic: str) -> Iterator[bytes]:
    """All committed records up to where the topic ends now."""
    settings = {"bootstrap.servers": kafka.servers, "group.id": "bench", "enable.auto.commit": False}
    with _consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True}) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            for message in consumer.consume(10_000, 1.0):
                error = message.error()
                if error is None:
                    yield message.value() or b""
                elif error.name() == "_PARTITION_EOF":
                    ended.add(message.partition() or 0)
                else:
                    raise WrongOutput(f"the topic {topic} cannot be read: {error}")


@contextmanager
def _consumer(settings: dict[str, Any]) -> Iterator[Consumer]:
    made = Consumer(settings)
    try:
        yield made
    finally:
        made.close()
