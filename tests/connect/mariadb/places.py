"""Tables for tests, and what they hold as the real client reads it."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from headgate.connect import mariadb as connect
from headgate.sink.api import TwoPhaseSink
from headgate.testing import Row
from services.mariadb import MariaDB
from services.server import HOST

DATABASE = "headgate_test"
xa = partial(connect.sink, mode="xa")
"""The sink that loads rows before the checkpoint, into transactions of the server."""


def table_of(place: Path) -> str:
    """The name of the table for a place."""
    return "t_" + hashlib.sha256(str(place).encode()).hexdigest()[:16]


def make_table(server: MariaDB, place: Path, columns: str = "number bigint, writer varchar(100)") -> str:
    """Make the table for a place unless it is there; its name."""
    server.create_database(DATABASE)
    server.query(f"CREATE TABLE IF NOT EXISTS {table_of(place)} ({columns}) ENGINE=InnoDB", DATABASE)
    return table_of(place)


def build(make: Callable[..., TwoPhaseSink], server: MariaDB, table: str, **options: Any) -> TwoPhaseSink:
    """A sink that writes to a table of the server."""
    given = {"host": HOST, "port": server.port, "user": server.user, "password": server.password, "database": DATABASE}
    return make(**given | options, table=table)


def rows_in(server: MariaDB, place: Path) -> list[Row]:
    """What the table for a place has."""
    found = server.query(f"SELECT number, writer FROM {table_of(place)}", DATABASE)  # noqa: S608 - our own name
    return [(int(number), writer) for number, writer in found]
