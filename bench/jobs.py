"""Jobs on Spark, in this process: what checkpoints cost, and how long they take."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - Spark's custom

import headgate as hg
from bench.side_by_side import compare, figures
from headgate.channel import reader, segments
from headgate.channel.gates import Gates
from headgate.channel.segments import Segments
from headgate.core.ids import NO_BATCH, Batch, ChannelId, Generation, Run, TaskId
from headgate.run.control import ControlClient
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from headgate.task import session

Line = dict[str, Any]
ROUNDS = 5


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    where = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        yield where
    finally:
        shutil.rmtree(where, ignore_errors=True)


def make_session(packages: Iterable[str] = ()) -> SparkSession:
    """The session that all comparisons of one run share."""
    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "4g"}
    return session.build_session(
        "bench", master="local[2]", conf=conf, state=hg.state_backend.rocksdb(), packages=packages
    )


def run(job: hg.Job, spark: SparkSession, on_event: Callable[[Line], None] | None = None) -> list[Line]:
    """Run a job to its end, and return what was recorded."""
    lines: list[Line] = []

    def take(line: Line) -> None:
        lines.append(line)
        if on_event is not None:
            on_event(line)

    result = job.run(None, take, spark)
    if result.ending not in ("finished", "cancelled", "stopped"):
        raise RuntimeError(result.text)
    return lines


def ask(storage: Path, job: str, command: str) -> None:
    """Ask a running job for something, without waiting for the answer."""
    store = JobStore.find(open_store(str(storage)), job)
    threading.Thread(target=lambda: ControlClient(store).ask(command), daemon=True).start()


def _totals(frame: DataFrame) -> DataFrame:
    return (
        frame.withWatermark("event_time", "10 seconds")
        .groupBy("key", F.window("event_time", "10 minutes"))
        .agg(F.count("*").alias("rows"), F.sum("value").alias("total"))
        .select("key", "rows", "total")
    )


def checkpoint_cost(spark: SparkSession, rows: int = 10_000_000) -> None:
    """The same job without checkpoints and with one every second."""

    def contender(interval: str | None) -> Callable[[], float]:
        def work() -> float:
            with scratch() as where:
                job = hg.Job(
                    "cost",
                    checkpoint=hg.Checkpointing(
                        interval=interval, storage=str(where / "storage"), tolerable_failed_checkpoints=99
                    ),
                    spark_conf={"spark.sql.shuffle.partitions": "2"},
                )
                source = hg.generator.source(rows=rows, rows_per_batch=rows // 20, keys=10_000, event_step_ms=1)
                totals = job.source("rows", source).transform("totals", _totals)
                totals.sink("out", hg.files.sink(str(where / "out")))
                run(job, spark)
            return rows

        return work

    compare(
        f"{rows:,} rows, 10k keys, one stateful task (wanted: at least 0.95)",
        "rows",
        {"no checkpoints": contender(None), "a checkpoint every second": contender("1s")},
        ROUNDS,
    )


def batch_sizes(spark: SparkSession, rows: int = 20_000_000) -> None:
    """Batches that size themselves against sizes that were chosen by hand, of the generator and of files."""
    schema = "key STRING, value DOUBLE, event_time TIMESTAMP"

    def contender(source: Callable[[], hg.Source]) -> Callable[[], float]:
        def work() -> float:
            with scratch() as where:
                job = hg.Job(
                    "sizes",
                    checkpoint=hg.Checkpointing(storage=where / "storage"),
                    spark_conf={"spark.sql.shuffle.partitions": "2"},
                )
                totals = job.source("rows", source()).transform("totals", _totals)
                totals.sink("out", hg.files.sink(where / "out"))
                run(job, spark)
            return rows

        return work

    def generated(size: int | None) -> Callable[[], hg.Source]:
        return lambda: hg.generator.source(rows=rows, rows_per_batch=size, keys=10_000, event_step_ms=1)

    with scratch() as files:
        written = hg.generator.source(rows=rows, keys=10_000, event_step_ms=1)
        made = written._columns(spark.range(rows, numPartitions=10).toDF("n"))  # noqa: SLF001 - the same rows
        made.select("key", "value", "event_time").write.parquet(f"file://{files}/in")

        def read(size: int | None) -> Callable[[], hg.Source]:
            return lambda: hg.files.source(
                files / "in", format="parquet", schema=schema, rows_per_batch=size, bounded=True
            )

        for what, made_by in (("the generator", generated), ("files", read)):
            sizes = {"sizes itself": None, "4,000,000 rows a batch": 4_000_000, "1,000,000": 1_000_000}
            compare(
                f"{rows:,} rows of {what} in windows, 10k keys",
                "rows",
                {name: contender(made_by(size)) for name, size in sizes.items()},
                3,
            )


def checkpoint_duration(spark: SparkSession) -> None:
    """Checkpoints of little state and of much, with as many changes between them."""

    def durations(keys: int) -> list[float]:
        with scratch() as where:
            job = hg.Job(
                "state",
                checkpoint=hg.Checkpointing(
                    interval="1s", storage=str(where / "storage"), tolerable_failed_checkpoints=99
                ),
                spark_conf={"spark.sql.shuffle.partitions": "2"},
            )
            # The first source fills the state and then gives nothing; the second changes 1000 keys in each batch.
            filling = job.source("filling", hg.generator.source(rows=keys, rows_per_batch=500_000, keys=keys))
            changing = job.source("changing", hg.generator.source(rows_per_batch=1000, keys=1000))
            counted = filling.union("both", changing).transform(
                "counts", lambda frame: frame.groupBy("key").agg(F.max("n").alias("n")), output_mode="update"
            )
            counted.transform("few", lambda frame: frame.where("n < 0")).sink("out", hg.files.sink(str(where / "out")))
            filled: list[int] = []

            def on_event(line: Line) -> None:
                task = next((t for t in line.get("tasks", ()) if line["event"] == "progress"), None)
                if task is not None and task["batch"] > keys // 500_000 + 2:
                    filled.append(line["at"])
                if line["event"] == "checkpoint-completed" and filled and line["at"] - filled[0] > 20_000:
                    ask(where / "storage", "state", "cancel")

            lines = run(job, spark, on_event)
            done = [
                line for line in lines if line["event"] == "checkpoint-completed" and filled and line["at"] > filled[0]
            ]
            return [float(line["duration_ms"]) for line in done]

    seen: dict[str, list[float]] = {"50 thousand keys": [], "5 million keys": []}
    for _ in range(ROUNDS):
        seen["50 thousand keys"] += durations(50_000)
        seen["5 million keys"] += durations(5_000_000)
    figures("how long a checkpoint takes, 1000 keys changed in each batch", "ms", seen, "at most 1.5")  # type: ignore[arg-type]


def channel_hop(spark: SparkSession, rows: int = 16_000_000, batches: int = 8) -> None:
    """Reading a channel and writing Parquet, against Spark's own Parquet streaming from directory to directory."""
    with scratch() as where:
        channel, written = ChannelId("hop.0"), where / "channel"
        log = Segments(written, channel)
        each = rows // batches
        columns = ("id as n", "concat('key-', id % 10000) as key", "id / 128d as value", "timestamp_millis(id) as at")
        schema = spark.range(1).selectExpr(*columns).schema
        for number in range(batches):
            frame = spark.range(each * number, each * (number + 1), numPartitions=2).selectExpr(*columns)
            frame.write.parquet(str(segments.segment_directory(written, Batch(number), Run(1))))
            log.commit(Batch(number), Run(1))
            shutil.copytree(segments.segment_directory(written, Batch(number), Run(1)), where / "files" / str(number))
        gates = Gates()
        gates.open(Generation(1), channel, TaskId("hop"), Batch(batches - 1))

        def hop() -> float:
            out = where / "out-hop"
            frame = reader.load(
                spark,
                directory=written,
                channel=channel,
                reader="hop",
                generation=1,
                position=NO_BATCH,
                gates=gates.address,
                schema=schema,
                alone=True,
            )

            def write(batch: DataFrame, number: int) -> None:
                batch.write.parquet(str(out / str(number)))

            query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(where / "c1"))
            query.trigger(availableNow=True).start().awaitTermination()
            return _finish(out, where / "c1")

        def own() -> float:
            out = where / "out-own"
            frame = spark.readStream.schema(schema).parquet(str(where / "files" / "*"))
            query = frame.writeStream.format("parquet").option("path", str(out))
            query = query.option("checkpointLocation", str(where / "c2"))
            query.trigger(availableNow=True).start().awaitTermination()
            return _finish(out, where / "c2")

        def _finish(out: Path, checkpoint: Path) -> float:
            found = spark.read.option("recursiveFileLookup", "true").parquet(str(out)).count()
            shutil.rmtree(out)
            shutil.rmtree(checkpoint)
            return found

        compare(
            f"{rows:,} rows from Parquet to Parquet (wanted: at least 0.7)",
            "rows",
            {"Spark's own file source and sink": own, "a channel hop": hop},
            ROUNDS,
        )
        gates.close()


