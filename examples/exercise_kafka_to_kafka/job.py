"""Payments in, balances out: exactly once, from Kafka to Kafka, with state in between.

    headgate plan examples/exercise_kafka_to_kafka/job.py
    headgate run examples/exercise_kafka_to_kafka/job.py

reads the topic ``payments`` and writes the topic ``balances``; both must be there. A payment is a JSON object, and the
payments of one account are in one partition:

    {"account": "account-7", "seq": 12, "cents": -1990}

A balance rests on every payment before it. If one were lost, or counted twice, all balances after it would be wrong.
"""

import os
from collections.abc import Iterator

from pyspark.sql import DataFrame, Row, functions as F  # noqa: N812 - Spark's custom

import headgate as hg

# What differs from one place to another comes from the environment.
SERVERS = os.environ.get("KAFKA_SERVERS", "localhost:9092")
STORAGE = os.environ.get("HEADGATE_STORAGE", "file:///var/lib/headgate")
INTERVAL = os.environ.get("CHECKPOINT_INTERVAL", "10s")
ROWS_PER_BATCH = int(os.environ.get("ROWS_PER_BATCH", "100000"))
BATCH_INTERVAL = os.environ.get("BATCH_INTERVAL")  # As soon as there is data, if nothing is said.
BOUNDED = "BOUNDED" in os.environ  # End where the topic ends now, instead of waiting for more.

PAYMENT = "account STRING, seq BIGINT, cents BIGINT"


class Ledger(hg.Processor):
    """Adds up the payments of each account."""

    output = "account string, seq bigint, cents bigint, balance bigint"

    def open(self, state: hg.KeyedState) -> None:
        """What an account has."""
        self.balance = state.value("balance", "bigint")

    def process(self, account: str, rows: Iterator[Row], context: hg.Context) -> Iterator[Row]:  # noqa: ARG002 - no timers
        """Every payment, with the balance after it. The rows of one batch come in no certain order."""
        balance = self.balance.get() or 0
        for row in sorted(rows, key=lambda row: row.seq):
            balance += row.cents
            yield Row(account=account, seq=row.seq, cents=row.cents, balance=balance)
        self.balance.update(balance)


def parse(records: DataFrame) -> DataFrame:
    """Records of Kafka into payments. One that is not a payment stops the job: passing over it would lose it."""
    payment = F.from_json(F.col("value").cast("string"), PAYMENT, {"mode": "FAILFAST"})
    return records.select(payment.alias("payment")).select("payment.*")


def to_records(balances: DataFrame) -> DataFrame:
    """Balances into records for Kafka, all of one account in one partition."""
    return balances.select(F.col("account").alias("key"), F.to_json(F.struct("*")).alias("value"))


job = hg.Job(
    "kafka-to-kafka",
    checkpoint=hg.Checkpointing(storage=STORAGE, interval=INTERVAL),
    restart=hg.restart.fixed_delay(delay="1s", attempts=3),
    batch_interval=BATCH_INTERVAL,
    spark_conf={"spark.sql.shuffle.partitions": 2},
)

payments = job.source(
    "payments", hg.kafka.source(SERVERS, topic="payments", max_offsets_per_trigger=ROWS_PER_BATCH, bounded=BOUNDED)
)
balances = payments.transform("parse", parse).process("ledger", Ledger(), key="account")
balances.transform("to-records", to_records).sink(
    "balances", hg.kafka.sink(SERVERS, topic="balances", transactional_id_prefix="balances-")
)
