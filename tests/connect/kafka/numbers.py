"""The rows of the contract, on their way to Kafka and back."""

import hashlib
import json
from pathlib import Path

from pyspark.sql import DataFrame

from headgate.connect.kafka.writing.names import Target
from headgate.connect.kafka.writing.twophase import TwoPhaseKafkaSink
from headgate.sink.api import WriteId
from headgate.testing import Row
from services.kafka import Brokers
from tests.connect.kafka.reading import read


def topic_of(place: Path) -> str:
    return "t-" + hashlib.sha256(str(place).encode()).hexdigest()[:16]


def as_kafka_rows(dataframe: DataFrame) -> DataFrame:
    return dataframe.selectExpr("CAST(number AS STRING) AS key", "to_json(struct(number, writer)) AS value")


def visible(kafka: Brokers, topic: str) -> list[Row]:
    values = [json.loads(message.value or b"") for message in read(kafka, topic)]
    return [(int(value["number"]), str(value["writer"])) for value in values]


class Numbers(TwoPhaseKafkaSink):
    """A sink for the rows of the contract."""

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        super().invoke(write_id, as_kafka_rows(dataframe))


def numbers(
    kafka: Brokers,
    topic: str,
    *,
    write_ahead: bool = True,
    timeout_s: float = 900,
    max_open: int = 100,
    downtime_s: float = 300,
) -> Numbers:
    target = Target(kafka.servers, topic, topic, int(timeout_s * 1000))
    return Numbers(
        target, downtime_ms=int(downtime_s * 1000), write_ahead=write_ahead, parallelism=None, max_open=max_open
    )
