"""Spark sessions of tests: the product's own, small and quiet.

One rule: all sessions of a process have the same class path, so that they share one JVM, which starts from the archive
of classes (``tests.jvm``) and has our jar whoever started it.
"""

from collections.abc import Iterator

from pyspark.sql import SparkSession

from headgate import state_backend
from headgate.task import session


def made(conf: dict[str, str] | None = None, *packages: str) -> Iterator[SparkSession]:
    """A session for a fixture. The JVM outlives it."""
    spark = session.build_session(
        "tests",
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "2", **(conf or {})},
        state=state_backend.rocksdb(),
        packages=packages,
    )
    spark.sparkContext.setLogLevel("OFF")
    with session._quick_python(spark.sparkContext):  # As in a session that a job has for itself.
        yield spark
    spark.stop()
