"""Databases for tests, and what their tables hold as their own clients read it."""

import hashlib
from pathlib import Path
from typing import Any

from headgate.connect import jdbc
from headgate.connect.jdbc.names import JdbcOwner
from headgate.sink.api import TwoPhaseSink
from headgate.testing import Row, context_in
from services.mariadb import MariaDB
from services.postgres import Postgres
from services.server import HOST

DATABASE = "headgate_jdbc_test"
Server = MariaDB | Postgres


def table_of(place: Path) -> str:
    """The name of the table for a place."""
    return "t_" + hashlib.sha256(str(place).encode()).hexdigest()[:16]


def make_table(server: Server, place: Path, columns: str = "number bigint, writer varchar(100)") -> str:
    """Make the table for a place unless it is there; its name."""
    server.create_database(DATABASE)
    if table_of(place) not in tables(server):
        server.query(f"CREATE TABLE {table_of(place)} ({columns})", DATABASE)
    return table_of(place)


def stages(server: Server, place: Path) -> list[str]:
    """The tables in which rows for a place wait."""
    return [name for name in tables(server) if name.startswith(JdbcOwner.of(context_in(place)).label)]


def tables(server: Server) -> list[str]:
    """The tables of the database."""
    schema = "DATABASE()" if isinstance(server, MariaDB) else "'public'"
    sql = f"SELECT table_name FROM information_schema.tables WHERE table_schema = {schema}"  # noqa: S608 - our own
    return [name for (name,) in server.query(sql, DATABASE)]


def build(server: Server, table: str, **options: Any) -> TwoPhaseSink:
    """A sink that writes to a table of the server."""
    kind = "mariadb" if isinstance(server, MariaDB) else "postgresql"
    given = {"url": f"jdbc:{kind}://{HOST}:{server.port}/{DATABASE}", "user": server.user, "password": server.password}
    return jdbc.sink(**given | options, table=table)


def rows_in(server: Server, place: Path) -> list[Row]:
    """What the table for a place has."""
    found = server.query(f"SELECT number, writer FROM {table_of(place)}", DATABASE)  # noqa: S608 - our own name
    return [(int(number), writer) for number, writer in found]
