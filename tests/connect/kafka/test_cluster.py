"""The Kafka sinks on a cluster of three brokers, of which one at a time may die.

One rule: a broker that is gone costs time and nothing else; whoever follows it completes what it had begun.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headgate.connect.kafka.broker import BrokerClient, TransactionDescription, TransactionOutcome
from headgate.core.ids import Generation
from headgate.errors import ExternalError
from headgate.sink.api import SinkContext, StaleGenerations, TwoPhaseSink
from headgate.testing import compare, context_in, pre_commit, rows_of, write, write_id
from services.kafka import Kafka
from services.kafka_cluster import KafkaCluster
from services.server import wait_until
from tests import jvm
from tests.connect.kafka import test_staged, test_twophase
from tests.connect.kafka.numbers import numbers, topic_of, visible
from tests.connect.kafka.opening import unique
from tests.connect.kafka.reading import READ_SECONDS, read
from tests.spark.process import JobProcess

JOB = Path(__file__).parents[1] / "job.py"
SECONDS = 240.0
LOOK_S = 0.5
"""Who reads whole topics again and again takes the processor from the job that is waited for."""
AWAY = 1
"""How a job ends for which a server is away."""
IDS = 12
"""How many transactional ids that every broker coordinates some."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        # The first to ask for a coordinator waits for internal topics, which takes long on a busy machine.
        with BrokerClient(cluster.servers, timeout_s=SECONDS) as client:
            client.init_producer("tests-start", 60_000)
            client.fetch_offsets("tests-start", [])
        yield cluster


@pytest.fixture(autouse=True)
def _all_brokers_are_up(kafka: KafkaCluster) -> None:
    kafka.start()


@pytest.fixture
def mortal(kafka: KafkaCluster, kills: int) -> list[Kafka]:
    """The brokers that die, one after the other: one in ``make test``, all of them in ``make prove``."""
    return kafka.nodes[: max(1, kills - 1)]


@pytest.fixture
def topic(kafka: KafkaCluster, tmp_path: Path) -> str:
    name = topic_of(tmp_path)
    kafka.create_topic(name, partitions=6)
    return name


@pytest.fixture
def client(kafka: KafkaCluster) -> Iterator[BrokerClient]:
    with BrokerClient(kafka.servers, timeout_s=READ_SECONDS) as made:
        yield made


@pytest.mark.long
class TestTwoPhase(test_twophase.TestWithNet):
    """The contract. One broker passes it in every run."""


Open = Callable[[TwoPhaseSink, SinkContext], TwoPhaseSink]


@pytest.fixture
def opened() -> Iterator[Open]:
    with ExitStack() as stack:

        def open_it(sink: TwoPhaseSink, context: SinkContext) -> TwoPhaseSink:
            stack.callback(sink.close)
            until_done(lambda: sink.open(context))
            return sink

        yield open_it


def until_done(work: Callable[[], None]) -> None:
    """Again and again, as whoever started the job does, while the brokers still count on one that is gone."""

    def done() -> bool:
        try:
            work()
        except ExternalError:
            return False
        return True

    wait_until(done, SECONDS, "it to be done")


def open_transactions(kafka: KafkaCluster, topic: str, client: BrokerClient) -> dict[str, TransactionDescription]:
    """Producers that have written and are gone, with what is known of their transactions."""
    names = [f"{topic}.{number}" for number in range(IDS)]
    for number, name in enumerate(names):
        producer = Producer({**kafka.client, "transactional.id": name})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce(topic, str(number).encode(), partition=number % 6)
        assert producer.flush(SECONDS) == 0
    return client.describe(names)


def coordinator(kafka: KafkaCluster, client: BrokerClient, transactional_id: str) -> Kafka:
    client.close()  # which forgets whom it knew
    return kafka.node_at(client.coordinator(transactional_id).port)


def numbers_in(kafka: KafkaCluster, topic: str) -> list[int]:
    return sorted(int(one.value or b"") for one in read(kafka, topic))


def see_through(kafka: KafkaCluster, topic: str) -> None:
    """Wait until readers have all that was committed. Whoever follows a dead coordinator writes its markers only when
    it has read its log, and says nothing of its transactions before.
    """
    seen: list[int] = []

    def there() -> bool:
        seen[:] = numbers_in(kafka, topic)
        return len(seen) >= IDS

    wait_until(there, SECONDS, "readers to see what was committed")
    assert seen == list(range(IDS))


def test_transactions_are_found_whoever_coordinates_them(kafka: KafkaCluster, topic: str, client: BrokerClient) -> None:
    found = open_transactions(kafka, topic, client)
    assert len({client.coordinator(name).node for name in found}) == len(kafka.nodes)
    assert [each.transactional_id for each in client.list_transactions(f"{topic}.", ["Ongoing"])] == sorted(found)
    for name, each in found.items():
        assert client.end(name, each.producer_id, each.epoch, commit=True).ok
    assert numbers_in(kafka, topic) == list(range(IDS))


def test_settings_are_told_by_whoever_answers(kafka: KafkaCluster) -> None:
    with BrokerClient(kafka.servers) as client:
        first = client.metadata().brokers[0]
        kafka.node_at(first.port).kill()
        assert client.broker_config("transaction.max.timeout.ms") == str(7 * 24 * 60 * 60 * 1000)


