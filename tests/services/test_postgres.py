"""PostgreSQL as a service."""

import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from services.postgres import Postgres
from services.processes import family
from services.server import HOST, ServiceError


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


def test_it_answers_psql_and_a_client_with_a_password(postgres: Postgres) -> None:
    assert postgres.query("SELECT 1, 'a,\"b\"\n' || chr(9), NULL; SELECT 2") == [("1", 'a,"b"\n\t', ""), ("2",)]
    with psycopg.connect(postgres.dsn("postgres")) as connection:
        assert connection.execute("SELECT current_user").fetchall() == [(postgres.user,)]


def test_a_wrong_password_is_refused(postgres: Postgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.dsn("postgres", password="wrong"))  # noqa: S106 - it is


def test_a_failed_statement_is_said_in_one_line(postgres: Postgres) -> None:
    with pytest.raises(ServiceError, match=r'^psql failed: .*relation "nowhere" does not exist$'):
        postgres.query("SELECT * FROM nowhere")


def test_rows_and_prepared_transactions_survive_a_kill(postgres: Postgres) -> None:
    postgres.create_database("kill")
    postgres.create_database("kill")
    postgres.query(
        "CREATE TABLE t (n int); INSERT INTO t VALUES (1);"
        "BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'two';"
        "BEGIN; INSERT INTO t VALUES (3);",
        "kill",
    )
    assert postgres.pid is not None
    processes, port = family(postgres.pid), postgres.port
    assert len(processes) > 1
    postgres.kill()
    assert not any(process.alive for process in processes)
    postgres.start()
    assert postgres.port == port
    assert postgres.query("SELECT gid FROM pg_prepared_xacts") == [("two",)]
    postgres.query("COMMIT PREPARED 'two'", "kill")
    assert postgres.query("SELECT n FROM t ORDER BY n", "kill") == [("1",), ("2",)]


def test_a_stopped_server_leaves_no_process_and_keeps_its_data(postgres: Postgres) -> None:
    postgres.create_database("stop")
    postgres.query("CREATE TABLE t (n int); INSERT INTO t VALUES (1)", "stop")
    assert postgres.pid is not None
    processes = family(postgres.pid)
    postgres.stop()
    assert not any(process.alive for process in processes)
    postgres.start()
    assert postgres.query("SELECT n FROM t", "stop") == [("1",)]


def test_prepared_transactions_may_be_forbidden(tmp_path: Path) -> None:
    with Postgres(tmp_path, max_prepared_transactions=0) as server:
        assert server.query("SHOW max_prepared_transactions") == [("0",)]


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ServiceError, match=f"^postgres cannot start: port {port} is in use; .*$"):
            Postgres(tmp_path, port=port).start()
