"""Jobs of Headgate, in a process that keeps its Spark session from one round to the next."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pyspark.sql import SparkSession

import headgate as hg
from bench.programs import headgate_python, headgate_state, orders, readings
from bench.programs.serving import Request, serve
from headgate.connect.kafka.reading.source import CONNECTOR
from headgate.state_backend import StateBackend
from headgate.task import session

BACKENDS: Mapping[str, Callable[[], StateBackend]] = {
    "rocksdb": hg.state_backend.rocksdb,
    "hashmap": hg.state_backend.hashmap,
}


@cache
def _session(backend: str, conf: tuple[tuple[str, str], ...], packages: tuple[str, ...] = ()) -> SparkSession:
    return session.build_session("bench", conf=dict(conf), state=BACKENDS[backend](), packages=packages)


def _session_for(request: Request, packages: tuple[str, ...] = ()) -> SparkSession:
    return _session(request["backend"], tuple(sorted(request["conf"].items())), packages)


def run(request: Request, job: hg.Job, packages: tuple[str, ...] = ()) -> None:
    """Run a job to its end in the session of this process."""
    result = job.run(None, None, _session_for(request, packages))
    if result.ending != "finished":
        raise RuntimeError(result.text)


def new_job(request: Request) -> hg.Job:
    """A job with what the contender sets, and nothing else."""
    interval = request["interval"]
    return hg.Job(
        orders.JOB,
        checkpoint=hg.Checkpointing(storage=f"{request['where']}/storage", interval=interval),
        state_backend=BACKENDS[request["backend"]](),
        spark_conf=request["conf"],
    )


def etl(request: Request) -> Mapping[str, Any]:
    """Orders to sums of windows, to files."""
    job = new_job(request)
    source = hg.generator.source(rows=request["rows"], rows_per_batch=request.get("rows_per_batch"))
    summed = job.source("orders", source).transform("sums", orders.summed)
    summed.sink("out", hg.files.sink(request["out"], format="json"))
    run(request, job)
    return {}


def kafka(request: Request) -> Mapping[str, Any]:
    """Orders from Kafka to sums of windows, to Kafka, exactly once."""
    job = new_job(request)
    source = hg.kafka.source(
        request["servers"],
        topic=request["topic"],
        max_offsets_per_trigger=request.get("rows_per_batch"),
        bounded=True,
        options=request.get("client"),
    )
    sink = hg.kafka.sink(request["servers"], topic=request["out"], transactional_id_prefix=request["out"])
    job.source("orders", source).transform("sums", orders.to_json).sink("out", sink)
    run(request, job, (CONNECTOR,))
    return {}


def keyed(request: Request) -> Mapping[str, Any]:
    """Jumps of sensors, by columns or by keys."""
    job = new_job(request)
    found = job.source("readings", _source(request)).transform("sensors", lambda rows: rows.selectExpr(*readings.SPARK))
    if request["by"] == "columns":
        found = found.process_batches("jumps", headgate_python.JumpsByColumns(), key="sensor")
    else:
        found = found.process("jumps", headgate_python.JumpsByKeys(), key="sensor")
    found.sink("out", hg.files.sink(request["out"], format="json"))
    run(request, job)
    return {}


def windows(request: Request) -> Mapping[str, Any]:
    """Medians of windows."""
    job = new_job(request)
    rows = job.source("readings", _source(request)).transform(
        "sensors", lambda rows: rows.selectExpr(*readings.SPARK).withWatermark("at", "10 seconds")
    )
    window = hg.windows.tumbling("at", readings.WINDOW_MS / 1000)
    found = rows.process_windows("medians", headgate_python.Medians(), key="sensor", window=window)
    found.sink("out", hg.files.sink(request["out"], format="json"))
    run(request, job)
    return {}


def _source(request: Request) -> hg.Source:
    return hg.generator.source(rows=request["rows"], rows_per_batch=request.get("rows_per_batch"))


def state(request: Request) -> Mapping[str, Any]:
    """Checkpoints of much state."""
    return headgate_state.state(request, _session_for(request))


def tasks(request: Request) -> Mapping[str, Any]:
    """Checkpoints of many tasks."""
    return headgate_state.tasks(request, _session_for(request))


def backpressure(request: Request) -> Mapping[str, Any]:
    """Checkpoints under backpressure."""
    return headgate_state.backpressure(request, _session_for(request))


if __name__ == "__main__":
    serve(
        {
            "backpressure": backpressure,
            "etl": etl,
            "kafka": kafka,
            "keyed": keyed,
            "state": state,
            "tasks": tasks,
            "windows": windows,
        }
    )
