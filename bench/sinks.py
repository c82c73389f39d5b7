"""Sinks, beside the plain clients of the same systems. Real servers are started for it."""

import json
import statistics
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from queue import SimpleQueue
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - Spark's custom

import headgate as hg
from bench.jobs import Line, ask, run, scratch
from bench.publish import PARTITIONS, TIMEOUT_MS, broker, publish
from bench.side_by_side import Clock, Timing, compare
from headgate.connect.kafka.producer.transaction import PIECE, TransactionWriter
from headgate.connect.kafka.reading.source import CONNECTOR
from headgate.connect.postgres.columns import matched
from headgate.connect.postgres.copying import copy_rows
from headgate.connect.postgres.table import PostgresColumn, PostgresTable, read_table
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.sink.partitions import Place, first_rows, write_partitions
from headgate.task.listener import Listener
from services.kafka import Kafka
from services.postgres import Postgres

PACKAGES = (CONNECTOR,)
"""What the Spark session needs for these."""


# -- Kafka to windows to Kafka ---------------------------------------------------------------------------------------


def windows(spark: SparkSession, rows: int = 6_000_000) -> None:
    """Orders from Kafka, 10-minute windows for each user, summaries to Kafka: as in ``examples``.

    It counts until the last order is through. What a query does when it is told to end is left out: a job that ends
    brings out its last windows, a plain query keeps them.
    """
    users, step_ms = 10_000, 12  # five orders of each user in a window
    with broker() as kafka:
        kafka.create_topic("orders", PARTITIONS)
        _fill(kafka, "orders", rows, users, step_ms)
        topics = (f"summaries-{number}" for number in range(1_000))
        limit = rows // 20

        def target() -> str:
            topic = next(topics)
            kafka.create_topic(topic, PARTITIONS)
            return topic

        def plain() -> Timing:
            with scratch() as where, closing(_UntilRead(spark, rows)) as reading:
                reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.servers)
                reader = reader.option("subscribe", "orders").option("startingOffsets", "earliest")
                reader = reader.option("maxOffsetsPerTrigger", limit)
                writer = _summaries(reader.load()).writeStream.format("kafka").option("topic", target())
                writer = writer.option("kafka.bootstrap.servers", kafka.servers)
                query = writer.option("checkpointLocation", str(where / "checkpoint")).start()
                timing = reading.wait()
                query.stop()
            return timing

        def ours(**options: object) -> Callable[[], Timing]:
            def work() -> Timing:
                with scratch() as where:
                    job = hg.Job(
                        "etl",
                        checkpoint=hg.Checkpointing(interval="10s", storage=str(where / "storage")),
                        spark_conf={"spark.sql.shuffle.partitions": "2"},
                    )
                    orders = hg.kafka.source(kafka.servers, topic="orders", max_offsets_per_trigger=limit)
                    out = hg.kafka.sink(
                        kafka.servers,
                        topic=target(),
                        transactional_id_prefix="bench",
                        **options,  # type: ignore[arg-type]
                    )
                    job.source("orders", orders).transform("summaries", _summaries).sink("out", out)
                    with closing(_UntilRead(spark, rows, lambda: ask(where / "storage", "etl", "cancel"))) as reading:
                        run(job, spark)
                        return reading.wait()

            return work

        plain()  # not measured: the first ones warm up Spark and its Python workers
        ours()()
        compare(
            f"{rows:,} orders from Kafka, windows for {users:,} users, to Kafka (wanted: at least 0.9)",
            "rows",
            {
                "Spark's own sink, at least once": plain,
                "two-phase, exactly once": ours(),
                "the same without the write-ahead log": ours(write_ahead=False),
                "staged, exactly once": ours(mode="staged"),
            },
            3,  # a round takes minutes
        )


class _UntilRead(Listener):
    """Takes the time until the queries of a session have worked on this many rows."""

    def __init__(self, spark: SparkSession, rows: int, then: Callable[[], None] = lambda: None) -> None:
        self._rows = rows
        self._then = then
        self._read = 0
        self._done: SimpleQueue[Timing] = SimpleQueue()
        self._clock = Clock()
        super().__init__(spark)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        before, self._read = self._read, self._read + event.progress.numInputRows
        if before < self._rows <= self._read:
            self._done.put(self._clock.read(self._rows))
            self._then()

    def wait(self) -> Timing:
        """The time it took."""
        return self._done.get(timeout=600)


def _summaries(frame: DataFrame) -> DataFrame:
    order = F.from_json(F.col("value").cast("string"), "user string, amount double, at_ms bigint")
    orders = frame.select(order.alias("order")).select(
        "order.user", "order.amount", F.timestamp_millis("order.at_ms").alias("at")
    )
    totals = (
        orders.withWatermark("at", "10 seconds")
        .groupBy("user", F.window("at", "10 minutes"))
        .agg(F.sum("amount").alias("total"), F.count("*").alias("orders"))
    )
    summary = F.to_json(F.struct("user", F.col("window.start").alias("start"), "total", "orders"))
    return totals.select(F.col("user").alias("key"), summary.alias("value"))


def _fill(kafka: Kafka, topic: str, rows: int, users: int, step_ms: int) -> None:
    with TransactionWriter.open(kafka.servers, {}, "bench-fill", TIMEOUT_MS, topic) as writer:
        writer.begin()
        for begin in range(0, rows, PIECE):
            numbers = range(begin, min(begin + PIECE, rows))
            keys = [f"user-{number % users}" for number in numbers]
            values = [
                json.dumps({"user": key, "amount": number % 100 + 0.5, "at_ms": number * step_ms})
                for key, number in zip(keys, numbers, strict=True)
            ]
            # Split by number and not by key: every partition is then as far in event time as the others.
            where = pa.array([number % PARTITIONS for number in numbers], pa.int32())
            writer.write(pa.record_batch({"key": keys, "value": values, "partition": where}))
        writer.commit()


