"""The jobs of ``test_jobs.py``: rows that are made up or come from Kafka, on their way into servers.

``HEADGATE_FAULTS`` (JSON) says which, and where the servers are.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import headgate as hg

PIECE = 20_000
"""More rows than Spark gathers before it hands them on."""
SINKS: dict[str, Callable[..., hg.TwoPhaseSink]] = {
    "kafka": hg.kafka.sink,
    "postgres": hg.postgres.sink,
    "upsert": partial(hg.postgres.sink, mode="upsert"),
}


def build(settings: dict[str, Any]) -> hg.Job:
    job = hg.Job(
        "faults",
        checkpoint=hg.Checkpointing(
            storage=f"{settings['directory']}/storage", interval=settings.get("interval", "500ms")
        ),
        restart=hg.restart.fixed_delay(delay="200ms", attempts=20),
        spark_conf={"spark.sql.shuffle.partitions": "2"},
    )
    given = settings["source"]
    rows = job.source("in", hg.kafka.source(**given) if "topic" in given else hg.generator.source(**given))
    if "gate" in settings:
        rows = rows.transform("gate", lambda frame: frame.mapInArrow(_held_at(settings["gate"]), "value string"))
    for name, each in settings["sinks"].items():
        options = {key: value for key, value in each.items() if key not in ("kind", "columns")}
        rows.transform(f"as-{name}", _selected(each["columns"])).sink(name, SINKS[each["kind"]](**options))
    return job


def _selected(columns: list[str]) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.selectExpr(*columns)


def _held_at(gate: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows come and come until there is a file."""

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            while not Path(gate).exists():
                yield pa.RecordBatch.from_pydict({"value": ["held"] * PIECE})
                time.sleep(0.2)
            yield pa.RecordBatch.from_pydict({"value": ["let go"] * PIECE})

    return held


if "HEADGATE_FAULTS" in os.environ and __name__ == "__headgate__":
    job = build(json.loads(os.environ["HEADGATE_FAULTS"]))
