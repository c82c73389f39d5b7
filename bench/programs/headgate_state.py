"""Jobs of Headgate that run until enough checkpoints were seen: with much state, and with a slow operator."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - Spark's custom

import headgate as hg
from bench.programs.serving import Request
from headgate.run.control import ControlClient
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore

Line = dict[str, Any]
FILL = 500_000


def durations(
    job: hg.Job, spark: SparkSession, storage: str, began: Callable[[Line], bool], seconds: float
) -> list[float]:
    """How long checkpoints took, in ms, for so many seconds after an event that ``began`` accepts."""
    since: list[int] = []
    found: list[float] = []

    def on_event(line: Line) -> None:
        if not since:
            if began(line):
                since.append(line["at"])
        elif line["event"] == "checkpoint-completed" and found is not None:
            found.append(float(line["duration_ms"]))
            if line["at"] - since[0] > seconds * 1000:
                threading.Thread(target=lambda: cancel(storage, job.name), daemon=True).start()

    result = job.run(None, on_event, spark)
    if result.ending != "cancelled":
        raise RuntimeError(result.text)
    return found


def cancel(storage: str, job: str) -> None:
    """End a job that runs."""
    store = JobStore.find(open_store(storage), job)
    ControlClient(store).ask("cancel")


def state(request: Request, spark: SparkSession) -> Mapping[str, Any]:
    """A first source fills the state and ends; a second changes 1,000 keys a second."""
    keys, storage = request["keys"], f"{request['where']}/storage"
    job = hg.Job("state", checkpoint=hg.Checkpointing(storage=storage, interval="1s"), spark_conf=request["conf"])
    filling = job.source("filling", hg.generator.source(rows=keys, rows_per_batch=FILL, keys=keys))
    changing = job.source("changing", hg.generator.source(rows_per_second=1_000, keys=1_000))
    counted = filling.union("both", changing).transform(
        "newest", lambda frame: frame.groupBy("key").agg(F.max("n").alias("n")), output_mode="update"
    )
    counted.transform("none", lambda frame: frame.where("n < 0")).sink("out", hg.files.sink(request["out"]))

    def filled(line: Line) -> bool:
        tasks = line.get("tasks", ()) if line["event"] == "progress" else ()
        return any(int(task["batch"]) > keys // FILL + 2 for task in tasks)

    begun = time.monotonic()
    found = durations(job, spark, storage, filled, request["seconds"])
    return {"durations_ms": found, "ran_s": time.monotonic() - begun}


def tasks(request: Request, spark: SparkSession) -> Mapping[str, Any]:
    """Many tasks side by side, each with a source of 100 rows a second, state and a sink."""
    storage = f"{request['where']}/storage"
    job = hg.Job("tasks", checkpoint=hg.Checkpointing(storage=storage, interval="1s"), spark_conf=request["conf"])
    for number in range(request["tasks"]):
        rows = job.source(f"rows-{number}", hg.generator.source(rows_per_second=100, keys=100))
        newest = rows.transform(
            f"newest-{number}", lambda frame: frame.groupBy("key").agg(F.max("n").alias("n")), output_mode="update"
        )
        none = newest.transform(f"none-{number}", lambda frame: frame.where("n < 0"))
        none.sink(f"out-{number}", hg.files.sink(f"{request['out']}/{number}"))
    begun = time.monotonic()

    def settled(_: Line) -> bool:
        return time.monotonic() > begun + float(request["settle_s"])

    return {"durations_ms": durations(job, spark, storage, settled, request["seconds"])}


def backpressure(request: Request, spark: SparkSession) -> Mapping[str, Any]:
    """The last operator takes 0.4 s for 1,000 rows, and its input is as long as it may be."""

    def slow(frame: DataFrame) -> DataFrame:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                time.sleep(0.0004 * batch.num_rows)
                yield batch

        return frame.mapInArrow(work, frame.schema)

    storage = f"{request['where']}/storage"
    checkpoint = hg.Checkpointing(
        storage=storage, interval="500ms", unaligned=request["unaligned"], tolerable_failed_checkpoints=99
    )
    job = hg.Job("backpressure", checkpoint=checkpoint, spark_conf=request["conf"])
    rows = job.source("rows", hg.generator.source(rows_per_batch=1_000, keys=100))
    rows.transform("slowly", slow, new_task=True).sink("out", hg.files.sink(request["out"]))
    begun = time.monotonic()

    def settled(_: Line) -> bool:
        return time.monotonic() > begun + float(request["settle_s"])

    return {"durations_ms": durations(job, spark, storage, settled, request["seconds"])}
