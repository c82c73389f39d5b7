"""One Spark session for each module of tests."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests import sessions


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    yield from sessions.made({"spark.sql.session.timeZone": "Asia/Tokyo"})
