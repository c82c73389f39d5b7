"""Servers that are killed, appliers that meet, and what is refused when a sink is opened."""

# ruff: noqa: S608 - names of our own

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pymysql
import pytest
from pyspark.sql import SparkSession

from headgate.connect import mariadb as connect
from headgate.connect.mariadb import applied
from headgate.connect.mariadb.session import connected
from headgate.connect.mariadb.staged import MariaDBSink
from headgate.connect.mariadb.table import APPLIED
from headgate.core.ids import Generation
from headgate.errors import BadStorage, ExternalError, HeadgateError, InvalidOption, UserError
from headgate.sink.api import SinkContext, StaleGenerations, TwoPhaseSink
from headgate.sink.owner import Owner
from headgate.testing import SINK, compare, context_in, pre_commit, rows_of, write, write_id
from services.mariadb import MariaDB
from services.server import HOST, free_port, wait_until
from tests.connect.mariadb.places import DATABASE, build, make_table, rows_in, xa

Make = Callable[..., TwoPhaseSink]
both = pytest.mark.parametrize("make", [connect.sink, xa])
OPEN_SECONDS = 30.0  # ten, and the rest for a busy machine


@contextmanager
def client(server: MariaDB) -> Iterator["pymysql.Connection[pymysql.cursors.Cursor]"]:
    """A connection of a test's own."""
    connection = pymysql.connect(
        host=HOST, port=server.port, user=server.user, password=server.password, database=DATABASE
    )
    try:
        yield connection
    finally:
        if connection.open:
            connection.close()


def opened(make: Make, server: MariaDB, place: Path) -> TwoPhaseSink:
    sink = build(make, server, make_table(server, place))
    sink.open(context_in(place))
    return sink


def test_a_process_that_is_frozen_in_its_commit_does_not_hold_up_its_successor(
    mariadb: MariaDB, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applied, "IDLE_SECONDS", 1)
    sink = cast("MariaDBSink", opened(connect.sink, mariadb, tmp_path))
    write(sink, spark, write_id(0))
    sink.commit(pre_commit(sink, 1, write_id(0)))
    write(sink, spark, write_id(1))
    committable = pre_commit(sink, 2, write_id(1))
    owners = [owner for (owner,) in mariadb.query(f"SELECT owner FROM {APPLIED}", DATABASE)]
    with ExitStack() as frozen:
        sessions = [frozen.enter_context(connected(sink._address)) for _ in owners]
        for session, owner in zip(sessions, owners, strict=True):
            applied.lock(session, owner)
        sink.recover_and_commit(committable)
        compare(rows_in(mariadb, tmp_path), rows_of(write_id(0), write_id(1)))
        for session, owner in zip(sessions, owners, strict=True):
            with pytest.raises(pymysql.Error):
                applied.note(session, owner, (1, 2))


