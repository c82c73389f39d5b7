"""A database for each test, which goes with all that the test left prepared."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from services.postgres import Postgres
from tests.connect.postgres.databases import Database


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    made = Database(postgres, f"test_{uuid4().hex[:12]}")
    made.create()
    yield made
    made.drop()
