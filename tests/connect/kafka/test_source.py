"""The Kafka source against a real broker, and through real Spark."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody writes it

import headgate as hg
from headgate import state_backend
from headgate.connect.kafka import source
from headgate.connect.kafka.reading.source import CONNECTOR, KafkaSource, before_end
from headgate.core.ids import Batch, TaskId
from headgate.core.sizing import START_ROWS, TARGET_MIN_MS
from headgate.doctor.diagnosis import diagnose
from headgate.doctor.gathering import gather
from headgate.doctor.tasks import BUSY_MIN
from headgate.errors import ExternalError, InvalidOption, UserError
from headgate.run import sizes
from headgate.run.control import ControlClient
from headgate.run.past import JobPast
from headgate.run.sizes import Sizes
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from headgate.task import query as task_query, session, watermark
from services.kafka import Kafka
from services.server import free_port, wait_until
from tests import sessions
from tests.connect.kafka.opening import unique

PATIENT_S = 60.0
Line = dict[str, Any]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session with the connector. A JVM that an earlier module left is given it."""
    yield from sessions.made(None, CONNECTOR)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker with TLS and a login, to be killed."""
    with Kafka(tmp_path_factory.mktemp("guarded"), sasl="SCRAM-SHA-256", tls=True) as broker:
        yield broker


def login(broker: Kafka) -> dict[str, str]:
    return {name: value for name, value in broker.client.items() if name != "bootstrap.servers"}


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = unique("orders")
    kafka.create_topic(name, partitions=2)
    return name


def write(kafka: Kafka, topic: str, numbers: range, *, partitions: int = 2) -> None:
    producer = Producer({**kafka.client, "log_level": "0"})
    for n in numbers:
        producer.produce(topic, key=str(n % 7), value=json.dumps({"n": n}), partition=n % partitions)
    assert producer.flush(PATIENT_S) == 0


def offset(topic: str, *at: int) -> str:
    return json.dumps({topic: {str(partition): place for partition, place in enumerate(at)}})


def refusal(made: KafkaSource, where: str | None, remembered: str | None) -> str:
    with pytest.raises(UserError) as refused:
        made.check(where, remembered)
    assert "\n" not in str(refused.value)
    return str(refused.value)


# -- before a query starts -------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_a_broker_that_is_away_is_named_within_ten_seconds() -> None:
    servers = f"127.0.0.1:{free_port()}"
    begun = time.monotonic()
    with pytest.raises(ExternalError, match=rf"^Kafka at {servers} does not answer within 8 s \(.*Connection refused"):
        source(servers, topic="orders").open()
    assert time.monotonic() - begun < 30  # ten, and the rest for a busy machine


def test_a_topic_that_is_not_there_is_named(kafka: Kafka, topic: str) -> None:
    source(kafka.servers, topic=topic).open()
    source(kafka.servers, pattern=f"{topic}.*").open()
    with pytest.raises(UserError, match=rf"has no topic {topic}-not: create it first"):
        source(kafka.servers, topics=[topic, f"{topic}-not"]).open()
    with pytest.raises(UserError, match=rf"has no topic like {topic}-.*: create one first"):
        source(kafka.servers, pattern=f"{topic}-.*").open()


def test_a_topic_that_is_as_it_was_is_read_on(kafka: Kafka, topic: str) -> None:
    write(kafka, topic, range(20))
    made = source(kafka.servers, topic=topic)
    memory = made.check(None, None)
    assert made.check(offset(topic, 4, 10), memory) == memory
    assert made.check(offset(topic, 4, 10), None) == memory


def test_a_topic_that_is_gone_or_made_anew_is_refused_unless_told_otherwise(kafka: Kafka, topic: str) -> None:
    made = source(kafka.servers, topic=topic)
    memory = made.check(None, None)
    kafka.delete_topic(topic)
    assert f"topic {topic} is gone: begin anew, or say fail_on_data_loss=False" in refusal(
        made, offset(topic, 0, 0), memory
    )
    kafka.create_topic(topic, partitions=2)
    assert f"topic {topic} was deleted and made anew" in refusal(made, offset(topic, 0, 0), memory)
    lenient = source(kafka.servers, topic=topic, fail_on_data_loss=False)
    assert lenient.check(offset(topic, 0, 0), memory) != memory


def test_records_that_have_expired_are_refused_with_where_it_now_begins(kafka: Kafka, topic: str) -> None:
    write(kafka, topic, range(20))
    admin = kafka.admin()
    admin.delete_records([TopicPartition(topic, 0, 6)])[TopicPartition(topic, 0)].result(PATIENT_S)
    made = source(kafka.servers, topic=topic)
    memory = made.check(offset(topic, 6, 0), None)
    assert f"the job stands at 5 of {topic}-0, which now begins at 6" in refusal(made, offset(topic, 5, 0), memory)
    assert source(kafka.servers, topic=topic, fail_on_data_loss=False).check(offset(topic, 5, 0), memory) == memory


def test_a_partition_that_ends_before_the_job_is_refused(kafka: Kafka, topic: str) -> None:
    write(kafka, topic, range(20))
    said = refusal(source(kafka.servers, topic=topic), offset(topic, 10, 11), None)
    assert f"the job stands at 11 of {topic}-1, which now ends at 10" in said


def test_partitions_that_were_added_are_refused_unless_they_are_to_be_read(kafka: Kafka, topic: str) -> None:
    made = source(kafka.servers, topic=topic)
    memory = made.check(None, None)
    admin = kafka.admin()
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENT_S)
    reading = source(kafka.servers, topic=topic, on_new_partitions="read")
    wait_until(lambda: reading.check(None, memory) != memory, PATIENT_S, "the third partition")
    for where, remembered in ((None, memory), (offset(topic, 0, 0), memory), (offset(topic, 0, 0), None)):
        said = refusal(made, where, remembered)
        assert f"topic {topic} had 2 partitions and has 3: say on_new_partitions='read'" in said
    assert '"partitions": 3' in reading.check(offset(topic, 0, 0), memory)


def test_another_topic_than_the_checkpoint_has_is_refused(kafka: Kafka, topic: str) -> None:
    other = unique("other")
    kafka.create_topic(other)
    said = refusal(source(kafka.servers, topic=other), offset(topic, 0, 0), None)
    assert f"topic {topic} was read before, and is not named any more" in said


def test_the_end_of_a_bounded_source_stays_where_it_was(kafka: Kafka, topic: str) -> None:
    write(kafka, topic, range(20))
    memory = source(kafka.servers, topic=topic, bounded=True).check(None, None)
    write(kafka, topic, range(10))
    made = source(kafka.servers, topic=topic, bounded=True)
    assert made.check(offset(topic, 2, 2), memory) == memory
    assert [made.ended(offset(topic, *at)) for at in ((9, 10), (10, 10), (15, 12))] == [False, True, True]


def test_a_consumer_group_is_told_how_far_the_job_has_come(kafka: Kafka, topic: str) -> None:
    write(kafka, topic, range(20))
    group = unique("watchers")
    source(kafka.servers, topic=topic, group=group).notify_completed(offset(topic, 3, 8))
    admin = kafka.admin()
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENT_S)
    assert {each.partition: each.offset for each in found.topic_partitions} == {0: 3, 1: 8}


# -- through Spark ---------------------------------------------------------------------------------------------------


def collected(spark: SparkSession, made: KafkaSource, where: Path) -> list[Any]:
    """All rows that are there, through a streaming query."""
    made.check(None, None)
    rows: list[Any] = []

    def take(frame: DataFrame, _: int) -> None:
        rows.extend(frame.collect())

    frame = made.load(spark, None)
    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(where)).trigger(availableNow=True)
    started = query.start()
    started.awaitTermination()
    return rows


def test_only_what_was_committed_is_read_unless_told_otherwise(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    producer = Producer({**kafka.client, "transactional.id": unique("t"), "log_level": "0"})
    producer.init_transactions(PATIENT_S)
    for value, ends in (("yes", producer.commit_transaction), ("no", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value=value, headers=[("kind", value.encode())], partition=0)
        producer.flush(PATIENT_S)
        ends(PATIENT_S)
    rows = collected(spark, source(kafka.servers, topic=topic, headers=True), tmp_path / "committed")
    assert [(bytes(row.value), row.headers[0].key) for row in rows] == [(b"yes", "kind")]
    everything = source(kafka.servers, topic=topic, isolation_level="read_uncommitted")
    rows = collected(spark, everything, tmp_path / "uncommitted")
    assert sorted(bytes(row.value) for row in rows) == [b"no", b"yes"]


def test_a_source_begins_where_it_is_told_and_splits_as_it_is_told(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    write(kafka, topic, range(20))
    made = source(kafka.servers, topic=topic, starting_offsets={1: 8}, min_partitions=4, max_offsets_per_trigger=5)
    found = sorted(json.loads(row.value)["n"] for row in collected(spark, made, tmp_path))
    assert found == sorted([*range(0, 20, 2), 17, 19])


@pytest.mark.parametrize("only", ["a", None])
def test_what_comes_after_the_end_of_its_partition_is_left_out(spark: SparkSession, only: str | None) -> None:
    """Partitions and topics that are new have no end: all of them comes after it."""
    ends = {"a": {0: 2, 1: 0, 2: 1}} if only else {"a": {0: 2, 1: 0, 2: 1}, "b": {0: 1}}
    places = [(name, p, at) for name in ("a", "b", "c") for p in range(4) for at in range(3) if name == "a" or not only]
    frame = spark.createDataFrame(places, "topic STRING, partition INT, offset BIGINT")
    inside = [tuple(row) for row in frame.where(before_end(ends, only)).collect()]
    wanted = [("a", 0, 0), ("a", 0, 1), ("a", 2, 0), *([] if only else [("b", 0, 0)])]
    assert sorted(inside) == wanted
    assert frame.where(before_end({}, None)).count() == 0


def test_a_session_without_a_jar_that_is_needed_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match=r"has no thing: make it with spark\.jars\.packages=org\.example:thing:1"):
        session.build_session("tests", existing=spark, state=state_backend.rocksdb(), packages=["org.example:thing:1"])
    assert session.build_session("tests", existing=spark, state=state_backend.rocksdb(), packages=[CONNECTOR]) is spark


def test_the_connector_is_in_the_driver_process(spark: SparkSession) -> None:
    assert spark is not None
    assert SparkContext._jvm is not None
    loader = SparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    assert loader.loadClass("org.apache.spark.sql.kafka010.KafkaSourceProvider") is not None


# -- whole jobs ------------------------------------------------------------------------------------------------------


def job(directory: Path, made: KafkaSource, at: str | None = None) -> hg.Job:
    """Numbers, or how many there are in each 100 seconds of what they say of the time."""
    described = hg.Job(
        "job",
        checkpoint=hg.Checkpointing(interval="500ms", storage=f"file://{directory}/storage"),
        restart=hg.restart.fixed_delay(delay="100ms", attempts=50),
    )
    rows = described.source("orders", made)
    if at is None:
        rows = rows.transform("parse", lambda frame: frame.selectExpr("get_json_object(string(value), '$.n') AS n"))
    else:
        rows = rows.transform("count", lambda frame: _counted(frame.selectExpr(at)))
    rows.sink("out", hg.files.sink(f"{directory}/out"))
    return described


def _counted(frame: DataFrame) -> DataFrame:
    windows = frame.withWatermark("at", "10 seconds").groupBy(F.window("at", "100 seconds"))
    return windows.agg(F.count("*").alias("n")).select("n")


def numbers(directory: Path) -> list[int]:
    paths = [path for path in (directory / "out").glob("*.parquet") if path.name[0] not in "_."]
    return sorted(int(n) for path in paths for n in pq.read_table(path)["n"].to_pylist())


def ask(directory: Path, command: str) -> None:
    ControlClient(JobStore.find(open_store(str(directory / "storage")), "job")).ask(command)


def run(
    spark: SparkSession, directory: Path, made: KafkaSource, act: Callable[[], None], when: Callable[[Line], bool]
) -> tuple[str | None, str]:
    """How a job ends, and why the last task failed. Something is done once, in a thread of its own, while it runs."""
    threads: list[threading.Thread] = []
    reasons = [""]

    def safely() -> None:
        try:
            act()
        except BaseException:  # Let the test fail, and not wait for ever.
            ask(directory, "cancel")
            raise

    def on_event(line: Line) -> None:
        if line["event"] == "task-failed":
            reasons.append(line["message"])
        if not threads and when(line):
            threads.append(threading.Thread(target=safely))
            threads[0].start()

    result = job(directory, made).run(None, on_event, spark)
    for thread in threads:
        thread.join()
    return result.ending, reasons[-1]


def started(line: Line) -> bool:
    return bool(line["event"] == "task-started")


def read_something(line: Line) -> bool:
    tasks = line.get("tasks") or {}
    return line["event"] == "checkpoint-completed" and any(task["files"] > 0 for task in tasks.values())


def test_a_job_ends_with_a_bounded_source_and_leaves_out_what_came_later(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    write(kafka, topic, range(600))
    made = source(kafka.servers, topic=topic, bounded=True, max_offsets_per_trigger=200)
    ending, _ = run(spark, tmp_path, made, lambda: write(kafka, topic, range(600, 700)), started)
    assert ending == "finished"
    assert numbers(tmp_path) == list(range(600))


def test_windows_that_are_open_at_the_end_come_out_of_the_running_query(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More records come in all the time, and it finds none of them."""
    write(kafka, topic, range(600))
    ran_out: list[bool] = []
    over = threading.Event()

    def end_time(query: Any) -> bool:
        write(kafka, topic, range(600, 700))
        ran_out.append(really(query))
        return ran_out[-1]

    def write_on() -> None:
        while not over.wait(0.01):
            write(kafka, topic, range(700, 710))

    really = watermark.end_time
    monkeypatch.setattr(task_query, "end_time", end_time)
    made = source(kafka.servers, topic=topic, bounded=True, max_offsets_per_trigger=200)
    described = job(tmp_path, made, "timestamp_seconds(bigint(get_json_object(string(value), '$.n'))) AS at")
    writing = threading.Thread(target=write_on)
    try:
        result = described.run(None, lambda line: writing.start() if started(line) else None, spark)
    finally:
        over.set()
        writing.join()
    assert (result.ending, ran_out) == ("finished", [True])
    assert numbers(tmp_path) == [100] * 6


