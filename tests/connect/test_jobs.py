"""Whole jobs beside servers that are away, refuse, are taken over by others, or run out of room.

One rule: what is wrong is said in one line, by whoever can put it right, and nothing is lost or doubled by it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

import headgate as hg
from headgate.connect.kafka.broker import BrokerClient
from headgate.connect.kafka.reading.source import CONNECTOR
from headgate.errors import ExternalError, HeadgateError, UserError
from headgate.receipts.gather import gather
from headgate.receipts.proof import prove
from headgate.receipts.sequence import AuditKind
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from services.kafka import Kafka
from services.postgres import Postgres
from services.server import HOST, find_program, free_port, wait_until
from tests import jvm, sessions
from tests.connect.job import build
from tests.connect.kafka.opening import unique
from tests.connect.kafka.reading import read
from tests.spark.process import JobProcess, Line, completed

JOB = Path(__file__).with_name("job.py")
VARIABLE = "HEADGATE_FAULTS"
PATIENT_S = 240.0
Settings = dict[str, Any]

ROWS = {"rows": 1_000, "rows_per_batch": 100}
VALUE = ["CAST(n AS STRING) AS value"]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session with the connector. A JVM that an earlier module left is given it."""
    yield from sessions.made(None, CONNECTOR)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = unique("faults")
    kafka.create_topic(name, partitions=2)
    return name


def to_kafka(servers: str, topic: str, columns: list[str] = VALUE, **options: Any) -> Settings:
    prefix = {"transactional_id_prefix": topic}
    return {"kind": "kafka", "servers": servers, "topic": topic, "columns": columns, **prefix, **options}


def to_postgres(dsn: str, table: str) -> Settings:
    return {"kind": "postgres", "dsn": dsn, "table": table, "columns": ["n"]}


Run = Callable[[Settings], JobProcess]


@pytest.fixture
def run() -> Iterator[Run]:
    """``headgate run``. Nothing of it is left when the test is over."""
    started: list[JobProcess] = []

    def start(settings: Settings) -> JobProcess:
        archive = jvm.KAFKA if "topic" in settings["source"] else jvm.DRIVER
        started.append(JobProcess(settings, file=JOB, variable=VARIABLE, archive=archive))
        return started[-1]

    yield start
    for job in started:
        if job.process.poll() is None:
            job.kill()


def said(job: JobProcess) -> str:
    """What stands on standard error, where there is no trace of any stack."""
    text = job.log.read_text(encoding="utf-8", errors="replace")
    assert "Traceback" not in text, text
    assert "\n\tat " not in text, text
    return text


# -- at the start ----------------------------------------------------------------------------------------------------


def away(_: Kafka, __: Postgres) -> dict[str, Settings]:
    """Jobs of which one server is away."""
    nowhere = f"{HOST}:{free_port()}"
    postgres = f"postgresql://me:secret@{nowhere}/any"
    return {
        "source": {"source": {"servers": nowhere, "topic": "t"}, "sinks": {"out": to_kafka(nowhere, "t", ["value"])}},
        "kafka": {"source": ROWS, "sinks": {"out": to_kafka(nowhere, "t")}},
        "postgres": {"source": ROWS, "sinks": {"out": to_postgres(postgres, "t")}},
    }


def missing(kafka: Kafka, postgres: Postgres) -> dict[str, Settings]:
    """Jobs of which one topic or table is not there."""
    out = to_kafka(kafka.servers, "nowhere")
    return {
        "source": {"source": {"servers": kafka.servers, "topic": "nowhere"}, "sinks": {"out": out}},
        "kafka": {"source": ROWS, "sinks": {"out": out}},
        "postgres": {"source": ROWS, "sinks": {"out": to_postgres(postgres.dsn(), "nowhere")}},
    }


@pytest.mark.parametrize("part", ["source", "kafka", "postgres"])
@pytest.mark.parametrize(
    ("jobs", "kind", "words"),
    [(away, ExternalError, ("127.0.0.1", "refused")), (missing, UserError, ("nowhere", "create"))],
)
def test_a_job_does_not_begin_without_its_servers_topics_and_tables_and_says_so_at_once(
    kafka: Kafka,
    postgres: Postgres,
    spark: SparkSession,
    tmp_path: Path,
    part: str,
    jobs: Callable[[Kafka, Postgres], dict[str, Settings]],
    kind: type[HeadgateError],
    words: tuple[str, ...],
) -> None:
    events: list[Line] = []
    job = build({"directory": str(tmp_path), **jobs(kafka, postgres)[part]})
    begun = time.monotonic()
    with pytest.raises(kind) as raised:
        job.run(None, events.append, spark)
    assert time.monotonic() - begun < 120  # of which ten are for the server, the rest for Spark on a busy machine
    assert events == []
    line = str(raised.value)
    assert "\n" not in line
    assert all(word in line for word in words), line
    assert "secret" not in line


