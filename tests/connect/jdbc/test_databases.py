"""What the JDBC sink does with PostgreSQL and with MariaDB, when all is well and when it is not."""

# ruff: noqa: S608 - names of our own

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.connect.jdbc import database
from headgate.connect.jdbc.database import Database
from headgate.connect.jdbc.names import JdbcOwner
from headgate.core.ids import Batch, Generation, Run
from headgate.errors import BadStorage, ExternalError, HeadgateError, InvalidOption, UserError
from headgate.sink.api import FailedAttempts, StaleGenerations, TwoPhaseSink, WriteId
from headgate.testing import compare, context_in, pre_commit, rows_of, write, write_id
from services.mariadb import MariaDB
from services.postgres import Postgres
from services.server import HOST, ServiceError, free_port, wait_until
from tests.connect.jdbc.places import DATABASE, Server, build, make_table, rows_in, stages

OPEN_SECONDS = 30.0  # ten, and the rest for a busy machine

COLUMNS = {
    "postgres": "n bigint, flag boolean, money numeric(20,10), ratio double precision, words text, raw bytea, "
    'day date, at timestamp, "Mixed Case" integer',
    "mariadb": "n bigint, flag boolean, money decimal(20,10), ratio double, words text CHARACTER SET utf8mb4, "
    "raw blob, day date, at datetime(6), `Mixed Case` integer",
}
SELECT = {
    "postgres": "SELECT n, flag::int, money, ratio, words, encode(raw, 'hex'), day, at, \"Mixed Case\"",
    "mariadb": "SELECT n, flag, money, ratio, words, LOWER(HEX(raw)), day, at, `Mixed Case`",
}
ROWS = r"""
    SELECT 9223372036854775807L AS n, true AS flag, CAST('-0.0000000001' AS DECIMAL(20,10)) AS money, 0.1D AS ratio,
           'tab\tback\\slash quote\' é😀' AS words, unhex('00FF5C27') AS raw, DATE'2024-02-29' AS day,
           TIMESTAMP_NTZ'2024-02-29 12:34:56.123456' AS at, 5 AS `mixed case`
    UNION ALL SELECT 1L, null, null, null, null, null, null, null, null
"""


