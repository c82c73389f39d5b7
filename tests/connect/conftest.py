"""One Spark session for each module of tests, and one of each server for all, started when the first test asks for it.

Each worker of pytest has its own. Tests share a server: they choose names of their own for topics, tables and indexes.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from services.kafka import Kafka
from services.mariadb import MariaDB
from services.postgres import Postgres
from tests import sessions

if TYPE_CHECKING:
    from services.hbase import HBase
    from services.opensearch import OpenSearch


# Not for the whole run: other folders stop the session of the process when a module ends.
@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    yield from sessions.made()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    with MariaDB(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


@pytest.fixture(scope="session")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[OpenSearch]":
    from services.opensearch import OpenSearch  # noqa: PLC0415

    with OpenSearch(tmp_path_factory.mktemp("opensearch")) as server:
        yield server


@pytest.fixture(scope="session")
def hbase(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[HBase]":
    from services.hbase import HBase  # noqa: PLC0415

    with HBase(tmp_path_factory.mktemp("hbase")) as server:
        yield server
