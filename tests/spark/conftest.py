"""One Spark session for each module of tests that need no kill."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headgate import state
from headgate.task import session


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    made = session.build_session(
        "tests", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}, existing=None, state=state.rocksdb()
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
