"""Counting in a real topic and a real table."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from headgate.audit import count, read
from headgate.cli import app
from headgate.errors import ExternalError, UserError
from services.kafka import Kafka
from services.postgres import Postgres
from services.server import free_port

PATIENT_S = 60.0
ROWS = 5_000
USERS = 7


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"orders-{uuid4().hex[:12]}"
    kafka.create_topic(name, partitions=3)
    return name


@pytest.fixture
def table(postgres: Postgres) -> Iterator[str]:
    name = f"orders_{uuid4().hex[:12]}"
    postgres.query(f"CREATE TABLE {name} (who text, n bigint)", "postgres")
    yield name
    postgres.query(f"DROP TABLE {name}", "postgres")


def producer(kafka: Kafka, **settings: str) -> Producer:
    return Producer({**kafka.client, "log_level": "0", **settings})


def fill(kafka: Kafka, topic: str, rows: int = ROWS) -> None:
    writer = producer(kafka)
    for n in range(rows):
        value = {"order": {"user": f"user {n % USERS}", "n": n // USERS}, "note": 'x\n"y"'}
        writer.produce(topic, key=str(n), value=json.dumps(value))
    assert writer.flush(PATIENT_S) == 0


def place(postgres: Postgres, table: str) -> str:
    return f"{postgres.dsn('postgres')}/{table}"


def test_a_topic_is_counted_against_a_table(kafka: Kafka, topic: str, postgres: Postgres, table: str) -> None:
    fill(kafka, topic)
    postgres.query(
        f"INSERT INTO {table} SELECT 'user ' || n % {USERS}, n / {USERS} FROM generate_series(0, {ROWS - 1}) n",  # noqa: S608
        "postgres",
    )
    arguments = ["audit", "--source", f"kafka://{kafka.servers}/{topic}", "--sink", place(postgres, table)]
    arguments += ["--source-key", "order.user", "--source-seq", "order.n", "--sink-key", "who", "--sink-seq", "n"]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.output) == (0, f"exactly once: {ROWS} in, {ROWS} out, 0 lost, 0 duplicated\n")
    postgres.query(f"DELETE FROM {table} WHERE who = 'user 3' AND n = 5", "postgres")  # noqa: S608
    postgres.query(f"INSERT INTO {table} VALUES ('user 4', 6), ('no \"user\",\n', 1)", "postgres")  # noqa: S608
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert f"{ROWS} in, {ROWS + 1} out, 1 lost, 1 duplicated, 1 foreign" in done.output
    assert "  user 3: missing 5\n  user 4: doubled 6\n" in done.output


def test_only_what_is_committed_counts_in_a_topic(kafka: Kafka, topic: str) -> None:
    writer = producer(kafka, **{"transactional.id": topic})
    writer.init_transactions(PATIENT_S)
    for value, end in (
        ("1", writer.commit_transaction),
        ("2", writer.abort_transaction),
        ("3", writer.commit_transaction),
    ):
        writer.begin_transaction()
        writer.produce(topic, key="a", value=value)
        writer.flush(PATIENT_S)
        end(PATIENT_S)
    found = read(f"kafka://{kafka.servers}/{topic}", key="@key", seq="@value")
    assert count((["a", "a"], [1, 3]), found).exact


def test_an_empty_topic_and_an_empty_table_have_no_records(
    kafka: Kafka, topic: str, postgres: Postgres, table: str
) -> None:
    assert len(read(f"kafka://{kafka.servers}/{topic}", key="user", seq="n")) == 0
    assert len(read(place(postgres, table), key="who", seq="n")) == 0


def test_the_numbers_in_an_array_are_counted_one_by_one(postgres: Postgres, table: str) -> None:
    postgres.query(f"ALTER TABLE {table} ADD numbers int[]", "postgres")
    assert len(read(place(postgres, table), key="who", seq="numbers")) == 0
    postgres.query(f"INSERT INTO {table} (who, numbers) VALUES ('a', '{{1,2}}'), ('b', '{{3}}')", "postgres")  # noqa: S608
    assert count((["a", "a", "b"], [1, 2, 3]), read(place(postgres, table), key="who", seq="numbers")).exact
    assert count((None, [1, 2, 3]), read(place(postgres, table), key=None, seq="numbers")).exact


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([b"{"], "not JSON objects"),
        ([b"{} {}"], "not JSON objects"),
        ([None], "without a value"),
        ([b"{}"], "has no column n"),
    ],
)
def test_records_that_prove_nothing_are_refused(
    kafka: Kafka, topic: str, values: list[bytes | None], said: str
) -> None:
    writer = producer(kafka)
    for value in values:
        writer.produce(topic, value=value)
    writer.flush(PATIENT_S)
    with pytest.raises(UserError) as refused:
        read(f"kafka://{kafka.servers}/{topic}", key="user", seq="n")
    assert said in str(refused.value)


def test_a_topic_or_a_table_that_is_not_there_is_named(kafka: Kafka, postgres: Postgres, table: str) -> None:
    with pytest.raises(UserError, match=r"topic nothing-there at .*Unknown topic"):
        read(f"kafka://{kafka.servers}/nothing-there", key="user", seq="n")
    with pytest.raises(UserError, match=r'relation "nothing_there" does not exist'):
        read(place(postgres, "nothing_there"), key="user", seq="n")
    with pytest.raises(UserError, match=r'column "user" does not exist'):
        read(place(postgres, table), key="user", seq="n")


@pytest.mark.heavy
def test_a_server_that_is_away_is_named_within_seconds() -> None:
    port = free_port()
    with pytest.raises(ExternalError, match=rf"topic orders at 127\.0\.0\.1:{port} does not answer within 10 s"):
        read(f"kafka://127.0.0.1:{port}/orders", key="user", seq="n")
    with pytest.raises(
        ExternalError, match=rf"^postgres://me@127\.0\.0\.1:{port}/shop/orders cannot be reached"
    ) as away:
        read(f"postgres://me:secret@127.0.0.1:{port}/shop/orders", key="user", seq="n")
    assert "secret" not in str(away.value)
