"""How long it takes to go on after a failure."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from bench.jobs import ROUNDS, run, scratch
from bench.side_by_side import figures

DELAY_MS = 200
PLAIN = """
import json, os, sys, time
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession, functions as F
from headgate import state_backend
from headgate.task import session
conf = {"spark.sql.shuffle.partitions": "2"}
spark = session.build_session("plain", master="local[2]", conf=conf, state=state_backend.rocksdb())
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10000).load()
rows = rows.selectExpr("value", "value % 1000 as key", "timestamp_millis(value) as at")
totals = rows.withWatermark("at", "10 seconds").groupBy("key", F.window("at", "10 minutes")).count()
totals = totals.select("key", "count")
def write(frame, number):
    frame.write.mode("overwrite").parquet(f"{sys.argv[1]}/out/{number}")
query = totals.writeStream.foreachBatch(write).option("checkpointLocation", f"{sys.argv[1]}/checkpoint").start()
seen = -1
while True:
    time.sleep(0.005)
    progress = query.lastProgress
    if progress is not None and progress["batchId"] > seen:
        seen = progress["batchId"]
        print(json.dumps({"batch": seen}), flush=True)
"""
OURS = """
import sys
import headgate as hg
from pyspark.sql import functions as F
def totals(rows):
    return (rows.withWatermark("event_time", "10 seconds").groupBy("key", F.window("event_time", "10 minutes"))
            .count().select("key", "count"))
checkpoint = hg.Checkpointing(interval="1s", storage=f"DIRECTORY/storage", tolerable_failed_checkpoints=99)
job = hg.Job("ours", checkpoint=checkpoint,
             master="local[2]", spark_conf={"spark.sql.shuffle.partitions": "2"})
rows = job.source("rows", hg.generator.source(rows_per_batch=10000, keys=1000))
rows.transform("totals", totals).sink("out", hg.files.sink("DIRECTORY/out"))
"""


def task_level(spark: SparkSession) -> None:
    """An exception in a batch: from the failure to the next committed batch, without the restart's delay."""
    seen: list[float] = []
    for _ in range(ROUNDS):
        with scratch() as where:
            flag = where / "failed"

            def fail(frame: DataFrame, flag: Path = flag) -> DataFrame:
                def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                    for batch in batches:
                        if 50_500 in batch.column("n").to_pylist() and not flag.exists():
                            flag.touch()
                            raise ValueError("once")
                        yield batch

                return frame.mapInArrow(work, frame.schema)

            job = hg.Job(
                "fails",
                checkpoint=hg.Checkpointing(
                    interval="1s", storage=str(where / "storage"), tolerable_failed_checkpoints=99
                ),
                restart=hg.restart.fixed_delay(delay=f"{DELAY_MS}ms"),
                spark_conf={"spark.sql.shuffle.partitions": "2"},
            )
            rows = job.source("rows", hg.generator.source(rows=120_000, rows_per_batch=1000, keys=100))
            rows.transform("fails", fail).sink("out", hg.files.sink(str(where / "out")))
            lines = run(job, spark)
            failed = next(line for line in lines if line["event"] == "task-failed")
            started = next(line for line in lines if line["event"] == "task-started" and line["at"] > failed["at"])
            again = next(
                line
                for line in lines
                if line["event"] == "progress"
                and line["at"] > started["at"]
                and line["tasks"][0]["batch"] > started["batch"]
            )
            seen.append((again["at"] - failed["at"] - DELAY_MS) / 1000)
    figures(
        "task-level recovery, to the first sight of a new batch (looked at once a second)",
        "s",
        {"headgate": seen},
        "< 2 s",
    )


def job_level() -> None:
    """SIGKILL of the driver: from the start of the next process to its first committed batch."""
    seen: dict[str, list[float]] = {"Spark's own query restart": [], "headgate run": []}
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
        where = Path(name)
        (where / "job.py").write_text(OURS.replace("DIRECTORY", str(where)), encoding="utf-8")
        plain = [sys.executable, "-c", PLAIN, str(where / "plain")]
        ours = [sys.executable, "-m", "headgate", "run", str(where / "job.py"), "--json"]
        for number in range(ROUNDS + 1):
            for title, command in (("Spark's own query restart", plain), ("headgate run", ours)):
                took = _until_second_batch(command)
                if number:  # The first is not a restart.
                    seen[title].append(took)
    figures("job-level recovery after SIGKILL, process start included", "s", seen, "at most 3")  # type: ignore[arg-type]


def _until_second_batch(command: list[str]) -> float:
    begun = time.monotonic()
    process = subprocess.Popen(  # noqa: S603 - our own commands
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stdout is not None
    took = None
    first: int | None = None
    for text in process.stdout:
        line: dict[str, Any] = json.loads(text) if text.startswith("{") else {}
        batch = line.get("batch") if "event" not in line else None
        if line.get("event") == "progress" and line["tasks"]:
            batch = line["tasks"][0]["batch"]
        if batch is None or batch < 0:
            continue
        first = batch if first is None else first
        if took is None and batch > first:
            took = time.monotonic() - begun
        if took is not None and time.monotonic() - begun > took + 4:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert took is not None
    return took
