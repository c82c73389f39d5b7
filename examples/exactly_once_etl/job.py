"""Orders, summed up for each user and every ten minutes: exactly once, from Kafka to Kafka.

    headgate plan examples/exactly_once_etl/job.py
    headgate run examples/exactly_once_etl/job.py

reads the topic ``orders`` and writes the topic ``user-summaries``; both must be there. An order is a JSON object:

    {"user": "user-7", "seq": 12, "amount": "19.90", "at": "2025-01-01T10:04:00.000Z"}
"""

import os

from pyspark.sql import DataFrame, functions as F  # noqa: N812 - Spark's custom

import headgate as hg

# What differs from one place to another comes from the environment.
SERVERS = os.environ.get("KAFKA_SERVERS", "localhost:9092")
STORAGE = os.environ.get("HEADGATE_STORAGE", "file:///var/lib/headgate")
INTERVAL = os.environ.get("CHECKPOINT_INTERVAL", "10s")
ROWS_PER_BATCH = int(os.environ.get("ROWS_PER_BATCH", "100000"))
BATCH_INTERVAL = os.environ.get("BATCH_INTERVAL")  # As soon as there is data, if nothing is said.
BOUNDED = "BOUNDED" in os.environ  # End where the topic ends now, instead of waiting for more.

ORDER = "user STRING, seq BIGINT, amount DECIMAL(12, 2), at TIMESTAMP"


def parse(records: DataFrame) -> DataFrame:
    """Records of Kafka into orders. One that is not an order stops the job: passing over it would lose it."""
    order = F.from_json(F.col("value").cast("string"), ORDER, {"mode": "FAILFAST"})
    return records.select(order.alias("order")).select("order.*")


def summarise(orders: DataFrame) -> DataFrame:
    """Ten minutes of one user, once no order of theirs is to come: orders may be five seconds late."""
    return (
        orders.withWatermark("at", "5 seconds")
        .groupBy("user", F.window("at", "10 minutes"))
        .agg(
            F.count("*").alias("orders"),
            F.sum("amount").alias("total"),
            F.collect_list("seq").alias("seqs"),  # Which orders they were, so that anybody can count them.
        )
    )


def to_records(summaries: DataFrame) -> DataFrame:
    """Summaries into records for Kafka, all of one user in one partition."""
    summary = F.struct(
        "user",
        F.col("window.start").alias("begins"),
        F.col("window.end").alias("ends"),
        "orders",
        F.col("total").cast("string").alias("total"),  # Money is not a floating-point number.
        "seqs",
    )
    return summaries.select(F.col("user").alias("key"), F.to_json(summary).alias("value"))


job = hg.Job(
    "exactly-once-etl",
    checkpoint=hg.Checkpointing(
        storage=STORAGE,
        interval=INTERVAL,
        timeout="2min",
        min_pause="500ms",  # Let the job work between two checkpoints, however long one takes.
        tolerable_failed_checkpoints=2,  # Two in a row may fail; the third sends the job back to the last one.
        num_retained=3,
        externalized_checkpoint_retention="retain-on-cancellation",
    ),
    restart=hg.restart.fixed_delay(delay="10s", attempts=3),
    state_backend=hg.state_backend.rocksdb(incremental=True),
    batch_interval=BATCH_INTERVAL,
    spark_conf={"spark.sql.shuffle.partitions": 2, "spark.sql.session.timeZone": "UTC"},
)

orders = job.source(
    "orders",
    hg.kafka.source(
        SERVERS,
        topic="orders",
        group="order-processing",  # Told how far each checkpoint has read, for whoever looks.
        max_offsets_per_trigger=ROWS_PER_BATCH,
        bounded=BOUNDED,
    ),
)
summaries = orders.transform("parse", parse).transform("user-windows", summarise).transform("to-records", to_records)
summaries.sink(
    "user-summaries",
    hg.kafka.sink(SERVERS, topic="user-summaries", transactional_id_prefix="user-summary-"),
)