@both
def test_a_server_that_is_killed_between_pre_commit_and_commit_has_lost_nothing(
    make: Make, mariadb: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(make, mariadb, tmp_path)
    write(sink, spark, write_id(0), partitions=3)
    committable = pre_commit(sink, 1, write_id(0))
    mariadb.kill()
    try:
        with pytest.raises(
            ExternalError, match=r"cannot (apply|commit) checkpoint 1.*see that the server runs"
        ) as away:
            sink.commit(committable)
    finally:
        mariadb.start()
    assert "\n" not in str(away.value)
    compare(rows_in(mariadb, tmp_path), [])
    sink.commit(committable)
    mariadb.kill()
    mariadb.start()
    sink.commit(committable)
    compare(rows_in(mariadb, tmp_path), rows_of(write_id(0)))


@both
def test_a_server_that_is_killed_while_a_commit_waits_in_it_has_applied_all_or_nothing(
    make: Make, mariadb: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(make, mariadb, tmp_path)
    write(sink, spark, write_id(0))
    write(sink, spark, write_id(1))
    sink.commit(pre_commit(sink, 1, write_id(0)))
    committable = pre_commit(sink, 2, write_id(1))
    errors: list[HeadgateError] = []

    def commit() -> None:
        try:
            sink.commit(committable)
        except HeadgateError as error:
            errors.append(error)

    with client(mariadb) as other, other.cursor() as cursor:
        # Nobody gets past the notes of what was applied while these are locked here.
        cursor.execute("SELECT * FROM headgate_applied FOR UPDATE")
        thread = threading.Thread(target=commit)
        thread.start()
        thread.join(1.0)
        assert thread.is_alive(), "the commit did not wait for the lock"
        mariadb.kill()
        thread.join()
    mariadb.start()
    assert [type(error) for error in errors] == [ExternalError]
    sink.commit(committable)
    compare(rows_in(mariadb, tmp_path), rows_of(write_id(0), write_id(1)))


@both
def test_two_that_commit_the_same_at_once_commit_it_once(
    make: Make, mariadb: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    sinks = [opened(make, mariadb, tmp_path) for _ in range(4)]
    done = []
    for batch in range(3):
        write(sinks[0], spark, write_id(batch), partitions=4)
        committable = pre_commit(sinks[0], batch + 1, write_id(batch))
        errors: list[BaseException] = []
        ready = threading.Barrier(len(sinks))

        def commit(
            sink: TwoPhaseSink,
            committable: str = committable,
            ready: threading.Barrier = ready,
            errors: list[BaseException] = errors,
        ) -> None:
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
        done += rows_of(write_id(batch))
        compare(rows_in(mariadb, tmp_path), done)


@both
def test_a_row_that_another_has_locked_is_waited_for(
    make: Make, mariadb: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(make, mariadb, tmp_path)
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    sink.commit(committable)
    write(sink, spark, write_id(1))
    committable = pre_commit(sink, 2, write_id(1))
    with client(mariadb) as other, other.cursor() as cursor:
        cursor.execute("SELECT * FROM headgate_applied FOR UPDATE")
        thread = threading.Thread(target=sink.commit, args=(committable,))
        thread.start()
        thread.join(1.0)
        assert thread.is_alive(), "the commit did not wait for the lock"
        other.rollback()
        thread.join()
    compare(rows_in(mariadb, tmp_path), rows_of(write_id(0), write_id(1)))


def test_a_prepared_transaction_that_somebody_rolled_back_is_never_passed_over(
    mariadb: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(xa, mariadb, tmp_path)
    write(sink, spark, write_id(0), partitions=1)
    committable = pre_commit(sink, 1, write_id(0))
    (name,) = prepared(mariadb, context_in(tmp_path))
    mariadb.query(f"XA ROLLBACK {name}")
    with pytest.raises(
        BadStorage, match=r"transaction 'hg-.* is gone, which checkpoint 1 pre-committed and nobody has committed"
    ):
        sink.commit(committable)


def test_transactions_of_others_are_left_alone(mariadb: MariaDB, spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(xa, mariadb, tmp_path)
    with client(mariadb) as other, other.cursor() as cursor:
        table = make_table(mariadb, tmp_path)
        for order in ("START", "END", "PREPARE"):
            cursor.execute(f"XA {order} X'FF00C3', X'80'")
            if order == "START":
                cursor.execute(f"INSERT INTO {table} VALUES (-1, 'another')")
    elsewhere = build(xa, mariadb, make_table(mariadb, tmp_path))
    context = context_in(tmp_path)
    another = SinkContext(context.job, SINK, incarnation=f"not {context.incarnation}", staging=context.staging)
    elsewhere.open(another)
    write(elsewhere, spark, write_id(0), partitions=1)
    write(sink, spark, write_id(0), partitions=1)
    sink.abort(StaleGenerations(Generation(2)))
    assert prepared(mariadb, context) == []
    assert len(prepared(mariadb, another)) == 1
    elsewhere.abort(StaleGenerations(Generation(2)))
    assert prepared(mariadb, another) == []
    mariadb.query("XA ROLLBACK X'ff00c3',X'80'")  # it is still there
    compare(rows_in(mariadb, tmp_path), [])


def test_what_was_committed_leaves_no_transaction_and_no_note_behind(
    mariadb: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(xa, mariadb, tmp_path)
    write(sink, spark, write_id(0))
    sink.commit(pre_commit(sink, 1, write_id(0)))
    assert prepared(mariadb, context_in(tmp_path)) == []
    label = Owner.of(context_in(tmp_path)).label
    assert mariadb.query(f"SELECT * FROM headgate_commits WHERE owner LIKE '{label}%'", DATABASE) == []


@both
def test_a_server_that_is_away_is_said_in_one_line(make: Make, mariadb: MariaDB, tmp_path: Path) -> None:
    with refused(ExternalError, "127.0.0.1.*see that the server runs"):
        build(make, mariadb, "any", port=free_port()).open(context_in(tmp_path))


@both
def test_a_server_that_does_not_answer_is_given_up(make: Make, mariadb: MariaDB, tmp_path: Path) -> None:
    sink = build(make, mariadb, make_table(mariadb, tmp_path))
    mariadb.pause()
    try:
        with refused(ExternalError, "timed out"):
            sink.open(context_in(tmp_path))
    finally:
        mariadb.resume()


@both
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"password": "not this"}, "Access denied.*check user and password"),
        ({"database": "nowhere"}, "nowhere"),
        ({"user": "reader", "password": "r"}, "(?i)denied.*grant it"),
    ],
)
def test_what_the_user_may_not_is_said_in_one_line(
    make: Make, options: dict[str, str], words: str, mariadb: MariaDB, tmp_path: Path
) -> None:
    table = make_table(mariadb, tmp_path)
    mariadb.query(f"CREATE OR REPLACE USER reader IDENTIFIED BY 'r'; GRANT SELECT ON {DATABASE}.* TO reader")
    with refused(InvalidOption, words) as error:
        build(make, mariadb, table, **options).open(context_in(tmp_path))
    assert mariadb.password not in str(error.value)
    assert "not this" not in str(error.value)


@both
def test_tables_that_cannot_take_rows_exactly_once_are_refused(make: Make, mariadb: MariaDB, tmp_path: Path) -> None:
    table = make_table(mariadb, tmp_path)
    mariadb.query(f"CREATE TABLE {table}_isam (number bigint) ENGINE=MyISAM", DATABASE)
    mariadb.query(f"CREATE VIEW {table}_view AS SELECT * FROM {table}", DATABASE)
    for name, words in (("absent", "no table absent"), (f"{table}_isam", "MyISAM"), (f"{table}_view", "a view")):
        with refused(UserError, words):
            build(make, mariadb, name).open(context_in(tmp_path))


@both
def test_a_server_that_may_forget_is_refused(make: Make, mariadb: MariaDB, tmp_path: Path) -> None:
    table = make_table(mariadb, tmp_path)
    mariadb.query("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
    try:
        with refused(InvalidOption, "may forget what it has committed"):
            build(make, mariadb, table).open(context_in(tmp_path))
    finally:
        mariadb.query("SET GLOBAL innodb_flush_log_at_trx_commit = 1")


def prepared(server: MariaDB, context: SinkContext) -> list[str]:
    """The names of an owner's prepared transactions, once no connection has them any more."""
    wait_until(lambda: not server.query("SELECT 1 FROM information_schema.PROCESSLIST WHERE DB IS NOT NULL"))
    found = [row[3] for row in server.query("XA RECOVER FORMAT='SQL'")]
    return [name for name in found if Owner.of(context).label in name]


@contextmanager
def refused(kind: type[HeadgateError], words: str) -> Iterator[pytest.ExceptionInfo[HeadgateError]]:
    """What is done here is refused with one line, in time."""
    began = time.monotonic()
    with pytest.raises(kind, match=words) as error:
        yield error
    assert time.monotonic() - began < OPEN_SECONDS
    assert "\n" not in str(error.value)
