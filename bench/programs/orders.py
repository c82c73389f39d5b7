"""The orders of ``etl``: what they are as expressions of Spark and of Flink, and what must come out of them.

Order n is a function of n. Sums are of multiples of 1/128, so that they are exact in whatever order they are added.
"""

from typing import Any

JOB = "bench"
"""What Headgate's job is called."""
USERS = 10_000
WINDOW_MS = 600_000
STEP_MS = 1

SPARK = (
    "n",
    f"concat('user-', cast({USERS} + (n * 7919) % {USERS} as string)) as user",
    "cast((n * 31) % 12800 as double) / 128 as amount",
    f"timestamp_millis(n * {STEP_MS}) as at",
)
FLINK_COLUMNS = {
    "usr": f"CONCAT('user-', CAST({USERS} + MOD(f0 * 7919, {USERS}) AS STRING))",
    "amount": "CAST(MOD(f0 * 31, 12800) AS DOUBLE) / 128",
    "at": f"TO_TIMESTAMP_LTZ(f0 * {STEP_MS}, 3)",
}
FLINK_WATERMARK = "`at` - INTERVAL '10' SECOND"
FLINK_OUTPUT = "`user` STRING, `start` TIMESTAMP(3), orders BIGINT, total DOUBLE"
FLINK_WINDOWS = """
    SELECT usr AS `user`, window_start AS `start`, COUNT(*) AS orders, SUM(amount) AS total
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(`at`), INTERVAL '10' MINUTES))
    GROUP BY usr, window_start, window_end
"""


def summed(frame: Any) -> Any:
    """Sums of windows for each user, in Spark."""
    return sums(frame.selectExpr(*SPARK).withWatermark("at", "10 seconds"))


def from_json(frame: Any) -> Any:
    """Orders as they are in Kafka, in Spark."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - PyFlink's Python has none

    order = F.from_json(F.col("value").cast("string"), "user string, amount double, at_ms bigint").alias("order")
    return frame.select(order).selectExpr("order.user", "order.amount", "timestamp_millis(order.at_ms) as at")


def to_json(frame: Any) -> Any:
    """Sums as they go to Kafka, in Spark."""
    return sums(from_json(frame).withWatermark("at", "60 seconds")).selectExpr(
        "user as key", "to_json(struct(user, start, orders, total)) as value"
    )


def sums(orders: Any) -> Any:
    """Sums of windows."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - PyFlink's Python has none

    return (
        orders.groupBy("user", F.window("at", "10 minutes"))
        .agg(F.count("*").alias("orders"), F.sum("amount").alias("total"))
        .selectExpr("user", "window.start as start", "orders", "total")
    )
