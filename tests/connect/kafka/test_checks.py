"""What a sink is refused for before it does harm.

Rows that a topic never takes: the job hears of those before they are staged. And whether a transaction may be open for
as long as the job's settings let it be.
"""

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.connect.kafka.writing.checks import FRAME_BYTES, check_timeout
from headgate.connect.kafka.writing.names import Target
from headgate.connect.kafka.writing.staged import StagedKafkaSink
from headgate.connect.kafka.writing.twophase import TwoPhaseKafkaSink
from headgate.core.ids import SinkId
from headgate.errors import InvalidOption, UserError
from headgate.sink.api import SinkContext
from headgate.testing import context_in, pre_commit, write_id
from services.kafka import Kafka
from tests.connect.kafka.numbers import topic_of
from tests.connect.kafka.reading import read

TAKES = 2_000
MINUTE = 60_000
HEADERS = "array(named_struct('key', 'h', 'value', CAST('x' AS BINARY)))"


@pytest.fixture
def topic(kafka: Kafka, tmp_path: Path) -> str:
    name = topic_of(tmp_path)
    kafka.create_topic(name, partitions=2, max_message_bytes=TAKES)
    return name


@pytest.fixture
def staged(kafka: Kafka, topic: str, tmp_path: Path) -> StagedKafkaSink:
    sink = StagedKafkaSink(Target(kafka.servers, topic, "hg", 900_000), parallelism=1)
    sink.open(context_in(tmp_path))
    return sink


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["repeat('x', 1000) AS key", "repeat('x', 901) AS value"], "a row of 1901 bytes is too large: 2000 are taken"),
        (["CAST(repeat('x', 1890) AS BINARY) AS value", f"{HEADERS} AS headers"], "a row of 1902 bytes is too large"),
        (["'x' AS value", "CAST(id + 1 AS INT) AS partition"], "partition 2 is not there"),
        (["'x' AS value", "-1 AS partition"], "partition -1 is not there"),
        (["'x' AS value", "TIMESTAMP '1969-12-30 00:00:00' AS timestamp"], "timestamp 1969-12-30.* is not after 1970"),
    ],
)
def test_a_row_that_kafka_never_takes_is_refused_before_it_is_staged(
    staged: StagedKafkaSink, spark: SparkSession, columns: list[str], said: str
) -> None:
    staged.begin_transaction(write_id(0))
    with pytest.raises(UserError, match=f"^sink sink: Kafka topic .*: {said}"):
        staged.invoke(write_id(0), spark.range(2).selectExpr(*columns))


def test_the_largest_row_that_is_staged_can_be_published(
    kafka: Kafka, topic: str, staged: StagedKafkaSink, spark: SparkSession
) -> None:
    size = TAKES - FRAME_BYTES - len("key") - len("hx") - 10
    staged.begin_transaction(write_id(0))
    columns = [
        "'key' AS key",
        f"repeat('x', {size}) AS value",
        f"{HEADERS} AS headers",
        "CAST(NULL AS INT) AS partition",
    ]
    staged.invoke(write_id(0), spark.range(3).selectExpr(*columns).selectExpr("*", "current_timestamp() AS timestamp"))
    staged.commit(pre_commit(staged, 1, write_id(0)))
    assert [len(one.value or b"") for one in read(kafka, topic)] == [size] * 3


@pytest.mark.parametrize("write_ahead", [True, False])
def test_many_rows_that_are_together_more_than_the_topic_takes_at_once_all_arrive(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path, write_ahead: bool
) -> None:
    target = Target(kafka.servers, topic, "hg", 900_000)
    sink = TwoPhaseKafkaSink(target, downtime_ms=0, write_ahead=write_ahead, parallelism=None, max_open=2)
    sink.open(context_in(tmp_path))
    try:
        sink.begin_transaction(write_id(0))
        sink.invoke(write_id(0), spark.range(1_000).selectExpr("concat(sha2(CAST(id AS STRING), 256), id) AS value"))
        sink.commit(pre_commit(sink, 1, write_id(0)))
    finally:
        sink.close()
    assert sorted(int((one.value or b"")[64:]) for one in read(kafka, topic)) == list(range(1_000))


def context(interval_ms: int | None, timeout_ms: int = 10 * MINUTE) -> SinkContext:
    return SinkContext("job", SinkId("out"), "inc_0", Path("staged"), timeout_ms, checkpoint_interval_ms=interval_ms)


@pytest.mark.parametrize("interval_ms", [None, 10_000, MINUTE])
def test_the_defaults_fit_each_other(interval_ms: int | None, caplog: pytest.LogCaptureFixture) -> None:
    for write_ahead in (True, False):
        check_timeout(context(interval_ms), 15 * MINUTE, 4 * MINUTE, write_ahead=write_ahead)
    assert caplog.text == ""


def test_a_long_interval_is_refused_without_write_ahead_and_warned_of_with_it(caplog: pytest.LogCaptureFixture) -> None:
    said = (
        r"^sink out: transaction_timeout is 900 s, and a transaction may be open for 1440 s \(checkpoint interval "
        r"600 s, checkpoint timeout 600 s, allowed_downtime 240 s\): make it 1440 s or more"
    )
    with pytest.raises(InvalidOption, match=said):
        check_timeout(context(10 * MINUTE), 15 * MINUTE, 4 * MINUTE, write_ahead=False)
    with caplog.at_level(logging.WARNING, "headgate"):
        check_timeout(context(10 * MINUTE), 15 * MINUTE, 4 * MINUTE, write_ahead=True)
    assert "make it 1440 s or more" in caplog.text
    assert "written anew from the write-ahead log" in caplog.text


def test_what_is_pre_committed_must_outlive_a_downtime_in_any_case() -> None:
    with pytest.raises(InvalidOption, match="make it 840 s or more"):
        check_timeout(context(10_000), 13 * MINUTE, 4 * MINUTE, write_ahead=True)
    with pytest.raises(InvalidOption, match="make it 850 s or more"):
        check_timeout(context(10_000), 13 * MINUTE, 4 * MINUTE, write_ahead=False)
