"""A process that writes for as long as it lives: ``python -m tests.store.writer URI [spark]``.

Value n is its number over and over, so that a part of it, or a mixture of two, is told from a whole one.
"""

import itertools
import sys

from pyspark.sql import SparkSession

from headgate.store.api import Store, open_store
from headgate.store.hadoop import HadoopStore

REPEATS = 2000
SPARK_CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # It starts faster, and there is nothing here to be compiled well.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    # What is not there is said at once.
    "spark.hadoop.ipc.client.connect.max.retries": "0",
}


def value(number: int) -> bytes:
    return f"{number:010d}".encode() * REPEATS


def number_of(data: bytes) -> int:
    """Which value this is. Fails if it is none."""
    number = int(data[:10])
    assert data == value(number), f"{len(data)} bytes, and not those of value {number}"
    return number


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("headgate-store")
    for key, setting in SPARK_CONF.items():
        builder = builder.config(key, setting)
    return builder.getOrCreate()


def write(store: Store, first: int) -> None:
    for number in itertools.count(first):
        store.put("one", value(number))
        store.create_if_absent(f"made/{number}", value(number))


if __name__ == "__main__":
    place, begin, *through_spark = sys.argv[1:]
    write(HadoopStore(session(), place) if through_spark else open_store(place), int(begin))