# -- rows into a table -----------------------------------------------------------------------------------------------


def postgres(spark: SparkSession, rows: int = 2_000_000) -> None:
    """The same rows by COPY from executors: committed by themselves, or prepared, pre-committed and then committed."""
    columns = (
        "id",
        "concat('customer-', id % 50000) as name",
        "id / 128d as amount",
        "timestamp_millis(id) as at",
    )
    frame = spark.range(0, rows, 1, 2).selectExpr(*columns)
    batches = iter(range(1_000))
    with scratch() as where, Postgres(where / "postgres", settings={"max_wal_size": "4GB"}) as server:
        server.query("CREATE TABLE orders (id bigint, name text, amount double precision, at timestamptz)")
        dsn = server.dsn()
        with closing(psycopg.connect(dsn, autocommit=True)) as connection:
            table = read_table(connection, "orders", who="bench", rights=("INSERT",))
        selected, into = matched(frame, table, None, who="bench")

        def plain() -> float:
            write_partitions(selected, _Copy(dsn, table, into))
            return _cleared(server, rows)

        sink = hg.postgres.sink(dsn, table="orders")
        sink.open(hg.SinkContext("bench", SinkId("orders"), incarnation="1", staging=where / "staging"))

        def two_phase() -> float:
            number = next(batches)
            write_id = hg.WriteId("bench", SinkId("orders"), Generation(1), Batch(number), Run(1))
            sink.begin_transaction(write_id)
            sink.invoke(write_id, frame)
            sink.commit(sink.pre_commit(CheckpointId(number + 1), Generation(1), [write_id]))
            return _cleared(server, rows)

        two_phase()  # Python workers, and the code of both
        plain()
        compare(
            f"{rows:,} rows into PostgreSQL (wanted: at least 0.8)",
            "rows",
            {"COPY, committed by itself": plain, "two-phase": two_phase},
        )
        sink.close()


class _Copy:
    """COPY by an executor, in a transaction that ends with it."""

    def __init__(self, dsn: str, table: PostgresTable, columns: tuple[PostgresColumn, ...]) -> None:
        self._dsn = dsn
        self._table = table
        self._columns = columns

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        del place
        filled = first_rows(batches)
        if filled is not None:
            with closing(psycopg.connect(self._dsn, autocommit=True)) as connection:
                copy_rows(connection, self._table.identifier, self._columns, filled)
        return ""


def _cleared(server: Postgres, rows: int) -> float:
    """See that all rows are there, and take them away."""
    ((found,),) = server.query("SELECT count(*) FROM orders")
    if int(found) != rows:
        raise RuntimeError(f"{found} rows of {rows} are there")
    server.query("TRUNCATE orders")
    return rows


# -- from completion to the last commit ------------------------------------------------------------------------------


def commits(spark: SparkSession, checkpoints: int = 200) -> None:
    """How long after a checkpoint's completion all its Kafka transactions are committed, in a job that runs."""
    seen: dict[str, list[float]] = {}
    with broker() as kafka:
        kafka.create_topic("out", PARTITIONS)
        for name, write_ahead in (("with the write-ahead log", True), ("without", False)):
            seen[f"two-phase Kafka, {name}"] = _commits(spark, kafka, checkpoints, write_ahead=write_ahead)
    print("\nfrom the completion of a checkpoint to its commit in Kafka  (wanted: p99 below 100 ms)")
    print(f"  {'':<44}{'median ms':>14}{'p99':>9}{'longest':>9}{'n':>5}")
    for name, values in seen.items():
        p99 = statistics.quantiles(values, n=100, method="inclusive")[98]
        print(f"  {name:<44}{statistics.median(values):>14,.1f}{p99:>9,.1f}{max(values):>9,.1f}{len(values):>5}")


def _commits(spark: SparkSession, kafka: Kafka, checkpoints: int, *, write_ahead: bool) -> list[float]:
    seen: list[float] = []
    enough = threading.Event()
    with scratch() as where:
        job = hg.Job(
            "commits",
            checkpoint=hg.Checkpointing(
                interval="500ms", storage=str(where / "storage"), tolerable_failed_checkpoints=99
            ),
            spark_conf={"spark.sql.shuffle.partitions": "2"},
        )
        rows = job.source("rows", hg.generator.source(rows_per_batch=1_000, keys=100))
        rows.transform("texts", lambda frame: frame.selectExpr("key", "cast(n as string) as value")).sink(
            "out", hg.kafka.sink(kafka.servers, topic="out", transactional_id_prefix="bench", write_ahead=write_ahead)
        )

        def on_event(line: Line) -> None:
            if line["event"] == "checkpoint-committed" and not line["recovered"]:
                seen.append(float(line["commit_ms"]))
                if len(seen) >= checkpoints and not enough.is_set():
                    enough.set()
                    ask(where / "storage", "commits", "cancel")

        run(job, spark, on_event)
    return seen[5:]  # the first ones start what the others use


ON_SPARK: Mapping[str, Callable[[SparkSession], None]] = {"kafka": windows, "postgres": postgres, "commit": commits}
ALONE: Mapping[str, Callable[[], None]] = {"publish": publish}
