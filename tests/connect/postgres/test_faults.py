"""Whatever is killed, cut or left behind between prepare and commit, every row is there once. Read back by psql."""

import logging
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from headgate.connect import postgres as connector
from headgate.connect.postgres.names import PostgresOwner
from headgate.core.ids import Batch, Generation, Run
from headgate.errors import BadStorage, ExternalError, UserError
from headgate.sink.api import FailedAttempts, StaleGenerations, TwoPhaseSink, WriteId
from headgate.sink.partitions import Place
from headgate.testing import compare, context_in, pre_commit, rows_of, write, write_id
from services.server import wait_until
from tests.connect.postgres.databases import TABLE, Database
from tests.connect.postgres.proxy import proxy


def test_what_was_prepared_survives_a_killed_server(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    database.make_table()
    sink = database.sink()
    sink.open(context_in(tmp_path))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    database.server.kill()
    try:
        with pytest.raises(ExternalError, match="PostgreSQL does not answer"):
            sink.commit(committable)
    finally:
        database.server.start()
    sink.commit(committable)
    compare(database.rows(), rows_of(write_id(0)))
    write(sink, spark, write_id(1))
    sink.commit(pre_commit(sink, 2, write_id(1)))
    sink.commit(committable)
    compare(database.rows(), rows_of(write_id(0), write_id(1)))
    sink.close()


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("word", [b"COMMIT PREPARED", b"DELETE FROM"])
def test_a_commit_whose_answer_is_lost_is_exact_when_repeated(
    word: bytes, passes: bool, spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    database.make_table()
    with proxy(database.server.port) as between:
        sink = connector.sink(database.dsn, table=TABLE, port=between.port)
        sink.open(context_in(tmp_path))
        write(sink, spark, write_id(0))
        committable = pre_commit(sink, 1, write_id(0))
        between.cut_at(word, passes=passes)
        with pytest.raises(ExternalError, match="cannot commit checkpoint 1"):
            sink.commit(committable)
        assert between.cut.is_set()
        sink.commit(committable)
        compare(database.rows(), rows_of(write_id(0)))
        sink.commit(committable)
        compare(database.rows(), rows_of(write_id(0)))
        sink.close()
    assert database.query("SELECT gid, checkpoint FROM headgate_commits") == [("", "1")]
    assert database.prepared() == []


@pytest.mark.parametrize("word", [b"COMMIT PREPARED", b"INSERT INTO", b"DELETE FROM"])
def test_a_process_that_is_frozen_in_its_commit_does_not_hold_up_its_successor(
    word: bytes, spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    database.make_table()
    with proxy(database.server.port) as between:
        frozen = connector.sink(database.dsn, table=TABLE, port=between.port)
        frozen.open(context_in(tmp_path))
        write(frozen, spark, write_id(0))
        committable = pre_commit(frozen, 1, write_id(0))
        between.hold_at(word)
        sleeping = threading.Thread(target=frozen.commit, args=(committable,))
        sleeping.start()
        assert between.held.wait(60)
        database.query(f"ALTER DATABASE {database.name} SET lock_timeout = '20s'")
        successor = database.sink()
        successor.open(context_in(tmp_path))
        successor.recover_and_commit(committable)
        compare(database.rows(), rows_of(write_id(0)))
        between.go_on()
        sleeping.join()
        compare(database.rows(), rows_of(write_id(0)))
        assert database.query("SELECT gid, checkpoint FROM headgate_commits") == [("", "1")]
        frozen.close()
        successor.close()


def test_what_somebody_rolled_back_is_named_and_nothing_is_passed_over(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    database.make_table()
    sink = database.sink()
    sink.open(context_in(tmp_path))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    lost = database.prepared()[0]
    database.query(f"ROLLBACK PREPARED '{lost}'")
    with pytest.raises(BadStorage, match=f"{lost} is gone, which checkpoint 1 pre-committed and nobody has committed"):
        sink.commit(committable)
    compare(database.rows(), [])
    with pytest.raises(BadStorage, match=f"{lost} is gone before its checkpoint"):
        pre_commit(sink, 2, write_id(0))
    sink.close()


def test_only_what_is_its_own_is_ever_thrown_away(
    spark: SparkSession, database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database.make_table()
    context = context_in(tmp_path)
    owner = PostgresOwner.of(context)
    part = (write_id(0), Place(0, 0))
    before = PostgresOwner(context.job, context.sink, "an earlier incarnation").name(*part)
    foreign = [
        "somebody's",
        f"{owner.label}:rubbish",
        f"{owner.name(*part)}:more",
        PostgresOwner("another job", context.sink, context.incarnation).name(*part),
        PostgresOwner(context.job, owner.sink, f"{context.incarnation}x").name(*part),
        before,
    ]
    with closing(psycopg.connect(database.dsn, autocommit=True)) as connection:
        for gid in (*foreign, owner.name(*part)):
            _prepare(connection, gid)
    sink = database.sink()
    with caplog.at_level(logging.WARNING, logger="headgate"):
        sink.open(context)
    assert "left 2 prepared transactions, the oldest since" in caplog.text
    sink.abort(StaleGenerations(Generation(99)))
    write(sink, spark, write_id(0))
    sink.commit(pre_commit(sink, 1, write_id(0)))
    sink.abort(FailedAttempts(Generation(1), Run(99)))
    assert sorted(database.prepared()) == sorted(foreign)
    sink.close()


def test_a_task_that_nobody_waits_for_is_ended_and_never_committed(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    database.make_table()
    sink = database.sink()
    context = context_in(tmp_path)
    owner = PostgresOwner.of(context)
    sink.open(context)
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    dead = write_id(1)
    with closing(psycopg.connect(database.dsn, application_name=owner.session_of(dead), autocommit=True)) as zombie:
        zombie.execute("BEGIN")
        zombie.execute("INSERT INTO numbers VALUES (77, 'zombie')")
        sink.abort(FailedAttempts(Generation(1), Run(2), {Batch(0): Run(1)}))
        with pytest.raises(psycopg.OperationalError):
            zombie.execute("PREPARE TRANSACTION 'late'")
    with closing(psycopg.connect(database.dsn, autocommit=True)) as later:
        _prepare(later, owner.name(write_id(0), Place(7, 99)))
        _prepare(later, owner.name(write_id(1), Place(7, 99)))
    sink.commit(committable)
    compare(database.rows(), rows_of(write_id(0)))
    assert [what.batch for what in map(owner.whose, database.prepared()) if what] == [1]
    write(sink, spark, write_id(1, run=2))
    assert {what.run for what in map(owner.whose, database.prepared()) if what} == {2}
    sink.commit(pre_commit(sink, 2, write_id(1, run=2)))
    compare(database.rows(), rows_of(write_id(0), write_id(1, run=2)))
    sink.close()


def test_what_an_attempt_of_spark_left_is_rolled_back_by_the_one_that_counts(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    database.make_table(key=True)
    sink = database.sink(wait="20s")
    context = context_in(tmp_path)
    owner = PostgresOwner.of(context)
    sink.open(context)
    sink.begin_transaction(write_id(0))
    with closing(psycopg.connect(database.dsn, autocommit=True)) as earlier:
        # The same partition with the same keys, and a partition that nobody answers for.
        _prepare(earlier, owner.name(write_id(0), Place(0, 999_998)), "SELECT 0, 'earlier'")
        _prepare(earlier, owner.name(write_id(0), Place(77, 999_999)), "SELECT 99, 'earlier'")
    frame = spark.createDataFrame(rows_of(write_id(0)), "number long, writer string").repartition(1)
    sink.invoke(write_id(0), frame)
    sink.commit(pre_commit(sink, 1, write_id(0)))
    compare(database.rows(), rows_of(write_id(0)))
    assert database.prepared() == []
    sink.close()


def test_a_replay_into_a_table_with_keys_waits_for_nobody_who_is_dead(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    database.make_table(key=True)
    before = database.sink(wait="60s")
    before.open(context_in(tmp_path))
    write(before, spark, write_id(0, run=1))
    write(before, spark, write_id(0, run=2))
    sink = database.sink(wait="60s")
    sink.open(context_in(tmp_path))
    again = write_id(0, generation=2)
    failed: list[Exception] = []
    writing = threading.Thread(target=_write, args=(sink, spark, again, failed))
    writing.start()
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    wait_until(lambda: bool(database.query(waiting)), 60, "the replay to meet the locks of the generation before")
    sink.abort(StaleGenerations(Generation(2)))
    writing.join(60)
    assert not failed
    sink.commit(pre_commit(sink, 1, again, generation=2))
    compare(database.rows(), rows_of(again))
    with pytest.raises(UserError, match=r"cannot write batch 0 to table public\.numbers: duplicate key value"):
        write(sink, spark, write_id(0, generation=3))
    for each in (before, sink):
        each.close()


def _write(sink: TwoPhaseSink, spark: SparkSession, what: WriteId, failed: list[Exception]) -> None:
    try:
        write(sink, spark, what)
    except Exception as error:  # noqa: BLE001 - the test shows it
        failed.append(error)


def _prepare(connection: psycopg.Connection[tuple[object, ...]], gid: str, rows: str = "SELECT 77, 'foreign'") -> None:
    connection.execute("BEGIN")
    connection.execute(f"INSERT INTO {TABLE} {rows}")
    connection.execute(f"""PREPARE TRANSACTION '{gid.replace("'", "''")}'""")
