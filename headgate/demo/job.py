"""A job as a user would write it: readings of users, summed up in windows, and watched for anomalies.

Run by ``headgate demo``, which sets the two variables below.
"""

import os

from pyspark.sql import DataFrame, functions as F  # noqa: N812 - Spark's custom

import headgate as hg

DIRECTORY = os.environ["HEADGATE_DEMO_DIRECTORY"]
ROWS = int(os.environ["HEADGATE_DEMO_ROWS"])


def parse(rows: DataFrame) -> DataFrame:
    """Name things, and mark what is out of the ordinary."""
    return rows.select(
        "n",
        F.col("key").alias("user"),
        "event_time",
        "value",
        (F.col("value") > 95).alias("anomalous"),
    )


def summarise(rows: DataFrame) -> DataFrame:
    """Ten minutes of one user. The numbers of the rows go along, so that each can be counted at the end."""
    return (
        rows.withWatermark("event_time", "30 seconds")
        .groupBy("user", F.window("event_time", "10 minutes"))
        .agg(
            F.count("*").alias("readings"),
            F.sum("value").alias("total"),
            F.collect_list("n").alias("numbers"),
            F.collect_list(F.when(F.col("anomalous"), F.col("n"))).alias("anomalies"),
        )
        .select("user", F.col("window.start").alias("begins"), "readings", "total", "numbers", "anomalies")
    )


def only_anomalies(rows: DataFrame) -> DataFrame:
    """What somebody should look at."""
    return rows.where("anomalous").select("n", "user", "event_time", "value")


job = hg.Job(
    "demo",
    checkpoint=hg.Checkpointing(interval="1s", storage=f"{DIRECTORY}/storage", tolerable_failed_checkpoints=3),
    restart=hg.restart.exponential_delay(initial_backoff="500ms", max_backoff="10s"),
    state_backend=hg.state_backend.rocksdb(),
    spark_conf={"spark.sql.shuffle.partitions": "2"},
)
readings = job.source(
    "readings",
    hg.generator.source(rows=ROWS, rows_per_batch=ROWS // 40, keys=50, out_of_order="20s", event_step_ms=100),
)
parsed = readings.transform("parse", parse)
parsed.transform("summaries", summarise).sink("windows", hg.files.sink(f"{DIRECTORY}/windows"))
parsed.transform("anomalies", only_anomalies).sink("alerts", hg.files.sink(f"{DIRECTORY}/alerts", format="json"))
