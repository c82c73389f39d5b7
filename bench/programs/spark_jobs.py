"""Queries of plain Structured Streaming, in a process that keeps its session from one round to the next.

Numbers come from the source of Headgate's jar, since Spark has none that counts and ends; nothing else is Headgate's.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import headgate
from bench.programs import orders
from bench.programs.serving import Request, serve
from headgate.connect.kafka.reading.source import CONNECTOR
from headgate.task.packages import resolve

JAR = Path(headgate.__file__).parent / "task" / "jars" / "headgate-local-fs.jar"
COUNTING = "headgate.source.Counting"


@cache
def _session(conf: tuple[tuple[str, str], ...], jars: tuple[str, ...] = ()) -> SparkSession:
    builder = SparkSession.builder.master("local[*]").appName("bench").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraClassPath", ":".join([str(JAR), *jars]))
    for name, value in conf:
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def jars_of(package: str) -> tuple[str, ...]:
    """The connector that Headgate takes, for both alike."""
    return tuple(str(path) for path in resolve([package]))


def counted(spark: SparkSession, rows: int, rows_per_batch: int, step_ms: int) -> DataFrame:
    """Numbers to ``rows``, and one more whose time is far beyond."""
    options = {"start_rows": rows_per_batch, "partitions": 2, "end": rows + 1}
    far = 10 * 365 * 86_400_000 // step_ms
    numbers = spark.readStream.format(COUNTING).options(**{k: str(v) for k, v in options.items()}).load()
    return numbers.selectExpr(f"if(n < {rows}, n, n + {far}) as n")


def etl(request: Request) -> Mapping[str, Any]:
    """Orders to sums of windows, to files."""
    spark = _session(tuple(sorted(request["conf"].items())))
    frame = orders.summed(counted(spark, request["rows"], request["rows_per_batch"], orders.STEP_MS))
    query = (
        frame.writeStream.format("json")
        .option("path", request["out"])
        .option("checkpointLocation", f"{request['where']}/checkpoint")
        .start()
    )
    query.processAllAvailable()
    query.stop()
    return {}


def kafka(request: Request) -> Mapping[str, Any]:
    """Orders from Kafka to sums of windows, to Kafka, at least once. It counts until all that is there is through."""
    spark = _session(tuple(sorted(request["conf"].items())), jars=jars_of(CONNECTOR))
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", request["servers"])
        .option("subscribe", request["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", request["rows_per_batch"])
        .options(**{f"kafka.{name}": value for name, value in request.get("client", {}).items()})
        .load()
    )
    query = (
        orders.to_json(rows)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", request["servers"])
        .option("topic", request["out"])
        .option("checkpointLocation", f"{request['where']}/checkpoint")
        .start()
    )
    query.processAllAvailable()
    query.stop()
    return {}


if __name__ == "__main__":
    serve({"etl": etl, "kafka": kafka})
