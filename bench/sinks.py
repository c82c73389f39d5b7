"""Sinks, beside the plain clients of the same systems. Real servers are started for it."""

import statistics
import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pyarrow as pa
from pyspark.sql import SparkSession

import headgate as hg
from bench.publish import PARTITIONS, broker
from bench.side_by_side import compare
from bench.spark import Line, ask, run, scratch
from headgate.connect.kafka.reading.source import CONNECTOR
from headgate.connect.postgres.columns import matched
from headgate.connect.postgres.copying import copy_rows
from headgate.connect.postgres.table import PostgresColumn, PostgresTable, read_table
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.sink.partitions import Place, first_rows, write_partitions
from services.kafka import Kafka
from services.postgres import Postgres

PACKAGES = (CONNECTOR,)
"""What the Spark session needs for these."""


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
