"""Files to files in Headgate: a job's file, as users write it."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

import headgate as hg
from bench.programs.stream import DELAY_MS, told
from headgate import durable

it = told()
SERVES = "headgate-serve"
"""The thread of the job's process that serves its pages."""


def count_serving() -> None:
    """Write down, every second, how much processor time the thread that serves has had."""
    target = Path(it["where"]) / "serving_s"
    while True:
        for thread in threading.enumerate():
            if thread.name == SERVES and thread.ident is not None:
                used_s = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
                durable.replace(target, f"{used_s} {time.monotonic()}".encode(), flush=False)
        time.sleep(1.0)


if it.get("count_serving"):
    threading.Thread(target=count_serving, daemon=True).start()
FAILS_AT: float | None = it.get("fails_at")
FLAG = Path(it["where"]) / "failed"


def once(rows: DataFrame) -> DataFrame:
    """Every number once."""
    return rows.dropDuplicates(["n"])


def fail(rows: DataFrame) -> DataFrame:
    """Fail once, at the time that was said."""
    at, flag = FAILS_AT or 0.0, FLAG

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if time.time() >= at and not flag.exists():
                flag.write_text(str(time.time()))
                raise ConnectionError("once")  # Headgate tries again what may pass; a ValueError would end the job.
            yield batch

    return rows.mapInArrow(work, rows.schema)


job = hg.Job(
    "stream",
    checkpoint=hg.Checkpointing(storage=f"{it['where']}/storage", interval=it["interval"]),
    restart=hg.restart.fixed_delay(delay=f"{DELAY_MS}ms"),
    spark_conf=it.get("conf", {}),
    master=it.get("master"),
)
rows = job.source("rows", hg.files.source(it["inbox"], schema="n BIGINT, user STRING, made DOUBLE"))
if FAILS_AT is not None:
    rows = rows.transform("fails", fail)
if it.get("stateful"):
    rows = rows.transform("once", once)
rows.sink("out", hg.files.sink(it["out"], format="json"))