@pytest.mark.long
@pytest.mark.parametrize("commit", [True, False])
def test_who_follows_a_dead_coordinator_ends_what_it_had_open(
    kafka: KafkaCluster, topic: str, client: BrokerClient, commit: bool
) -> None:
    found = open_transactions(kafka, topic, client)
    coordinator(kafka, client, f"{topic}.0").kill()
    for _ in range(2):  # to repeat it changes nothing
        for name, each in found.items():
            assert client.end(name, each.producer_id, each.epoch, commit=commit).outcome is TransactionOutcome.DONE
    if commit:
        see_through(kafka, topic)
    kafka.start()
    assert numbers_in(kafka, topic) == (list(range(IDS)) if commit else [])


def test_a_coordinator_that_dies_right_after_its_answer_has_decided_for_all_readers(
    kafka: KafkaCluster, topic: str, client: BrokerClient
) -> None:
    found = open_transactions(kafka, topic, client)
    for name, each in found.items():
        assert client.end(name, each.producer_id, each.epoch, commit=True).ok
    coordinator(kafka, client, f"{topic}.0").kill()
    see_through(kafka, topic)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["two-phase", "staged"])
def test_a_pre_committed_checkpoint_is_committed_although_brokers_die_before_and_after(
    kafka: KafkaCluster,
    mortal: list[Kafka],
    topic: str,
    spark: SparkSession,
    tmp_path: Path,
    opened: Open,
    mode: str,
) -> None:
    def make() -> TwoPhaseSink:
        return numbers(kafka, topic) if mode == "two-phase" else test_staged.staged(kafka, topic)

    first = opened(make(), context_in(tmp_path))
    write(first, spark, write_id(0))
    write(first, spark, write_id(1))
    committable = pre_commit(first, 1, write_id(0), write_id(1))
    for node in mortal:
        node.kill()
        sink = opened(make(), context_in(tmp_path))
        until_done(partial(sink.recover_and_commit, committable))
        compare(visible(kafka, topic), [*rows_of(write_id(0)), *rows_of(write_id(1))])
        kafka.start()
    compare(visible(kafka, topic), [*rows_of(write_id(0)), *rows_of(write_id(1))])


@pytest.mark.long
def test_rows_are_written_and_stale_generations_thrown_away_while_a_broker_is_gone(
    kafka: KafkaCluster, topic: str, spark: SparkSession, tmp_path: Path, opened: Open, client: BrokerClient
) -> None:
    dead = opened(numbers(kafka, topic), context_in(tmp_path))
    write(dead, spark, write_id(0))
    kafka.nodes[0].kill()
    sink = opened(numbers(kafka, topic), context_in(tmp_path))
    until_done(lambda: sink.abort(StaleGenerations(Generation(2))))
    assert client.list_transactions(f"{topic}.", ["Ongoing"]) == []
    ours = write_id(0, generation=2)
    write(sink, spark, ours)
    committable = pre_commit(sink, 1, ours, generation=2)
    until_done(lambda: sink.recover_and_commit(committable))
    compare(visible(kafka, topic), rows_of(ours))


@pytest.mark.long
def test_a_job_lives_through_the_death_of_brokers_and_through_its_own(
    kafka: KafkaCluster, mortal: list[Kafka], topic: str, tmp_path: Path
) -> None:
    came, staged = unique("came"), unique("staged")
    kafka.create_topic(came, partitions=3)
    kafka.create_topic(staged, partitions=3)
    columns = ["key", "value"]
    settings = {
        "directory": str(tmp_path),
        "source": {
            "servers": kafka.servers,
            "topic": came,
            "max_offsets_per_trigger": 500,
            "options": {"request.timeout.ms": 10_000, "default.api.timeout.ms": 10_000},
        },
        "sinks": {
            mode: {
                "kind": "kafka",
                "servers": kafka.servers,
                "topic": to,
                "columns": columns,
                "transactional_id_prefix": to,
                "mode": mode,
            }
            for mode, to in (("two-phase", topic), ("staged", staged))
        },
    }
    producer = Producer({**kafka.client, "enable.idempotence": True})
    written = 0

    def write_more() -> None:
        nonlocal written
        for n in range(written, written + 1_000):
            producer.produce(came, str(n).encode(), str(n).encode(), n % 3)
        written += 1_000
        assert producer.flush(SECONDS) == 0

    def start() -> JobProcess:
        return JobProcess(settings, file=JOB, variable="HEADGATE_FAULTS", archive=jvm.KAFKA)

    job = start()

    def arrived() -> bool:
        nonlocal job
        time.sleep(LOOK_S)
        if job.process.poll() == AWAY:  # It could not begin while the brokers count on one that is gone.
            job = start()
        assert job.process.poll() is None, job.tail()
        return all(len(read(kafka, each)) >= written for each in (topic, staged))

    try:
        for node in mortal:
            write_more()
            wait_until(arrived, SECONDS, "rows to arrive")
            write_more()
            node.kill()
            if node is mortal[-1]:
                job.kill()
                job = start()
            write_more()
            wait_until(arrived, SECONDS, "rows to arrive without a broker")
            node.start()
    finally:
        if job.process.poll() is None:
            job.kill()
    for each in (topic, staged):
        assert sorted(int(one.value or b"") for one in read(kafka, each)) == list(range(written)), each
