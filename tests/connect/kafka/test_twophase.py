"""The two-phase Kafka sink: the contract, and what brokers, timeouts and other producers can do to it."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headgate.connect.kafka.broker import BrokerClient
from headgate.connect.kafka.writing import twophase
from headgate.connect.kafka.writing.executor import Lost
from headgate.core.ids import Generation
from headgate.errors import BadStorage, ExternalError, InvalidOption, UserError
from headgate.sink.api import SinkContext, StaleGenerations, TwoPhaseSink
from headgate.testing import Row, TwoPhaseContract, compare, context_in, pre_commit, rows_of, write, write_id
from services.kafka import Brokers, Kafka
from services.server import free_port, wait_until
from tests.connect.kafka.numbers import Numbers, numbers, topic_of, visible
from tests.connect.kafka.reading import READ_SECONDS


@pytest.fixture
def topic(kafka: Kafka, tmp_path: Path) -> str:
    name = topic_of(tmp_path)
    kafka.create_topic(name, partitions=2)
    return name


class TestWithNet(TwoPhaseContract):
    write_ahead = True

    @pytest.fixture(autouse=True)
    def _broker(self, kafka: Brokers, topic: str) -> None:
        self.kafka = kafka
        self.topic = topic

    def make_sink(self, place: Path) -> TwoPhaseSink:
        return numbers(self.kafka, topic_of(place), write_ahead=self.write_ahead)

    def visible(self, place: Path) -> Sequence[Row]:
        return visible(self.kafka, topic_of(place))


@pytest.mark.long
class TestWithoutNet(TestWithNet):
    """The same without a write-ahead log; tests below have what is different then."""

    write_ahead = False


Open = Callable[[Numbers], Numbers]
SHORT_S = 8
"""Long enough to write and pre-commit on a busy machine, and soon over."""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_it(sink: Numbers) -> Numbers:
            stack.callback(sink.close)
            sink.open(context_in(tmp_path))
            return sink

        yield open_it


def ids(kafka: Kafka, topic: str, *states: str) -> list[str]:
    """The ids of the sink, which has the topic for a prefix."""
    with BrokerClient(kafka.servers, timeout_s=READ_SECONDS) as client:
        return [each.transactional_id for each in client.list_transactions(f"{topic}.", states)]


def expire(kafka: Kafka, transactional_ids: Sequence[str]) -> None:
    """Wait until the broker has given up these transactions."""

    def given_up() -> bool:
        with BrokerClient(kafka.servers, timeout_s=READ_SECONDS) as client:
            found = client.describe(transactional_ids).values()
        return all(each.state == "CompleteAbort" for each in found)

    wait_until(given_up, 60, "the broker to give up transactions")


def test_what_the_broker_has_given_up_is_written_anew_from_the_write_ahead_log_once(
    kafka: Kafka, topic: str, spark: SparkSession, opened: Open
) -> None:
    sink = opened(numbers(kafka, topic, timeout_s=SHORT_S, downtime_s=0))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    expire(kafka, ids(kafka, topic, "Ongoing"))
    compare(visible(kafka, topic), [])
    sink.commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))
    sink.commit(committable)
    again = opened(numbers(kafka, topic))
    again.recover_and_commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_an_executor_whose_answer_is_lost_writes_anew_once_more_and_the_rows_are_there_once(
    kafka: Kafka, topic: str, spark: SparkSession, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(items: Sequence[Lost], work: Callable[[Lost], str]) -> list[str]:
        return [work(item) for item in items for _ in range(2)]

    monkeypatch.setattr(twophase, "on_executors", twice)
    sink = opened(numbers(kafka, topic, timeout_s=SHORT_S, downtime_s=0))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    expire(kafka, ids(kafka, topic, "Ongoing"))
    sink.commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_without_a_write_ahead_log_a_pre_commit_of_what_the_broker_has_given_up_fails(
    kafka: Kafka, topic: str, spark: SparkSession, opened: Open
) -> None:
    sink = opened(numbers(kafka, topic, write_ahead=False, timeout_s=SHORT_S, downtime_s=0))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    expire(kafka, ids(kafka, topic, "Ongoing"))
    with pytest.raises(ExternalError, match="has given up transaction"):
        pre_commit(sink, 2, write_id(0))
    with pytest.raises(BadStorage, match="pre-committed rows of batch 0 are lost"):
        sink.commit(committable)
    compare(visible(kafka, topic), [])


def test_a_file_of_the_write_ahead_log_that_is_gone_when_it_is_needed_is_missed(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path, opened: Open
) -> None:
    sink = opened(numbers(kafka, topic, timeout_s=SHORT_S, downtime_s=0))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    expire(kafka, ids(kafka, topic, "Ongoing"))
    staging = context_in(tmp_path).staging
    assert staging is not None
    copies = {path: path.read_bytes() for path in staging.rglob("*.parquet")}
    for path, data in copies.items():
        bad = bytearray(data)
        bad[len(bad) // 2] ^= 1
        path.write_bytes(bad)
    with pytest.raises(BadStorage, match=r"was lost at the broker, and .* is damaged: its checksum does not match"):
        sink.commit(committable)
    shutil.rmtree(staging)
    again = opened(numbers(kafka, topic))
    with pytest.raises(BadStorage, match=r"was lost at the broker, and .*parquet is gone"):
        again.recover_and_commit(committable)
    compare(visible(kafka, topic), [])
    assert {staging / file.path for file in again.staged(committable)} == set(copies)
    for path, data in copies.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    again.recover_and_commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_a_lost_transaction_of_long_ago_whose_marker_may_be_forgotten_is_not_guessed_at(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path, opened: Open
) -> None:
    sink = opened(numbers(kafka, topic, timeout_s=SHORT_S, downtime_s=0))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    expire(kafka, ids(kafka, topic, "Ongoing"))
    staging = context_in(tmp_path).staging
    assert staging is not None
    for file in staging.rglob("*.parquet"):
        os.utime(file, (0, 0))
    with pytest.raises(BadStorage, match="its marker is gone"):
        sink.commit(committable)
    for file in staging.rglob("*.parquet"):
        file.touch()
    sink.commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_a_commit_is_told_from_a_loss_even_after_somebody_took_up_the_id(
    kafka: Kafka, topic: str, spark: SparkSession, opened: Open
) -> None:
    sink = opened(numbers(kafka, topic))
    write(sink, spark, write_id(0))
    names = ids(kafka, topic, "Ongoing")
    committable = pre_commit(sink, 1, write_id(0))
    sink.commit(committable)
    with BrokerClient(kafka.servers) as client:
        for name in names:
            client.init_producer(name, 60_000)
    opened(numbers(kafka, topic)).recover_and_commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


@pytest.mark.parametrize("write_ahead", [True, False])
def test_a_commit_is_told_from_a_loss_while_the_next_use_of_the_id_is_open(
    kafka: Kafka, topic: str, spark: SparkSession, opened: Open, *, write_ahead: bool
) -> None:
    sink = opened(numbers(kafka, topic, write_ahead=write_ahead, max_open=1))
    write(sink, spark, write_id(0))
    first = pre_commit(sink, 1, write_id(0))
    sink.commit(first)
    write(sink, spark, write_id(1))
    second = pre_commit(sink, 2, write_id(1))
    # The process dies here, and the next one does not know what was committed.
    again = opened(numbers(kafka, topic, write_ahead=write_ahead, max_open=1))
    again.recover_and_commit(first)
    compare(visible(kafka, topic), rows_of(write_id(0)))
    again.recover_and_commit(second)
    compare(visible(kafka, topic), rows_of(write_id(0), write_id(1)))


def test_a_pre_committed_transaction_that_something_foreign_fenced_is_written_anew(
    kafka: Kafka, topic: str, spark: SparkSession, opened: Open
) -> None:
    sink = opened(numbers(kafka, topic))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    for name in ids(kafka, topic, "Ongoing"):
        other = Producer({"bootstrap.servers": kafka.servers, "transactional.id": name})
        other.init_transactions(30)
    sink.commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_ids_come_from_a_pool_and_are_used_again(kafka: Kafka, topic: str, spark: SparkSession, opened: Open) -> None:
    sink = opened(numbers(kafka, topic, max_open=2))
    for batch in range(4):
        write(sink, spark, write_id(batch))
        sink.commit(pre_commit(sink, batch + 1, write_id(batch)))
    for batch in (4, 5):
        assert sink.has_room(write_id(batch))
        write(sink, spark, write_id(batch))
    assert not sink.has_room(write_id(6))
    assert sink.has_room(write_id(5, run=2)), "it takes the place of the first run"
    sink.commit(pre_commit(sink, 6, write_id(4), write_id(5)))
    assert sink.has_room(write_id(6))
    assert {name.split(".")[-2] for name in ids(kafka, topic) if ".g1." in name} <= {"0", "1"}
    compare(visible(kafka, topic), rows_of(*(write_id(batch) for batch in range(6))))


def test_a_generation_aborts_what_earlier_ones_left_open_and_nothing_of_later_or_foreign_ones(
    kafka: Kafka, topic: str, spark: SparkSession, opened: Open
) -> None:
    opened_early, opened_late = opened(numbers(kafka, topic)), opened(numbers(kafka, topic))
    write(opened_early, spark, write_id(0, generation=1))
    late = write_id(0, generation=3)
    write(opened_late, spark, late)
    foreign = Producer({"bootstrap.servers": kafka.servers, "transactional.id": f"foreign-{topic}"})
    foreign.init_transactions(30)
    foreign.begin_transaction()
    foreign.produce(topic, b'{"number": -1, "writer": "foreign"}')
    foreign.flush(30)
    opened(numbers(kafka, topic)).abort(StaleGenerations(Generation(2)))
    assert [name for name in ids(kafka, topic, "Ongoing") if ".g1." in name] == []
    opened_late.commit(pre_commit(opened_late, 9, late, generation=3))
    foreign.commit_transaction(30)
    compare(visible(kafka, topic), [*rows_of(late), (-1, "foreign")])


def test_a_broker_that_is_killed_with_open_transactions_still_has_them(
    kafka: Kafka, topic: str, spark: SparkSession, opened: Open
) -> None:
    sink = opened(numbers(kafka, topic))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    kafka.kill()
    with pytest.raises(ExternalError):
        sink.commit(committable)
    kafka.start()
    sink.commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_a_topic_that_is_made_at_the_last_moment_is_found(
    kafka: Kafka, spark: SparkSession, tmp_path: Path, opened: Open
) -> None:
    name = topic_of(tmp_path)
    late = threading.Timer(0.3, kafka.create_topic, [name])
    late.start()
    sink = opened(numbers(kafka, name))
    late.join()
    write(sink, spark, write_id(0))
    sink.commit(pre_commit(sink, 1, write_id(0)))
    compare(visible(kafka, name), rows_of(write_id(0)))


def test_a_timeout_that_does_not_cover_checkpoint_and_downtime_is_refused(
    kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    base = context_in(tmp_path)
    context = SinkContext(base.job, base.sink, base.incarnation, base.staging, checkpoint_timeout_ms=600_000)
    with pytest.raises(
        InvalidOption,
        match="make it 900 s or more",
    ):
        numbers(kafka, topic, timeout_s=899).open(context)
    with pytest.raises(InvalidOption, match=r"raise transaction.max.timeout.ms of the broker"):
        numbers(kafka, topic, timeout_s=8 * 24 * 3600).open(context)
    fit = numbers(kafka, topic)
    fit.open(context)
    fit.close()


def test_a_topic_that_is_not_there_is_refused(kafka: Kafka, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="has no topic nowhere: create it first"):
        numbers(kafka, "nowhere").open(context_in(tmp_path))


def test_a_broker_that_is_not_there_is_named(tmp_path: Path, kafka: Kafka) -> None:
    port = free_port()
    sink = numbers(kafka, "any")
    sink._target = type(sink._target)(f"127.0.0.1:{port}", "any", "any", 900_000)
    with pytest.raises(ExternalError, match=f"127.0.0.1:{port}"):
        sink.open(context_in(tmp_path))


def test_rows_that_kafka_cannot_take_are_refused_by_name(
    kafka: Kafka, topic: str, spark: SparkSession, opened: Open
) -> None:
    sink = opened(numbers(kafka, topic))
    sink.begin_transaction(write_id(0))
    with pytest.raises(InvalidOption, match="sink sink: column 'id' has no place in a Kafka row"):
        super(Numbers, sink).invoke(write_id(0), spark.range(3))


def test_a_message_that_is_too_large_is_named(kafka: Kafka, topic: str, spark: SparkSession, opened: Open) -> None:
    sink = opened(numbers(kafka, topic))
    sink.begin_transaction(write_id(0))
    with pytest.raises(UserError, match="2000000"):
        super(Numbers, sink).invoke(write_id(0), spark.range(1).selectExpr("repeat('x', 2000000) AS value"))
