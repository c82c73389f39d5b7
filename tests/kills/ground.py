"""The servers of a campaign, and where they are.

One rule: a server is started when it is first asked for, and keeps its data and port whatever is done to it.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from services.hbase import HBase
from services.kafka import Kafka
from services.mariadb import MariaDB
from services.opensearch import OpenSearch
from services.postgres import Postgres
from services.server import HOST, Server
from tests.connect.kafka.reading import Read, read

S = TypeVar("S", bound=Server)
DATABASE = "kills"
JDBC_DRIVER = "org.postgresql:postgresql:42.7.7"


class Ground:
    """Where a campaign takes place."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._stack = ExitStack()
        self.started: dict[str, Server] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @cached_property
    def kafka(self) -> Kafka:
        return self._start("kafka", Kafka(self.directory / "kafka"))

    @cached_property
    def postgres(self) -> Postgres:
        server = self._start("postgres", Postgres(self.directory / "postgres", max_prepared_transactions=200))
        server.create_database(DATABASE)
        return server

    @cached_property
    def mariadb(self) -> MariaDB:
        server = self._start("mariadb", MariaDB(self.directory / "mariadb"))
        server.create_database(DATABASE)
        return server

    @cached_property
    def opensearch(self) -> OpenSearch:
        return self._start("opensearch", OpenSearch(self.directory / "opensearch"))

    @cached_property
    def hbase(self) -> HBase:
        return self._start("hbase", HBase(self.directory / "hbase"))

    def read_topic(self, topic: str) -> Iterator[Read]:
        yield from read(self.kafka, topic)

    def settings(self) -> dict[str, Any]:
        """What a job needs to know of the servers that run, as plain data."""
        said: dict[str, Any] = {"directory": str(self.directory)}
        if "kafka" in self.started:
            said["kafka"] = self.kafka.servers
        if "postgres" in self.started:
            said["postgres"] = self.postgres.dsn(DATABASE)
            said["jdbc"] = {
                "url": f"jdbc:postgresql://{HOST}:{self.postgres.port}/{DATABASE}",
                "user": self.postgres.user,
                "password": self.postgres.password,
                "packages": [JDBC_DRIVER],
            }
        if "mariadb" in self.started:
            said["mariadb"] = {
                "host": HOST,
                "port": self.mariadb.port,
                "user": self.mariadb.user,
                "password": self.mariadb.password,
                "database": DATABASE,
            }
        if "opensearch" in self.started:
            said["opensearch"] = self.opensearch.url
        if "hbase" in self.started:
            said["hbase"] = self.hbase.url
        return said

    def _start(self, name: str, server: S) -> S:
        self.started[name] = self._stack.enter_context(server)
        return server
