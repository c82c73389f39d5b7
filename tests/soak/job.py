"""The job of a long run: two tasks, keyed windows and a stream of single rows, and a checkpoint every 200 ms.

``HEADGATE_SOAK`` (JSON) says where. A thread of the job's process writes down what grows in it, if anything does.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, functions as F  # noqa: N812 - as everybody writes it

import headgate as hg

ROWS_PER_SECOND = 2_000
WINDOW_S = 10
EVERY = 10
"""One row of this many goes out by itself."""


def build(settings: dict[str, Any]) -> hg.Job:
    directory = settings["directory"]
    job = hg.Job(
        "soak",
        checkpoint=hg.Checkpointing(storage=f"{directory}/storage", interval=settings["interval"]),
        restart=hg.restart.none(),
        state_backend=hg.state_backend.rocksdb(),
        master="local[2]",
    )
    rows = job.source("numbers", hg.generator.source(rows_per_second=ROWS_PER_SECOND, keys=100))
    rows.transform("windows", _windows).sink("windows-out", hg.files.sink(f"{directory}/windows"))
    single = rows.transform("single", lambda frame: frame.where(f"n % {EVERY} = 0").select("n"))
    single.sink("single-out", hg.files.sink(f"{directory}/single"))
    return job


def _windows(frame: DataFrame) -> DataFrame:
    window = F.window("event_time", f"{WINDOW_S} seconds")
    counted = frame.withWatermark("event_time", "5 seconds").groupBy("key", window).agg(F.count("*").alias("rows"))
    return counted.select("key", F.col("window.start").alias("start"), "rows")


def measure(directory: Path, every_s: float) -> None:
    """Write a line about this process, its JVM and the storage, for as long as the process lives."""
    with (directory / "measured.jsonl").open("a", encoding="utf-8") as out:
        while True:
            time.sleep(every_s)
            out.write(json.dumps(_sample(directory)) + "\n")
            out.flush()


def _sample(directory: Path) -> dict[str, float]:
    sample: dict[str, float] = {"at": time.time(), "load": os.getloadavg()[0]}
    for name, place in (("storage", directory / "storage"), ("staged", directory / "windows" / "_headgate")):
        sizes = [(path, _size(Path(path, file))) for path, _, files in os.walk(place) for file in files]
        history = sum(size for path, size in sizes if Path(path).name == "history")
        sample[f"{name}_files"] = sum(Path(path).name != "history" for path, _ in sizes)
        sample[f"{name}_bytes"] = sum(size for _, size in sizes) - history
        if history:
            sample["history_bytes"] = history  # It has a bound of its own, which it reaches some day.
    sample |= _process("python", os.getpid())
    context = SparkContext._active_spark_context
    jvm = context._jvm if context is not None else None
    if jvm is not None:
        sample |= _process("jvm", int(jvm.ProcessHandle.current().pid()))
        jvm.System.gc()
        runtime = jvm.Runtime.getRuntime()
        sample["jvm_heap_bytes"] = int(runtime.totalMemory()) - int(runtime.freeMemory())
    return sample


def _process(name: str, pid: int) -> dict[str, float]:
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return {}  # It has ended.
    return {
        f"{name}_threads": int(status["Threads"]),
        f"{name}_rss_bytes": int(status["VmRSS"].split()[0]) * 1024,
        f"{name}_fds": descriptors,
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # It was deleted while we looked.


if "HEADGATE_SOAK" in os.environ and __name__ == "__headgate__":
    settings = json.loads(os.environ["HEADGATE_SOAK"])
    job = build(settings)
    threading.Thread(
        target=measure, args=(Path(settings["directory"]), settings["every_s"]), name="measure", daemon=True
    ).start()
