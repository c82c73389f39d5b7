"""A Spark session that has the drivers of the databases."""

import os
from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from services.jars import jars
from tests import sessions


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    drivers = sorted(str(jar) for jar in jars("jdbc").glob("*.jar"))
    # For Spark's process that is started now, and for those of other processes that the tests start.
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(drivers)} pyspark-shell"
    jvm = SparkContext._jvm
    if jvm is not None:  # another module has started it, without them
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        for driver in drivers:
            loader.addURL(jvm.java.io.File(driver).toURI().toURL())
    yield from sessions.made({"spark.jars": ",".join(drivers)})
    del os.environ["PYSPARK_SUBMIT_ARGS"]