def test_a_backlog_is_read_in_batches_that_grow_and_every_record_comes_out_once(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for begin in range(0, 150_000, 50_000):
        write(kafka, topic, range(begin, begin + 50_000))
    counts: list[int] = []

    def took_ms(progress: Any, _: float) -> float:
        """An eighth of what is wanted, or all of it."""
        counts.append(progress.numInputRows)
        return TARGET_MIN_MS / 8 if progress.numInputRows <= START_ROWS else TARGET_MIN_MS

    def resize(self: Sizes, task: TaskId, directory: Path, query: Any, batch: Batch, _: float) -> None:
        really(self, task, directory, query, batch, TARGET_MIN_MS / 8)

    really = Sizes.resize
    monkeypatch.setattr(sizes, "took_ms", took_ms)
    monkeypatch.setattr(Sizes, "resize", resize)
    ending, _ = run(spark, tmp_path, source(kafka.servers, topic=topic, bounded=True), lambda: None, started)
    assert ending == "finished"
    assert counts[:3] == [START_ROWS, START_ROWS, 8 * START_ROWS], "what comes first is not counted in offsets"
    assert numbers(tmp_path) == list(range(150_000))


def test_a_stopped_job_goes_on_where_it_was_and_refuses_a_topic_that_lost_records(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    write(kafka, topic, range(100))

    def go_on() -> tuple[str | None, str]:
        made = source(kafka.servers, topic=topic)
        return run(spark, tmp_path, made, lambda: ask(tmp_path, "stop"), read_something)

    assert go_on()[0] == "stopped"
    write(kafka, topic, range(100, 200))
    assert go_on()[0] == "stopped"
    assert sorted(set(numbers(tmp_path))) == numbers(tmp_path)
    write(kafka, topic, range(200, 260))
    admin = kafka.admin()
    admin.delete_records([TopicPartition(topic, 0, 120)])[TopicPartition(topic, 0)].result(PATIENT_S)
    ending, reason = go_on()
    assert ending == "failed"
    assert f"of {topic}-0, which now begins at 120" in reason


def test_partitions_that_are_added_while_a_job_runs_end_it_with_their_names(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    write(kafka, topic, range(10))

    def add() -> None:
        admin = kafka.admin()
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENT_S)
        wait_until(lambda: _partitions(kafka, topic) == 3, PATIENT_S, "the third partition")
        write(kafka, topic, range(10, 40), partitions=3)

    # Spark looks for new partitions before every batch, as the client's metadata grows old.
    made = source(kafka.servers, topic=topic, options={"metadata.max.age.ms": 500})
    ending, reason = run(spark, tmp_path, made, add, started)
    assert ending == "failed"
    assert f"topic {topic} has a new partition, 2: say on_new_partitions='read'" in reason


# -- a broker that is careful, and one that goes away -----------------------------------------------------------------


def test_who_does_not_know_the_password_is_not_let_in(guarded: Kafka) -> None:
    with pytest.raises(UserError, match=r"refused the login: .*check security\.protocol, user, password"):
        source(guarded.servers, topic="orders", options=login(guarded) | {"sasl.password": "wrong"}).open()


def test_a_job_waits_for_a_broker_that_was_killed_and_loses_nothing(
    spark: SparkSession, guarded: Kafka, tmp_path: Path
) -> None:
    """The same options let Spark's client in and ours, with TLS and a login."""
    topic = unique("orders")
    guarded.create_topic(topic, partitions=2)
    write(guarded, topic, range(100))

    def out_and_back() -> None:
        wait_until(lambda: numbers(tmp_path) == list(range(100)), PATIENT_S, "what was there")
        guarded.kill()
        guarded.start()
        write(guarded, topic, range(100, 200))
        wait_until(lambda: numbers(tmp_path) == list(range(200)), 2 * PATIENT_S, "what came afterwards")
        ask(tmp_path, "stop")

    made = source(guarded.servers, topic=topic, options=login(guarded))
    ending, _ = run(spark, tmp_path, made, out_and_back, started)
    assert ending == "stopped"
    assert numbers(tmp_path) == list(range(200))


@pytest.mark.long
@pytest.mark.parametrize("into", [1, 4], ids=["one partition has nearly all records", "all have as many"])
def test_the_doctor_names_a_partition_that_has_nearly_all_records(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, into: int
) -> None:
    """And says nothing of a task that is as busy with partitions that are alike."""
    topic = unique("uneven")
    kafka.create_topic(topic, partitions=4)
    write(kafka, topic, range(400), partitions=4)
    write(kafka, topic, range(400, 100_000), partitions=into)
    client = job(tmp_path, source(kafka.servers, topic=topic, max_offsets_per_trigger=400)).start(spark=spark)

    def busy() -> bool:
        [task] = client.status()["tasks"] or [{}]
        return (task.get("busy_ratio") or 0) >= BUSY_MIN and task["sources"][0]["skew"] is not None

    try:
        wait_until(lambda: busy() or not client.is_running, 120, "a busy task")
        view = client.status()
        store = JobStore.find(open_store(str(tmp_path / "storage")), "job")
        seen = diagnose(
            gather(JobPast(store), view, store.read_description(), store.local_root, time.time_ns() // 10**6)
        )
    finally:
        client.cancel()
    [task] = view["tasks"]
    assert task["sources"][0]["partitions"] == 4
    assert "skewed-partitions" not in seen.unknown
    found = [each.evidence for each in seen.causes if each.rule == "skewed-partitions"]
    assert len(found) == (into == 1), task
    assert into > 1 or "one of 4 partitions of source orders gave" in found[0]


def _partitions(kafka: Kafka, topic: str) -> int:
    return len(kafka.admin().list_topics(topic, timeout=10).topics[topic].partitions)


@pytest.mark.heavy
def test_a_job_without_its_broker_ends_before_spark_starts(tmp_path: Path) -> None:
    servers = f"127.0.0.1:{free_port()}"
    with pytest.raises(ExternalError, match=rf"^Kafka at {servers} does not answer"):
        job(tmp_path, source(servers, topic="orders")).run()
    assert not (tmp_path / "storage").exists()
