"""Connections to PostgreSQL, and what its errors mean to Headgate.

One rule: no error of psycopg leaves this package. Each becomes one line that says who must act, without a password.
"""

import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from headgate.errors import ExternalError, HeadgateError, InvalidOption, UserError

PostgresConnection = psycopg.Connection[TupleRow]

CONNECT_SECONDS = 8
# What a dead network is noticed by. A server that is only slow answers the kernel, and is waited for.
_KEEPALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "30000"}
_OWNED = ("application_name", "client_encoding")
_REFUSALS = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "no password supplied",
    "permission denied",
    "not permitted to log in",
    "does not support SSL",
    "certificate",
)
"""What a server that is there says when it does not let anyone in: trying again does not help."""


@dataclass(frozen=True)
class Server:
    """Where the database is, and who comes."""

    parameters: Mapping[str, str] = field(repr=False)
    """As libpq takes them. The password is in them, so they are never shown."""

    def describe(self) -> str:
        """Database and server, for people."""
        host = self.parameters.get("host") or self.parameters.get("hostaddr") or "the default host"
        port = self.parameters.get("port")
        return f"database {self.parameters.get('dbname', 'default')} at {host}{f':{port}' if port else ''}"

    def place(self, table: str) -> str:
        """A table, for an audit: without the password."""
        given = self.parameters
        user, host, port = given.get("user", ""), given.get("host", ""), given.get("port", "")
        beside = {"host": host} if host.startswith("/") else {}
        beside |= {"port": port} if beside and port else {}
        where = "" if beside else f"{host}{f':{port}' * bool(port)}"
        query = f"?{urlencode(beside)}" if beside else ""
        at = f"{quote(user, safe='')}@" if user else ""
        database = quote(given.get("dbname", user), safe="")
        return f"postgres://{at}{where}/{database}/{quote(table, safe='.')}{query}"

    def connect(self, name: str, **settings: str | int) -> PostgresConnection:
        """A session under this name, outside of any transaction, with these settings of the server."""
        given = " ".join(f"-c {key}={value}" for key, value in settings.items())
        options = " ".join(part for part in (self.parameters.get("options", ""), given) if part)
        parameters: dict[str, Any] = {
            "connect_timeout": str(CONNECT_SECONDS),
            **_KEEPALIVE,
            **self.parameters,
            "application_name": name,
            "client_encoding": "UTF8",
            "options": options,
        }
        try:
            return psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            reason = one_line(error)
            if any(words in reason for words in _REFUSALS):
                raise InvalidOption(f"PostgreSQL refused the login, {self.describe()}: {reason}") from None
            raise ExternalError(
                f"PostgreSQL does not answer, {self.describe()}: {reason}: see that it runs and can be reached"
            ) from None


def server(dsn: str, given: Mapping[str, str | int | None], *, who: str) -> Server:
    """Check where to, as the user wrote it: a connection string or URI, and parameters that come before it."""
    if not isinstance(dsn, str):
        raise InvalidOption(f"{who}: the connection string must be a text, like 'postgresql://user@host/database'")
    named = {name: str(value) for name, value in given.items() if value is not None}
    for name in _OWNED:
        if name in named:
            raise InvalidOption(f"{who}: parameter {name!r} is set by Headgate: leave it out")
    try:
        parsed = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # Their words may have the password in them.
        raise InvalidOption(
            f"{who}: the connection string cannot be read: write 'postgresql://user:password@host:5432/database', "
            "or 'host=... dbname=...'"
        ) from None
    parameters = {name: str(value) for name, value in parsed.items() if value is not None} | named
    for name in _OWNED:
        parameters.pop(name, None)
    for name, value in named.items():
        try:
            make_conninfo("", **{name: value})
        except psycopg.ProgrammingError:
            raise InvalidOption(f"{who}: {name!r} is not a parameter of a PostgreSQL connection") from None
    return Server(parameters)


class Sessions:
    """Sessions of one process, used again. Any thread may borrow one."""

    def __init__(self, server: Server, name: str) -> None:
        """Under this name. None is open before it is needed."""
        self._server = server
        self._name = name
        self._idle: list[PostgresConnection] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._idle)

    @contextmanager
    def borrow(self) -> Iterator[PostgresConnection]:
        """A session that answers. One whose work failed is closed."""
        connection = self._awake() or self._server.connect(self._name)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        """Close those that nobody uses."""
        with self._lock:
            _close_all(self._idle)

    def _awake(self) -> PostgresConnection | None:
        """One that is open, if the server still knows it."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            with suppress(psycopg.Error):
                connection.execute("SELECT 1")
                return connection
            connection.close()


def _close_all(connections: list[PostgresConnection]) -> None:
    while connections:
        connections.pop().close()


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Say in one line what PostgreSQL answered, as an error of whoever must act.

    ``what`` begins with the name of the sink; an error of our own that does not name it gets it too.
    """
    try:
        yield
    except psycopg.Error as error:
        raise meaning(what, error) from None
    except HeadgateError as error:
        if str(error).startswith("sink "):
            raise
        raise type(error)(f"{what}: {error}") from None


def meaning(what: str, error: psycopg.Error) -> HeadgateError:
    """The error that an answer of PostgreSQL stands for. ``what`` says what could not be done."""
    text = f"{what}: {one_line(error)}"
    match (error.sqlstate or "")[:2]:
        case "22" | "23" | "P0":
            return UserError(f"{text}: change the rows or the table")
        case "42" | "0A" | "28" | "3D" | "3F" | "25":
            return InvalidOption(f"{text}: change the table, the rights of the user, or the options of the sink")
        case _:
            return ExternalError(f"{text}: see that PostgreSQL runs, can be reached, and has room")


def one_line(error: psycopg.Error) -> str:
    """What PostgreSQL says, with the detail if there is one."""
    said = [error.diag.message_primary, error.diag.message_detail]
    text = "; ".join(part for part in said if part) or str(error)
    return " ".join(text.split()).rstrip(".") or type(error).__name__