def overtaking(spark: SparkSession) -> None:
    """A slow task at the end, its input as long as it may be: aligned checkpoints wait for it."""

    def slow(frame: DataFrame) -> DataFrame:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                time.sleep(0.4)
                yield batch

        return frame.mapInArrow(work, frame.schema)

    def durations(*, unaligned: bool) -> list[float]:
        with scratch() as where:
            job = hg.Job(
                "slow",
                checkpoint=hg.Checkpointing(
                    interval="500ms",
                    storage=str(where / "storage"),
                    unaligned=unaligned,
                    max_batches_ahead=8,
                    tolerable_failed_checkpoints=99,
                ),
                spark_conf={"spark.sql.shuffle.partitions": "2"},
            )
            rows = job.source("rows", hg.generator.source(rows_per_batch=1000, keys=100))
            rows.transform("slowly", slow, new_task=True).sink("out", hg.files.sink(str(where / "out")))
            full: list[int] = []

            def on_event(line: Line) -> None:
                if line["event"] == "progress" and any(max(t["lag"].values(), default=0) >= 7 for t in line["tasks"]):
                    full.append(line["at"])
                if line["event"] == "checkpoint-completed" and full and line["at"] - full[0] > 15_000:
                    ask(where / "storage", "slow", "cancel")

            lines = run(job, spark, on_event)
            done = [line for line in lines if line["event"] == "checkpoint-completed" and full and line["at"] > full[0]]
            return [float(line["duration_ms"]) for line in done]

    seen: dict[str, list[float]] = {"aligned": [], "unaligned": []}
    for _ in range(ROUNDS):
        seen["aligned"] += durations(unaligned=False)
        seen["unaligned"] += durations(unaligned=True)
    figures("a checkpoint under backpressure", "ms", seen, "at most 0.2")  # type: ignore[arg-type]