@pytest.mark.parametrize(("jobs", "code"), [(away, 1), pytest.param(missing, 2, marks=pytest.mark.long)])
def test_headgate_run_ends_with_one_line_and_the_code_of_whoever_must_act(
    kafka: Kafka,
    postgres: Postgres,
    run: Run,
    tmp_path: Path,
    jobs: Callable[[Kafka, Postgres], dict[str, Settings]],
    code: int,
) -> None:
    job = run({"directory": str(tmp_path), **jobs(kafka, postgres)["kafka"]})
    assert job.end(PATIENT_S) == code
    assert job.lines == []
    assert said(job).count("headgate: ") == 1


# -- while it runs ---------------------------------------------------------------------------------------------------


def in_process(settings: Settings, spark: SparkSession) -> tuple[hg.Result, list[Line]]:
    """Run a job in the session of this process, where nobody has to kill it: no other JVM has to start."""
    lines: list[Line] = []
    return build(settings).run(None, lines.append, spark), lines


def of(lines: list[Line], event: str) -> list[Line]:
    return [line for line in lines if line["event"] == event]


def test_what_a_topic_and_a_table_have_is_proven_by_receipts_and_what_is_done_to_them_is_named(
    kafka: Kafka, postgres: Postgres, spark: SparkSession, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", str(conninfo_to_dict(postgres.dsn())["password"]))
    table = unique("faults").replace("-", "_")
    postgres.query(f"CREATE TABLE {table} (n bigint)")
    sinks = {"topic": to_kafka(kafka.servers, topic), "table": to_postgres(postgres.dsn(), table)}
    settings = {"directory": str(tmp_path), "source": ROWS, "sinks": sinks}
    assert in_process(settings, spark)[0].ending == "finished"
    job = build(settings)
    receipts = gather(JobStore.find(open_store(str(job.checkpoint.storage)), job.name))
    proof = prove(job.name, receipts)
    assert proof.holds, proof.text()
    found = {sink.sink: (sink.rows, sink.found_rows, sink.findings) for sink in proof.sinks}
    assert found == dict.fromkeys(sinks, (ROWS["rows"], ROWS["rows"], ())), proof.text()

    postgres.query(f"DELETE FROM {table} WHERE n < 3")  # noqa: S608
    producer = Producer({**kafka.client, "log_level": "0"})
    producer.produce(topic, value=b"1")
    assert producer.flush(60) == 0
    said = {sink.sink: [(each.kind, each.text) for each in sink.findings] for sink in prove(job.name, receipts).sinks}
    [(kind, text)] = said["table"]
    assert (kind, "has 997 rows, the receipts have 1000: 3 are missing" in text) == (AuditKind.MISSING, True), text
    [(kind, text)] = said["topic"]
    assert (kind, "has 1001 rows, the receipts have 1000: 1 are there twice" in text) == (AuditKind.DOUBLED, True), text


def test_a_row_that_is_too_large_stops_the_job_and_is_named_with_its_size(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    out = to_kafka(kafka.servers, topic, ["repeat('x', IF(n = 250, 2000000, 1)) AS value"])
    result, lines = in_process({"directory": str(tmp_path), "source": ROWS, "sinks": {"out": out}}, spark)
    assert result.ending == "failed"
    assert isinstance(result.failure, UserError)
    (failed,) = of(lines, "task-failed")
    assert failed["class"] == "user"
    assert "a row of 2000000 bytes is too large" in failed["message"]
    assert of(lines, "restart") == []
    assert failed["message"] in of(lines, "ended")[0]["text"]
    assert failed["message"] in str(result.failure)
    assert len(read(kafka, topic)) % ROWS["rows_per_batch"] == 0


def test_whoever_takes_up_the_id_of_a_batch_that_is_being_written_is_named_and_the_batch_runs_again(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    out = to_kafka(kafka.servers, topic, ["value"])
    source = {"rows": 100, "rows_per_batch": 100}
    lines: list[Line] = []
    settings = {"directory": str(tmp_path), "source": source, "gate": str(gate), "sinks": {"out": out}}
    client = build(settings).start(None, lines.append, spark)
    try:
        with BrokerClient(kafka.servers) as other:
            taken = wait_for_ids(other, f"{topic}.", client)[0]
            producer = other.init_producer(taken, 60_000)
    finally:
        gate.touch()  # Whatever happened: the job does not wait for ever.
    assert client.wait(PATIENT_S).ending == "finished"
    (failed,) = of(lines, "task-failed")
    assert failed["class"] == "external"
    assert f"another producer uses the transactional id {taken}" in failed["message"]
    assert f"producer {producer.producer_id}, epoch {producer.epoch}, has it now" in failed["message"]
    assert {one.value for one in read(kafka, topic)} == {b"let go"}


def test_a_sink_with_little_room_takes_checkpoints_early_however_long_the_interval_is(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    out = to_kafka(kafka.servers, topic, max_open=2, write_ahead=True)
    settings = {"directory": str(tmp_path), "source": ROWS, "interval": "1h", "sinks": {"out": out}}
    result, lines = in_process(settings, spark)
    assert result.ending == "finished", result
    assert sorted(int(one.value or b"") for one in read(kafka, topic)) == list(range(ROWS["rows"]))
    assert of(lines, "task-failed") == []
    batches = ROWS["rows"] // ROWS["rows_per_batch"]
    assert sum(completed(line) for line in lines) >= batches // 2


def wait_for_ids(client: BrokerClient, prefix: str, job: hg.JobClient) -> list[str]:
    """The ids that have a transaction open, as soon as there are any."""
    found: list[str] = []

    def look() -> bool:
        assert job.is_running, job.status()
        found[:] = [each.transactional_id for each in client.list_transactions(prefix, ["Ongoing"])]
        return bool(found)

    wait_until(look, PATIENT_S, f"a transaction {prefix}")
    return found


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, where the sinks of the job stage their rows."""
    place = tmp_path / "storage" / "faults" / "staged"
    place.mkdir(parents=True)
    mount(place, "size=1m")
    yield place
    subprocess.run([find_program("umount"), "--lazy", str(place)], check=True)


def mount(place: Path, options: str) -> None:
    subprocess.run([find_program("mount"), "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file system that is full")
@pytest.mark.parametrize("mode", ["two-phase", "staged"])
def test_a_full_disk_fails_the_batch_and_when_there_is_room_the_job_goes_on(
    kafka: Kafka, topic: str, spark: SparkSession, tmp_path: Path, small_disk: Path, mode: str
) -> None:
    rows = 20_000
    # No packing makes less than 64 bytes of this.
    value = "concat(sha2(CAST(n AS STRING), 256), sha2(CAST(-1 - n AS STRING), 256), n) AS value"
    out = to_kafka(kafka.servers, topic, [value], mode=mode)
    source = {"rows": rows, "rows_per_batch": rows}
    failures: list[str] = []
    seen_before: list[int] = []

    def on_event(line: Line) -> None:
        if line["event"] == "task-failed":
            failures.append(f"{line['class']}: {line['message']}")
            if len(failures) == 1:
                seen_before.append(len(read(kafka, topic)))
                mount(small_disk, "remount,size=64m")

    job = build({"directory": str(tmp_path), "source": source, "sinks": {"out": out}})
    result = job.run(None, on_event, spark)
    assert result.ending == "finished", failures
    assert failures[0].startswith("external: sink out: "), failures
    assert "No space left on device" in failures[0]
    assert "room" in failures[0]
    assert seen_before == [0]
    assert sorted(int((one.value or b"")[128:]) for one in read(kafka, topic)) == list(range(rows))


# -- from end to end -------------------------------------------------------------------------------------------------


def test_a_job_from_kafka_says_its_guarantee_and_tells_its_group_and_every_row_arrives_once(
    kafka: Kafka, postgres: Postgres, topic: str, run: Run, tmp_path: Path
) -> None:
    table, group, came = unique("t").replace("-", "_"), unique("group"), unique("came")
    postgres.query(f"CREATE TABLE {table} (n BIGINT PRIMARY KEY)")
    kafka.create_topic(came, partitions=2)
    write(kafka, came, range(500))
    settings = {
        "directory": str(tmp_path),
        "source": {
            "servers": kafka.servers,
            "topic": came,
            "group": group,
            "bounded": True,
            "max_offsets_per_trigger": 200,
        },
        "sinks": {
            "out": to_kafka(kafka.servers, topic, ["key", "value"]),
            "also": {
                "kind": "upsert",
                "dsn": postgres.dsn(),
                "table": table,
                "key": ["n"],
                "columns": ["CAST(CAST(value AS STRING) AS BIGINT) AS n"],
            },
        },
    }
    shown = plan(settings)
    assert shown["guarantee"] == "effectively-once"
    assert shown["because"] == ["sink also is effectively-once"]
    job = run(settings)
    assert job.end(2 * PATIENT_S) == 0, job.tail()
    (guarantee,) = of(job.lines, "guarantee")
    assert (guarantee["guarantee"], guarantee["because"]) == (shown["guarantee"], shown["because"])
    assert job.lines.index(guarantee) < job.lines.index(of(job.lines, "generation")[0])
    said(job)
    assert sorted(int(one.value or b"") for one in read(kafka, topic)) == list(range(500))
    assert {one.key for one in read(kafka, topic)} == {b"0", b"1", b"2"}
    assert postgres.query(f"SELECT count(*), sum(n) FROM {table}") == [("500", str(sum(range(500))))]  # noqa: S608
    assert committed(kafka, group) == {(came, partition): 250 for partition in range(2)}


def write(kafka: Kafka, topic: str, numbers: range) -> None:
    producer = Producer(kafka.client)
    for n in numbers:
        producer.produce(topic, str(n).encode(), str(n % 3).encode(), n % 2)
    assert producer.flush(PATIENT_S) == 0


def committed(kafka: Kafka, group: str) -> dict[tuple[str, int], int]:
    admin = kafka.admin()  # which must live until the answer is there
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENT_S)
    return {(each.topic, each.partition): each.offset for each in found.topic_partitions}


def plan(settings: Settings) -> Settings:
    """What ``headgate plan`` says of a job."""
    done = subprocess.run(
        [sys.executable, "-m", "headgate", "plan", str(JOB), "--json"],
        env={**os.environ, VARIABLE: json.dumps(settings), "PYTHONPATH": str(JOB.parent.parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: Settings = json.loads(done.stdout)
    return found
