"""The staged Kafka sink: the contract, and what a death of publisher or broker in the middle does to it."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.connect.kafka.producer.transaction import TransactionWriter
from headgate.connect.kafka.writing.names import Target
from headgate.connect.kafka.writing.staged import Note, StagedKafkaSink, encoded, read_note, write_note
from headgate.core.ids import CheckpointId, Generation
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.sink.api import SinkContext, TwoPhaseSink, WriteId
from headgate.sink.staging import Staging
from headgate.testing import Row, TwoPhaseContract, compare, context_in, pre_commit, rows_of, write, write_id
from services.kafka import Brokers, Kafka
from services.server import wait_until
from tests.connect.kafka.numbers import as_kafka_rows, topic_of, visible
from tests.connect.kafka.reading import read

SECONDS = 60.0


class StagedNumbers(StagedKafkaSink):
    """A sink for the rows of the contract."""

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        super().invoke(write_id, as_kafka_rows(dataframe))


def staged(kafka: Brokers, topic: str, *, parallelism: int = 2) -> StagedNumbers:
    return StagedNumbers(Target(kafka.servers, topic, "hg", 900_000), parallelism=parallelism)


def opened(sink: StagedNumbers, context: SinkContext) -> StagedNumbers:
    sink.open(context)
    return sink


@pytest.fixture
def topic(kafka: Kafka, tmp_path: Path) -> str:
    name = topic_of(tmp_path)
    kafka.create_topic(name, partitions=2)
    return name


class TestStaged(TwoPhaseContract):
    @pytest.fixture(autouse=True)
    def _broker(self, kafka: Brokers, topic: str) -> None:
        self.kafka = kafka
        self.topic = topic

    def make_sink(self, place: Path) -> TwoPhaseSink:
        return staged(self.kafka, topic_of(place))

    def visible(self, place: Path) -> Sequence[Row]:
        return visible(self.kafka, topic_of(place))


def test_marks_are_numbers_that_only_grow() -> None:
    marks = [
        (Generation(g), CheckpointId(c)) for g, c in [(0, 0), (0, 9), (1, 1), (1, 2), (2, 0), (2**23 - 1, 2**40 - 1)]
    ]
    numbers = [encoded(mark) for mark in marks]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 2**63 - 1
    for mark in ((Generation(2**23), CheckpointId(0)), (Generation(0), CheckpointId(2**40))):
        with pytest.raises(BadStorage, match="past what a Kafka sink can number"):
            encoded(mark)


def _die_at_commit(sink: StagedNumbers, context: SinkContext, committable: str, number: int, after: bool) -> None:
    """Publish, and be killed at the commit of one partition, just before it or just after it."""
    commit, seen = TransactionWriter.commit, []

    def dying(writer: TransactionWriter) -> None:
        seen.append(writer)
        if len(seen) == number and not after:
            writer.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        commit(writer)
        if len(seen) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    TransactionWriter.commit = dying  # type: ignore[method-assign,assignment]
    sink.open(context)
    sink.recover_and_commit(committable)


@pytest.mark.parametrize(("number", "after"), [(1, True), (2, False)])
def test_a_publisher_that_is_killed_at_a_commit_is_followed_by_one_that_ends_the_work(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path, number: int, after: bool
) -> None:
    context = context_in(tmp_path)
    sink = opened(staged(kafka, topic), context)
    write(sink, spark, write_id(0), partitions=4)
    committable = pre_commit(sink, 1, write_id(0))
    process = multiprocessing.get_context("spawn").Process(
        target=_die_at_commit, args=(staged(kafka, topic), context, committable, number, after)
    )
    process.start()
    process.join(SECONDS)
    assert process.exitcode == -signal.SIGKILL
    sink.recover_and_commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))
    write(sink, spark, write_id(1))
    sink.commit(pre_commit(sink, 2, write_id(1)))
    compare(visible(kafka, topic), rows_of(write_id(0), write_id(1)))


def _wait_at_commit(sink: StagedNumbers, context: SinkContext, committable: str, place: Path) -> None:
    """Publish; before the first partition is committed say so, and wait until told to go on."""
    commit = TransactionWriter.commit

    def waiting(writer: TransactionWriter) -> None:
        writer.flush()
        (place / "at-commit").touch()
        wait_until((place / "go-on").exists, SECONDS, "the order to go on")
        commit(writer)

    TransactionWriter.commit = waiting  # type: ignore[method-assign,assignment]
    sink.open(context)
    try:
        sink.recover_and_commit(committable)
    except ExternalError:
        os._exit(3)


def recovered(sink: StagedNumbers, committable: str) -> bool:
    try:
        sink.recover_and_commit(committable)
    except ExternalError:
        return False
    return True


def test_a_broker_that_is_killed_during_the_publication_loses_and_doubles_nothing(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    context = context_in(tmp_path)
    sink = opened(staged(kafka, topic), context)
    write(sink, spark, write_id(0), partitions=4)
    committable = pre_commit(sink, 1, write_id(0))
    signs = tmp_path / "signs"
    signs.mkdir()
    process = multiprocessing.get_context("spawn").Process(
        target=_wait_at_commit, args=(staged(kafka, topic), context, committable, signs)
    )
    process.start()
    try:
        wait_until((signs / "at-commit").exists, SECONDS, "the publisher to come to its commit")
        kafka.kill()
        (signs / "go-on").touch()
    finally:
        kafka.start()
        process.join(2 * SECONDS)
        process.kill()
        process.join()
    assert process.exitcode in (0, 3), "published, or told that it could not"
    wait_until(lambda: recovered(sink, committable), 2 * SECONDS, "the commit that is tried again and again")
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_a_publisher_that_was_overtaken_sees_that_the_work_is_done(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    context = context_in(tmp_path)
    sink = opened(staged(kafka, topic, parallelism=1), context)
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    process = multiprocessing.get_context("spawn").Process(
        target=_wait_at_commit, args=(staged(kafka, topic, parallelism=1), context, committable, tmp_path)
    )
    process.start()
    try:
        wait_until((tmp_path / "at-commit").exists, SECONDS, "the publisher to come to its commit")
        sink.recover_and_commit(committable)
        compare(visible(kafka, topic), rows_of(write_id(0)))
        (tmp_path / "go-on").touch()
        process.join(SECONDS)
    finally:
        process.kill()
        process.join()
    assert process.exitcode == 0
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_another_incarnation_of_the_job_is_not_taken_for_this_one(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    first = context_in(tmp_path)
    second = SinkContext(first.job, first.sink, incarnation="another", staging=first.staging)
    for context in (first, second):
        sink = opened(staged(kafka, topic), context)
        write(sink, spark, write_id(0))
        sink.commit(pre_commit(sink, 1, write_id(0)))
    compare(visible(kafka, topic), [*rows_of(write_id(0)), *rows_of(write_id(0))])


def test_a_publication_that_was_begun_with_other_partitions_is_ended_with_those(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    context = context_in(tmp_path)
    sink = opened(staged(kafka, topic, parallelism=3), context)
    write(sink, spark, write_id(0), partitions=5)
    committable = pre_commit(sink, 1, write_id(0))
    process = multiprocessing.get_context("spawn").Process(
        target=_die_at_commit, args=(staged(kafka, topic, parallelism=3), context, committable, 2, False)
    )
    process.start()
    process.join(SECONDS)
    assert process.exitcode == -signal.SIGKILL
    opened(staged(kafka, topic, parallelism=2), context).recover_and_commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


def note_of(context: SinkContext, change: Callable[[Path], None]) -> None:
    assert context.staging is not None
    change(Staging(context.staging, context.job, context.sink).root)


def test_when_kafka_may_have_forgotten_a_marker_nothing_is_guessed(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    context = context_in(tmp_path)
    sink = opened(staged(kafka, topic), context)
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    old = Note(context.incarnation, (Generation(1), CheckpointId(1)), 0, done=False)
    note_of(context, lambda root: write_note(root, old))
    with pytest.raises(BadStorage, match="Kafka has forgotten whether checkpoint 1 was published"):
        sink.recover_and_commit(committable)
    assert visible(kafka, topic) == []
    note_of(context, lambda root: (root / "publication.json").unlink())
    sink.recover_and_commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_a_publication_whose_note_is_lost_may_have_begun_when_its_rows_were_staged(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The working directory was lost, and the rows brought back: Kafka may have forgotten that they were published."""
    context = context_in(tmp_path)
    sink = opened(staged(kafka, topic), context)
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    assert context.staging is not None
    waiting = [context.staging / file.path for file in sink.staged(committable)]
    for path in waiting:
        os.utime(path, (0, 0))
    for _ in range(2):
        with pytest.raises(BadStorage, match="Kafka has forgotten whether checkpoint 1 was published"):
            sink.recover_and_commit(committable)
    assert visible(kafka, topic) == []
    for path in waiting:
        path.touch()
    note_of(context, lambda root: (root / "publication.json").unlink())
    good = waiting[0].read_bytes()
    bad = bytearray(good)
    bad[len(bad) // 2] ^= 1
    waiting[0].write_bytes(bad)
    with pytest.raises(BadStorage, match="is damaged: its checksum does not match, as checkpoint 1 pre-committed it"):
        sink.recover_and_commit(committable)
    waiting[0].write_bytes(good)
    sink.recover_and_commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_what_is_published_stays_so_when_kafka_has_forgotten_it(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    context = context_in(tmp_path)
    sink = opened(staged(kafka, topic), context)
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    sink.commit(committable)
    groups = [f"hg.{context.job}.{context.sink}.partition.{partition}.{context.incarnation}" for partition in range(2)]
    admin = kafka.admin()
    for done in admin.delete_consumer_groups(groups).values():
        done.result(SECONDS)
    opened(staged(kafka, topic), context).recover_and_commit(committable)
    compare(visible(kafka, topic), rows_of(write_id(0)))


def test_a_damaged_note_is_refused(tmp_path: Path) -> None:
    assert read_note(tmp_path, "incarnation") is None
    (tmp_path / "publication.json").write_text("{")
    with pytest.raises(BadStorage, match="is damaged"):
        read_note(tmp_path, "incarnation")
    (tmp_path / "publication.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(BadStorage, match="has format 99"):
        read_note(tmp_path, "incarnation")
    note = Note("incarnation", (Generation(1), CheckpointId(1)), 0, done=True)
    write_note(tmp_path, note)
    assert read_note(tmp_path, "incarnation") == note
    text = (tmp_path / "publication.json").read_text()
    (tmp_path / "publication.json").write_text(text.replace('"checkpoint": 1', '"checkpoint": 9'))
    with pytest.raises(BadStorage, match=r"publication.json is damaged: its checksum does not match"):
        read_note(tmp_path, "incarnation")


def test_keys_headers_and_times_pass_through_the_files(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    sink = StagedKafkaSink(Target(kafka.servers, topic, "hg", 900_000), parallelism=1)
    sink.open(context_in(tmp_path))
    sink.begin_transaction(write_id(0))
    frame = spark.range(1).selectExpr(
        "'v' AS value",
        "CAST(NULL AS BINARY) AS key",
        "1 AS partition",
        "TIMESTAMP '2024-05-06 07:08:09.123Z' AS timestamp",
        "array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) AS headers",
    )
    sink.invoke(write_id(0), frame)
    sink.commit(pre_commit(sink, 1, write_id(0)))
    (found,) = read(kafka, topic)
    assert (found.partition, found.key, found.value, found.headers) == (1, None, b"v", [("h", b"x")])
    assert found.timestamp == 1_714_979_289_123


def test_rows_that_kafka_cannot_take_are_refused_before_they_are_staged(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    sink = StagedKafkaSink(Target(kafka.servers, topic, "hg", 900_000), parallelism=1)
    sink.open(context_in(tmp_path))
    sink.begin_transaction(write_id(0))
    with pytest.raises(InvalidOption, match="sink sink: there is no column 'value'"):
        sink.invoke(write_id(0), spark.range(1).selectExpr("id AS key"))