@pytest.fixture(params=["postgres", "mariadb"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(name: str, request: pytest.FixtureRequest) -> Server:
    return cast("Server", request.getfixturevalue(name))


def opened(server: Server, place: Path) -> TwoPhaseSink:
    sink = build(server, make_table(server, place))
    sink.open(context_in(place))
    return sink


def test_values_of_all_types_arrive_as_they_were(
    name: str, server: Server, spark: SparkSession, tmp_path: Path
) -> None:
    table = make_table(server, tmp_path, COLUMNS[name])
    sink = build(server, table)
    sink.open(context_in(tmp_path))
    sink.begin_transaction(write_id(0))
    sink.invoke(write_id(0), spark.sql(ROWS))
    sink.commit(pre_commit(sink, 1, write_id(0)))
    null = "" if name == "postgres" else "NULL"
    assert set(server.query(f"{SELECT[name]} FROM {table}", DATABASE)) == {
        (
            *("9223372036854775807", "1", "-0.0000000001", "0.1", "tab\tback\\slash quote' é😀", "00ff5c27"),
            *("2024-02-29", "2024-02-29 12:34:56.123456", "5"),
        ),
        ("1", *[null] * 8),
    }


def test_rows_arrive_once_and_no_table_is_left(server: Server, spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(server, tmp_path)
    write(sink, spark, write_id(0))
    write(sink, spark, write_id(0, run=2))
    write(sink, spark, write_id(1))
    committable = pre_commit(sink, 1, write_id(0, run=2))
    compare(rows_in(server, tmp_path), [])
    sink.commit(committable)
    sink.commit(committable)
    compare(rows_in(server, tmp_path), rows_of(write_id(0, run=2)))
    assert len(stages(server, tmp_path)) == 2
    sink.abort(FailedAttempts(Generation(1), Run(2), {Batch(1): Run(1)}))
    assert len(stages(server, tmp_path)) == 1
    sink.abort(StaleGenerations(Generation(2)))
    assert stages(server, tmp_path) == []


def test_a_database_that_is_killed_between_pre_commit_and_commit_has_lost_nothing(
    server: Server, spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(server, tmp_path)
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    server.kill()
    try:
        with refused(ExternalError, "cannot commit checkpoint 1.*see that the database runs"):
            sink.commit(committable)
    finally:
        server.start()
    sink.commit(committable)
    server.kill()
    server.start()
    sink.commit(committable)
    compare(rows_in(server, tmp_path), rows_of(write_id(0)))


def test_two_that_commit_the_same_at_once_commit_it_once(server: Server, spark: SparkSession, tmp_path: Path) -> None:
    sinks = [opened(server, tmp_path) for _ in range(3)]
    write(sinks[0], spark, write_id(0))
    committable = pre_commit(sinks[0], 1, write_id(0))
    errors: list[BaseException] = []
    ready = threading.Barrier(len(sinks))

    def commit(sink: TwoPhaseSink) -> None:
        ready.wait()
        try:
            sink.commit(committable)
        except BaseException as error:  # noqa: BLE001 - for the test to judge
            errors.append(error)

    threads = [threading.Thread(target=commit, args=(sink,)) for sink in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    compare(rows_in(server, tmp_path), rows_of(write_id(0)))


def test_a_process_that_is_frozen_in_its_commit_does_not_hold_up_its_successor(
    server: Server, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "IDLE_SECONDS", 1)
    frozen = opened(server, tmp_path)
    write(frozen, spark, write_id(0))
    committable = pre_commit(frozen, 1, write_id(0))
    stages_of = Database.stages

    def sleeping_stages(self: Database, owner: JdbcOwner) -> dict[WriteId, str]:
        """The first thing after the note is changed: here the other process comes, commits, and only then we wake."""
        monkeypatch.setattr(Database, "stages", stages_of)
        opened(server, tmp_path).recover_and_commit(committable)
        compare(rows_in(server, tmp_path), rows_of(write_id(0)))
        return stages_of(self, owner)

    monkeypatch.setattr(Database, "stages", sleeping_stages)
    with refused(ExternalError, "cannot commit checkpoint 1"):
        frozen.commit(committable)
    frozen.commit(committable)
    compare(rows_in(server, tmp_path), rows_of(write_id(0)))


@pytest.mark.parametrize("knows", [True, False], ids=["like the target", "by Spark"])
def test_a_partition_that_is_written_again_is_refused(
    knows: bool, server: Server, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not knows:  # as in a database without CREATE TABLE ... AS SELECT
        monkeypatch.setattr(Database, "make_stage", lambda *_: False)
    sink = opened(server, tmp_path)
    write(sink, spark, write_id(0), partitions=3)
    (stage,) = stages(server, tmp_path)
    with pytest.raises(ServiceError, match=r"(?i)duplicate"):
        server.query(f"INSERT INTO {stage} SELECT * FROM {stage}", DATABASE)
    sink.commit(pre_commit(sink, 1, write_id(0)))
    compare(rows_in(server, tmp_path), rows_of(write_id(0)))


def test_a_waiting_table_that_is_gone_or_changed_is_never_passed_over(
    server: Server, spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(server, tmp_path)
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    (stage,) = stages(server, tmp_path)
    server.query(f"DELETE FROM {stage} WHERE number = 3", DATABASE)
    with refused(BadStorage, "has 9 rows, checkpoint 1 pre-committed 10"):
        sink.commit(committable)
    server.query(f"DROP TABLE {stage}", DATABASE)
    with refused(BadStorage, "is gone, which checkpoint 1 pre-committed"):
        sink.commit(committable)
    compare(rows_in(server, tmp_path), [])


def test_a_value_that_does_not_fit_fails_its_batch_and_a_constraint_its_commit(
    server: Server, spark: SparkSession, tmp_path: Path
) -> None:
    table = make_table(server, tmp_path, "number smallint PRIMARY KEY, writer varchar(100)")
    sink = build(server, table)
    sink.open(context_in(tmp_path))
    sink.begin_transaction(write_id(0))
    with pytest.raises(UserError, match=r"(?i)out of range"):
        sink.invoke(write_id(0), spark.sql("SELECT 100000 AS number, 'x' AS writer"))
    sink.begin_transaction(write_id(0))
    sink.invoke(write_id(0), spark.sql("SELECT 1 AS number, 'x' AS writer UNION ALL SELECT 1, 'y'"))
    committable = pre_commit(sink, 1, write_id(0))
    with refused(UserError, "(?i)the table refuses a row: .*duplicate"):
        sink.commit(committable)
    compare(rows_in(server, tmp_path), [])
    sink.abort(StaleGenerations(Generation(2)))


def test_columns_that_the_table_does_not_have_are_refused(server: Server, spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(server, tmp_path)
    sink.begin_transaction(write_id(0))
    with refused(InvalidOption, "no column elsewhere: it has .number., .writer."):
        sink.invoke(write_id(0), spark.sql("SELECT 1 AS number, 2 AS elsewhere"))


def test_a_database_that_goes_away_while_spark_writes_is_waited_for(
    postgres: Postgres, spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(postgres, tmp_path)
    closed = tmp_path / "closed"
    connections = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{DATABASE}'"

    def held_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        while not closed.exists():
            time.sleep(0.01)

    def close() -> None:
        try:  # The sink's own connection, that of Spark's driver, and that of the task that writes.
            wait_until(lambda: postgres.query(connections) == [("3",)], what="a task that writes")
            postgres.query(f"ALTER DATABASE {DATABASE} ALLOW_CONNECTIONS false")
        finally:
            closed.touch()

    rows = spark.range(0, 5_000, numPartitions=1).selectExpr("id AS number", "repeat('x', 90) AS writer")
    frame = rows.mapInArrow(held_up, "number long, writer string")  # More than Python's buffer holds back.
    sink.begin_transaction(write_id(0))
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(close)
        try:
            # Spark connects once more when all is written, and calls it an error of analysis if it cannot.
            with refused(ExternalError, r"FAILED_JDBC\.CONNECTION.* see that the database runs"):
                sink.invoke(write_id(0), frame)
        finally:
            closing.result(60)
            postgres.query(f"ALTER DATABASE {DATABASE} ALLOW_CONNECTIONS true")
    write(sink, spark, write_id(0, run=2))
    sink.commit(pre_commit(sink, 1, write_id(0, run=2)))
    compare(rows_in(postgres, tmp_path), rows_of(write_id(0, run=2)))
    sink.abort(StaleGenerations(Generation(2)))


def test_what_cannot_work_is_said_in_one_line(server: Server, spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    table = make_table(server, tmp_path)
    away = f"jdbc:{'mariadb' if isinstance(server, MariaDB) else 'postgresql'}://{HOST}:{free_port()}/{DATABASE}"
    for options, kind, words in (
        ({"url": away}, ExternalError, "see that the database runs"),
        ({"password": "not this"}, InvalidOption, "check user, password and database"),
        ({"driver": "no.such.Driver"}, InvalidOption, "Spark has no class no.such.Driver"),
        ({"table": "absent"}, InvalidOption, "absent"),
    ):
        began = time.monotonic()
        with refused(kind, words) as error:
            build(server, **{"table": table, **options}).open(context_in(tmp_path))
        assert time.monotonic() - began < OPEN_SECONDS
        assert "not this" not in str(error.value)


def test_a_table_without_transactions_is_refused(mariadb: MariaDB, spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    table = make_table(mariadb, tmp_path)
    mariadb.query(f"ALTER TABLE {table} ENGINE=MyISAM", DATABASE)
    with refused(InvalidOption, "of the engine MyISAM"):
        build(mariadb, table).open(context_in(tmp_path))


@contextmanager
def refused(kind: type[HeadgateError], words: str) -> Iterator[pytest.ExceptionInfo[HeadgateError]]:
    """What is done here is refused with one line."""
    with pytest.raises(kind, match=words) as error:
        yield error
    assert "\n" not in str(error.value)
