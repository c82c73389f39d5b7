"""A Spark session that has the drivers of the databases."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from services.jars import jars


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    drivers = sorted(str(jar) for jar in jars("jdbc").glob("*.jar"))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # For Spark's process that is started now, and for those of other processes that the tests start.
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(drivers)} pyspark-shell"
    jvm = SparkContext._jvm
    if jvm is not None:  # another module has started it, without them
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        for driver in drivers:
            loader.addURL(jvm.java.io.File(driver).toURI().toURL())
    session = (
        SparkSession.Builder()
        .master("local[2]")
        .appName("jdbc-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars", ",".join(drivers))
        .getOrCreate()
    )
    yield session
    session.stop()
    del os.environ["PYSPARK_SUBMIT_ARGS"]
