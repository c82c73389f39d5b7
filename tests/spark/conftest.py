"""One Spark session for each module of tests that need no kill."""

from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headgate import state_backend
from headgate.task import session


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    end_jvm()  # A JVM outlives its sessions: another module's has not got our jar.
    made = session.build_session(
        "tests",
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "2"},
        existing=None,
        state=state_backend.rocksdb(),
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
    end_jvm()


def end_jvm() -> None:
    """End the JVM of earlier sessions of this process, if there is one."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(300)
    SparkContext._gateway = None
    SparkContext._jvm = None
