import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from headgate.connect.kafka.producer.client import Fenced, Indefinite
from headgate.connect.kafka.producer.settings import Option
from headgate.connect.kafka.producer.transaction import PreCommitted, TransactionWriter
from headgate.connect.kafka.writing.executor import PartitionWriter
from headgate.connect.kafka.writing.names import Names, Owned, Slot, Target, token
from headgate.core.ids import Batch, Generation, Run, SinkId
from headgate.errors import ExternalError, InvalidOption, UserError
from headgate.sink.partitions import Place
from services.kafka import Kafka
from services.server import free_port, wait_until
from tests.connect.kafka.reading import end, read

TIMEOUT_MS = 600_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
JAVA_MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""From the tests of Java's client: what its hash makes of these keys."""


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"producer-{uuid4().hex[:12]}"
    kafka.create_topic(name, partitions=3)
    return name


@pytest.fixture
def name() -> str:
    return f"tests-{uuid4().hex[:12]}"


def opened(kafka: Kafka, name: str, topic: str | None, **options: Option) -> TransactionWriter:
    given = {key.replace("_", "."): value for key, value in options.items()}
    return TransactionWriter.open(kafka.servers, given, name, TIMEOUT_MS, topic)


def values(*given: str | None) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(given, pa.string())})


def numbered(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch({"value": [str(number) for number in numbers], "key": [f"k{n % 7}" for n in numbers]})


def test_keys_and_values_arrive_also_when_they_are_null_or_empty(kafka: Kafka, name: str, topic: str) -> None:
    sent = [(b"k", b"v"), (None, b"no key"), (b"no value", None), (b"", b"empty key"), (b"empty value", b"")]
    rows = pa.record_batch({"key": [key for key, _ in sent], "value": [value for _, value in sent]})
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(rows.slice(0, 2))
        writer.write(rows.slice(2))
        writer.commit()
    assert {(one.key, one.value) for one in read(kafka, topic)} == set(sent)
    assert len(read(kafka, topic)) == len(sent)


def test_rows_of_nothing_but_nulls_arrive(kafka: Kafka, name: str, topic: str) -> None:
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(pa.record_batch({"value": pa.nulls(3, pa.binary()), "key": pa.nulls(3, pa.string())}))
        writer.write(pa.record_batch({"value": pa.array(["", ""], pa.large_string())}))
        writer.write(values().slice(0, 0))
        writer.commit()
    found = [(one.key, one.value) for one in read(kafka, topic)]
    assert sorted(found, key=str) == sorted([(None, None)] * 3 + [(None, b"")] * 2, key=str)


def test_keys_go_to_the_partitions_that_java_would_choose(kafka: Kafka, name: str) -> None:
    topic, count = f"{name}-wide", 7
    kafka.create_topic(topic, partitions=count)
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(pa.record_batch({"value": list(JAVA_MURMUR2), "key": list(JAVA_MURMUR2)}))
        writer.commit()
    chosen = {one.key: one.partition for one in read(kafka, topic)}
    assert chosen == {key: (code & 0x7FFFFFFF) % count for key, code in JAVA_MURMUR2.items()}


def test_a_partition_that_a_row_names_is_taken(kafka: Kafka, name: str, topic: str) -> None:
    rows = pa.record_batch(
        {
            "value": ["a", "b", "c", "d"],
            "key": [b"21", b"21", b"21", b"21"],
            "partition": pa.array([2, 0, None, 1], pa.int32()),
        }
    )
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(rows)
        writer.commit()
    by_key = (JAVA_MURMUR2[b"21"] & 0x7FFFFFFF) % 3
    assert {(one.value, one.partition) for one in read(kafka, topic)} == {
        (b"a", 2),
        (b"b", 0),
        (b"c", by_key),
        (b"d", 1),
    }


def test_headers_and_timestamps_arrive(kafka: Kafka, name: str, topic: str) -> None:
    when = datetime(2024, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC)
    before = int(time.time() * 1000)
    rows = pa.record_batch(
        {
            "value": ["both", None, "neither"],
            "key": ["k", "l", None],
            "timestamp": pa.array([when, when, None], pa.timestamp("us", "UTC")),
            "partition": pa.array([1, 1, 2], pa.int64()),
            "headers": pa.array(
                [[{"key": "a", "value": b"1"}, {"key": "a", "value": b""}], [{"key": "é", "value": None}], None],
                HEADERS,
            ),
        }
    )
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(rows)
        writer.commit()
    first, second, third = read(kafka, topic)
    assert (first.key, first.value, first.headers) == (b"k", b"both", [("a", b"1"), ("a", b"")])
    assert (second.key, second.value, second.headers) == (b"l", None, [("é", None)])
    assert first.timestamp == second.timestamp == int(when.timestamp() * 1000)
    assert (third.partition, third.key, third.value, third.headers) == (2, None, b"neither", [])
    assert before <= third.timestamp <= int(time.time() * 1000)


def test_each_row_may_name_its_topic(kafka: Kafka, name: str, topic: str) -> None:
    other = f"{name}-other"
    kafka.create_topic(other)
    rows = pa.record_batch({"value": ["1", "2", "3", "4"], "topic": [other, None, other, topic]})
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(rows)
        writer.commit()
    assert [one.value for one in read(kafka, other)] == [b"1", b"3"]
    assert {one.value for one in read(kafka, topic)} == {b"2", b"4"}
    with opened(kafka, name, None) as writer:
        writer.begin()
        with pytest.raises(UserError, match="a row without a topic"):
            writer.write(rows)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_rows_arrive(kafka: Kafka, name: str, topic: str, codec: str) -> None:
    with opened(kafka, name, topic, compression_type=codec) as writer:
        writer.begin()
        writer.write(numbered(0, 1_000))
        writer.commit()
    assert sorted(int(one.value or b"") for one in read(kafka, topic)) == list(range(1_000))


@pytest.mark.parametrize("singly", [False, True])
def test_a_queue_that_is_smaller_than_the_batch_loses_nothing_and_keeps_the_order(
    kafka: Kafka, name: str, topic: str, singly: bool
) -> None:
    rows = numbered(0, 5_000)
    if singly:
        rows = rows.append_column("timestamp", pa.array([datetime.now(UTC)] * 5_000, pa.timestamp("us", "UTC")))
    with opened(kafka, name, topic, queue_buffering_max_messages=50, linger_ms=0) as writer:
        writer.begin()
        writer.write(rows)
        writer.commit()
    found = read(kafka, topic)
    assert sorted(int(one.value or b"") for one in found) == list(range(5_000))
    for partition in range(3):
        numbers = [int(one.value or b"") for one in found if one.partition == partition]
        assert numbers == sorted(numbers)


def test_nothing_is_visible_before_the_end_and_nothing_of_what_is_aborted_ever(
    kafka: Kafka, name: str, topic: str
) -> None:
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(values("thrown away"))
        writer.flush()
        writer.abort()
        writer.begin()
        writer.write(values("kept"))
        writer.flush()
        assert read(kafka, topic) == []
        assert len(read(kafka, topic, isolation="read_uncommitted")) == 2
        writer.commit()
        writer.begin()
        writer.write(values("left behind"))
    assert [one.value for one in read(kafka, topic)] == [b"kept"]


def test_a_pre_committed_transaction_stays_open_for_whoever_knows_its_ids(kafka: Kafka, name: str, topic: str) -> None:
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(values("a", "b"))
        pre_committed = writer.pre_commit()
    assert pre_committed.rows == 2
    assert read(kafka, topic) == []
    assert end(kafka, name, pre_committed.producer_id, pre_committed.epoch, commit=True) == 0
    assert sorted(one.value or b"" for one in read(kafka, topic)) == [b"a", b"b"]


def test_a_second_transaction_of_a_writer_is_pre_committed_with_its_own_epoch(
    kafka: Kafka, name: str, topic: str
) -> None:
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(values("first"))
        writer.commit()
        writer.begin()
        writer.write(values("second"))
        pre_committed = writer.pre_commit()
    assert end(kafka, name, pre_committed.producer_id, pre_committed.epoch, commit=True) == 0
    assert {one.value for one in read(kafka, topic)} == {b"first", b"second"}


def test_a_pre_commit_without_rows_leaves_nothing_to_end(kafka: Kafka, name: str, topic: str) -> None:
    with opened(kafka, name, topic) as writer:
        writer.begin()
        assert writer.pre_commit().rows == 0
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(values("next"))
        writer.commit()
    assert len(read(kafka, topic)) == 1


def test_writers_that_are_pre_committed_leave_no_threads_behind(kafka: Kafka, name: str, topic: str) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = threads()
    for number in range(5):
        with opened(kafka, f"{name}-{number}", topic) as writer:
            writer.begin()
            writer.write(values("x"))
            pre_committed = writer.pre_commit()
        assert end(kafka, f"{name}-{number}", pre_committed.producer_id, pre_committed.epoch, commit=True) == 0
    # The kernel may list a thread for a moment after it was joined.
    wait_until(lambda: threads() <= before, 30, "the end of the writers' threads")
    assert len(read(kafka, topic)) == 5


_CHILD = """
import json, sys, time
import pyarrow as pa
from headgate.connect.kafka.producer.transaction import TransactionWriter
servers, name, topic, how = sys.argv[1:]
writer = TransactionWriter.open(servers, {}, name, 600_000, topic)
writer.begin()
writer.write(pa.record_batch({"value": [str(number) for number in range(1000)]}))
if how == "flush":
    writer.flush()
    print("flushed", flush=True)
    time.sleep(600)
pre_committed = writer.pre_commit()
print(json.dumps([pre_committed.producer_id, pre_committed.epoch, pre_committed.rows]), flush=True)
if how == "stay":
    time.sleep(600)
"""


def child(kafka: Kafka, name: str, topic: str, how: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD, kafka.servers, name, topic, how],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert process.stdout is not None
    with process.stdout as output:
        line = output.readline()
    return process, line


@pytest.mark.parametrize("how", ["leave", "stay"])
def test_a_pre_committed_transaction_survives_the_process_that_wrote_it(
    kafka: Kafka, name: str, topic: str, how: str
) -> None:
    process, line = child(kafka, name, topic, how)
    if how == "stay":
        process.send_signal(signal.SIGKILL)
    assert process.wait(60) == (-signal.SIGKILL if how == "stay" else 0)
    pre_committed = PreCommitted(*json.loads(line))
    assert read(kafka, topic) == []
    assert end(kafka, name, pre_committed.producer_id, pre_committed.epoch, commit=True) == 0
    assert sorted(int(one.value or b"") for one in read(kafka, topic)) == list(range(pre_committed.rows))


def test_what_a_killed_process_left_open_is_aborted_by_the_next_of_the_same_id(
    kafka: Kafka, name: str, topic: str
) -> None:
    process, line = child(kafka, name, topic, "flush")
    assert line == "flushed\n"
    process.kill()
    process.wait(60)
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(values("anew"))
        writer.commit()
    assert [one.value for one in read(kafka, topic)] == [b"anew"]


def test_a_marker_is_set_with_the_commit_and_only_then(kafka: Kafka, name: str, topic: str) -> None:
    def marker() -> int:
        consumer = Consumer({**kafka.client, "group.id": f"{name}-group", "isolation.level": "read_committed"})
        try:
            return int(consumer.committed([TopicPartition(topic, 0)], timeout=60)[0].offset)
        finally:
            consumer.close()

    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(values("thrown away"))
        writer.send_marker(f"{name}-group", topic, 0, 7, "text")
        writer.abort()
        writer.begin()
        writer.write(values("kept"))
        writer.send_marker(f"{name}-group", topic, 0, 2**62 + 5, "text")
        writer.commit()
    assert marker() == 2**62 + 5
    assert [one.value for one in read(kafka, topic)] == [b"kept"]


def test_a_row_that_is_too_large_is_named_with_its_size(kafka: Kafka, name: str, topic: str) -> None:
    with opened(kafka, name, topic) as writer:
        writer.begin()
        with pytest.raises(UserError, match=r"a row of 2000003 bytes is too large: librdkafka sends at most 1000000"):
            writer.write(pa.record_batch({"value": ["small", "x" * 2_000_000], "key": ["a", "key"]}))
    small = f"{name}-small"
    kafka.create_topic(small, max_message_bytes=2_000)
    with opened(kafka, name, small) as writer:
        writer.begin()
        writer.write(values("y" * 5_000))
        with pytest.raises(UserError, match=r"a row of 5000 bytes is too large: the topic takes no more"):
            writer.pre_commit()
    assert read(kafka, small) == []
    assert read(kafka, topic) == []


def test_whoever_is_fenced_is_told_the_transactional_id(kafka: Kafka, name: str, topic: str) -> None:
    with opened(kafka, name, topic) as first:
        first.begin()
        first.write(values("first"))
        first.flush()
        with opened(kafka, name, topic) as second:
            second.begin()
            second.write(values("second"))
            second.commit()

        def go_on() -> None:
            first.write(values("late"))
            first.commit()

        with pytest.raises(Fenced, match=f"another producer uses the transactional id {name}"):
            go_on()
    assert [one.value for one in read(kafka, topic)] == [b"second"]


def test_a_topic_that_is_not_there_is_for_the_user_to_make(kafka: Kafka, name: str) -> None:
    with pytest.raises(UserError, match=r"cannot find topic no-such-topic.*create the topic first"):
        opened(kafka, name, "no-such-topic")


def test_a_timeout_that_the_broker_does_not_allow_is_said(kafka: Kafka, name: str, topic: str) -> None:
    with pytest.raises(UserError, match=r"transaction\.max\.timeout\.ms"):
        TransactionWriter.open(kafka.servers, {}, name, 8 * 24 * 3600 * 1000, topic)
    TransactionWriter.open(kafka.servers, {}, name, 7 * 24 * 3600 * 1000, topic).close()


def test_options_that_do_not_go_together_are_refused(kafka: Kafka, name: str, topic: str) -> None:
    with pytest.raises(InvalidOption, match="librdkafka refuses the options"):
        opened(kafka, name, topic, security_protocol="ssl", ssl_ca_location="/no/such/file")


def test_a_broker_that_is_not_there_is_waited_for_as_long_as_was_said(name: str) -> None:
    start = time.monotonic()
    with pytest.raises(Indefinite, match=r"cannot find topic t: no answer within 1\.5 s.*refused"):
        TransactionWriter.open(f"127.0.0.1:{free_port()}", {}, name, TIMEOUT_MS, "t", wait_ms=1_500)
    assert time.monotonic() - start >= 1.5
    assert issubclass(Indefinite, ExternalError)


def test_a_broker_that_is_silent_for_a_while_costs_only_time(kafka: Kafka, name: str, topic: str) -> None:
    with opened(kafka, name, topic) as writer:
        writer.begin()
        writer.write(numbered(0, 500))
        kafka.pause()
        try:
            writer.write(numbered(500, 500))
            time.sleep(0.5)
        finally:
            kafka.resume()
        writer.commit()
    assert sorted(int(one.value or b"") for one in read(kafka, topic)) == list(range(1_000))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    server = Kafka(tmp_path_factory.mktemp("guarded"), sasl="PLAIN", users={"nobody": "nobody-secret"}, authorizer=True)
    with server:
        server.create_topic("guarded")
        yield server


def test_a_user_without_rights_or_with_a_wrong_password_is_told_so_at_once(guarded: Kafka, name: str) -> None:
    def connect(user: str, **changed: Option) -> TransactionWriter:
        options: dict[str, Option] = {**guarded.client_of(user)}
        del options["bootstrap.servers"]
        options |= {key.replace("_", "."): value for key, value in changed.items()}
        return TransactionWriter.open(guarded.servers, options, name, TIMEOUT_MS, "guarded")

    start = time.monotonic()
    with pytest.raises(UserError, match="refused the login") as refused:
        connect(guarded.user, sasl_password="wrong-secret")  # noqa: S106 - wrong on purpose
    assert "wrong-secret" not in str(refused.value)
    with pytest.raises(UserError, match=r"not allowed: .*TOPIC_AUTHORIZATION_FAILED"):
        connect("nobody")
    assert time.monotonic() - start < 30
    with connect(guarded.user) as writer:
        writer.begin()
        writer.write(values("allowed"))
        writer.commit()
    assert [one.value for one in read(guarded, "guarded")] == [b"allowed"]


def test_a_late_attempt_of_spark_at_the_same_partition_lets_the_batch_run_again(
    kafka: Kafka, name: str, topic: str
) -> None:
    """Its producer has the same transactional id. The batch fails as if the broker had been away, and is replayed."""
    owned = Owned(Target(kafka.servers, topic, name, 60_000), Names(name, "job", SinkId("out"), "inc_0"))
    write = PartitionWriter(owned, Generation(1), 0, token(Generation(1), Batch(0), Run(1)), None)
    transactional_id = owned.names.transactional_id(Generation(1), Slot(0, 0))

    def rows() -> Iterator[pa.RecordBatch]:
        yield values("first")
        with opened(kafka, transactional_id, topic):
            yield values("second")

    with pytest.raises(ExternalError, match=f"another producer uses the transactional id {transactional_id}"):
        write(Place(0, 1), rows())
    again = json.loads(write(Place(0, 2), iter([values("first"), values("second")])))
    assert again[4] == 2, "two rows are pre-committed"
