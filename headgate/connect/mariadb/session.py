"""A connection to the server.

One rule: what the server only warns of is an error here, and a connection that failed is closed, so that the server
rolls back whatever it had not finished.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pymysql.connections import Connection
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor
from pymysql.protocol import MysqlPacket

from headgate.connect.mariadb.address import Address
from headgate.connect.mariadb.problems import Refused

OPEN_SECONDS = 6.0
"""How long the server may take to answer while the sink is opened."""
ANSWER_SECONDS = 600.0
"""How long one statement may take. Longer, and the connection counts as lost."""
LOCK_SECONDS = 20
"""How long a statement waits for a row that another transaction has, before it is tried again."""
PACKET_BYTES = 256 * 1024

RowTuple = tuple[Any, ...]

_SETTINGS = (
    # The server's own settings may be lax: a value that does not fit must be refused, and a warning be counted.
    (
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
        "NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', max_error_count = 64, sql_notes = 1, foreign_key_checks = 1, "
        f"unique_checks = 1, innodb_lock_wait_timeout = {LOCK_SECONDS}"
    ),
    # No locks on gaps between rows, for which partitions would wait for each other.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)


if TYPE_CHECKING:
    _Connection = Connection[Cursor]  # the library itself has no parameter there
else:
    _Connection = Connection


class Session(_Connection):
    """A connection on which rows are loaded from memory.

    The client library would open any file that the server asks for. Here the server gets the rows of the statement
    under way, and no file.
    """

    _feed: Iterator[memoryview] | None = None

    def ask(self, sql: str, values: Sequence[object] | None = None) -> tuple[RowTuple, ...]:
        """Run a statement; its rows."""
        with self.cursor() as cursor:
            cursor.execute(sql, values)
            return tuple(cursor.fetchall())

    def run(self, sql: str | bytes, feed: Iterator[memoryview] | None = None) -> int:
        """Run a statement that changes rows, and that must pass without any warning; how many it changed.

        ``feed``: what a ``LOAD DATA LOCAL`` loads.
        """
        self._feed = feed
        try:
            changed = self.query(sql)
        finally:
            self._feed = None
        if vars(self)["_result"].warning_count:
            _, code, text = self.ask("SHOW WARNINGS LIMIT 1")[0]
            raise Refused(int(code), str(text))
        return int(changed)

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        packet = super()._read_packet(packet_type)  # type: ignore[no-untyped-call]
        if self._feed is None or not packet.is_load_local_packet():
            return packet
        feed, self._feed = self._feed, None
        try:
            for chunk in feed:
                for start in range(0, len(chunk), PACKET_BYTES):
                    self.write_packet(chunk[start : start + PACKET_BYTES])
        except BaseException:
            if self.open:
                self.close()  # the server waits for more, and takes whatever comes for rows
            raise
        self.write_packet(b"")  # the end
        return super()._read_packet(packet_type)  # type: ignore[no-untyped-call]


@contextmanager
def connected(address: Address, seconds: float = ANSWER_SECONDS) -> Iterator[Session]:
    """A session that is closed at the end, in order or not."""
    tls = address.ssl_ca is not None
    session = Session(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        database=address.database,
        charset="utf8mb4",
        autocommit=True,
        client_flag=CLIENT.LOCAL_FILES,
        connect_timeout=OPEN_SECONDS,
        read_timeout=seconds,
        write_timeout=seconds,
        ssl_ca=address.ssl_ca,
        ssl_cert=address.ssl_cert,
        ssl_key=address.ssl_key,
        ssl_verify_cert=True if tls else None,
        ssl_verify_identity=address.ssl_verify_identity if tls else None,
    )
    try:
        for setting in _SETTINGS:
            session.ask(setting)
        yield session
    finally:
        if session.open:
            session.close()  # it only says goodbye, and waits for nothing


def quoted(name: str) -> str:
    """A name as the server's SQL has it."""
    return "`" + name.replace("`", "``") + "`"
