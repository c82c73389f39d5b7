"""The job of a campaign: numbered rows, each of which goes out by every way of a group.

``HEADGATE_KILLS`` (JSON) says which, and where the servers are.
"""

import json
import os
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

import headgate as hg
from tests.kills.ways import WAYS


def build(settings: dict[str, Any]) -> hg.Job:
    job = hg.Job(
        "kills",
        checkpoint=hg.Checkpointing(
            storage=f"{settings['directory']}/storage", interval="1s", tolerable_failures=1000, timeout="5min"
        ),
        restart=hg.restart.fixed_delay(delay="200ms"),
        state=hg.state.rocksdb(),
        spark_conf={"spark.sql.shuffle.partitions": "2", "spark.executor.memory": "1g"},
        batch_interval="1s",
    )
    source = hg.generator(rows_per_batch=settings["rows_per_batch"], keys=20, partitions=2)
    numbers = job.source("numbers", source)
    for name in settings["ways"]:
        way = WAYS[name]
        numbers.apply(f"as-{name}", _selected(way.columns)).sink(name, way.sink(settings))
    return job


def _selected(columns: tuple[str, ...]) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.selectExpr(*columns)


if "HEADGATE_KILLS" in os.environ and __name__ == "__headgate__":
    job = build(json.loads(os.environ["HEADGATE_KILLS"]))
