"""MariaDB as a service."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from services.mariadb import MariaDB
from services.processes import family
from services.server import HOST, ServiceError


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    with MariaDB(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


def test_it_answers_its_client_and_pymysql_with_a_password(mariadb: MariaDB) -> None:
    text = r"CONCAT('a', CHAR(92), 't', CHAR(9), CHAR(10), 'ü', CHAR(92), CHAR(92))"
    assert mariadb.query(f"SELECT 1, {text}, NULL, ''; SELECT 2") == [("1", "a\\t\t\nü\\\\", "NULL", ""), ("2",)]
    connection = pymysql.connect(host=HOST, port=mariadb.port, user=mariadb.user, password=mariadb.password)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@innodb_flush_log_at_trx_commit")
        assert cursor.fetchall() == ((1,),)


def test_a_wrong_password_is_refused(mariadb: MariaDB) -> None:
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        pymysql.connect(host=HOST, port=mariadb.port, user=mariadb.user, password="wrong")  # noqa: S106 - it is


def test_a_failed_statement_is_said_in_one_line(mariadb: MariaDB) -> None:
    with pytest.raises(ServiceError, match=r"^mariadb failed: ERROR .*nowhere.* doesn't exist$"):
        mariadb.query("SELECT * FROM mysql.nowhere")


def test_rows_and_prepared_transactions_survive_a_kill(mariadb: MariaDB) -> None:
    mariadb.create_database("killed")
    mariadb.create_database("killed")
    mariadb.query(
        "CREATE TABLE t (n int); INSERT INTO t VALUES (1);"
        "XA START 'two'; INSERT INTO t VALUES (2); XA END 'two'; XA PREPARE 'two';",
        "killed",
    )
    assert mariadb.pid is not None
    processes, port = family(mariadb.pid), mariadb.port
    mariadb.kill()
    assert not any(process.alive for process in processes)
    mariadb.start()
    assert mariadb.port == port
    assert [row[-1] for row in mariadb.query("XA RECOVER")] == ["two"]
    mariadb.query("XA COMMIT 'two'")
    assert mariadb.query("SELECT n FROM t ORDER BY n", "killed") == [("1",), ("2",)]


def test_a_stopped_server_leaves_no_process_and_keeps_its_data(mariadb: MariaDB) -> None:
    mariadb.create_database("stopped")
    mariadb.query("CREATE TABLE t (n int); INSERT INTO t VALUES (1)", "stopped")
    assert mariadb.pid is not None
    processes = family(mariadb.pid)
    mariadb.stop()
    assert not any(process.alive for process in processes)
    mariadb.start()
    assert mariadb.query("SELECT n FROM t", "stopped") == [("1",)]


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ServiceError, match=f"^mariadb cannot start: port {port} is in use; .*$"):
            MariaDB(tmp_path, port=port).start()
