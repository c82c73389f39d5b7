"""Sensors, watched for values that jump and for silence, from Kafka to Kafka.

    headgate plan examples/fault_tolerant_sensors/job.py
    headgate run examples/fault_tolerant_sensors/job.py

reads the topic ``readings`` and writes the topic ``alerts``; both must be there. A reading is a JSON object, and the
readings of one sensor are in one partition:

    {"sensor": "sensor-7", "seq": 12, "value": 20.5}
"""

import os
from collections.abc import Iterator

from pyspark.sql import DataFrame, Row, functions as F  # noqa: N812 - Spark's custom

import headgate as hg

# What differs from one place to another comes from the environment.
SERVERS = os.environ.get("KAFKA_SERVERS", "localhost:9092")
STORAGE = os.environ.get("HEADGATE_STORAGE", "file:///var/lib/headgate")
INTERVAL = os.environ.get("CHECKPOINT_INTERVAL", "30s")
SILENCE = os.environ.get("SILENCE", "60s")

READING = "sensor STRING, seq BIGINT, value DOUBLE"
JUMP = 5.0


class AnomalyDetector(hg.Processor):
    """Remembers the last reading of each sensor, and a timer that the next reading puts off."""

    output = "sensor string, kind string, seq bigint, value double, before double"
    time = "processing"

    def __init__(self, silence: str) -> None:
        """A sensor that says nothing for this long is silent."""
        self.silence = silence

    def open(self, state: hg.KeyedState) -> None:
        """A sensor that is gone for an hour is forgotten."""
        self.last = state.value("last-reading", "struct<seq: bigint, value: double>", ttl="1h")
        self.timer = state.value("timer", "bigint", ttl="1h")

    def process(self, sensor: str, rows: Iterator[Row], context: hg.Context) -> Iterator[Row]:
        """Compare each reading with the one before it. The rows of one batch come in no certain order."""
        readings = sorted(rows, key=lambda row: row.seq)
        before = self.last.get()
        for reading in readings:
            if before is not None and abs(reading.value - before.value) > JUMP:
                yield Row(sensor=sensor, kind="jump", seq=reading.seq, value=reading.value, before=before.value)
            before = reading
        self.last.update((readings[-1].seq, readings[-1].value))
        waiting = self.timer.get()
        if waiting is not None:
            context.cancel_timer(waiting)
        self.timer.update(context.timer_after(self.silence))

    def on_timer(self, sensor: str, at_ms: int, context: hg.Context) -> Iterator[Row]:  # noqa: ARG002 - as it is called
        """Nothing came in time. Say so once, with the last that was heard."""
        self.timer.clear()
        last = self.last.get()
        if last is not None:
            yield Row(sensor=sensor, kind="silent", seq=last.seq, value=last.value, before=None)


def parse(records: DataFrame) -> DataFrame:
    """Records of Kafka into readings. One that is not a reading stops the job: passing over it would lose it."""
    reading = F.from_json(F.col("value").cast("string"), READING, {"mode": "FAILFAST"})
    return records.select(reading.alias("reading")).select("reading.*")


def to_records(alerts: DataFrame) -> DataFrame:
    """Alerts into records for Kafka."""
    return alerts.select(F.col("sensor").alias("key"), F.to_json(F.struct("*")).alias("value"))


job = hg.Job(
    "fault-tolerant-sensors",
    checkpoint=hg.Checkpointing(
        storage=STORAGE, interval=INTERVAL, timeout="2min", tolerable_failed_checkpoints=2, num_retained=2
    ),
    # What fails is tried again after 1 s, 2 s, 4 s, ... up to a minute.
    restart=hg.restart.exponential_delay(initial_backoff="1s", max_backoff="1min", backoff_multiplier=2.0),
    # Each batch writes down what it changed, and a checkpoint takes what is new since the last one.
    state_backend=hg.state_backend.rocksdb(incremental=True),
    spark_conf={"spark.sql.shuffle.partitions": 2},
)

# Every step has its uid, by which its state is found again when the job has changed around it.
readings = job.source("sensor-source", hg.kafka.source(SERVERS, topic="readings", group="sensor-watch"))
alerts = readings.transform("parse", parse).process("anomaly-detector", AnomalyDetector(SILENCE), key="sensor")
alerts.transform("to-records", to_records).sink(
    "alert-sink", hg.kafka.sink(SERVERS, topic="alerts", transactional_id_prefix="alert-")
)
